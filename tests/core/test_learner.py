from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from coterie.core.belief import belief_of
from coterie.core.errors import BadInput
from coterie.core.learner import Batch, Learner

SEED = torch.tensor(11)


def logistic() -> nn.Module:
    return nn.Linear(4, 3)


def hidden() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))


class Tied(nn.Module):
    """One matrix used on the way in and on the way out."""

    def __init__(self) -> None:
        super().__init__()
        self.inward = nn.Linear(4, 4, bias=False)
        self.outward = nn.Linear(4, 4, bias=False)
        self.outward.weight = self.inward.weight

    def forward(self, x):
        return self.outward(torch.tanh(self.inward(x)))


def batch_for(n: int = 7, dtype=torch.float32, weight=None) -> Batch:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(n, 4, generator=generator, dtype=dtype)
    y = torch.randint(3, (n,), generator=generator)
    return Batch(x, y, torch.ones(n, dtype=dtype) if weight is None else torch.tensor(weight, dtype=dtype))


def by_autograd(module: nn.Module, x, y):
    """A plain training step's loss and gradients, on a copy; the copy has its buffers moved."""
    plain = copy.deepcopy(module).train()
    loss = F.cross_entropy(plain(x), y)
    loss.backward()
    return plain, loss, {n: p.grad for n, p in plain.named_parameters()}


@pytest.mark.parametrize("make", [hidden, normed, Tied])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_is_autograds(make, dtype):
    torch.manual_seed(0)
    module, batch = make().to(dtype), batch_for(dtype=dtype)
    found = Learner(module, "classification").gradient(belief_of(module), batch, SEED)
    _, loss, grads = by_autograd(module, batch.x, batch.y)
    torch.testing.assert_close(found.loss, loss.detach())
    assert found.grads.keys() == grads.keys()
    for name, grad in grads.items():
        torch.testing.assert_close(found.grads[name], grad)
        assert found.grads[name].dtype == dtype


def test_a_regression_by_hand():
    # errors 2 · 1 - 1 and 2 · 3 - 4: the loss is (1 + 4) / 2, its slope (2 · 1 · 1 + 2 · 3 · 2) / 2
    learner = Learner(nn.Linear(1, 1, bias=False), "regression")
    batch = Batch(torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 4.0]), torch.ones(2))
    found = learner.gradient({"weight": torch.tensor([[2.0]])}, batch, SEED)
    assert found.loss.item() == 2.5
    assert found.grads["weight"].tolist() == [[7.0]]
    assert found.buffers == {}


@pytest.mark.parametrize("make", [hidden, Tied])
def test_rows_of_weight_0_count_as_if_dropped(make):
    torch.manual_seed(0)
    module = make().double()
    learner, belief = Learner(module, "classification"), belief_of(module)
    batch = batch_for(7, torch.float64, weight=[1, 0, 1, 1, 0, 0, 1])
    kept = batch.weight.bool()
    masked = learner.gradient(belief, batch, SEED)
    fewer = learner.gradient(belief, Batch(batch.x[kept], batch.y[kept], batch.weight[kept]), SEED)
    torch.testing.assert_close(masked.loss, fewer.loss)
    for name, grad in fewer.grads.items():
        torch.testing.assert_close(masked.grads[name], grad)


def test_a_batch_of_padding_only_has_no_gradient():
    module = logistic()
    learner = Learner(module, "classification")
    found = learner.gradient(belief_of(module), batch_for(3, weight=[0, 0, 0]), SEED)
    assert found.loss.item() == 0
    assert not any(grad.any() for grad in found.grads.values())


