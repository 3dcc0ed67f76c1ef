"""Ranking by similarity: costs by hand, who is ranked, what noise does, what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from coterie.core.errors import BadInput, UnknownName
from coterie.core.roster import roster_of
from coterie.methods import Local, Similar
from coterie.methods.ranking.similar import COST
from coterie.methods.ranking.sketched import CHANCE, SIZE, Measured, class_counts, drowned, size_of

START = {"weight": torch.zeros(1, 2, 4), "bias": torch.zeros(1, 2)}
QUANTILES = "quantile distance"


@pytest.fixture
def three(client_of, net_of):
    """c0 and c1 are alike, c2 lies a deviation away; labels say the opposite at c1."""

    def make(sizes=(80, 60, 120)):
        clients = []
        for i, n in enumerate(sizes):
            draws = torch.Generator().manual_seed(i)
            x = torch.randn(n, 4, generator=draws) + (i == 2)
            y = (x[:, 0] > (i == 2)).long()
            clients.append(client_of(x, 1 - y if i == 1 else y, name=f"c{i}"))
        return net_of(nn.Linear(4, 2), clients)

    return make


def test_costs_are_distances_beyond_chance_and_the_nearest_is_chosen(three, play):
    _, (info, after) = play(Similar(best=1), three(), START, 2)
    distance, chance = info.matrices[QUANTILES], info.matrices[CHANCE.format(QUANTILES)]
    torch.testing.assert_close(info.matrices[COST], distance - chance, equal_nan=True)
    assert float(info.matrices[COST][0, 1]) == pytest.approx(0, abs=0.05)
    assert float(distance[0, 2]) == pytest.approx(0.9, abs=0.15)  # the deviation over all sites is above 1
    assert (info.weights > 0)[:2].tolist() == [[True, True, False], [True, True, False]]
    assert torch.equal(info.weights, after.weights)
    assert info.extras["similar"]["columns"] == [f"column {i}" for i in range(1, 5)]
    assert len(info.extras["similar"]["quantiles"]["c2"][3]) == 19


def test_labels_count_in_transport_alone(three, play):
    _, (info,) = play(Similar(by="transport", best=1, also=("quantiles",)), three(), START, 1)
    near, far = info.matrices[QUANTILES], info.matrices["transport distance"]
    assert near[0, 1] < near[0, 2]
    assert float(far[0, 1]) > 0.6  # the first column lies the other way round, class by class
    torch.testing.assert_close(far, far.T, equal_nan=True)


def test_by_size_the_largest_that_answers_comes_first(three, play, without):
    _, (info,) = play(Similar(by="size", best=1), three(), START, 1)
    assert info.matrices[SIZE][0].nan_to_num(0).tolist() == [0, 60, 120]
    assert info.weights[0].nonzero().flatten().tolist() == [0, 2]
    _, (gone,) = play(Similar(by="size", best=1), without(three(), {1: (2,)}), START, 1)
    assert gone.weights[0].nonzero().flatten().tolist() == [0, 1]
    assert gone.matrices[COST].isnan()[2].all()
    assert size_of(torch.tensor([4, 5]), torch.tensor([1])).isnan().all()


def test_who_does_not_answer_is_not_ranked(three, play, without):
    net = without(three(), {1: (1,)})
    _, (info,) = play(Similar(also=("transport",)), net, START, 1)
    for name in (COST, QUANTILES, "transport distance"):
        known = ~info.matrices[name].isnan()
        assert known.nonzero().tolist() == [[0, 2], [2, 0]]


def test_one_requester_and_nobody_within_a_threshold(three, play):
    _, (info,) = play(Similar(requester="c1"), three(), START, 1)
    assert (~info.matrices[COST].isnan()).nonzero()[:, 0].unique().tolist() == [1]
    assert (~info.matrices[QUANTILES].isnan()).sum() == 6  # what is known is written down
    _, infos = play(Similar(threshold=-9.0), three(), START, 3)
    alone, _ = play(Local(), three(), START, 2)
    assert all(torch.equal(i.weights, torch.eye(3).double()) for i in infos)
    assert len(alone) == 3


def test_only_measuring_makes_no_model_and_publishes_no_circle(three, play):
    method = Similar(train=False)
    states, (info,) = play(method, three(), START, 1)
    assert len(method.models(states[-1]).owners) == 0
    assert info.extras["published"] == 0
    assert method.reveals().numbers == ("quantiles",)
    assert not method.reveals().sites
    told = Similar(train=False, by="transport", also=("quantiles",)).reveals().numbers
    assert told == ("quantiles", "means", "covariances", "there")
    assert "loss" in Similar().reveals().numbers


def test_the_ndoye_factor_beside_it_is_the_method_s_own(three, play):
    from coterie.core.held import hold
    from coterie.core.seeds import Key
    from coterie.methods import Ndoye

    net = three()
    states, (info,) = play(Similar(also=("ndoye",)), net, START, 1)
    key = Key(0).at_round(1, 1).at("ndoye")
    ranked = Ndoye().rank(hold(states[0].beliefs.tensors, torch.arange(3)), net, key)
    name = "transfer loss"
    torch.testing.assert_close(info.matrices[name], ranked.matrices[name], equal_nan=True)


@pytest.mark.parametrize(("rows", "sinks"), [(90, True), (2000, False)])
def test_noise_drowns_few_rows_and_says_so(three, play, rows, sinks):
    method = Similar(by="transport", also=("quantiles",), epsilon=1.0)
    _, (info,) = play(method, three((rows,) * 3), START, 1)
    said = info.extras["similar"]
    assert said["sigma"] == pytest.approx(math.sqrt(2) * 3.7306, abs=1e-3)  # two sketches share the budget
    for name in ("quantiles", "transport"):
        assert bool(said["drowned"][name]) == sinks, said["drowned"]
    noise, chance = (info.matrices[f"{QUANTILES} by {what}"] for what in ("noise", "chance"))
    others = ~torch.eye(3, dtype=torch.bool)
    assert (chance >= noise)[others].all()


def test_drowned_by_the_median_of_a_site_s_distances():
    distance, noise = torch.full((3, 3), 1.0), torch.tensor([[0, 0.6, 0.6], [0.1, 0, 0.2], [0.4, 0.6, 0]])
    for t in (distance, noise):
        t.fill_diagonal_(torch.nan)
    assert drowned(Measured(distance, noise, noise)).tolist() == [True, False, False]


def test_class_counts_come_from_the_roster_where_all_make_them_public(three):
    roster = roster_of(three().clients)
    counts = class_counts(roster, torch.tensor([0, 2]), 2)
    assert counts.sum(dim=1).tolist() == [80, 120]
    assert counts[0].tolist() == list(roster.members[0].labels[0])
    members = (replace(roster.members[0], labels=None), *roster.members[1:])
    hidden = class_counts(replace(roster, members=members), torch.tensor([0, 2]), 2)
    assert hidden.tolist() == [[40, 40], [60, 60]]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"by": "quantile"}, "unknown measure 'quantile': did you mean quantiles?"),
        ({"also": ("x",)}, "unknown measure 'x': known are ndoye, quantiles, transport"),
        ({"epsilon": -1.0}, "epsilon=-1.0 must lie above 0 and be finite: try 3"),
        ({"epsilon": 3.0, "also": ("ndoye",)}, "epsilon=3 holds for sketches, and ndoye sends models"),
        ({"least": 1}, "moments: least=1 must be at least 2, or it tells single rows"),
        ({"reach": 0.0}, "reach=0.0 must lie above 0 and be finite: try 4"),
        ({"best": -1}, "best=-1 must be at least 0: 0 sets no bound"),
    ],
)
def test_options_that_cannot_be(options, line):
    with pytest.raises(BadInput) as caught:
        Similar(**options)
    assert str(caught.value).startswith(line)


def test_all_mistakes_at_once_and_those_that_take_a_roster(three, play):
    with pytest.raises(BadInput) as caught:
        Similar(by="x", reach=-1.0, best=-1)
    assert len(str(caught.value).splitlines()) == 3
    net = three((80, 60, 40))
    for method, line in (
        (Similar(requester="c9"), "unknown requester 'c9'"),
        (Similar(epsilon=1.0, delta=0.02), "delta=0.02 is above 1/n"),
    ):
        with pytest.raises((BadInput, UnknownName), match=line):
            play(method, net, START, 1)
    with pytest.raises(BadInput, match="rounds=2: train=false only measures, in one round"):
        play(Similar(train=False), net, START, 2)
