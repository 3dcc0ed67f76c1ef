"""Ranking before training: the adapted Ndoye factor, influence, their folds and their circles."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from coterie.core.client import Samples
from coterie.core.errors import BadData, BadInput, UnknownName
from coterie.core.groups import Groups
from coterie.core.seeds import Key
from coterie.kernels import SGD
from coterie.kernels.fold import Fold, HeldOut, fold_rows
from coterie.methods import FedAvg, Influence, Local, Ndoye
from coterie.methods.ranking.bar import Part, beside
from coterie.methods.ranking.circles import choose, circle_weights
from coterie.methods.ranking.influence import Look, error_of

FULL = SGD(lr=0.25, batch=100)
START = {"weight": torch.zeros(1, 1, 1).double()}
NAN = float("nan")


def flat(state):
    return state.beliefs.tensors["weight"].flatten().tolist()


def table(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def assert_table(found, *rows):
    torch.testing.assert_close(found, table(*rows), equal_nan=True, rtol=0, atol=1e-12)


@pytest.fixture
def rows_of(client_of, net_of):
    """Clients with x = 1 and these targets, one for each row."""

    def make(*targets):
        clients = [
            client_of(torch.ones(len(ys), 1).double(), torch.tensor(ys).double(), name=f"c{i}")
            for i, ys in enumerate(targets)
        ]
        return net_of(nn.Linear(1, 1, bias=False).double(), clients)

    return make


class TestFolds:
    @given(st.integers(1, 60), st.integers(2, 9), st.integers(0, 5))
    def test_every_row_is_in_exactly_one_fold(self, samples, folds, seed):
        dealt = [fold_rows(samples, folds, k, seed) for k in range(folds)]
        assert sorted(torch.cat(dealt).tolist()) == list(range(samples))
        sizes = [len(rows) for rows in dealt]
        assert max(sizes) - min(sizes) <= 1

    def test_rows_are_dealt_at_random_by_the_seed(self):
        one, same, other = (fold_rows(40, 4, 0, seed).tolist() for seed in (0, 0, 1))
        assert one == same != other
        assert one != list(range(0, 40, 4))

    @settings(max_examples=25)
    @given(st.integers(4, 30), st.integers(2, 4), st.integers(2, 7), st.integers(1, 3), st.booleans())
    def test_a_plan_keeps_to_its_rows(self, samples, folds, batch, passes, inside):
        for k in range(folds):
            kernel = Fold(SGD(batch=batch), folds, k, seed=3, passes=passes, inside=inside)
            plan = kernel.plan(samples, Key(0))
            held = set(fold_rows(samples, folds, k, 3).tolist())
            rows = [r for r in plan.rows.flatten().tolist() if r >= 0]
            wanted = held if inside else set(range(samples)) - held
            assert set(rows) <= wanted
            # all of them in every pass, but for a single one left over
            single = len(wanted) % batch == 1 and len(wanted) > 1
            assert len(rows) == passes * (len(wanted) - single)
            assert len(plan.rates) == len(plan)

    def test_without_folds_nothing_is_left_out_and_a_single_row_is_a_batch(self):
        plan = Fold(SGD(batch=4, shuffle=False)).plan(5, Key(0))
        assert plan.rows.tolist() == [[0, 1, 2, 3], [4, -1, -1, -1]]

    def test_a_rate_falls_from_the_first_pass_to_the_last(self):
        kernel = Fold(SGD(batch=10, schedule="linear", final=0.5), passes=5)
        torch.testing.assert_close(kernel.plan(10, Key(0)).rates, table(1, 0.9, 0.8, 0.7, 0.6))

    def test_what_is_held_out_is_scored_alone(self):
        losses = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0])
        groups = Groups.of(torch.tensor([5, 2, 5]))
        rows = torch.cat([losses, torch.tensor([3.0, 5.0]), 2 * losses])
        found = [HeldOut(2, k, seed=7).measure("regression", rows, rows, rows, groups) for k in (0, 1)]
        assert [f["samples"].tolist() for f in found] == [[3, 1, 3], [2, 1, 2]]
        totals = sum(f["loss"] * f["samples"] for f in found)
        assert totals.tolist() == pytest.approx([31, 8, 62])
        mine = losses[fold_rows(5, 2, 1, 7)].mean()
        assert found[1]["loss"][[0, 2]].tolist() == [mine, 2 * mine]

    def test_memory_is_never_kept(self):
        assert not Fold(SGD(momentum=0.5, keep=True)).keeps


class TestChoice:
    COSTS = table([NAN, 0.3, 0.1, 0.3], [0.5, NAN, NAN, -1.0], [NAN] * 4, [2.0, 1.0, 0.0, NAN])

    @pytest.mark.parametrize(
        ("best", "bound", "chosen"),
        [
            (0, math.inf, ["1111", "1101", "0010", "1111"]),
            (1, math.inf, ["1010", "0101", "0010", "0011"]),
            # of equals, the first
            (2, math.inf, ["1110", "1101", "0010", "0111"]),
            (9, math.inf, ["1111", "1101", "0010", "1111"]),
            # below the bound, not at it
            (0, 0.3, ["1010", "0101", "0010", "0011"]),
            (1, 0.0, ["1000", "0101", "0010", "0001"]),
        ],
    )
    def test_by_hand(self, best, bound, chosen):
        members = circle_weights(choose(self.COSTS, best, bound), torch.ones(4)) > 0
        assert ["".join(str(int(m)) for m in row) for row in members] == chosen


class TestNdoye:
    def test_a_ranking_and_a_round_by_hand(self, pull, play):
        # one step from 0 gives f = (0.5, 1.5, 2); at home, on rows alike, (y/2)² = (0.25, 2.25, 4) is lost
        net = pull([1, 3, 4], sizes=[2, 2, 4])
        states, (ranked, trained) = play(Ndoye(FULL, best=1, folds=2, passes=1, bar="none"), net, START, 2)
        assert_table(
            ranked.matrices["loss at the requester"], [NAN, 0.25, 1], [6.25, NAN, 1], [12.25, 6.25, NAN]
        )
        assert_table(ranked.matrices["transfer loss"], [NAN, -2, -3], [6, NAN, -3], [12, 4, NAN])
        circles = [1 / 3, 0, 2 / 3], [0, 1 / 3, 2 / 3], [0, 1 / 3, 2 / 3]
        assert_table(ranked.weights, *circles)
        assert ranked.loss.tolist() == [1.0, 9.0, 16.0]
        told = {"ranked_pairs": 6, "held_out": "2-fold cross-validation on training rows"}
        assert ranked.extras == told | {"published": 3, "nobody": []}
        assert flat(states[1]) == [0, 0, 0]
        # from 0 again: 0.5/3 + 4/3, then 1.5/3 + 4/3 twice
        assert flat(states[2]) == pytest.approx([1.5, 11 / 6, 11 / 6])
        assert_table(trained.weights, *circles)
        assert trained.matrices == {}

    def test_passes_train_further(self, pull, play):
        # two steps from 0 give 3y/4: at home (y/4)², there (9/4 - 1)² and (3/4 - 3)²
        _, (info,) = play(Ndoye(FULL, folds=2, passes=2), pull([1, 3], sizes=[2, 2]), START, 1)
        assert_table(info.matrices["transfer loss"], [NAN, 25 / 16 - 9 / 16], [81 / 16 - 1 / 16, NAN])
        assert info.extras["note"] == "the last round ranked and trained nothing: models are as they began"

    def test_the_loss_at_home_is_on_rows_that_were_held_out(self, rows_of, play):
        # 0 learnt from the row 0 and tried on 4, then 2 from 4 on 0: (16 + 4) / 2; from both 1, so 1 at 2
        net = rows_of([0.0, 4.0], [2.0, 2.0])
        _, (info,) = play(Ndoye(FULL, folds=2, passes=1), net, START, 1)
        # b's 1 is at home at a loss of 1, and at a's rows at ((1 - 0)² + (1 - 4)²) / 2
        assert_table(info.matrices["transfer loss"], [NAN, 5 - 1], [1 - 10, NAN])

    def test_validation_rows_in_place_of_folds(self, pull, play):
        net = pull([1, 3], validation=[2, 0.5])
        _, (info,) = play(Ndoye(FULL, folds=0, passes=1), net, START, 1)
        # 0.5 at home (0.5 - 2)², there (0.5 - 3)²; 1.5 at home (1.5 - 0.5)², there (1.5 - 1)²
        assert_table(info.matrices["transfer loss"], [NAN, 0.25 - 1], [6.25 - 2.25, NAN])
        assert info.extras["held_out"] == "validation rows"


class TestInfluence:
    @pytest.mark.parametrize(
        ("estimate", "influence"),
        [
            # w = (0.5, 1.5, 2.5), mean 1.5; without each in turn 2, 1.5, 1, and (· - y)² of them
            ("exact", ([NAN, 0, -0.25], [0.25 * 4 - 2.25, NAN, 4 - 2.25], [9 - 12.25, 0, NAN])),
            # p / (1 - p) = 1/2 times the slope 2 (1.5 - y) times 1.5 - w
            ("first-order", ([NAN, 0, -0.5], [-1.5, NAN, 1.5], [-3.5, 0, NAN])),
        ],
    )
    def test_by_hand(self, pull, play, estimate, influence):
        net = pull([1, 3, 5], sizes=[2, 2, 2])
        states, (ranked, _) = play(Influence(FULL, estimate=estimate, folds=2, bar="none"), net, START, 2)
        assert_table(ranked.matrices["influence"], *influence)
        # nobody helps the first and the last; the last helps the second
        assert_table(ranked.weights, [1, 0, 0], [0, 0.5, 0.5], [0, 0, 1])
        assert ranked.extras["nobody"] == ["c0", "c2"]
        assert flat(states[1]) == [0, 0, 0]
        assert flat(states[2]) == [0.5, 2, 2.5]

    def test_sizes_weigh(self, pull, play):
        # w = (0.5, 1.5), p = (1/4, 3/4): together 1.25, alone 0.5 and 1.5
        _, (info,) = play(Influence(FULL, folds=2), pull([1, 3], sizes=[2, 6]), START, 1)
        assert_table(info.matrices["influence"], [NAN, 0.25 - 1 / 16], [2.25 - 49 / 16, NAN])

    def test_held_out_rows_are_not_trained_on(self, rows_of, play):
        # a holds out 0 and 4 in turn: w_a = 2 or 0, w_b = 3, means 2.5 and 1.5
        net = rows_of([0.0, 4.0], [6.0, 6.0])
        _, (info,) = play(Influence(FULL, folds=2), net, START, 1)
        alone, together = (4 + 16) / 2, (2.5**2 + (4 - 1.5) ** 2) / 2
        assert float(info.matrices["influence"][0, 1]) == pytest.approx(alone - together)

    def test_validation_rows_in_place_of_folds(self, pull, play):
        net = pull([1, 3], validation=[2, 0.5])
        _, (info,) = play(Influence(FULL, folds=0), net, START, 1)
        assert_table(info.matrices["influence"], [NAN, 2.25 - 1], [1 - 0.25, NAN])

    @settings(max_examples=8)
    @given(st.lists(st.floats(-3, 3), min_size=2, max_size=6), st.data())
    def test_for_a_parabola_the_two_differ_by_the_second_order_alone(self, pull, play, targets, data):
        sizes = data.draw(st.lists(st.integers(2, 5), min_size=len(targets), max_size=len(targets)))
        net, n = pull(targets, sizes=sizes), len(targets)
        exact, first = (
            play(Influence(FULL, estimate=how, folds=2), net, START, 1)[1][0].matrices["influence"]
            for how in ("exact", "first-order")
        )
        p = torch.tensor(sizes).double() / sum(sizes)
        w = torch.tensor(targets, dtype=torch.float64) / 2
        beyond = (p / (1 - p) * ((p * w).sum() - w)).square().expand(n, n)
        others = ~torch.eye(n, dtype=torch.bool)
        torch.testing.assert_close(exact[others], (first + beyond)[others], atol=1e-9, rtol=1e-9)


BARRED = [Ndoye(FULL, folds=2, passes=1), Influence(FULL, folds=2)]


def ids(method):
    return type(method).__name__


class TestBar:
    """Others' models beside one's own, on rows that one's own was not trained on."""

    def test_by_hand(self):
        # c0 has parts of 2 and 6 rows, on which its own model loses 1 and 2, and that of c1 2 and 4
        whole = Part(table([NAN, 2], [3, NAN]), table(1, 3), table(2, 5))
        rest = Part(table([NAN, 4], [3, NAN]), table(2, 3), table(6, 5))
        found = beside([whole, rest], 2)
        assert_table(found.there, [NAN, (2 * 2 + 6 * 4) / 8], [3, NAN])
        # differences of 1 and 2, whose sd is √½ and its standard error √½ / √2; and twice 0
        assert_table(found.above, [NAN, (2 * 1 + 6 * 2) / 8], [0, NAN])
        assert_table(found.error, [NAN, 0.5], [0, NAN])
        # 1.75 is more than 0.5; no worse at all is good enough
        assert found.clears("own").tolist() == [[False, False], [True, False]]
        assert not found.clears("better").any()
        assert not beside([], 2).clears("own").any()

    @pytest.mark.parametrize(
        ("above", "bars"), [(0.51, ""), (0.49, "own"), (-0.49, "own"), (-0.51, "own better")]
    )
    def test_one_standard_error_is_what_counts(self, above, bars):
        # differences of above ± ½, so that the error is ½
        seen = [Part(table([NAN, above + d], [0, NAN]), table(0, 0), table(3, 3)) for d in (-0.5, 0.5)]
        assert [b for b in ("own", "better") if beside(seen, 2).clears(b)[0, 1]] == bars.split()

    @pytest.mark.parametrize("method", BARRED, ids=ids)
    def test_whoever_is_far_off_trains_alone(self, method, pull, play):
        # one step gives 0.5, 0.55 and -4.5: c1's model does better on c0's rows than c0's own
        net = pull([1.0, 1.1, -9], sizes=[4, 4, 4])
        states, (ranked, trained) = play(method, net, START, 2)
        assert ranked.extras["nobody"] == ["c1", "c2"]
        assert_table(trained.weights, [0.5, 0.5, 0], [0, 1, 0], [0, 0, 1])
        assert flat(states[2]) == pytest.approx([0.525, 0.55, -4.5])
        # the ranking is the same without a bar, and then somebody is always found
        _, (plain,) = play(to_all(method), net, START, 1)
        assert torch.equal(matrix_of(ranked).nan_to_num(9), matrix_of(plain).nan_to_num(9))
        assert plain.extras["nobody"] == []
        assert "loss above own" not in plain.matrices

    @pytest.mark.parametrize("method", BARRED, ids=ids)
    def test_too_few_rows_tell_nothing(self, method, pull, play):
        # of three rows one fold has one: c0 gets nobody, though its rows are those of c1
        _, (info,) = play(method, pull([1.0, 1.0], sizes=[3, 4]), START, 1)
        assert "c0" in info.extras["nobody"]
        assert info.matrices["error of loss above own"].isnan().tolist() == [[True, True], [False, True]]

    @pytest.mark.parametrize("method", BARRED, ids=ids)
    def test_parts_of_validation_rows_where_there_are_no_folds(self, method, client_of, net_of, play):
        def client(name, y, rows):
            held = torch.ones(rows, 1).double(), torch.full((rows,), y).double()
            return client_of(
                torch.ones(2, 1).double(), torch.full((2,), y).double(), name=name, validation=held
            )

        clients = [client("a", 1.0, 10), client("b", 1.1, 10), client("c", 1.0, 9)]
        net = net_of(nn.Linear(1, 1, bias=False).double(), clients)
        _, (info,) = play(replace(method, folds=0), net, START, 1)
        # 0.55 beside 0.5 at 1: (0.45)² - (0.5)² in every part; nine rows make no five parts of two
        assert float(info.matrices["loss above own"][0, 1]) == pytest.approx(0.45**2 - 0.25)
        assert info.matrices["error of loss above own"].isnan()[2].all()
        assert "c" in info.extras["nobody"]
        assert info.extras["held_out"] == "validation rows"

    def test_influence_has_to_lie_above_by_more_than_its_error(self):
        looks = [
            Look(table([0.0, 2.0], [3.0, 0.0]), table(2, 1)),
            Look(table([0.0, 4.0], [3.0, 0.0]), table(2, 1)),
        ]
        # 1 and 2 by row: sd √½, over √2; twice 3
        assert_table(error_of(looks, 2), [0, 0.5], [0, 0])
        assert bool(error_of([], 2).isnan().all())

    @pytest.mark.parametrize("method", [Ndoye, Influence])
    def test_an_unknown_bar(self, method):
        with pytest.raises(UnknownName, match="unknown bar 'high': known are better, none, own"):
            method(bar="high")


