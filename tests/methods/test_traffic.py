"""Where models rest, and which of them pass between whom."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest
import torch
from torch import nn

import coterie.methods
from coterie.core.held import Held
from coterie.core.seeds import Key
from coterie.kernels import SGD
from coterie.methods import (
    METHODS,
    PENS,
    Cyclic,
    FedAvg,
    FineTune,
    Gossip,
    Greedy,
    Influence,
    Local,
    Ndoye,
    Robust,
    RobustPersonal,
    Scaffold,
    WeightErosion,
)

FULL = SGD(lr=0.25, batch=100)  # with x = 1, one step takes w to (w + y) / 2
START = {"weight": torch.zeros(1, 1, 1).double()}
HERE, HOME = [-1], [0, 1, 2]
THREE_EACH = [0, 0, 0, 1, 1, 1, 2, 2, 2]
PEERS = ("random", "greedy", "epsilon-greedy", "random-weighted", "oracle", "gossip", "d-psgd", "dac", "pens")
RESTING = {
    "advised": {"way0.beliefs": HOME, "way1.beliefs": HERE},
    "local": {"beliefs": HOME},
    "central": {"beliefs": HERE},
    "cfl": {"beliefs": HERE},
    "data-interpolation": {"beliefs": HOME},
    "ifca": {"beliefs": HERE * 2},
    "fedavg": {"beliefs": HERE},
    "finetune": {"shared.beliefs": HERE, "own": HOME},
    "ditto": {"shared.beliefs": HERE, "own": HOME},
    "per-fedavg": {"shared.beliefs": HERE, "own": HOME},
    "pfedme": {"beliefs": HERE, "own": HOME},
    "apfl": {"beliefs": HERE, "own": HOME, "alpha": HOME, "mixed": HOME},
    "fedper": {"beliefs": HERE, "norms": HOME},
    "fedrep": {"body": HERE, "heads": HOME},
    "fedprox": {"beliefs": HERE},
    "scaffold": {"beliefs": HERE, "control": HERE, "own": HOME},
    "fedavgm": {"shared.beliefs": HERE, "mean": HERE},
    **{
        k: {"shared.beliefs": HERE, "mean": HERE, "square": HERE}
        for k in ("fedadam", "fedyogi", "fedadagrad")
    },
    "cyclic": {"beliefs": [2]},
    "guided": {"beliefs": HERE},
    "fedkg": {"beliefs": HERE},
    "fedunique": {"beliefs": HERE},
    "fedala": {"shared": HERE, "own": HOME},
    "fedamp": {"beliefs": HOME, "clouds": HOME},
    "fedfomo": {"beliefs": HOME},
    "pfedgraph": {"beliefs": HOME, "first": HOME},
    "robust": {"beliefs": HERE},
    "robust-personal": {"beliefs": HOME},
    "weight-erosion": {"beliefs": HOME},
    **{key: {"beliefs": HOME, "best": HOME} for key in PEERS},
    "ndoye": {"beliefs": HOME},
    "nothing": {"beliefs": HOME},
    "partial": {"common.beliefs": HERE, "common.scale": HERE, "common.whole": HERE, "own": HOME},
    "pooled": {"beliefs": HERE, "scale": HERE, "whole": HERE},
    "recalibrated": {"common.beliefs": HERE, "common.scale": HERE, "common.whole": HERE, "own": HOME},
    "influence": {"beliefs": HOME, "first": HERE},
    "similar": {"beliefs": HOME},
    **{key: {"own": HOME} for key in ("one-shot-fedavg", "one-shot-wfedavg", "bayavg", "wbayavg")},
    "fl-swag": {"own": HOME, "sent": HOME, "drawn": THREE_EACH},
    "bayes-local": {"own": HOME, "drawn": THREE_EACH},
    "bayes-central": {"own": HERE, "drawn": HERE * 3},
}
LINEAR = ("partial", "pooled", "recalibrated")  # of a model that is solved
OPTIONS = {
    "advised": {"candidates": ("fedavg",), "choice": ("local", "fedavg", "local")},
    **{key: {"patience": 9} for key in PEERS},
    "pens": {"patience": 9, "rounds_step1": 1},
    "cyclic": {"order": "fixed"},
    "finetune": {"tune": 1},
    **{key: {"samples": 2} for key in ("fl-swag", "bayes-local", "bayes-central")},
}


@pytest.fixture
def trio(crowd, net_of):
    """A model with batch norm, and three clients for it."""

    def make(*more, linear=False):
        module = nn.Linear(4, 3) if linear else nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), *more)
        clients = [replace(c, validation=c.train, cluster=0) for c in crowd((6, 6, 6))]
        return net_of(module, clients), module

    return make


def resting(state, within="") -> dict[str, list[int]]:
    found = {}
    for field in dataclasses.fields(state):
        value, name = getattr(state, field.name), within + field.name
        if isinstance(value, Held):
            found[name] = value.places.tolist()
        elif dataclasses.is_dataclass(value):
            found |= resting(value, f"{name}.")
    return found


@pytest.mark.parametrize("name", RESTING)
def test_where_models_rest(name, trio, play):
    method = METHODS.make(name, **OPTIONS.get(name, {}))
    head = [nn.Linear(3, 3)] if name == "nothing" else []  # which needs one
    (*_, last), _ = play(method, *trio(*head, linear=name in LINEAR), 4)
    assert resting(last) == RESTING[name]


def test_no_method_is_left_out():
    kinds = [getattr(coterie.methods, name) for name in coterie.methods.__all__]
    assert {kind.name for kind in kinds if isinstance(kind, type)} == set(RESTING)


def test_one_requester_s_model_and_norms_of_one_s_own_are_at_home(trio, play):
    assert resting(play(WeightErosion(requester="c1"), *trio(), 1)[0][-1]) == {"beliefs": [1]}
    for name in ("fedavg", "guided"):
        (*_, last), _ = play(METHODS.make(name, norm="local"), *trio(), 1)
        assert resting(last) == {"beliefs": HERE, "norms": HOME}


def models(traffic) -> list[list[list[int]]]:
    """[sender][receiver], the coordinator last."""
    return [t.models.tolist() for t in traffic]


NOTHING = [[0, 0, 0, 0]] * 4
HANDED_OUT = [*[[0, 0, 0, 0]] * 3, [1, 1, 1, 0]]
TO_EACH_OTHER = [[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
UP_AND_DOWN = [*[[0, 0, 0, 1]] * 3, [1, 1, 1, 0]]


class TestServer:
    def test_fedavg(self, pull, passed, without):
        net = without(pull([1, 3, 4]), {2: (1,)})
        away = [[0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 1], [1, 0, 1, 0]]
        found = passed(FedAvg(FULL), net, START, 2)
        assert models(found) == [NOTHING, UP_AND_DOWN, away]
        assert found[1].bytes.tolist() == [[8 * m for m in row] for row in UP_AND_DOWN]
        assert found[1].numbers.tolist() == [*[[0, 0, 0, 2]] * 3, [0, 0, 0, 0]]  # loss and samples

    def test_norms_at_home_are_not_sent(self, trio, passed):
        found = passed(FedAvg(FULL, norm="local"), *trio(), 1)
        assert models(found) == [HANDED_OUT, UP_AND_DOWN]
        # a norm of three has 4 x 3 floats and a counter; the linear layer 3 x 4 and 3
        assert found[0].bytes[3].tolist() == [4 * 12 + 8] * 3 + [0]
        assert found[1].bytes[3].tolist() == found[1].bytes[:, 3].tolist() == [4 * 15] * 3 + [0]

    def test_finetune_hands_out_what_is_tuned(self, pull, passed):
        found = passed(FineTune(FULL, tune=2), pull([1, 3, 4]), START, 3)
        assert models(found) == [NOTHING, UP_AND_DOWN, HANDED_OUT, NOTHING]

    def test_control_variates_go_beside_the_model_and_those_of_clients_stay(self, pull, passed):
        found = passed(Scaffold(FULL), pull([1, 3, 4]), START, 1)
        assert models(found)[0] == HANDED_OUT  # the clients' own, which are 0
        out_and_back = [*[[0, 0, 0, 1]] * 3, [2, 2, 2, 0]]
        assert models(found)[1] == out_and_back
        assert found[1].bytes.tolist() == [*[[0, 0, 0, 16]] * 3, [16, 16, 16, 0]]

    def test_a_cycle_goes_past_the_coordinator(self, pull, passed):
        found = passed(Cyclic(FULL, order="fixed"), pull([1, 3, 4]), START, 2)
        first = [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]]
        then = [[0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
        assert models(found) == [NOTHING, first, then]

    def test_robust_rules(self, pull, passed):
        assert models(passed(Robust(FULL), pull([1, 3, 4]), START, 1)) == [NOTHING, UP_AND_DOWN]
        found = passed(RobustPersonal(FULL), pull([1, 3, 4]), START, 1)
        assert models(found) == [HANDED_OUT, [[0, 2, 2, 0], [2, 0, 2, 0], [2, 2, 0, 0], [0, 0, 0, 0]]]
        # two numbers of each visit, then three lengths and three distances to the own reply
        assert found[1].numbers[:3, 3].tolist() == [2 * 3 + 6] * 3
        # medians: the coordinator sees the three replies to each, and sends what it made of them home
        found = passed(RobustPersonal(FULL, rule="median"), pull([1, 3, 4]), START, 1)
        assert models(found)[1] == [[0, 1, 1, 3], [1, 0, 1, 3], [1, 1, 0, 3], [1, 1, 1, 0]]

    def test_alone_only_the_first_model_comes(self, pull, passed):
        assert models(passed(Local(FULL), pull([1, 3, 4]), START, 1)) == [HANDED_OUT, NOTHING]

    def test_rows_move_once_to_be_pooled(self, pull, passed):
        found = passed(METHODS.make("central"), pull([1, 3], sizes=[2, 5]), START, 2)
        assert [t.rows.tolist() for t in found] == [[0, 0], [2, 5], [0, 0]]
        assert not any(t.models.any() for t in found)


class TestWeightErosion:
    def test_one_requester(self, pull, passed):
        # the weight of c1 is 3/4, 2/5 and 0: three times the model goes there and comes back, then no more
        found = passed(WeightErosion(FULL, "c0", p_d=0.25), pull([4, 0]), START, 4)
        asked = [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
        handed_out = [[0, 0, 0], [0, 0, 0], [1, 0, 0]]
        assert models(found) == [handed_out, asked, asked, asked, [[0, 0, 0]] * 3]
        # two numbers of each visit; and from the requester two distances to its own reply, two lengths
        assert found[1].numbers.tolist() == [[0, 0, 2 + 4], [0, 0, 2], [0, 0, 0]]

    def test_all_for_themselves(self, pull, passed):
        # to each other one's own model, and what became of the other's
        found = passed(WeightErosion(FULL, p_d=0), pull([4, 0, 5]), START, 1)
        assert models(found) == [HANDED_OUT, [[2 * m for m in row] for row in TO_EACH_OTHER]]


class TestPeers:
    def test_pens(self, pull, passed):
        # trained 0, 1/2 and 4 lose least at 1, 0 and 1; in step 2 these three models pass alone
        method = PENS(FULL, "at-once", sampled=2, samplings=3, rounds_step1=1)
        found = passed(method, pull([0, 1, 8]), START, 2)
        neighbours = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
        # in step 1 each is scored by both others, once; so the picked are there already
        assert models(found) == [HANDED_OUT, TO_EACH_OTHER, neighbours]

    @pytest.mark.parametrize("order", ["thesis", "trained", "program", "at-once"])
    def test_a_model_that_came_to_be_scored_comes_again_only_if_it_is_another(self, pull, passed, order):
        # trained 0, 1/2 and 4: 0 and 2 lose least with that of 1, 1 with that of 0
        method = Greedy(FULL, order, sampled=2, direction="theirs-on-mine")
        start = {"weight": torch.tensor([0, 0.5, 4]).double().reshape(3, 1, 1)}
        _, *before, found = passed(method, pull([0, 0.5, 4]), start, rounds := 1 + (order == "trained"))
        assert models(before) == [NOTHING] * len(before)  # in `trained`, round 1 is everybody's own
        wanted = torch.tensor(TO_EACH_OTHER)
        if order in ("thesis", "trained"):
            drawn = Key(0).at_round(rounds, rounds).at("order").torch()
            turns = torch.randperm(3, generator=drawn).tolist()
            for sender, receiver in ((1, 0), (0, 1), (1, 2)):
                wanted[sender, receiver] += turns.index(sender) < turns.index(receiver)
            assert wanted.sum() > 6
        assert found.models.tolist() == wanted.tolist()

    def test_gossip_sends_one_model_each(self, pull, passed):
        _, found = passed(Gossip(FULL, "at-once"), pull([0, 1, 2, 3]), START, 1)
        assert found.models.sum(axis=1).tolist() == [1, 1, 1, 1, 0]


class TestRanking:
    def test_ndoye(self, pull, passed):
        # everybody's model is tried by everybody; then 0 trains with 2, 1 with 2 and 2 with 1: there and back
        method = Ndoye(FULL, best=1, folds=2, passes=1, bar="none")
        found = passed(method, pull([1, 3, 4], sizes=[2, 2, 4]), START, 2)
        circles = [[0, 0, 1, 0], [0, 0, 2, 0], [1, 2, 0, 0], [0, 0, 0, 0]]
        assert models(found) == [HANDED_OUT, TO_EACH_OTHER, circles]

    @pytest.mark.parametrize("estimate", ["exact", "first-order"])
    def test_influence(self, pull, passed, estimate):
        # the server's first model goes to all; what all make of it, in two folds, to all; 1 trains with 2
        method = Influence(FULL, estimate=estimate, folds=2, bar="none")
        found = passed(method, pull([1, 3, 5], [2, 2, 2]), START, 2)
        ranked = [[0, 2, 2, 0], [2, 0, 2, 0], [2, 2, 0, 0], [1, 1, 1, 0]]
        circles = [[0, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
        assert models(found) == [HANDED_OUT, ranked, circles]

    @pytest.mark.parametrize("method", [Ndoye(FULL, folds=2), Influence(FULL, folds=2)])
    def test_a_bar_sends_numbers_and_no_more_models(self, pull, passed, method):
        bare, barred = (
            passed(replace(method, bar=bar), pull([1, 3, 4], [4, 4, 4]), START, 1)[1]
            for bar in ("none", "own")
        )
        assert barred.models.tolist() == bare.models.tolist()
        # two losses and two counts of rows for each fold and other; of influence those of one's own as well
        more = 2 * 2 * (2 if method.name == "ndoye" else 3)
        assert (barred.numbers - bare.numbers)[:3, -1].tolist() == [more] * 3


@pytest.mark.parametrize("name", ["one-shot-fedavg", "bayavg", "fl-swag"])
def test_one_exchange_among_those_who_are_there(name, pull, passed, without):
    method = METHODS.make(name, local=FULL)
    assert models(passed(method, pull([4, 8, 12]), START, 2)) == [HANDED_OUT, NOTHING, TO_EACH_OTHER]
    *_, last = passed(method, without(pull([4, 8, 12]), {2: (1,)}), START, 2)
    assert last.models.tolist() == [[0, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize(("form", "numbers"), [("diagonal", 2), ("low-rank", 2 + 20), ("full", 2 + 1)])
def test_a_gaussian_is_sent_with_its_columns_or_its_matrix(form, numbers, pull, passed):
    # a precision and a shift of one weight, 20 columns of it, or a matrix of 1 by 1; in eight bytes each
    *_, last = passed(METHODS.make("fl-swag", local=FULL, form=form, samples=1), pull([4, 8]), START, 4)
    assert last.models.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert last.bytes.tolist() == [[0, 8 * numbers, 0], [8 * numbers, 0, 0], [0, 0, 0]]