def test_dropout_comes_from_the_seed_and_padding_does_not_shift_it():
    module = nn.Sequential(nn.Linear(4, 30), nn.Dropout(0.5), nn.Linear(30, 3))
    learner, belief = Learner(module, "classification"), belief_of(module)
    short = batch_for(7)
    long = Batch(short.x.repeat(2, 1), short.y.repeat(2), torch.tensor([1.0] * 7 + [0.0] * 7))
    one = learner.gradient(belief, short, SEED)
    torch.manual_seed(99)
    again = learner.gradient(belief, short, SEED)
    padded = learner.gradient(belief, long, SEED)
    other = learner.gradient(belief, short, SEED + 1)
    assert torch.equal(one.grads["0.weight"], again.grads["0.weight"])
    torch.testing.assert_close(one.grads["0.weight"], padded.grads["0.weight"])
    assert not torch.allclose(one.grads["0.weight"], other.grads["0.weight"])


class TestBatchNorm:
    def test_statistics_move_as_in_a_plain_module(self):
        module, batch = normed(), batch_for()
        found = Learner(module, "classification").gradient(belief_of(module), batch, SEED)
        plain, _, _ = by_autograd(module, batch.x, batch.y)
        assert set(found.buffers) == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}
        for name, buffer in plain.named_buffers():
            torch.testing.assert_close(found.buffers[name], buffer)
            assert found.buffers[name].dtype == buffer.dtype

    def test_scoring_uses_the_beliefs_statistics_and_moves_nothing(self):
        module = normed()
        belief = {**belief_of(module), "1.running_mean": torch.full((6,), 5.0)}
        before = {n: t.clone() for n, t in belief.items()}
        x = batch_for().x
        out = Learner(module, "classification").outputs(belief, x)
        plain = copy.deepcopy(module).eval()
        plain[1].running_mean.fill_(5.0)
        torch.testing.assert_close(out, plain(x))
        assert all(torch.equal(belief[n], t) for n, t in before.items())

    def test_a_batch_of_1_is_refused(self, refused):
        module = normed()
        message = (
            "batch norm cannot train on a batch of 1, and with this batch size some client has "
            "one (perhaps the last of its epoch): choose another batch size"
        )
        with refused(BadInput, message):
            Learner(module, "classification").gradient(belief_of(module), batch_for(1), SEED)


def test_frozen_parameters_have_no_gradient_but_take_part():
    module = hidden()
    module[0].weight.requires_grad_(False)
    learner = Learner(module, "classification")
    assert learner.trainable == ("0.bias", "2.weight", "2.bias")
    belief = {**belief_of(module), "0.weight": torch.zeros(6, 4)}
    found = learner.gradient(belief, batch_for(), SEED)
    assert set(found.grads) == {"0.bias", "2.weight", "2.bias"}
    plain = copy.deepcopy(module)
    plain[0].weight.zero_()
    _, loss, _ = by_autograd(plain, *batch_for()[:2])
    torch.testing.assert_close(found.loss, loss.detach())


def test_tied_weights_are_one_tensor_of_the_belief():
    module = Tied()
    assert set(belief_of(module)) == {"inward.weight"}
    x = batch_for().x
    changed = {"inward.weight": torch.eye(4) * 2}
    out = Learner(module, "classification").outputs(changed, x)
    torch.testing.assert_close(out, 2 * torch.tanh(2 * x))


def test_neither_the_belief_nor_the_module_is_changed():
    module = normed()
    belief = belief_of(module)
    before = {n: t.clone() for n, t in belief.items()}
    learner = Learner(module, "classification")
    learner.gradient(belief, batch_for(), SEED)
    learner.outputs(belief, batch_for().x)
    for tensors in (belief, dict(module.state_dict())):
        assert all(torch.equal(tensors[n], t) for n, t in before.items())
    assert all(p.grad is None for p in module.parameters())


def test_the_modules_own_numbers_and_mode_do_not_matter():
    module = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 3))
    belief, x = belief_of(module), batch_for().x
    learner = Learner(module.eval(), "classification")
    out = learner.outputs(belief, x)
    with torch.no_grad():
        module[0].weight.zero_()
    module.train()
    assert torch.equal(learner.outputs(belief, x), out)
    # trained with dropout although the module was given in eval mode
    losses = [learner.gradient(belief, batch_for(), SEED + i).loss.item() for i in (0, 1)]
    assert losses[0] != losses[1]