BOTH = [
    pytest.param(Ndoye(FULL, folds=2), id="ndoye"),
    pytest.param(Influence(FULL, folds=2), id="influence"),
    pytest.param(Influence(FULL, folds=2, estimate="first-order"), id="first-order"),
]


def to_all(method):
    """The same method, open to everybody that answers."""
    never = -math.inf if isinstance(method, Influence) else math.inf
    return replace(method, best=0, threshold=never, bar="none")


def matrix_of(info):
    return next(iter(info.matrices.values()))


@pytest.mark.parametrize("method", BOTH)
class TestBoth:
    def test_everyone_chosen_is_fedavg(self, method, pull, play):
        kernel = SGD(lr=0.1, batch=100, momentum=0.5, keep=True)
        everyone = replace(to_all(method), local=kernel)
        targets, sizes = [1, 3, 8], [2, 3, 4]
        states, _ = play(everyone, pull(targets, sizes), START, 4)
        together, _ = play(FedAvg(kernel), pull(targets, sizes), START, 3)
        assert flat(states[-1]) == pytest.approx(flat(together[-1]) * 3)

    @pytest.mark.parametrize("keep", [True, False])
    def test_nobody_chosen_is_training_alone(self, method, pull, play, keep):
        kernel = SGD(lr=0.1, batch=2, momentum=0.5, keep=keep)
        never = math.inf if isinstance(method, Influence) else -math.inf
        targets, sizes = [1, 3, 8], [2, 3, 4]
        method = replace(method, local=kernel, threshold=never)
        states, infos = play(method, pull(targets, sizes), START, 4)
        alone, _ = play(Local(kernel), pull(targets, sizes), START, 3)
        assert flat(states[-1]) == pytest.approx(flat(alone[-1]))
        assert all(torch.equal(info.weights, torch.eye(3).double()) for info in infos)

    def test_one_requester(self, method, pull, play):
        net = pull([1, 3, 2], sizes=[2, 2, 2])
        everyone = play(method, net, START, 1)[1][0]
        states, (ranked, trained) = play(replace(method, requester="c1"), net, START, 2)
        torch.testing.assert_close(matrix_of(ranked)[1], matrix_of(everyone)[1], equal_nan=True)
        assert bool(matrix_of(ranked)[[0, 2]].isnan().all())
        # the others train alone
        assert torch.equal(trained.weights[[0, 2]], torch.eye(3).double()[[0, 2]])
        assert flat(states[2])[::2] == [0.5, 1.0]

    def test_who_is_gone_is_not_ranked_and_in_no_circle(self, method, pull, play, without):
        net = without(pull([1, 3, 2, 2], sizes=[2] * 4), {1: (1,)})
        _, infos = play(to_all(method), net, START, 2)
        found = matrix_of(infos[0])
        assert bool(found[1].isnan().all())
        assert bool(found[:, 1].isnan().all())
        assert infos[0].extras["ranked_pairs"] == 6
        assert infos[1].weights[1].tolist() == [0, 1, 0, 0]
        assert infos[1].weights[0, 1] == 0
        torch.testing.assert_close(infos[1].weights[0, [0, 2, 3]], table(*[1 / 3] * 3))

    @pytest.mark.parametrize("gone", [(0, 1, 2), (1, 2)], ids=["everybody", "all others"])
    def test_without_a_ranking_the_next_round_ranks(self, method, pull, play, without, gone):
        net = without(pull([1, 3, 2], sizes=[2] * 3), {1: gone})
        states, infos = play(replace(method, requester="c0"), net, START, 2)
        assert states[1].costs is None
        assert infos[0].extras["ranked_pairs"] == 0
        assert not bool(infos[0].weights.any())
        assert states[2].costs is not None
        assert infos[1].extras["ranked_pairs"] == 2

    def test_who_is_gone_later_leaves_the_average(self, method, pull, play, without):
        net = without(pull([1, 3, 5], sizes=[2] * 3), {2: (2,), 3: (0, 1, 2)})
        states, infos = play(to_all(method), net, START, 3)
        # who is gone trains nobody's model, and its own cannot visit anybody either
        torch.testing.assert_close(infos[1].weights, table([0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 0]))
        assert bool(infos[1].loss[2].isnan())
        assert flat(states[2]) == flat(states[3]) == [1, 1, 0]
        assert not bool(infos[2].weights.any())

    def test_neither_test_rows_nor_models_are_looked_at(self, method, crowd, net_of, play, closed):
        module, clients = nn.Linear(4, 3), crowd((6, 9, 12))
        nothing = Samples(torch.full((2, 4), NAN), torch.zeros(2, dtype=torch.int64))
        blind = [replace(c, test=nothing) for c in clients]
        seen, unseen = (play(method, closed(net_of(module, cs)), module, 1)[1][0] for cs in (clients, blind))
        assert torch.equal(matrix_of(seen).nan_to_num(9), matrix_of(unseen).nan_to_num(9))
        assert seen.extras["ranked_pairs"] == 6

    def test_engines_rank_alike(self, method, crowd, net_of, play):
        module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
        method = replace(method, local=SGD(batch=4, momentum=0.5, keep=True))
        clients = crowd((6, 9, 14), dtype=torch.float64)
        (*_, one), (ranked, _) = play(method, net_of(module, clients, "loop"), module, 2)
        (*_, other), (again, _) = play(method, net_of(module, clients, "stacked"), module, 2)
        torch.testing.assert_close(matrix_of(ranked), matrix_of(again), equal_nan=True, rtol=0, atol=1e-10)
        for name, tensor in one.beliefs.tensors.items():
            torch.testing.assert_close(other.beliefs.tensors[name], tensor, rtol=0, atol=1e-10)


