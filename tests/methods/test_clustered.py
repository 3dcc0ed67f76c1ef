"""One model for each kind of client: IFCA, clustered federated learning, and data interpolation."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import coterie
from coterie.core.errors import BadInput, UnknownName
from coterie.core.net import Distances
from coterie.core.seeds import Key
from coterie.kernels import SGD
from coterie.methods import CFL, IFCA, DataInterpolation, FedAvg, Local
from coterie.methods.clustered.cfl import (
    bipartition,
    cosines_of,
    far_apart,
    inner_products,
    mean_length,
    sides,
    stalled,
)
from coterie.methods.clustered.data_interpolation import edges_to, interpolated, others_of
from coterie.methods.clustered.groups import by_client, same_group
from coterie.methods.clustered.ifca import cluster_weights, first_weights, tensors_of

FULL = SGD(lr=0.25, batch=100)  # with x = 1, one step takes w to (w + y) / 2


def start(*values):
    return {"weight": torch.tensor(values).double().reshape(-1, 1, 1)}


def flat(held):
    return held.tensors["weight"].flatten().tolist()


class TestIFCA:
    # starts 0 and 8 (the third is not needed): clients that want 1, 2 and 9 lose least with 0, 0 and 8
    # one step takes these to 1/2, 1 and 17/2
    @pytest.mark.parametrize(
        ("options", "models"),
        [
            ({}, [(0.5 + 3 * 1) / 4, 8.5]),
            ({"weighted": False}, [0.75, 8.5]),
            ({"weighted": False, "average": "gradients"}, [1.5 / 3, 8 + 0.5 / 3]),
            ({"average": "gradients"}, [(0.5 + 3 * 1) / 5, 8 + 0.5 / 5]),
            ({"least": 2}, [0.875, 8.0]),
        ],
    )
    def test_a_round_by_hand(self, pull, play, options, models):
        states, (info,) = play(IFCA(FULL, **options), pull([1, 2, 9], sizes=[1, 3, 1]), start(0, 8, 5), 1)
        assert flat(states[0].beliefs) == [0, 8]
        assert states[1].of.tolist() == [0, 0, 1]
        assert info.matrices["circle"].tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
        assert info.weights[2].tolist() == ([0, 0, 0] if "least" in options else [0, 0, 1])
        assert flat(states[1].beliefs) == pytest.approx(models)

    def test_a_model_that_nobody_takes_stays_and_is_counted(self, pull, play):
        states, infos = play(IFCA(FULL), pull([1, 2]), start(0, 100), 2)
        assert [flat(s.beliefs)[1] for s in states] == [100, 100, 100]
        assert [info.extras for info in infos] == [{"clients of each model": [2, 0], "dead models": 1}] * 2

    def test_from_one_start_models_are_told_apart_by_who_trained_them(self, pull, play):
        # trained once: 1/2, 1/2, -1/2, -1/2, of which each first model is another average
        states, infos = play(IFCA(FULL), pull([1, 1, -1, -1]), start(0), 6)
        drawn = first_weights(2, 4, 0.1, Key(0).at_round(1, 6).at("first"))
        assert flat(states[1].beliefs) == pytest.approx(
            (drawn @ torch.tensor([0.5, 0.5, -0.5, -0.5]).double()).tolist()
        )
        assert infos[-1].extras["clients of each model"] == [2, 2]
        assert same_group(torch.tensor([0, 0, 1, 1])).equal(infos[-1].matrices["circle"])
        one, other = sorted(flat(states[-1].beliefs))
        assert (one, other) == pytest.approx((-1, 1), abs=0.1)

    def test_one_model_is_fedavg_bit_for_bit(self, pull, play):
        runs = [play(m(FULL), pull([1, 3, 4], sizes=[1, 2, 5]), start(0), 3)[0] for m in (IFCA, FedAvg)]
        one = play(IFCA(FULL, k=1), pull([1, 3, 4], sizes=[1, 2, 5]), start(0), 3)[0]
        assert flat(one[-1].beliefs) == flat(runs[1][-1].beliefs) != flat(runs[0][-1].beliefs)

    def test_shared_layers_are_the_same_in_all_models(self, crowd, net_of, play):
        module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
        for average in ("models", "gradients"):
            method = IFCA(SGD(), shared=("0",), average=average)
            (*_, last), _ = play(method, net_of(module, crowd()), module, 3)
            found = last.beliefs.tensors
            assert torch.equal(found["0.weight"][0], found["0.weight"][1])
            assert not torch.equal(found["1.weight"][0], found["1.weight"][1])

    def test_who_is_away_keeps_what_it_took(self, pull, play, without):
        net = without(pull([1, 2, 9]), {2: (2,), 3: (0, 1, 2)})
        states, infos = play(IFCA(FULL), net, start(0, 8, 5), 3)
        assert [s.of.tolist() for s in states] == [[-1] * 3, *[[0, 0, 1]] * 3]
        assert flat(states[2].beliefs)[1] == 8.5
        assert flat(states[3].beliefs) == flat(states[2].beliefs)
        assert infos[2].weights.sum() == 0

    def test_cluster_weights(self):
        shares = torch.tensor([0.5, 0.25, 0.25]).double()
        found = cluster_weights(torch.tensor([0, 2, 2]), shares, 3, "models", 1)
        assert found.replies.tolist() == [[1, 0, 0], [0, 0, 0], [0, 0.5, 0.5]]
        assert found.stays.tolist() == [0, 1, 0]
        found = cluster_weights(torch.tensor([0, 2, 2]), shares, 3, "gradients", 2)
        assert found.replies.tolist() == [[0, 0, 0], [0, 0, 0], [0, 0.25, 0.25]]
        assert found.stays.tolist() == [1, 1, 0.5]

    @settings(max_examples=20)
    @given(st.integers(1, 5), st.integers(1, 9), st.floats(1e-3, 1e3))
    def test_first_weights_add_up_to_one(self, k, replies, spread):
        drawn = first_weights(k, replies, spread, Key(1))
        assert torch.allclose(drawn.sum(dim=1), torch.ones(k).double())
        assert bool((drawn >= 0).all())

    def test_layers_by_name(self):
        assert tensors_of(("0",), ["0.weight", "0.bias", "01.weight"]) == {"0.weight", "0.bias"}
        with pytest.raises(UnknownName, match="'head'"):
            tensors_of(("head",), ["0.weight"])


class TestCFL:
    def test_cosines_come_from_lengths_and_distances(self):
        found = Distances(torch.tensor([[0.0, 5], [5, 0]]).double(), torch.tensor([3.0, 4]).double())
        assert inner_products(found).tolist() == [[9, 0], [0, 16]]
        products = torch.tensor([[4.0, -3, 0], [-3, 9, 0], [0, 0, 0]]).double()
        assert cosines_of(products).tolist() == [[1, -0.5, 0], [-0.5, 1, 0], [0, 0, 1]]
        assert mean_length(inner_products(found), torch.tensor([0.5, 0.5]).double()) == 2.5

    @pytest.mark.parametrize(
        ("mean", "most", "found"), [(0.1, 2, True), (0.5, 2, False), (0.1, 1, False), (0.6, 0.5, False)]
    )
    def test_stalled(self, mean, most, found):
        assert stalled(mean, most, eps1=0.5, eps2=1) is found

    def test_a_chain_stays_together_which_complete_linkage_would_cut(self):
        # 0 - 1 - 2 - 3, each like the next: the best cut is at the weakest link, 0.6
        S = torch.tensor([[1, 0.9, 0.1, 0], [0.9, 1, 0.8, 0], [0.1, 0.8, 1, 0.6], [0, 0, 0.6, 1]]).double()
        assert bipartition(S).tolist() == [False, False, False, True]
        assert far_apart(S, bipartition(S), gamma=0.44)  # sqrt((1 - 0.6) / 2) = 0.447
        assert not far_apart(S, bipartition(S), gamma=0.45)

    @settings(max_examples=30)
    @given(st.integers(2, 7), st.integers(0, 10**6))
    def test_no_other_bipartition_is_better(self, n, seed):
        x = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        S = cosines_of(x @ x.T)

        def cross(half):
            return float(S[half][:, ~half].max())

        every = [torch.tensor([False, *bits]) for bits in product([False, True], repeat=n - 1) if any(bits)]
        found = bipartition(S)
        assert 0 < int(found.sum()) < n
        assert cross(found) == min(map(cross, every))

    def test_who_is_away_goes_with_the_half_it_was_like(self):
        alpha = torch.full((4, 4), math.nan).double()
        members, here, half = torch.arange(4), torch.tensor([0, 1]), torch.tensor([False, True])
        assert sides(members, here, half, alpha).tolist() == [False, True, False, False]
        alpha[2, :2] = torch.tensor([-0.5, 0.5])
        assert sides(members, here, half, alpha).tolist() == [False, True, True, False]

    def test_two_kinds_part_in_the_round_that_stalls(self, pull, play):
        # 0 becomes 1/2 or -1/2, whose mean is 0; each half goes on from there with its own mean
        method = CFL(FULL, eps1=0.1, eps2=0.2, wait=1)
        states, infos = play(method, pull([1, 1, -1, -1], sizes=[1, 3, 2, 2]), start(0), 3)
        assert [info.extras["parted"] for info in infos] == [[], [0, 1], []]
        assert flat(states[1].beliefs) == [0]
        assert flat(states[2].beliefs) == [0.5, -0.5]
        assert flat(states[3].beliefs) == [0.75, -0.75]
        assert infos[1].extras["mean update"] == {"0": 0}
        assert infos[2].weights.tolist() == [*[[0.25, 0.75, 0, 0]] * 2, *[[0, 0, 0.5, 0.5]] * 2]
        assert infos[2].matrices["circle"].equal(same_group(torch.tensor([0, 0, 1, 1])))
        assert states[2].made.tolist() == [2, 2]

    def test_who_is_alone_keeps_its_model_at_home(self, pull, play):
        method = CFL(FULL, eps1=0.1, eps2=0.2, wait=0)
        states, _ = play(method, pull([1, 1, -1], sizes=[1, 1, 2]), start(0), 2)
        assert states[1].of.tolist() == [0, 0, 1]
        assert states[1].beliefs.places.tolist() == states[2].beliefs.places.tolist() == [-1, 2]
        assert flat(states[2].beliefs) == [0.75, -0.75]

    def test_who_is_away_while_others_part(self, pull, play, without):
        net = without(pull([1, 1, -1, -1]), {2: (3,)})
        method = CFL(FULL, eps1=0.2, eps2=0.2, wait=1, weighted=False)
        states, infos = play(method, net, start(0), 3)
        assert infos[1].extras["parted"] == [0, 1]  # 1/6 is short enough
        assert states[2].of.tolist() == [0, 0, 1, 1]  # as its update was like that of c2 in round 1
        assert flat(states[3].beliefs) == [0.75, -0.75]

    def test_without_parting_it_is_fedavg_bit_for_bit(self, pull, play):
        runs = [
            play(m, pull([1, 3, 4], sizes=[1, 2, 5]), start(0), 3)[0]
            for m in (CFL(FULL, wait=3), FedAvg(FULL))
        ]
        assert flat(runs[0][-1].beliefs) == flat(runs[1][-1].beliefs)

    def test_a_wait_as_long_as_the_run_is_said(self, pull):
        said = CFL(wait=5).check(pull([1, 2]).roster, start(0), Key(0, rounds=5))
        assert said == ("cfl: wait=5 leaves none of 5 rounds to part in: it is fedavg",)


class TestDataInterpolation:
    # own replies and the other's, of a model at 0: w_00 = 0, w_01 = 2, w_11 = 2, w_10 = 0; p = 1/4, 3/4
    def test_a_round_by_hand(self, pull, play):
        states, (info,) = play(DataInterpolation(FULL, others=1), pull([0, 4], sizes=[1, 3]), start(0), 1)
        assert flat(states[1].beliefs) == pytest.approx([0.375 * 2, 0.875 * 2])
        assert info.weights.tolist() == [[0.625, 0.375], [0.125, 0.875]]
        assert info.extras == {"lambda": {"c0": 0.5, "c1": 0.5}}

    def test_weights_of_a_sample(self):
        heard = torch.tensor([[True, True, False, True], [True, False, False, False]])
        found = interpolated(
            heard, torch.tensor([0, 0]), torch.tensor([0.2, 0.2]).double(), torch.tensor([2, 1, 4, 3])
        )
        # 0.8 of everybody, of which 0.8 are others, sampled 1 : 3
        assert found[0].tolist() == pytest.approx([0.36, 0.16, 0, 0.48])
        assert found[1].tolist() == [1, 0, 0, 0]

    def test_one_step_goes_down_the_gradient_of_the_mixed_loss(self, crowd, net_of, play):
        module, clients = nn.Linear(4, 3).double(), crowd(dtype=torch.float64)
        method = DataInterpolation(SGD(lr=0.3, batch=10**6, steps=1), lam=0.3, others=0)
        (_, last), _ = play(method, net_of(module, clients), module, 1)
        sizes = torch.tensor([len(c.train) for c in clients]).double()
        losses = [nn.functional.cross_entropy(module(c.train.x), c.train.y) for c in clients]
        mixed = 0.3 * losses[1] + 0.7 * sum(
            p * loss for p, loss in zip(sizes / sizes.sum(), losses, strict=True)
        )
        mixed.backward()
        assert torch.allclose(last.beliefs.tensors["weight"][1], module.weight - 0.3 * module.weight.grad)

    def test_lambda_1_is_local_bit_for_bit(self, pull, play):
        runs = [
            play(m, pull([1, 3, 4]), start(0), 3)[0] for m in (DataInterpolation(FULL, lam=1.0), Local(FULL))
        ]
        assert flat(runs[0][-1].beliefs) == flat(runs[1][-1].beliefs)

    def test_lambda_is_chosen_on_validation_rows(self, pull, play):
        # c0's validation rows are like its training rows, those of c1 like everybody's
        net = pull([0, 4], validation=[0.0, 2.0])
        method = DataInterpolation(FULL, lam="auto", others=0)
        states, infos = play(method, net, start(2), 3)
        assert infos[-1].extras["lambda"] == {"c0": 1.0, "c1": 0.0}
        assert method.models(states[-1]).of.tolist() == [2, 3]
        assert infos[-1].weights.tolist() == [[1, 0], [0.5, 0.5]]

    def test_whoever_is_away_leaves_the_sum_to_the_others(self, pull, play, without):
        net = without(pull([0, 4, 8]), {1: (1,)})
        states, (info,) = play(DataInterpolation(FULL, others=0), net, start(0), 1)
        third = 1 / 3
        assert flat(states[1].beliefs) == pytest.approx([0.5 * 2 * third * 4, 0, (0.5 + 0.5 * third) * 4])
        assert info.weights[1].tolist() == [0, 0, 0]
        assert info.weights[0].tolist() == pytest.approx([0.5 + 0.5 * third, 0, third])

    def test_who_is_asked(self):
        asked = others_of(6, 2, Key(0))
        assert asked.sum(dim=1).tolist() == [2] * 6
        assert not bool(asked.diagonal().any())
        asked = torch.tensor([[False, True], [True, False]])
        assert edges_to(asked, torch.tensor([0.5, 1.0])).tolist() == [
            [0, 0],
            [0, 1],
            [1, 0],
            [2, 0],
            [2, 1],
            [3, 1],
        ]


def test_weights_by_client():
    rows = torch.tensor([[0.5, 0.0], [0, 0]])
    found = by_client(rows, torch.tensor([2, 0]), torch.tensor([0, 1, 0, -1]), 4)
    assert found.tolist() == [[0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]


@pytest.fixture(scope="module")
def two_kinds():
    """Six clients, of which three call the classes the other way round."""
    rng, clients = np.random.default_rng(0), []
    for i in range(6):
        X = rng.normal(size=(80, 4))
        y = (X.sum(axis=1) > 0).astype(int)
        clients.append(coterie.Client.from_arrays(X, y if i < 3 else 1 - y, name=f"c{i}"))
    return clients


@pytest.mark.parametrize("method", ["ifca", "cfl"])
def test_it_finds_the_kinds_and_gains_by_them(two_kinds, method):
    def accuracy(result):
        last = result.history.query(
            "metric == 'accuracy' and model == 'own' and split == 'test' and round == 15"
        )
        return last["value"].mean()

    found = coterie.train("logistic", two_kinds, method=method, rounds=15, seed=0)
    alike = coterie.train("logistic", two_kinds, method="fedavg", rounds=15, seed=0)
    assert found.matrices["circle"][-1].tolist() == np.kron(np.eye(2), np.ones((3, 3))).tolist()
    assert accuracy(found) > 0.9 > 0.7 > accuracy(alike)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: IFCA(k=0), "k=0 must be at least 1: try 2"),
        (lambda: IFCA(spread=0), "spread=0 must be above 0 and finite: try 0.1"),
        (lambda: IFCA(least=0), "least=0 must be at least 1: try 2"),
        (lambda: CFL(eps1=-1), "eps1=-1 must be at least 0 and finite: try auto"),
        (lambda: CFL(gamma=1.0), "gamma=1.0 must be at least 0 and below 1: try 0.6"),
        (lambda: CFL(wait=-1), "wait=-1 must be at least 0: try 5"),
        (lambda: DataInterpolation(lam=2), "lam=2 must lie between 0 and 1: try 0.5 or auto"),
        (
            lambda: DataInterpolation(grid=(0.5,)),
            "grid=(0.5,) must be two or more different values from 0 to 1: try 0 0.5 1",
        ),
        (lambda: DataInterpolation(others=-1), "others=-1 must be at least 0: try 2, or 0 for all"),
        (
            lambda: DataInterpolation(SGD(keep=True)),
            "keep=true does not go with data-interpolation, as a client trains models of several: "
            "set keep=false",
        ),
    ],
)
def test_what_is_refused(refused, make, told):
    with refused(BadInput, told):
        make()


@pytest.mark.parametrize(
    ("method", "told"),
    [
        (IFCA(k=3), "k=3 models for 2 clients leave some to nobody: lower k"),
        (DataInterpolation(others=2), "others=2 must be below 2, the number of clients: try 0 for all"),
        (
            DataInterpolation(lam="auto", others=0),
            "client 'c0' has no validation samples, which lam=auto needs: hold some out (validation=0.2), or "
            "set lam to a number",
        ),
    ],
)
def test_what_does_not_go_with_two_clients(refused, pull, method, told):
    with refused(BadInput, told):
        method.check(pull([1, 2]).roster, start(0), Key(0))
