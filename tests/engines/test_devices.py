"""No accelerator is needed here: torch's fake tensors know their device and refuse to meet others'."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.utils._pytree as pytree
from torch import nn
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorDeviceMismatchError
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode

from coterie.core import belief as tree
from coterie.core.devices import device_of, seeded, widest
from coterie.core.errors import BadInput
from coterie.core.kernel import Tick
from coterie.core.learner import Batch, Gradient, Learner, dropout_of
from coterie.core.net import from_server
from coterie.core.seeds import Key
from coterie.engines import replay
from coterie.engines.bank import Bank, Rows
from coterie.engines.base import Visit
from coterie.engines.replay import BatchedKernel
from coterie.engines.stacked import lockstep
from coterie.kernels import HMC, PSGLD, SGD, SGLD, SWAG, Adam, Proximal
from coterie.kernels.local import rates_of
from coterie.storage import checkpoint

KEY = Key(0).at_round(2, 3)
WORK = [Proximal(SGD(batch=4, momentum=0.5, weight_decay=0.1)), Adam(batch=4, schedule="cosine")]
COLLECTORS = [SWAG(batch=4, rank=2), SGLD(batch=4, rank=2), PSGLD(batch=4, rank=2), HMC(rank=2, leaps=2)]


class NoDoubles(TorchDispatchMode):
    """Apple's accelerators have no float64."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for t in pytree.tree_leaves(out):
            assert not (
                isinstance(t, torch.Tensor) and t.device.type == "mps" and t.dtype == torch.float64
            ), f"{func} makes float64 on mps"
        return out


@pytest.fixture(params=[pytest.param("cuda", marks=pytest.mark.slow), "mps"])  # mps has one rule more
def device(request, monkeypatch):
    monkeypatch.setattr(replay, "PATIENCE", 100)  # fake tensors hold no numbers to record with
    plain_to, plain_getitem = torch.Tensor.to, torch.Tensor.__getitem__

    def to(self, *args, **kwargs):
        """As Tensor.to, which refuses even fake tensors where torch was built for the CPU alone."""
        places = [a for a in (*args, *kwargs.values()) if isinstance(a, str | torch.device)]
        dtypes = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.dtype)]
        if not places:
            return plain_to(self, *args, **kwargs)
        cast = plain_to(self, dtypes[0]) if dtypes else self
        here = torch.device(places[0]).type == self.device.type
        return cast if here else torch.empty(cast.shape, dtype=cast.dtype, device=places[0])

    def getitem(self, item):
        """Numbers and slices, for fake tensors that indexing refuses for the same reason."""
        if self.device.type == "cpu":
            return plain_getitem(self, item)
        dim = 0
        for part in item if isinstance(item, tuple) else (item,):
            if isinstance(part, slice):
                start, stop, _ = part.indices(self.shape[dim])
                self, dim = self.narrow(dim, start, stop - start), dim + 1
            else:
                self = self.select(dim, part)
        return self

    monkeypatch.setattr(FakeTensor, "__getitem__", getitem)
    monkeypatch.setattr(torch.Tensor, "to", to)
    monkeypatch.setattr(FakeTensorMode, "__deepcopy__", lambda self, memo: self, raising=False)
    rates_of.cache_clear()
    with FakeTensorMode(), NoDoubles():
        yield torch.device(request.param)
    rates_of.cache_clear()  # what is fake must not outlive this


def model_on(device):
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Dropout(0.5), nn.LayerNorm(5), nn.Linear(5, 2))
    for layer in model:
        for name, param in list(layer.named_parameters()):
            setattr(layer, name, nn.Parameter(torch.empty_like(param, device=device)))
    return model


class Forward(Learner):
    """Everything but autograd, whose engine needs the real device: a forward pass, made-up gradients."""

    def gradient(self, belief, batch, seed):
        with torch.no_grad(), dropout_of(self, seed):
            out = functional_call(self.training, dict(belief), (batch.x,))
        loss = (self.losses(out, batch.y) * batch.weight).sum() / batch.weight.sum().clamp(min=1)
        return Gradient(loss, {n: torch.zeros_like(belief[n]) for n in self.trainable}, {})


def batch_on(device, n=4):
    x, y = torch.randn(n, 3, device=device), torch.zeros(n, dtype=torch.int64, device=device)
    return Batch(x, y, torch.ones(n, device=device))


def tick_on(device, rates=()):
    return Tick(torch.ones(rates, dtype=widest(device), device=device), torch.tensor(3).to(device))


