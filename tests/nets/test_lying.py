"""Liars by hand: five sites with one row each, whose weight goes halfway from what came to its target."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from coterie.core.errors import BadInput, Diverged, UnknownName
from coterie.core.held import at_coordinator, handles_in, hold
from coterie.core.net import EVALUATION, edges_of, from_server, to_own
from coterie.core.roster import roster_of
from coterie.core.seeds import Key
from coterie.features.liars.lies import EVERY, Fooled, Poisoned, stamped
from coterie.features.liars.wrapper import KINDS, STRENGTH, Liars
from coterie.kernels import SGD, Score
from coterie.methods import METHODS
from coterie.nets.ground import check_wraps

WORK = SGD(lr=0.25)  # w - 0.25 * 2 (w - y) = (w + y) / 2
KEY = Key(0).at_round(1, 5)
TARGETS = (2.0, 4.0, 6.0, 8.0, 100.0)
EVERYBODY = from_server(torch.arange(5))


@pytest.fixture
def net(client_of, net_of):
    clients = [client_of(torch.ones(1, 1), torch.tensor([y]), name=f"c{i}") for i, y in enumerate(TARGETS)]
    return net_of(nn.Linear(1, 1, bias=False), clients)


def weights(*values, places=None):
    where = at_coordinator(len(values)) if places is None else torch.tensor(places)
    return hold({"weight": torch.tensor(values).reshape(-1, 1, 1)}, where)


def replied(net, kind, strength=0.0, sent=0.0, **more):
    found = Liars(net, kind=kind, names="c4", strength=strength, **more).visit(
        WORK, weights(sent), EVERYBODY, KEY
    )
    return found.beliefs.tensors["weight"].flatten().tolist()


# sent w = 10: replies (10 + y) / 2 are 6, 7, 8, 9 and 55; updates of the honest -4, -3, -2, -1, the liar's 45
@pytest.mark.parametrize(
    ("kind", "strength", "told"),
    [
        ("sign-flip", 0.0, 10 - 45),
        ("sign-flip", 2.0, 10 - 90),
        ("alie", 2.0, 10 - 2.5 - 2 * math.sqrt(1.25)),  # mean -2.5, deviation √1.25
        ("ipm", 3.0, 10 + 3 * 2.5),
        ("mimic", 0.0, 6),  # -4 and -1 are as far from the mean: the first of them
        ("scaling", 10.0, 10 + 450),
        ("free-rider", 0.0, 10),
        ("label-flip", 0.0, (10 - 100) / 2),  # of a regression: towards -y
    ],
)
def test_lies_by_hand(net, kind, strength, told):
    assert replied(net, kind, strength, sent=10.0) == pytest.approx([6, 7, 8, 9, told])


def test_noise_is_as_large_as_said_and_drawn_anew(net):
    lies = Liars(net, kind="gaussian", names="c4", strength=2.0)
    found = [
        lies.visit(WORK, weights(10.0), EVERYBODY, Key(s).at_round(1, 5)).beliefs.tensors["weight"][4].item()
        for s in range(150)
    ]
    noise = (torch.tensor(found) - 10) / 90  # 2 √(45²)
    assert abs(float(noise.mean())) < 0.25
    assert float(noise.std()) == pytest.approx(1, abs=0.15)
    assert replied(net, "gaussian") == replied(net, "gaussian")


def test_peers_that_lie_together_know_what_peers_made_of_their_own_models(net):
    own = weights(0.0, 0.0, 0.0, 0.0, 50.0, places=range(5))
    found = Liars(net, kind="ipm", names="c4", strength=1.0).visit(WORK, own, to_own(5), KEY)
    # updates of the honest 1, 2, 3, 4: the liar goes by their mean the other way, from its own
    assert found.beliefs.tensors["weight"].flatten().tolist() == [1, 2, 3, 4, 50 - 2.5]


def test_each_guest_s_replies_are_a_crowd_of_their_own(net):
    two = edges_of([(0, 0), (0, 4), (1, 1), (1, 4)])
    found = Liars(net, kind="ipm", names="c4", strength=1.0).visit(WORK, weights(0.0, 10.0), two, KEY)
    assert found.beliefs.tensors["weight"].flatten().tolist() == [1, -1, 7, 10 + 3]


@pytest.mark.parametrize(
    ("kind", "why"),
    [("not-a-number", "weight is no longer finite"), ("nonsense", "weight has shape [2, 1, 1]")],
)
def test_a_reply_that_cannot_be_is_left_out_and_named(net, kind, why):
    lies = Liars(net, kind=kind, names="c4+c1")
    found = lies.visit(WORK, weights(10.0), EVERYBODY, KEY)
    assert found.hosts.tolist() == [0, 2, 3]
    assert found.beliefs.tensors["weight"].flatten().tolist() == [6, 8, 9]
    left = lies.figures()["left_out"]
    assert left.keys() == {"c1", "c4"}
    assert left["c4"].startswith(why)
    assert "left_out" not in lies.figures()
    with pytest.raises(Diverged):  # the honest diverge: that is not the liars' doing
        lies.visit(SGD(lr=1e38, epochs=9), weights(1e30), EVERYBODY, KEY)


def test_stale_replies_are_the_first_ones_and_live_as_long_as_the_run(net):
    lies = Liars(net, kind="stale", names="c4")
    first = lies.visit(WORK, weights(0.0), EVERYBODY, KEY)
    later = lies.visit(WORK, weights(8.0), EVERYBODY, Key(0).at_round(2, 5))
    assert first.beliefs.tensors["weight"][4].item() == later.beliefs.tensors["weight"][4].item() == 50
    assert later.beliefs.tensors["weight"][0].item() == 5
    again = Liars(net, kind="stale", names="c4")
    again.restore(lies.kept([], 1), [], 1)
    found = again.visit(WORK, weights(8.0), EVERYBODY, Key(0).at_round(2, 5))
    assert torch.equal(found.beliefs.tensors["weight"], later.beliefs.tensors["weight"])
    assert [int(h.parts[0].ids[0]) for h in handles_in(list(again.notes.first.values()))] == [
        int(h.parts[0].ids[0]) for h in handles_in(list(lies.notes.first.values()))
    ]


def test_losses_at_home_are_made_large_and_those_of_others_small(net):
    lies = Liars(net, kind="losses", names="c4", strength=4.0)
    models = weights(0.0, 0.0, places=(4, 0))
    score = Score("train", ("loss",))
    told = lies.visit(score, models, edges_of([(0, 4), (1, 4), (1, 0)]), KEY).numbers["loss"]
    assert told.tolist() == [40_000, 2_500, 4]
    judged = lies.visit(score, models, edges_of([(1, 0)]), KEY.at(EVALUATION)).numbers["loss"]
    assert judged.tolist() == [4]


def test_liars_are_not_scored_and_the_record_says_so(net):
    lies = Liars(net, kind="sign-flip", names="c4+c0")
    found = lies.visit(Score("train"), weights(0.0), EVERYBODY, KEY.at(EVALUATION))
    assert found.hosts.tolist() == [1, 2, 3]
    assert lies.figures()["liars"] == [{"kind": "sign-flip", "names": ["c0", "c4"], "strength": 1.0}]


def test_who_lies_comes_from_the_seed_and_is_the_same_in_every_way_of_lying(net):
    drawn = {s: Liars(net, 0.4, "nonsense").liars(Key(s).at_round(3, 9)) for s in range(6)}
    assert {int(d.sum()) for d in drawn.values()} == {2}
    assert len({tuple(d.tolist()) for d in drawn.values()}) > 1
    assert all(torch.equal(Liars(net, 0.4, "losses").liars(Key(s)), d) for s, d in drawn.items())
    assert any(not torch.equal(Liars(net, 0.4, "losses", draw=1).liars(Key(s)), d) for s, d in drawn.items())
    spared = [Liars(net, 0.6, spare="c0+c1").liars(Key(s)).tolist() for s in range(6)]
    assert spared == [[False, False, True, True, True]] * 6
    assert not Liars(net, 0.0).liars(Key(0)).any()
    both = Liars(Liars(net, kind="scaling", names="c4", strength=2.0), kind="sign-flip", names="c4")
    told = both.visit(WORK, weights(10.0), EVERYBODY, KEY).beliefs.tensors["weight"].flatten().tolist()
    assert told == [6, 7, 8, 9, 10 - 90]
    assert [entry["kind"] for entry in both.figures()["liars"]] == ["scaling", "sign-flip"]


def test_a_trigger_is_stamped_on_some_rows_and_its_success_is_counted():
    x = torch.zeros(8, 1, 2, 2)
    assert stamped(x, 3, 5.0)[0].flatten().tolist() == [0, 5, 5, 5]
    seen = []

    class Inner:
        keeps = False

        def step(self, learner, carry, batch, tick):
            seen.append(batch)
            return carry

    batch = replace_batch(x, torch.arange(8))
    Poisoned(Inner(), "backdoor", classes=8, target=7, patch=1, level=5.0).step(None, {}, batch, None)
    chosen = [i for i in range(8) if i % EVERY == 0]
    assert seen[0].x.flatten(1).sum(dim=1).nonzero().flatten().tolist() == chosen
    assert [int(y) for y in seen[0].y] == [7 if i in chosen else i for i in range(8)]
    Poisoned(Inner(), "label-flip", classes=8).step(None, {}, batch, None)
    assert seen[1].y.tolist() == [7, 6, 5, 4, 3, 2, 1, 0]


def replace_batch(x, y):
    from coterie.core.learner import Batch

    return Batch(x, y, torch.ones(len(y)))


def test_of_rows_of_other_classes_those_taken_for_the_target_are_fooled():
    from coterie.core.groups import Groups

    outputs = torch.eye(3)[torch.tensor([0, 0, 1, 0, 2])]  # what the model says
    y = torch.tensor([0, 1, 1, 2, 2])
    told = Fooled(0).measure("classification", outputs, torch.zeros(5), y, Groups.of(torch.tensor([5])))
    assert told["fooled"].tolist() == pytest.approx([2 / 4])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fraction": 1.0}, "liars=1.0 must be at least 0 and below 1: try 0.2"),
        ({"kind": "nan"}, "unknown kind of liar"),
        ({"strength": -1.0}, "liars: strength=-1.0 must be at least 0 and finite"),
        ({"kind": "mimic", "strength": 2.0}, "liars: mimic has no strength; got 2.0: leave it out"),
        ({"names": "a+b", "spare": "b"}, "liars: 'b' is in names and in spare"),
    ],
)
def test_options_that_cannot_be_are_refused(net, options, said):
    with pytest.raises(BadInput, match=f"^{said.replace('+', '.')}"):
        Liars.check(**options)
    with pytest.raises(BadInput):
        Liars(net, **options)


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        ("fedavg", {"names": "c9"}, "unknown client 'c9'"),
        ("fedavg", {"fraction": 0.95}, "liars: 5 of 5 clients lie, 0 are spared, and one has to be honest"),
        ("fedavg", {"kind": "backdoor"}, "liars: a backdoor calls up a class, and a regression has none"),
        ("central", {}, "central has all rows in one place, where nobody replies: leave liars out"),
        ("ndoye", {}, "liars: 'c1' asks for a model, and a liar's is not looked at: write spare=c1"),
    ],
)
def test_studies_that_would_say_nothing_are_refused(net, method, options, said):
    made = METHODS.make(method, **({"requester": "c1"} if method == "ndoye" else {}))
    with pytest.raises((BadInput, UnknownName)) as caught:
        Liars.admit(made, roster_of(net.clients), **options)
    assert str(caught.value).startswith(said)


def test_lies_come_before_seals_and_not_from_sites_of_their_own():
    check_wraps(["liars:names=a+b,kind=losses", "liars", "sealed"])
    with pytest.raises(BadInput, match=r"write --wrap liars sealed$"):
        check_wraps(["liars", "sealed", "liars:names=a"])
    with pytest.raises(BadInput, match=r"^liars are for studies"):
        check_wraps(["liars:names=a"], "federation")


def test_every_kind_is_in_the_help_and_every_strength_belongs_to_one():
    from coterie.core.options import options_of

    told = {o.name: o for o in options_of(Liars)}["kind"].help
    assert all(kind in told for kind in KINDS)
    assert set(STRENGTH) <= set(KINDS)
