from __future__ import annotations

import pytest
import torch
from torch import nn

from coterie.core.belief import belief_of, stack
from coterie.core.errors import BadInput
from coterie.kernels import SGD, Adam
from coterie.methods import FedAvg, FineTune

FULL = SGD(lr=0.25, batch=100)
START = {"weight": torch.zeros(1, 1, 1)}


def test_by_hand(pull, play):
    # as FedAvg: 0 → 1.25 → 1.875; then alone w → (w + y) / 2, from 1.875, towards 1 and 3
    net = pull([1, 3], sizes=[1, 3])
    states, infos = play(FineTune(FULL, tune=2), net, START, 4)
    assert [s.shared["weight"].item() for s in states] == [0.0, 1.25, 1.875, 1.875, 1.875]
    assert [s.own is None for s in states] == [True, True, True, False, False]
    assert states[3].own["weight"].flatten().tolist() == [1.4375, 2.4375]
    assert states[4].own["weight"].flatten().tolist() == [1.21875, 2.71875]
    assert infos[1].weights.tolist() == [[0.25, 0.75]] * 2
    assert infos[2].weights.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert [info.sent.tolist() for info in infos] == [[1, 1], [1, 1], [0, 0], [0, 0]]
    assert [info.received.tolist() for info in infos] == [[1, 1], [1, 1], [0, 0], [0, 0]]


@pytest.mark.parametrize("kernel", [SGD(batch=4, momentum=0.5, keep=True), Adam(batch=4)])
@pytest.mark.parametrize("options", [{}, {"weighted": False, "sample": 0.7}])
def test_the_first_rounds_are_fedavg(kernel, options, crowd, net_of, play):
    module = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 3))
    net, start = net_of(module, crowd()), stack([belief_of(module)])
    tuned, tuned_infos = play(FineTune(kernel, tune=2, **options), net, start, 4)
    averaged, infos = play(FedAvg(kernel, **options), net, start, 4)
    for r in (1, 2):
        for name, tensor in averaged[r].beliefs.items():
            assert torch.equal(tuned[r].shared[name], tensor)
        assert torch.equal(tuned_infos[r - 1].weights, infos[r - 1].weights)
    for name, tensor in averaged[2].beliefs.items():
        assert torch.equal(tuned[4].shared[name], tensor)
    assert not torch.equal(tuned[4].own["0.weight"][0], averaged[4].beliefs["0.weight"][0])
    assert not torch.equal(tuned[4].own["0.weight"][0], tuned[4].own["0.weight"][1])


def test_optimisers_begin_afresh_when_tuning_begins_and_then_go_on(pull, play):
    kernel = SGD(lr=0.25, momentum=0.5, keep=True)
    states, _ = play(FineTune(kernel, tune=2), pull([8.0]), START, 3)
    # averaging: v = -16, w = 4; tuning: v = -8, w = 6; v = -4 - 4, w = 8
    assert [s.memory["velocity/weight"].item() for s in states[1:]] == [-16.0, -8.0, -8.0]
    assert states[2].own["weight"].item() == 6.0
    assert states[3].own["weight"].item() == 8.0


def test_a_client_away_in_the_first_tuning_round_begins_from_the_shared_model(pull, play, without):
    net = without(pull([8, 4]), {2: (0,)})
    states, _ = play(FineTune(FULL, tune=2), net, START, 3)
    # shared: (4 + 2) / 2 = 3
    assert states[2].own["weight"].flatten().tolist() == [3.0, 3.5]
    assert states[3].own["weight"].flatten().tolist() == [5.5, 3.75]


def test_models_before_and_after_tuning_begins(pull, play):
    method = FineTune(FULL, tune=1)
    states, _ = play(method, pull([8, 4]), START, 2)
    before = method.models(states[1], 2)
    assert (before.of.tolist(), before.shared) == ([0, 0], 0)
    assert before.beliefs["weight"].flatten().tolist() == [3.0]
    after = method.models(states[2], 2)
    assert (after.of.tolist(), after.shared) == ([1, 2], 0)
    assert after.beliefs["weight"].flatten().tolist() == [3.0, 5.5, 3.5]


class TestRefusals:
    def test_no_tuning(self, refused):
        with refused(BadInput, "tune=0 must be at least 1: use fedavg to leave tuning out"):
            FineTune(tune=0)

    @pytest.mark.parametrize("rounds", [3, 5])
    def test_no_round_left_for_averaging(self, rounds, refused):
        with refused(BadInput, f"tune=5 leaves none of {rounds} rounds for averaging: lower it"):
            FineTune(tune=5).check(["a", "b"], rounds)

    def test_enough_rounds(self):
        assert FineTune(tune=5).check(["a", "b"], 6) is None

    def test_the_share_of_clients(self, refused):
        with refused(BadInput, "sample=2.0 must lie above 0 and up to 1: try 0.1"):
            FineTune(sample=2.0)
