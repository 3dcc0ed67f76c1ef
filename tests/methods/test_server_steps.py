"""FedProx, SCAFFOLD, the server's optimisers, and a model that goes round."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from coterie.core.errors import BadInput, UnknownName
from coterie.core.seeds import Key
from coterie.kernels import SGD, Adam
from coterie.methods import METHODS, Cyclic, FedAdam, FedAvg, FedAvgM, FedProx, Local, Scaffold
from coterie.methods.server.cyclic import ordered
from coterie.methods.server.fedopt import adaptive_step, decayed, yogi
from coterie.methods.server.norms import trained_names

FULL = SGD(lr=0.25, batch=100)  # with x = 1, one step takes w to (w + y) / 2
TWICE = SGD(lr=0.25, batch=100, steps=2)
START = {"weight": torch.zeros(1, 1, 1).double()}
OPTIMISERS = ("fedadagrad", "fedadam", "fedyogi")


def value(held) -> float:
    return held.tensors[held.names[0]].item()


def values(held) -> list[float]:
    return held.tensors[held.names[0]].flatten().tolist()


def same(one, other) -> bool:
    return all(torch.equal(t, other.tensors[n]) for n, t in one.tensors.items())


class TestFedProx:
    def test_by_hand(self, pull, play):
        # 0 → 0.5 and 1.5; there 2 (w - y) + 2 (w - 0) is 0 for both, so that they stay; 1/4 and 3/4 of them
        states, infos = play(FedProx(TWICE, mu=2.0), pull([1, 3], sizes=[1, 3]), START, 1)
        assert value(states[1].beliefs) == 1.25
        assert infos[0].weights.tolist() == [[0.25, 0.75]] * 2

    def test_without_a_pull_it_is_fedavg_bit_for_bit(self, crowd, net_of, play):
        module = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 3))
        options = {"local": SGD(batch=4, momentum=0.5, keep=True), "sample": 0.7}
        near, far = (
            play(method(**options), net_of(module, crowd()), module, 3)[0][-1]
            for method in (lambda **o: FedProx(mu=0.0, **o), FedAvg)
        )
        assert same(near.beliefs, far.beliefs)

    def test_the_stronger_the_pull_the_shorter_the_way(self, crowd, net_of, play):
        module = nn.Linear(4, 3)
        start = nn.utils.parameters_to_vector(module.parameters()).detach()
        ways = []
        for mu in (0.0, 1.0, 10.0):
            (_, last), _ = play(FedProx(SGD(lr=0.05, epochs=20), mu=mu), net_of(module, crowd()), module, 1)
            ways.append(
                float((torch.cat([t.flatten() for t in last.beliefs.tensors.values()]) - start).norm())
            )
        assert ways[0] > 1.5 * ways[1] > 3 * ways[2]


class TestScaffold:
    def test_two_rounds_by_hand(self, pull, play):
        # round 1, all c = 0: 0 → 0.5 and 1.5, mean 1; gradients were -2 and -6, so c_i = -2, -6 and c = -4
        # round 2 from 1: gradients 0 and -4, less c_i and plus c both are -2: both go to 1.5; c_i = 0, -4
        states, infos = play(Scaffold(FULL), pull([1, 3]), START, 2)
        assert [value(s.beliefs) for s in states] == [0, 1, 1.5]
        assert [values(s.own) for s in states] == [[0, 0], [-2, -6], [0, -4]]
        assert [value(s.control) for s in states] == [0, -4, -2]
        assert infos[1].weights.tolist() == [[0.5, 0.5]] * 2

    def test_weighed_by_rows_c_is_the_weighed_mean(self, pull, play):
        # 0.5 and 1.5 by 1/4 and 3/4; -2 and -6 likewise
        states, _ = play(Scaffold(FULL, weighted=True), pull([1, 3], sizes=[1, 3]), START, 1)
        assert (value(states[1].beliefs), value(states[1].control)) == (1.25, -5.0)

    def test_of_several_steps_and_a_falling_rate_the_mean_gradient(self, pull, play):
        # 0 → 0.5 → 0.75 by gradients -2 and -1
        states, _ = play(Scaffold(TWICE), pull([1]), START, 1)
        assert values(states[1].own) == [-1.5]
        # rates 1/4 and 5/32, linear to 1/4 of it: -2 and -1 weighed by them
        falling = replace(TWICE, schedule="linear", final=0.25)
        states, _ = play(Scaffold(falling), pull([1]), START, 1)
        assert values(states[1].own) == pytest.approx([(-2 * 0.25 - 0.15625) / 0.40625])

    def test_half_a_step_of_the_server(self, pull, play):
        states, _ = play(Scaffold(FULL, server_step=0.5), pull([1, 3]), START, 1)
        assert (value(states[1].beliefs), value(states[1].control)) == (0.5, -4.0)

    def test_who_is_away_keeps_its_variate_and_c_stays_the_mean_of_all(self, pull, play, without):
        states, _ = play(Scaffold(FULL), without(pull([1, 3]), {2: (0,), 3: (0, 1)}), START, 4)
        assert values(states[2].own) == [-2, -4]
        assert value(states[2].beliefs) == 1.5  # what client 1 makes of 1
        assert states[3] is states[2]
        for state in states:
            assert value(state.control) == pytest.approx(sum(values(state.own)) / 2)

    def test_it_gets_to_the_joint_optimum_where_averages_drift(self, client_of, net_of, play):
        # losses w² and (2 w - 8)², together least at 3.2; five local steps each
        one, work = torch.ones(1, 1).double(), SGD(lr=0.02, steps=5)
        clients = [client_of(one, one[0] * 0, name="a"), client_of(2 * one, one[0] * 8, name="b")]
        module = nn.Linear(1, 1, bias=False).double()
        drifted, right = (
            value(play(m, net_of(module, clients), START, 60)[0][-1].beliefs)
            for m in (FedAvg(work), Scaffold(work))
        )
        assert right == pytest.approx(3.2, abs=1e-6)
        assert abs(drifted - 3.2) > 0.1

    @pytest.mark.parametrize(
        ("local", "words"),
        [
            (Adam(), "need sgd or newton for local work; got adam: use kernel=sgd"),
            (SGD(momentum=0.5), "without momentum; got momentum=0.5: set it to 0"),
        ],
    )
    def test_refuses_work_whose_way_is_no_sum_of_gradients(self, local, words):
        with pytest.raises(BadInput, match=words):
            Scaffold(local)


class TestOptimisers:
    @pytest.mark.parametrize(
        ("name", "square"),
        [
            # Δ = 3 and v = τ² = 1 at first: 1 + 9, 3/4 + 9/4, 1 + 9/4
            ("fedadagrad", 10.0),
            ("fedadam", 3.0),
            ("fedyogi", 3.25),
        ],
    )
    def test_a_step_by_hand(self, pull, play, name, square):
        options = {} if name == "fedadagrad" else {"beta2": 0.75}
        method = METHODS.make(name, local=FULL, server_lr=2.0, beta1=0.5, tau=1.0, **options)
        states, infos = play(method, pull([6]), START, 1)
        assert (value(states[1].mean), value(states[1].square)) == (1.5, square)
        assert value(states[1].shared.beliefs) == pytest.approx(2 * 1.5 / (math.sqrt(square) + 1))
        assert infos[0].weights.tolist() == [[1.0]]

    def test_equations_by_hand(self):
        v, delta = torch.tensor([4.0, 1.0, 9.0]), torch.tensor([1.0, -2.0, 3.0])
        assert yogi(v, delta, 0.5).tolist() == [3.5, 3.0, 9.0]
        assert decayed(v, delta, 0.75).tolist() == [3.25, 0.25, 7.5]
        assert adaptive_step(delta, v, 2.0, 1.0).tolist() == pytest.approx([2 / 3, -2.0, 1.5])

    def test_momentum_by_hand(self, pull, play):
        # 0 → 4, m = 4; the average of 4 and 8 is 6: m = 4/2 + 2 = 4, so that it arrives at 8
        states, _ = play(FedAvgM(FULL, momentum=0.5), pull([8]), START, 2)
        assert [value(s.shared.beliefs) for s in states] == [0, 4, 8]

    def test_without_momentum_it_is_fedavg(self, crowd, net_of, play):
        module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).double()
        work = SGD(batch=5)
        averaged, stepped = (
            play(method, net_of(module, crowd(dtype=torch.float64)), module, 3)[0][-1]
            for method in (FedAvg(work), FedAvgM(work, momentum=0.0))
        )
        for name, t in averaged.beliefs.tensors.items():
            torch.testing.assert_close(stepped.shared.beliefs.tensors[name], t, rtol=0, atol=1e-12)

    def test_statistics_of_batch_norm_are_averaged_and_no_gradient(self, crowd, net_of, play):
        module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
        averaged, stepped = (
            play(method, net_of(module, crowd()), module, 1)[0][-1]
            for method in (FedAvg(SGD(batch=5)), FedAdam(SGD(batch=5)))
        )
        for name in ("1.running_mean", "1.running_var", "1.num_batches_tracked"):
            assert torch.equal(stepped.shared.beliefs.tensors[name], averaged.beliefs.tensors[name])
        assert not torch.equal(
            stepped.shared.beliefs.tensors["1.weight"], averaged.beliefs.tensors["1.weight"]
        )
        assert set(stepped.mean.names) == {"0.weight", "0.bias", "1.weight", "1.bias"}
        assert trained_names(stepped.shared.beliefs.like) == stepped.mean.names

    def test_nobody_answers_and_nothing_moves_on(self, pull, play, without):
        states, _ = play(FedAvgM(FULL), without(pull([8, 8]), {2: (0, 1)}), START, 2)
        assert states[2] is states[1]

    @pytest.mark.parametrize("name", OPTIMISERS)
    def test_inputs_of_unlike_sizes_do_not_hold_it_up(self, client_of, net_of, play, name):
        # the second input is a hundredth of the first, so that its weight has gradients a hundredth as large
        draws = torch.Generator().manual_seed(0)
        x = torch.randn(40, 2, generator=draws).double() * torch.tensor([1, 0.01])
        clients = [client_of(x, x[:, 0] + 100 * x[:, 1], name="a")]
        module, work = nn.Linear(2, 1, bias=False).double(), SGD(lr=0.1, batch=100)
        start = {"weight": torch.zeros(1, 1, 2).double()}
        method = METHODS.make(name, local=work, server_lr=5.0, tau=1e-6)
        (*_, plain), _ = play(FedAvg(work), net_of(module, clients), start, 60)
        (*_, fast), _ = play(method, net_of(module, clients), start, 60)
        assert plain.beliefs.tensors["weight"][0, 0, 1] < 1
        assert fast.shared.beliefs.tensors["weight"][0, 0, 1] > 20


class TestCyclic:
    def test_by_hand(self, pull, play):
        # 0 → 0.5 at 1, → 1.75 at 3; → 1.375 → 2.1875
        method = Cyclic(FULL, order="fixed")
        states, infos = play(method, pull([1, 3]), START, 2)
        assert [value(s.beliefs) for s in states] == [0, 1.75, 2.1875]
        assert states[2].beliefs.places.tolist() == [1]
        assert infos[0].loss.tolist() == [1.0, 6.25]
        assert infos[0].weights.tolist() == [[0.5, 0.5]] * 2
        assert method.models(states[2]).of.tolist() == [0, 0]

    def test_who_is_away_is_passed_over_and_the_model_waits_with_whoever_has_it(self, pull, play, without):
        net = without(pull([1, 3, 8]), {1: (2,), 2: (1,), 3: (0,)})
        states, infos = play(Cyclic(FULL, order="fixed"), net, START, 3)
        # round 1 ends with client 1, which is away in round 2; in round 3 it trains, then 2
        assert [value(s.beliefs) for s in states] == [0, 1.75, 1.75, (2.375 + 8) / 2]
        assert infos[1].weights.sum() == 0
        assert infos[2].weights[0].tolist() == [0, 0.5, 0.5]

    def test_of_one_client_it_is_training_alone(self, crowd, net_of, play):
        module, kernel = nn.Linear(4, 3), SGD(batch=4, momentum=0.5, keep=True)
        (*_, cycled), _ = play(Cyclic(kernel), net_of(module, crowd((14,))), module, 3)
        (*_, alone), _ = play(Local(kernel), net_of(module, crowd((14,))), module, 3)
        assert same(cycled.beliefs, alone.beliefs)

    def test_orders(self):
        some = torch.tensor([1, 4, 6])
        assert ordered(some, "fixed", Key(0)).tolist() == [1, 4, 6]
        drawn = [tuple(ordered(some, "drawn", Key(0).at_round(r, 60)).tolist()) for r in range(60)]
        assert len(set(drawn)) == 6
        assert all(sorted(one) == [1, 4, 6] for one in drawn)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("fedprox", {"mu": -1.0}, r"mu=-1.0 must be at least 0 and finite: try 0.01"),
        ("fedprox", {"sample": 0.0}, "sample=0.0 must lie above 0"),
        ("scaffold", {"server_step": 0.0}, "server_step=0.0 must be above 0"),
        ("scaffold", {"sample": 2.0}, "sample=2.0 must lie above 0"),
        ("fedadam", {"server_lr": 0.0}, "server_lr=0.0 must be above 0"),
        ("fedadam", {"beta1": 1.0}, r"beta1=1.0 must lie in \[0, 1\)"),
        ("fedyogi", {"beta2": -0.1}, r"beta2=-0.1 must lie in \[0, 1\)"),
        ("fedadagrad", {"tau": 0.0}, "tau=0.0 must be above 0"),
        ("fedavgm", {"momentum": 1.0}, r"momentum=1.0 must lie in \[0, 1\)"),
        ("cyclic", {"sample": -1.0}, "sample=-1.0 must lie above 0"),
    ],
)
def test_refusals(name, options, words):
    with pytest.raises(BadInput, match=words):
        METHODS.make(name, **options)


def test_an_order_that_is_none_is_refused():
    with pytest.raises(UnknownName, match="unknown order 'draw': did you mean drawn"):
        Cyclic(order="draw")
