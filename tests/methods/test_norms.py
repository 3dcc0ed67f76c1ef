"""Batch norm at home with each client, in fedavg and finetune."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import coterie
from coterie.core.belief import belief_of, row
from coterie.core.errors import BadInput, UnknownName
from coterie.core.held import side_by_side
from coterie.core.seeds import Key
from coterie.kernels import SGD
from coterie.methods import FedAvg, FineTune, Local
from coterie.methods.server.norms import norm_names, parted
from coterie.models import MODELS

FULL = SGD(lr=0.25, batch=100)
WHOLE = ["0.weight", "0.bias", "0.running_mean", "0.running_var", "0.num_batches_tracked"]


def normed() -> nn.Module:
    """w (γ z + β) with z = (x - mean) / deviation, and w = γ = 1, β = 0 at first."""
    module = nn.Sequential(nn.BatchNorm1d(1, eps=1e-30), nn.Linear(1, 1, bias=False))
    nn.init.ones_(module[1].weight)
    return module


@pytest.fixture
def pair(client_of, net_of):
    """z is -1 and 1 at either client; a wants -3 and 3, b wants 1 and 1 (twice)."""
    clients = [
        client_of(torch.tensor([[1.0], [3.0]]), torch.tensor([-3.0, 3.0]), name="a"),
        client_of(torch.tensor([[5.0], [7.0]] * 2), torch.ones(4), name="b"),
    ]
    return net_of(normed(), clients)


def flat(held, name):
    return held.tensors[name].flatten().tolist()


class TestByHand:
    # Round 1. residuals of a: 2, -2; ∂w = ∂γ = -4, ∂β = 0: w = γ = 2, β = 0
    #          residuals of b: -2, 0; ∂w = ∂γ = 2, ∂β = -2: w = γ = β = 0.5
    #          w = 2 / 3 + 0.5 · 2 / 3 = 1
    # Round 2. residuals of a: 1, -1; ∂w = -4, ∂γ = -2, ∂β = 0: w = 2, γ = 2.5
    #          residuals of b: -1, 0 where γ z + β = 0, 1; ∂w = 0, ∂γ = 1, ∂β = -1: w = 1, γ = 0.25, β = 0.75
    #          w = 2 / 3 + 2 / 3
    # Running means move by a tenth towards 2 and 6, variances towards 2 and 4 / 3.
    def test_two_rounds_of_two_unequal_clients(self, pair, play):
        method = FedAvg(FULL, norm="local")
        states, infos = play(method, pair, normed(), 2)
        assert flat(states[1].beliefs, "1.weight") == pytest.approx([1.0])
        assert flat(states[2].beliefs, "1.weight") == pytest.approx([4 / 3])
        assert flat(states[1].norms, "0.weight") == pytest.approx([2.0, 0.5])
        assert flat(states[1].norms, "0.bias") == pytest.approx([0.0, 0.5])
        assert flat(states[2].norms, "0.weight") == pytest.approx([2.5, 0.25])
        assert flat(states[2].norms, "0.bias") == pytest.approx([0.0, 0.75])
        assert flat(states[1].norms, "0.running_mean") == pytest.approx([0.2, 0.6])
        assert flat(states[2].norms, "0.running_mean") == pytest.approx([0.38, 1.14])
        assert flat(states[1].norms, "0.running_var") == pytest.approx([1.1, 0.9 + 0.4 / 3])
        assert flat(states[2].norms, "0.num_batches_tracked") == [2, 2]
        assert states[2].beliefs.names == ("1.weight",)
        torch.testing.assert_close(infos[0].weights, torch.tensor([[1 / 3, 2 / 3]] * 2, dtype=torch.float64))
        models = method.models(states[1])
        assert (models.of.tolist(), models.shared) == ([0, 1], None)
        x = torch.tensor([[1.0]])
        a, b = (pair.learner.outputs(row(models.beliefs.tensors, i), x).item() for i in range(2))
        assert a == pytest.approx(1 * (2 * (1 - 0.2) / 1.1**0.5 + 0))
        assert b == pytest.approx(1 * (0.5 * (1 - 0.6) / (0.9 + 0.4 / 3) ** 0.5 + 0.5))

    def test_who_does_not_answer_keeps_its_norms(self, pair, play, without):
        states, _ = play(FedAvg(FULL, norm="local"), without(pair, {1: (1,), 2: (0, 1)}), normed(), 2)
        assert flat(states[1].beliefs, "1.weight") == [2.0]
        assert flat(states[1].norms, "0.weight") == [2.0, 1.0]
        assert flat(states[1].norms, "0.running_mean") == pytest.approx([0.2, 0.0])
        assert flat(states[1].norms, "0.num_batches_tracked") == [1, 0]
        assert states[2] is states[1]

    def test_tuning_goes_on_from_the_shared_part_with_ones_own_norms(self, pair, play):
        method = FineTune(FULL, tune=1, norm="local")
        states, infos = play(method, pair, normed(), 2)
        assert flat(states[1].shared.norms, "0.weight") == pytest.approx([2.0, 0.5])
        assert flat(states[2].own, "1.weight") == pytest.approx([2.0, 1.0])  # of round 2, not averaged
        assert flat(states[2].own, "0.weight") == pytest.approx([2.5, 0.25])
        assert infos[1].weights.tolist() == [[1.0, 0.0], [0.0, 1.0]]
        models = method.models(states[2])
        assert (models.of.tolist(), models.shared) == ([0, 1], None)
        assert flat(models.beliefs, "0.bias") == pytest.approx([0.0, 0.75])
        assert method.models(states[1]).shared is None


def test_from_python_to_modules():
    rng = np.random.default_rng(0)
    clients = [
        coterie.Client.from_arrays(rng.normal(size=(40, 3)) + 9 * i, np.arange(40) % 2, name=str(i))
        for i in range(2)
    ]
    module = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))
    result = coterie.train(module, clients, norm="local", rounds=2, seed=0)
    one, other = (result.models[c.name].state_dict() for c in clients)
    assert result.shared is None
    assert torch.equal(one["1.weight"], other["1.weight"])
    assert not torch.equal(one["0.running_mean"], other["0.running_mean"])
    assert "own" in set(result.history["model"])
    assert "shared" not in set(result.history["model"])


def test_of_the_shared_part_there_is_one_in_memory(start_of):
    whole = side_by_side(start_of({"w": torch.zeros(1, 5)}), start_of({"v": torch.zeros(1000, 2)}))
    assert whole.tensors["w"].shape == (1000, 5)
    assert whole.tensors["w"].untyped_storage().nbytes() == 5 * 4


def test_who_was_never_in_a_sample_has_the_first_norms(crowd, net_of, play):
    module = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3))
    method = FedAvg(SGD(batch=20), sample=0.25, norm="local")
    states, infos = play(method, net_of(module, crowd((6, 8, 10, 12))), module, 3)
    rounds_of = torch.stack([info.weights[0] > 0 for info in infos]).sum(dim=0)
    assert bool((rounds_of == 0).any())
    norms = states[-1].norms.tensors
    assert torch.equal(norms["0.num_batches_tracked"], rounds_of)
    assert not bool(norms["0.running_mean"][rounds_of == 0].any())


def test_clients_may_begin_with_norms_of_their_own(pull, start_of):
    beliefs = {"0.running_mean": torch.tensor([[1.0], [2.0]]), "1.weight": torch.tensor([[3.0], [4.0]])}
    shared, own = parted("local", start_of(beliefs), pull([1, 2]))
    assert flat(shared, "1.weight") == [3.0]
    assert flat(own, "0.running_mean") == [1.0, 2.0]
    assert own.places.tolist() == [0, 1]


def test_one_client_is_training_alone(crowd, net_of, play):
    module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    kernel = SGD(batch=4, momentum=0.5, keep=True)
    method = FedAvg(kernel, norm="local")
    (*_, together), _ = play(method, net_of(module, crowd((14,))), module, 3)
    (*_, alone), _ = play(Local(kernel), net_of(module, crowd((14,))), module, 3)
    mine = method.models(together).beliefs.tensors
    assert mine.keys() == alone.beliefs.tensors.keys()
    assert all(torch.equal(mine[name], t) for name, t in alone.beliefs.tensors.items())


class TestNames:
    def test_all_that_batch_norms_hold_and_nothing_else(self):
        module = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2), nn.GroupNorm(1, 2))
        assert sorted(norm_names(belief_of(module))) == sorted(WHOLE)
        deep = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, affine=False)), nn.LayerNorm(2))
        assert set(norm_names(belief_of(deep))) == {"0.1." + n.removeprefix("0.") for n in WHOLE[2:]}
        assert set(norm_names(belief_of(nn.BatchNorm1d(2)))) == {n.removeprefix("0.") for n in WHOLE}
        assert norm_names(belief_of(nn.BatchNorm1d(2, track_running_stats=False))) == ()

    def test_every_norm_of_a_resnet(self):
        belief = belief_of(MODELS.make("resnet18", width=4).build((3, 8, 8), 10, 0))
        # 20 batch norms: one of the stem, two in each of 8 blocks, one in each of 3 shortcuts
        assert len(norm_names(belief)) == 20 * 5
        assert all("norm" in name for name in norm_names(belief))
        assert not any("norm" in name for name in belief.keys() - set(norm_names(belief)))


def test_refusals(pull, start_of):
    for kind in (FedAvg, FineTune):
        with pytest.raises(BadInput, match="the model has none with running statistics: set norm=average"):
            kind(norm="local").check(pull([1, 2]).roster, start_of(nn.Linear(2, 2)).tensors, Key(0, rounds=9))
        with pytest.raises(UnknownName, match=r"unknown norm 'locl': did you mean local?"):
            kind(norm="locl")
