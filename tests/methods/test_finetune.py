from __future__ import annotations

import pytest
import torch
from torch import nn

from coterie.core.errors import BadInput
from coterie.core.seeds import Key
from coterie.kernels import SGD
from coterie.methods import FedAvg, FineTune

FULL = SGD(lr=0.25, batch=100)
START = {"weight": torch.zeros(1, 1, 1).double()}


def flat(held):
    return held.tensors["weight"].flatten().tolist()


def test_by_hand(pull, play):
    # as FedAvg: 0 → 1.25 → 1.875; then alone w → (w + y) / 2, from 1.875, towards 1 and 3
    method = FineTune(FULL, tune=2)
    states, infos = play(method, pull([1, 3], sizes=[1, 3]), START, 4)
    assert [flat(s.shared.beliefs) for s in states] == [[0.0], [1.25], [1.875], [1.875], [1.875]]
    assert [s.own is None for s in states] == [True, True, True, False, False]
    assert flat(states[3].own) == [1.4375, 2.4375]
    assert flat(states[4].own) == [1.21875, 2.71875]
    assert infos[1].weights.tolist() == [[0.25, 0.75]] * 2
    assert infos[2].weights.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    before, after = (method.models(states[r]) for r in (2, 4))
    assert (before.of.tolist(), flat(before.beliefs), flat(before.shared)) == ([0, 0], [1.875], [1.875])
    assert (after.of.tolist(), after.beliefs, flat(after.shared)) == ([0, 1], states[4].own, [1.875])


def test_the_first_rounds_are_fedavg(crowd, net_of, play):
    module = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 3))
    kernel, options = SGD(batch=4, momentum=0.5, keep=True), {"weighted": False, "sample": 0.7}
    tuned, told = play(FineTune(kernel, tune=1, **options), net_of(module, crowd()), module, 3)
    averaged, infos = play(FedAvg(kernel, **options), net_of(module, crowd()), module, 3)
    for name, tensor in averaged[2].beliefs.tensors.items():
        assert torch.equal(tuned[2].shared.beliefs.tensors[name], tensor)
        assert torch.equal(tuned[3].shared.beliefs.tensors[name], tensor)
    assert torch.equal(told[1].weights, infos[1].weights)
    own = tuned[3].own.tensors["0.weight"]
    assert not torch.equal(own[0], averaged[3].beliefs.tensors["0.weight"][0])
    assert not torch.equal(own[0], own[1])


def test_optimisers_begin_afresh_when_tuning_begins_and_then_go_on(pull, play):
    states, _ = play(FineTune(SGD(lr=0.25, momentum=0.5, keep=True), tune=2), pull([8.0]), START, 3)
    # averaging: v = -16, w = 4; tuning: v = -8, w = 6; v = -4 - 4, w = 8
    assert [flat(states[1].shared.beliefs), flat(states[2].own), flat(states[3].own)] == [[4], [6], [8]]


def test_a_client_away_in_the_first_tuning_round_begins_from_the_shared_model(pull, play, without):
    states, _ = play(FineTune(FULL, tune=2), without(pull([8, 4]), {2: (0,)}), START, 3)
    # shared: (4 + 2) / 2 = 3
    assert flat(states[2].own) == [3.0, 3.5]
    assert flat(states[3].own) == [5.5, 3.75]


def test_refusals(pull):
    roster = pull([1, 2]).roster
    with pytest.raises(BadInput, match="tune=0 must be at least 1: use fedavg"):
        FineTune(tune=0)
    with pytest.raises(BadInput, match="tune=5 leaves none of 5 rounds for averaging: lower it"):
        FineTune(tune=5).check(roster, START, Key(0, rounds=5))
    assert FineTune(tune=5).check(roster, START, Key(0, rounds=6)) == ()
    with pytest.raises(BadInput, match=r"sample=2.0 must lie above 0 and up to 1"):
        FineTune(sample=2.0)
