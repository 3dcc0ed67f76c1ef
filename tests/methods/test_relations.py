"""Who learns from whom: FedFomo, FedAMP, FedALA, pFedGraph."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import nn

import coterie
from coterie.core.errors import BadInput
from coterie.core.method import METHODS
from coterie.core.net import to_own
from coterie.core.seeds import Key
from coterie.kernels import ALA, SGD, Leaning
from coterie.kernels.ala import several, taken, top_names, tuned
from coterie.kernels.leaning import cosine_slope
from coterie.methods import FedALA, FedAMP, FedAvg, FedFomo, Local, PFedGraph
from coterie.methods.personal.fedala import heard
from coterie.methods.personal.fedamp import attention, typical
from coterie.methods.personal.fedfomo import chosen, kept, merits
from coterie.methods.personal.measured import Measured, cosines
from coterie.methods.personal.pfedgraph import graph, onto_simplex, similarity

NAN = math.nan
HALF = SGD(lr=0.25, batch=100)  # with x = 1, one step takes w to (w + y) / 2
START = {"weight": torch.zeros(1, 1, 1).double()}


def matrix(*rows) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def close(found, wanted, tolerance=1e-12):
    wanted = torch.as_tensor(wanted, dtype=torch.float64)
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=tolerance, equal_nan=True)


def w(held) -> torch.Tensor:
    return held.tensors["weight"].flatten()


class TestFedAMP:
    def test_attention_by_hand(self):
        # A'(0) = 1/2, A'(2 ln 2) = 1/4 for sigma = 2
        squares = matrix([0, 2 * math.log(2), 0], [2 * math.log(2), 0, 0], [0, 0, 0])
        close(
            attention(squares, 2.0, 0.5),
            [[5 / 8, 1 / 8, 1 / 4], [1 / 8, 5 / 8, 1 / 4], [1 / 4, 1 / 4, 1 / 2]],
        )

    def test_alike_models_weigh_alike_and_far_ones_nothing(self):
        close(attention(torch.zeros(4, 4).double(), 3.0, 3.0 / 4), torch.full((4, 4), 0.25))
        close(attention(torch.full((3, 3), 1e6).double(), 1.0, 1 / 3), torch.eye(3))

    def test_the_usual_sigma_goes_by_pairs(self):
        assert typical(matrix([0, 1, 2], [1, 0, 4], [2, 4, 0])) == 2.0  # half of 1, 4, 16 in the middle
        assert typical(matrix([0])) == typical(torch.zeros(3, 3).double()) == 1.0

    def test_two_rounds_by_hand(self, pull, play):
        states, infos = play(FedAMP(HALF, sigma=2.0, alpha=1.0, pull=1.0), pull([0, 4]), START, 2)
        a = math.exp(-2) / 2  # of models 0 and 2
        close(w(states[1].beliefs), [0, 2])
        close(w(states[1].clouds), [2 * a, 2 - 2 * a])
        close(infos[0].weights, [[1 - a, a], [a, 1 - a]])
        close(infos[0].matrices["distance"], [[0, 2], [2, 0]])
        # w - (2 (w - y) + (w - u)) / 4
        close(w(states[2].beliefs), [a / 2, 3 - a / 2])

    def test_without_a_pull_everybody_is_alone(self, crowd, net_of, play):
        work = SGD(lr=0.1, batch=4)
        alone, mine = (
            play(
                method,
                net_of(nn.Linear(4, 3), crowd()),
                {"weight": torch.ones(1, 3, 4), "bias": torch.zeros(1, 3)},
                3,
            )
            for method in (Local(work), FedAMP(work, pull=0.0))
        )
        for name, t in alone[0][-1].beliefs.tensors.items():
            assert torch.equal(t, mine[0][-1].beliefs.tensors[name])


class TestPFedGraph:
    def test_cosines_from_lengths(self):
        # changes (3, 0), (0, 4) and (-6, 0), and one that did not move
        lengths = matrix([3, 4, 6, 0]).expand(4, 4)
        apart = matrix([0, 5, 9, 3], [5, 0, math.sqrt(52), 4], [9, math.sqrt(52), 0, 6], [3, 4, 6, 0])
        close(cosines(Measured(apart, lengths)), [[1, 0, -1, 0], [0, 1, 0, 0], [-1, 0, 1, 0], [0, 0, 0, 1]])
        close(similarity(matrix([1, 0.91, 0.9, -0.95])), [[1, 1, 0.9, -0.95]])

    @pytest.mark.parametrize(
        ("alpha", "row"),
        [(0.8, [0.5, 0, 0.5]), (4.0, [5 / 12, 2 / 12, 5 / 12]), (1e12, [1 / 3, 1 / 3, 1 / 3])],
    )
    def test_a_round_by_hand(self, alpha, row, pull, play):
        # models 2, -2 and 4 of one weight: cosines are 1 and -1, p + s / 2 alpha before it is projected
        states, infos = play(PFedGraph(HALF, alpha=alpha), pull([4, -4, 8]), START, 1)
        close(infos[0].weights[0], row)
        close(infos[0].matrices["similarity"], [[1, -1, 1], [-1, 1, -1], [1, -1, 1]])
        close(infos[0].matrices["distance"][1], [4, 0, 6])
        close(w(states[1].beliefs), infos[0].weights @ matrix([2], [-2], [4]).flatten())

    @settings(max_examples=15, deadline=None)
    @given(st.lists(st.floats(-1, 1), min_size=2, max_size=6), st.floats(0.1, 5), st.integers(0, 99))
    def test_the_graph_solves_the_quadratic_program(self, s, alpha, seed):
        p = torch.rand(len(s), generator=Key(seed).torch(), dtype=torch.float64) + 0.1
        p = p / p.sum()
        found = graph(matrix(s), p, alpha)[0].numpy()

        def loss(g):
            return alpha * np.square(g - p.numpy()).sum() - np.dot(s, g)

        solved = minimize(
            loss,
            p.numpy(),
            bounds=[(0, 1)] * len(s),
            constraints={"type": "eq", "fun": lambda g: g.sum() - 1},
            options={"ftol": 1e-12},
        )
        assert found.min() >= 0
        assert abs(found.sum() - 1) < 1e-12
        assert loss(found) <= solved.fun + 1e-9
        np.testing.assert_allclose(found, solved.x, atol=1e-4)

    def test_a_point_of_the_simplex_is_its_own_nearest(self):
        close(onto_simplex(matrix([0.2, 0.8], [3, 0], [-5, -5])), [[0.2, 0.8], [1, 0], [0.5, 0.5]])

    def test_the_slope_of_a_cosine(self):
        at, to = (
            [torch.tensor([1.0]).double(), torch.tensor([1.0]).double()],
            [torch.ones(1).double(), torch.zeros(1).double()],
        )
        close(torch.cat(cosine_slope(at, to)), [math.sqrt(2) / 4, -math.sqrt(2) / 4])
        nothing = torch.zeros(2).double()
        assert torch.equal(cosine_slope([nothing], [torch.ones(2).double()])[0], nothing)
        assert torch.equal(cosine_slope([torch.ones(2).double()], [nothing])[0], nothing)

    def test_leaning_turns_towards_what_came(self, crowd, net_of):
        net = net_of(nn.Linear(4, 3, bias=False), crowd((12,)))
        came = {"weight": torch.randn(1, 3, 4, generator=Key(0).torch())}

        def turned(work):
            (reply,) = net.work(work, came, to_own(1), Key(0).at_round(1, 1), "", {}).beliefs["weight"]
            return float(torch.cosine_similarity(reply.flatten(), came["weight"].flatten(), dim=0))

        plain = SGD(lr=0.5, batch=4, epochs=5)
        assert turned(Leaning(plain, 0.0)) == turned(plain) < turned(Leaning(plain, 1.0))


class TestFedFomo:
    def test_merits_and_what_is_kept(self):
        merit = merits(matrix([2, -1, 0], [3, NAN, 1]), matrix([4, 2, 0], [1, NAN, 1]))
        close(merit, [[0.5, -0.5, 0], [3, NAN, 1]])
        close(kept(merit), [[1, 0, 0], [0.75, 0, 0.25]])
        close(kept(matrix([-1, 0, NAN])), [[0, 0, 0]])

    def test_a_round_by_hand(self, pull, play):
        net = pull([0, 1, 8], validation=[0, 1, 8])
        states, (info,) = play(FedFomo(HALF), net, START, 1)
        # trained 0, 1/2 and 4, all from 0. With c1: 1 -> 1/4 over 1/2, and 9 over 4; with c2 64 -> 16 over 4
        # for its own and 56.25 over 1/2 for that of c1; c0 has nothing to gain
        close(info.matrices["affinity"], [[0, -0.5, -4], [0, 1.5, -2], [0, 15.5, 12]])
        close(info.matrices["distance"], [[0, 0.5, 4]] * 3)
        close(info.matrices["loss"], [[0, 0.25, 16], [1, 0.25, 9], [64, 56.25, 16]])
        close(info.weights, [[1, 0, 0], [0, 1, 0], [0, 15.5 / 27.5, 12 / 27.5]])
        close(w(states[1].beliefs), [0, 0.5, (15.5 * 0.5 + 12 * 4) / 27.5])
        assert info.extras == {"stayed": ["c0"]}

    def test_who_is_away_is_neither_tried_nor_changed(self, pull, play, without):
        net = without(pull([0, 1, 8], validation=[0, 1, 8]), {1: (1,)})
        states, (info,) = play(FedFomo(HALF), net, START, 1)
        assert bool(info.matrices["loss"][:, 1].isnan().all())
        assert not info.weights[1].any()
        close(w(states[1].beliefs), [0, 0, 4])

    def test_chosen_by_affinity_or_by_lot(self):
        affinity = matrix([9, 1, 3, 2, -1])[0]
        draws = Key(0).torch()
        assert chosen(affinity, [1, 2, 3, 4], 2, 0.0, draws) == [2, 3]
        assert sorted(chosen(affinity, [1, 2, 3, 4], 9, 0.0, draws)) == [1, 2, 3, 4]
        by_lot = [tuple(chosen(affinity, [1, 2, 3, 4], 2, 1.0, draws)) for _ in range(200)]
        assert {j for some in by_lot for j in some} == {1, 2, 3, 4}
        assert all(len(set(some)) == 2 for some in by_lot)
        # one that did harm comes after those that nobody tried
        assert 1 not in chosen(matrix([0, -1, 0, 0])[0], [1, 2, 3], 2, 0.0, draws)


class TestFedALA:
    def test_equations_by_hand(self):
        own, shared = matrix([0, 4]), matrix([2, 0])
        close(taken(own, shared, matrix([0.25, 0.5])), [[0.5, 2]])
        assert torch.equal(taken(own / 3, shared / 7, torch.ones(1, 2).double()), shared / 7)
        close(
            tuned(matrix([1, 0.5, 0.1]), matrix([2, -1, 9]), matrix([2, 1, 1]), torch.tensor(0.125)),
            [[0.5, 0.625, 0]],
        )
        close(
            heard(torch.tensor([0.5, 0.0]).double(), torch.tensor([0.25, 0.75]).double()),
            [[0.625, 0.375], [0, 1]],
        )
        names = ["0.weight", "0.bias", "2.weight", "2.bias"]
        assert [top_names(names, k) for k in (1, 2, 0)] == [names[2:], names, names]
        assert several(torch.tensor([[1, 2], [3, -1]])).tolist() == [[1, 2]]
        assert several(torch.tensor([[3, -1]])).tolist() == [[3, -1]]

    def test_two_rounds_by_hand(self, pull, play):
        method = FedALA(HALF, eta=0.25, rows=1.0, passes=1)
        states, infos = play(method, pull([0, 4]), START, 2)
        close(infos[0].weights, torch.eye(2))
        close(w(states[1].own), [0, 2])
        close(w(states[1].shared), [1])
        # at c0 the slope is 2 on a way of 1: W = 1/2; at c1 -6 on a way of -1: W = 0. Then half way to y
        assert infos[1].extras == {"taken": {"c0": 0.5, "c1": 0.0}}
        close(infos[1].weights, [[0.75, 0.25], [0, 1]])
        close(w(states[2].own), [0.25, 3])
        close(w(states[2].shared), [1.625])

    def test_with_weights_of_one_the_average_is_that_of_fedavg(self, crowd, net_of, play):
        work = SGD(lr=0.1, batch=4, shuffle=False)
        start = {"weight": torch.ones(1, 3, 4), "bias": torch.zeros(1, 3)}
        one, other = (
            play(method, net_of(nn.Linear(4, 3), crowd()), start, 3)[0][-1]
            for method in (FedAvg(work), FedALA(work, eta=1e-30))
        )
        for name, t in one.beliefs.tensors.items():
            assert torch.equal(t, other.shared.tensors[name])

    def test_layers_below_the_top_are_the_average_s(self, crowd, net_of):
        model = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3))
        net = net_of(model, crowd((12,)))
        own, shared = (
            {n: torch.randn(1, *p.shape, generator=Key(k).torch()) for n, p in model.named_parameters()}
            for k in (0, 1)
        )
        found = net.work(ALA(eta=9.0, batch=4), own, to_own(1), Key(0).at_round(1, 1), "", {"shared": shared})
        for name in ("0.weight", "0.bias"):
            assert torch.equal(found.beliefs[name], shared[name])
        mixed, a, b = found.beliefs["1.weight"], own["1.weight"], shared["1.weight"]
        assert bool(((mixed - a) * (mixed - b) <= 1e-12).all())
        assert not torch.equal(mixed, b)
        assert 20 / 43 < float(found.numbers["taken"]) < 1  # 25 of 43 are below

    def test_weights_rest_once_losses_have_settled(self, crowd, net_of):
        net = net_of(nn.Linear(4, 3), crowd((12,)))
        own, shared = ({"weight": torch.full((1, 3, 4), v), "bias": torch.zeros(1, 3)} for v in (0.0, 1.0))

        def found(**options):
            kernel = ALA(rows=1.0, batch=100, eta=0.1, **options)
            return net.work(kernel, own, to_own(1), Key(0).at_round(1, 1), "", {"shared": shared}).beliefs[
                "weight"
            ]

        eleven = found(passes=11, settled=0.0)  # ten losses after the first
        torch.testing.assert_close(found(passes=40, settled=9.0), eleven, rtol=0, atol=1e-6)
        assert not torch.allclose(found(passes=40, settled=0.0), eleven, atol=1e-3)

    def test_weights_stay_from_round_to_round_and_with_who_is_away(self, pull, play, without):
        method = FedALA(HALF, eta=0.01, rows=1.0, passes=1)
        _, infos = play(method, without(pull([0, 4, 8]), {3: (0,)}), START, 4)
        first, second, _, fourth = (info.extras["taken"].get("c0") for info in infos)
        assert first is None
        assert 0 < fourth < second < 1


@pytest.fixture(scope="module")
def two_kinds():
    """Ten clients of few rows, of which the second five have all labels the other way round."""
    rng = np.random.default_rng(0)
    slope = rng.normal(size=12)
    clients = []
    for i in range(10):
        X = rng.normal(size=(150, 12))
        y = (X @ slope * (1 if i < 5 else -1) + rng.normal(size=150) > 0).astype(int)
        clients.append(coterie.Client.from_arrays(X, y, name=f"site-{i}", test=0.65, validation=0.4, seed=0))
    return clients


def mean_accuracy(result) -> float:
    told = result.history.query("split == 'test' and metric == 'accuracy' and model == 'own'")
    return float(told[told["round"] == told["round"].max()]["value"].mean())


@pytest.mark.parametrize(("method", "gains"), [("fedfomo", 0.02), ("pfedgraph", 0.02), ("fedamp", 0.0)])
def test_two_kinds_of_clients_are_told_apart(method, gains, two_kinds):
    alone = coterie.train("logistic", two_kinds, "local", rounds=10, seed=0)
    result = coterie.train("logistic", two_kinds, method, rounds=10, seed=0)
    last = result.weights[-1]
    own, other = last[:5, :5], last[:5, 5:]
    if method == "fedamp":  # attention falls, and is never nothing
        assert own[~np.eye(5, dtype=bool)].min() > 2 * other.max()
    else:
        assert other.max() == 0
        assert last[5:, :5].max() == 0
    assert mean_accuracy(result) >= mean_accuracy(alone) + gains


def test_fedala_looks_at_numbers_and_tells_no_kinds_apart(two_kinds):
    result = coterie.train("logistic", two_kinds, "fedala", rounds=10, seed=0, eta=30.0)
    others = result.weights[-1][0, 1:]
    assert np.allclose(others, others[0])  # all alike: what it takes is a part of one average
    assert 0 < others[0] < 0.1


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("fedamp", {"sigma": 0.0}, "sigma=0.0 must be above 0"),
        ("fedamp", {"alpha": -1.0, "sigma": 1.0}, "alpha=-1.0 must be above 0"),
        ("fedamp", {"alpha": 1.0}, "needs a number for sigma"),
        ("fedamp", {"pull": -0.1}, "pull=-0.1 must be at least 0"),
        ("fedfomo", {"others": 0}, "others=0 must be at least 1"),
        ("fedfomo", {"epsilon": 1.5}, "epsilon=1.5 must lie between 0 and 1"),
        ("fedfomo", {"decay": -1.0}, "decay=-1.0 must lie between 0 and 1"),
        ("fedala", {"eta": 0.0}, "eta=0.0 must be above 0"),
        ("fedala", {"rows": 0.0}, "rows=0.0 must lie above 0"),
        ("fedala", {"top": -1}, "top=-1 must be at least 0"),
        ("fedala", {"passes": 0}, "passes=0 must be at least 1"),
        ("fedala", {"settled": -1.0}, "settled=-1.0 must be at least 0"),
        ("pfedgraph", {"alpha": 0.0}, "alpha=0.0 must be above 0"),
        ("pfedgraph", {"strength": -1.0}, "strength=-1.0 must be at least 0"),
    ],
)
def test_options_out_of_bounds(name, options, words):
    with pytest.raises(BadInput, match=words):
        METHODS.make(name, **options)


@pytest.mark.parametrize(
    ("method", "targets", "words"),
    [
        (FedAMP(sigma=1.0, alpha=0.6), [1, 2, 3], "alpha=0.6 must be at most .* 0.5"),
        (FedAMP(), [1], "fedamp needs at least 2 clients; got 1"),
        (PFedGraph(), [1], "pfedgraph needs at least 2 clients; got 1"),
        (FedFomo(), [1], "fedfomo needs at least 2 clients; got 1"),
        (FedFomo(), [1, 2], "no validation samples, which fedfomo needs"),
        (FedALA(top=2), [1, 2], "top=2 must be at most 1"),
    ],
)
def test_clients_and_models_that_do_not_suit(method, targets, words, pull):
    with pytest.raises(BadInput, match=words):
        method.check(pull(targets).roster, START, Key(0, rounds=3))