class TestRefusals:
    @pytest.mark.parametrize("kind", [Ndoye, Influence])
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"best": -1}, "best=-1 must be at least 0: 0 sets no bound"),
            ({"threshold": NAN}, "threshold=nan compares with nothing"),
            ({"folds": 1}, "folds=1 must be at least 2, or 0 for the validation rows"),
            ({"folds": -2}, "folds=-2 must be at least 2, or 0 for the validation rows"),
            ({"passes": 0}, "passes=0 must be at least 1"),
        ],
    )
    def test_options_out_of_bounds(self, kind, options, message):
        with pytest.raises(BadInput, match=message):
            kind(**options)

    @pytest.mark.parametrize("kind", [Ndoye, Influence])
    @pytest.mark.parametrize(
        ("options", "sizes", "error", "message"),
        [
            ({"requester": "c11"}, [9, 9], UnknownName, "unknown requester 'c11': did you mean c1?"),
            ({}, [9], BadInput, "at least 2 clients; got 1: add clients, or use local"),
            ({"folds": 4}, [4, 3, 4], BadData, "'c1' has 3 training row.* folds=4 parts .*: lower folds"),
            ({"folds": 0}, [4, 4], BadInput, "'c0' has no validation samples .* or set folds to 2 or more"),
        ],
    )
    def test_clients(self, kind, options, sizes, error, message, pull):
        with pytest.raises(error, match=message):
            kind(**options).check(pull([1] * len(sizes), sizes=sizes).roster, START, Key(0))
        assert kind(requester="c1").check(pull([1, 2], sizes=[5, 5]).roster, START, Key(0)) == ()

    def test_estimates(self):
        with pytest.raises(UnknownName, match=r"unknown estimate 'exakt': did you mean exact?"):
            Influence(estimate="exakt")
        with pytest.raises(BadInput, match=r"estimate=first-order needs a gradient.*set folds to 5"):
            Influence(estimate="first-order", folds=0)
