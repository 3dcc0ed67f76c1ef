from __future__ import annotations

import pytest
import torch
from torch import nn

from coterie.core.errors import BadInput
from coterie.core.seeds import Key
from coterie.kernels import SGD
from coterie.methods import FedAvg, Local
from coterie.methods.server.fedavg import averaging_weights, sample_clients

FULL = SGD(lr=0.25, batch=100)
START = {"weight": torch.zeros(1, 1, 1).double()}


def value(state) -> float:
    return state.beliefs.tensors["weight"].item()


class TestByHand:
    @pytest.mark.parametrize(
        ("weighted", "after"),
        [
            # 0 → 0.5 and 1.5; 1/4 and 3/4 of them: 1.25 → 1.125 and 2.125: 1.875
            (True, [1.25, 1.875]),
            # 0 → 0.5 and 1.5: 1 → 1 and 2: 1.5
            (False, [1.0, 1.5]),
        ],
    )
    def test_two_rounds_of_two_unequal_clients(self, pull, play, weighted, after):
        method = FedAvg(FULL, weighted=weighted)
        states, infos = play(method, pull([1, 3], sizes=[1, 3]), START, 2)
        assert [value(s) for s in states[1:]] == after
        share = [0.25, 0.75] if weighted else [0.5, 0.5]
        assert infos[0].weights.tolist() == [share, share]
        assert infos[0].loss.tolist() == [1.0, 9.0]
        models = method.models(states[2])
        assert models.of.tolist() == [0, 0]
        assert models.shared is models.beliefs is states[2].beliefs

    def test_clients_that_are_gone_leave_the_average(self, pull, play, without):
        # clients 0 and 2 answer: 0.5 and 2, by 1/4 and 3/4
        net = without(pull([1, 30, 4], sizes=[1, 3, 3]), {1: (1,)})
        states, infos = play(FedAvg(FULL), net, START, 1)
        assert value(states[1]) == 1.625
        assert infos[0].weights.tolist() == [[0.25, 0, 0.75]] * 3
        assert infos[0].loss[[0, 2]].tolist() == [1.0, 16.0]
        assert bool(infos[0].loss[1].isnan())

    def test_nobody_answers_and_nothing_changes(self, pull, play, without):
        # both pull to 8: v = -16, w = 4; nobody there; v = -8 - 8, w = 8
        work = SGD(lr=0.25, momentum=0.5, keep=True)
        states, infos = play(FedAvg(work), without(pull([8, 8]), {2: (0, 1)}), START, 3)
        assert [value(s) for s in states] == [0, 4, 4, 8]
        assert infos[1].weights.tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert bool(infos[1].loss.isnan().all())

    def test_only_the_sample_takes_part(self, pull, play):
        states, infos = play(FedAvg(FULL, sample=0.5), pull([2, 4, 6, 8]), START, 1)
        chosen = infos[0].weights[0].nonzero().flatten().tolist()
        assert len(chosen) == 2
        # each takes w from 0 to half of its target 2 (i + 1)
        assert value(states[1]) == sum(i + 1 for i in chosen) / 2
        assert (~infos[0].loss.isnan()).nonzero().flatten().tolist() == chosen


class TestSample:
    @pytest.mark.parametrize(
        ("n", "share", "wanted"), [(10, 0.3, 3), (10, 1.0, 10), (10, 0.01, 1), (3, 0.5, 2), (7, 0.9, 6)]
    )
    def test_as_many_as_told_each_once_in_order(self, n, share, wanted):
        chosen = sample_clients(n, share, Key(0)).tolist()
        assert len(chosen) == len(set(chosen)) == wanted
        assert chosen == sorted(chosen)
        assert set(chosen) <= set(range(n))

    def test_seeded_and_everybody_has_its_turn(self):
        def drawn(seed):
            return torch.stack([sample_clients(10, 0.3, Key(seed).at_round(r, 200)) for r in range(200)])

        assert torch.equal(drawn(0), drawn(0))
        assert not torch.equal(drawn(0), drawn(1))
        counts = torch.bincount(drawn(0).flatten())
        assert bool(((counts - 60).abs() < 4 * (200 * 0.3 * 0.7) ** 0.5).all())

    @pytest.mark.parametrize("share", [0.0, 1.5, float("nan")])
    def test_refuses_a_share_out_of_bounds(self, share):
        with pytest.raises(BadInput, match=f"sample={share} must lie above 0 and up to 1"):
            FedAvg(sample=share)


def test_averaging_weights_by_hand():
    assert averaging_weights(torch.tensor([1, 3, 4]), True).tolist() == [0.125, 0.375, 0.5]
    assert averaging_weights(torch.tensor([1, 3, 4, 9]), False).tolist() == [0.25] * 4


class TestWithModels:
    def test_one_client_is_training_alone(self, crowd, net_of, play):
        module = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 3))
        kernel = SGD(batch=4, momentum=0.5, keep=True)
        (*_, together), _ = play(FedAvg(kernel), net_of(module, crowd((14,))), module, 3)
        (*_, alone), _ = play(Local(kernel), net_of(module, crowd((14,))), module, 3)
        for name, tensor in alone.beliefs.tensors.items():
            assert torch.equal(together.beliefs.tensors[name], tensor)

    def test_batch_norm_statistics_are_averaged_and_its_counter_is_not(self, client_of, net_of, play):
        # batch means 2 and 6 at momentum 0.1: 0.2 and 0.6; 2 and 4 samples
        module = nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 2))
        clients = [
            client_of(torch.tensor([[1.0], [3.0]]), torch.tensor([0, 1]), name="a"),
            client_of(torch.tensor([[5.0], [7.0], [5.0], [7.0]]), torch.tensor([0, 1, 0, 1]), name="b"),
        ]
        states, _ = play(FedAvg(SGD(batch=4)), net_of(module, clients), module, 2)
        first = states[1].beliefs.tensors
        assert first["0.running_mean"].item() == pytest.approx(0.2 / 3 + 0.6 * 2 / 3)
        assert first["0.num_batches_tracked"].tolist() == [1]
        assert first["0.num_batches_tracked"].dtype == torch.int64
        assert states[2].beliefs.tensors["0.num_batches_tracked"].tolist() == [2]

    def test_of_several_initial_beliefs_the_server_takes_the_first(self, pull, start_of):
        state = FedAvg().init(start_of({"weight": torch.tensor([[1.0], [2.0]])}), pull([1, 2]))
        assert value(state) == 1.0