def on(device, beliefs):
    return all(t.device.type == device.type for t in beliefs.values())


def test_fake_devices_do_refuse_to_meet(device):
    with pytest.raises(FakeTensorDeviceMismatchError):
        torch.zeros(2, device=device) + torch.zeros(2)


def started(device, kernel):
    learner = Forward(model_on(device), "classification")
    belief = tree.belief_of(learner.training)
    return learner, belief, kernel.fresh(learner, belief)


@pytest.mark.parametrize("kernel", [*WORK, *COLLECTORS], ids=lambda k: k.name)
def test_one_belief(device, kernel):
    learner, belief, memory = started(device, kernel)
    tick = tick_on(device, (2,) if isinstance(kernel, SGLD) else ())
    carry = kernel.start(belief, memory, {"anchor": belief})
    carry = kernel.step(learner, carry, batch_on(device), tick)
    reply = kernel.finish(kernel.mark(carry) if kernel in COLLECTORS else carry)
    assert all(on(device, part) for part in reply)


@pytest.mark.parametrize("kernel", WORK, ids=lambda k: k.name)
def test_many_in_lockstep(device, kernel):
    learner, belief, memory = started(device, kernel)
    sizes, one = [7, 5, 4], tree.stack([belief])
    x, y = torch.randn(16, 3, device=device), torch.zeros(16, dtype=torch.int64, device=device)
    bank = Bank(Rows([x], device), y, torch.tensor([0, 7, 12]), torch.tensor(sizes))
    keys = [KEY.at(i) for i in range(3)]
    plans = [kernel.plan(n, key) for n, key in zip(sizes, keys, strict=True)]
    visit = Visit(one, from_server(torch.arange(3)), keys, tree.stack([memory]), {"anchor": one})
    answers = lockstep(SimpleNamespace(learner=learner, banks={"train": bank}), kernel, visit, plans)
    assert on(device, answers.beliefs)
    assert {len(t) for t in answers.beliefs.values()} == {3}


@pytest.mark.parametrize("kernel", COLLECTORS, ids=lambda k: k.name)
def test_some_of_many_are_marked(device, kernel):
    learner, belief, memory = started(device, kernel)
    batched, three = BatchedKernel(kernel, learner), torch.zeros(3, dtype=torch.int64)
    carry = batched.start(*(tree.rows(tree.stack([b]), three) for b in (belief, memory)), {})
    for marked in ([True, True, True], [True, False, True]):
        carry = batched.mark(carry, marked)
    reply = batched.finish(carry)
    assert on(device, reply.belief)
    assert {len(t) for t in reply.belief.values()} == {3}


def test_beliefs_meet_weights_and_indices_from_the_cpu(device):
    many = {"w": torch.randn(3, 4, device=device), "steps": torch.zeros(3, dtype=torch.int64, device=device)}
    mixed = tree.mix(torch.ones(2, 3, dtype=torch.float64) / 3, many)
    assert on(device, mixed)
    assert on(device, tree.put(many, torch.tensor([0, 2]), mixed))
    assert tree.distances(many, mixed, ["w"]).device.type == "cpu"


def test_scoring_needs_outputs_and_losses(device):
    learner, batch = Learner(model_on(device), "classification"), batch_on(device)
    outputs = learner.outputs(tree.belief_of(learner.scoring), batch.x)
    assert learner.losses(outputs, batch.y).device.type == device.type


@pytest.mark.parametrize("name", ["cuda", "mps", "gpu", "cuda:99", "", "meta"])
def test_a_device_that_is_not_there(name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(
        BadInput, match="holds no numbers" if name == "meta" else "is not available here: use cpu"
    ):
        device_of(name)
    assert device_of("cpu") == torch.device("cpu")


def test_seeded_leaves_no_trace():
    before = torch.get_rng_state()
    with seeded(3, torch.device("cpu")):
        first = torch.rand(2)
    with seeded(3, torch.device("cpu")):
        assert torch.equal(torch.rand(2), first)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_checkpoint_remembers_where_tensors_were(device, monkeypatch):
    monkeypatch.setattr(checkpoint, "TENSORS", (*checkpoint.TENSORS, FakeTensor))  # as on a device
    tensors = {}
    state = {"a": torch.zeros(2, device=device), "b": torch.zeros(2)}
    skeleton = checkpoint.Packing({}, tensors).packed(state, "")
    back = checkpoint._unpack(skeleton, {path: t.cpu() for path, t in tensors.items()}, {})
    assert back["a"].device.type == device.type
    assert back["b"].device.type == "cpu"
