"""SGD and Adam: by hand, and against torch.optim on the same batches."""

from __future__ import annotations

import copy
import re
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from coterie.core.belief import Beliefs, belief_of, stack
from coterie.core.errors import BadInput
from coterie.core.held import hold
from coterie.core.net import SERVER, edges_of
from coterie.core.seeds import Key
from coterie.kernels import KERNELS, SGD, WORK, Adam, AdamW

KEY = Key(0).at_round(1, 1)


ONE = edges_of([(0, 0)])


def visited(net, kernel, tensors, key=KEY, slot=""):
    """What one belief becomes at one client, and the numbers that came with it."""
    replies = net.visit(kernel, hold(tensors, SERVER), ONE, key, slot)
    return replies.beliefs.tensors, replies.numbers


class TestByHand:
    """w · x on (1, 2) and (2, 4), from w = 0: at full batch, the loss is 2.5 (w - 2)²."""

    @pytest.mark.parametrize(
        ("kernel", "start", "after"),
        [
            # slopes -10, -5: 0 → 1 → 1.5
            (SGD(), 0, 1.5),
            # velocities -10, -9 - 5 = -14: 0 → 1 → 2.4
            (SGD(momentum=0.9), 0, 2.4),
            # steps -10 - 9 = -19 (w = 1.9), v = -9.5 at w = 1.9: g = -0.5, v = -9.5, step = -0.5 - 8.55
            (SGD(momentum=0.9, nesterov=True), 0, 2.805),
            # slopes -10, -5 + 0.5: 0 → 1 → 1.45
            (SGD(weight_decay=0.5), 0, 1.45),
            # factors 1 and 0.75 of lr: 0 → 1, slope -5: + 0.075 · 5
            (SGD(schedule="linear", final=0.5), 0, 1.375),
            # bias-corrected, the first step is lr · g / (|g| + eps)
            (Adam(lr=0.1, steps=1), 0, 0.1),
            # 10 · (1 - 0.1 · 0.5) - 0.1
            (Adam(lr=0.1, steps=1, weight_decay=0.5, decoupled=True), 10, 9.4),
        ],
    )
    def test_one_or_two_steps(self, kernel, start, after, client_of, net_of):
        data = client_of(torch.tensor([[1.0], [2.0]]), torch.tensor([2.0, 4.0]))
        net = net_of(nn.Linear(1, 1, bias=False), [data])
        work = replace(kernel, batch=2, steps=kernel.steps or 2)
        found, _ = visited(net, work, {"weight": torch.full((1, 1, 1), float(start))})
        assert found["weight"].item() == pytest.approx(after, rel=1e-6)

    def test_the_reported_loss_counts_short_batches_by_their_rows(self, client_of, net_of):
        # w stays near 0: losses 1, 1 in the first batch, 16 in the second, and so again
        data = client_of(torch.ones(3, 1), torch.tensor([1.0, 1.0, 4.0]))
        net = net_of(nn.Linear(1, 1, bias=False), [data])
        work = SGD(lr=1e-9, batch=2, epochs=2, shuffle=False)
        _, numbers = visited(net, work, {"weight": torch.zeros(1, 1, 1)})
        assert numbers["loss"].item() == pytest.approx(18 / 3)
        assert numbers["samples"].item() == 6


class Case:
    """23 samples for a small network, in order, in batches of 5."""

    def __init__(self, dtype: torch.dtype, norm: nn.Module | None = None) -> None:
        generator = torch.Generator().manual_seed(4)
        self.x = torch.randn(23, 4, generator=generator, dtype=dtype)
        self.y = torch.randint(3, (23,), generator=generator)
        torch.manual_seed(1)
        layers = [nn.Linear(4, 8), norm or nn.Identity(), nn.Tanh(), nn.Linear(8, 3)]
        self.module = nn.Sequential(*layers).to(dtype)

    def beliefs(self) -> Beliefs:
        return stack([belief_of(self.module)])

    def by_torch(self, make, epochs: int, *, restart: bool = False) -> nn.Module:
        """A plain loop with a torch optimiser, which may start afresh in each epoch."""
        plain = copy.deepcopy(self.module).train()
        optimiser = make(plain.parameters())
        for _ in range(epochs):
            if restart:
                optimiser = make(plain.parameters())
            for begin in range(0, 23, 5):
                optimiser.zero_grad()
                F.cross_entropy(plain(self.x[begin : begin + 5]), self.y[begin : begin + 5]).backward()
                optimiser.step()
        return plain


def assert_same(beliefs: Beliefs, module: nn.Module, dtype: torch.dtype) -> None:
    tolerance = 1e-6 if dtype == torch.float32 else 1e-12
    for name, tensor in module.state_dict().items():
        torch.testing.assert_close(beliefs[name][0], tensor, rtol=0, atol=tolerance)


PAIRS = {
    "plain": (SGD(lr=0.2), lambda p: torch.optim.SGD(p, lr=0.2)),
    "momentum": (SGD(lr=0.1, momentum=0.9), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    "nesterov": (
        SGD(lr=0.1, momentum=0.8, nesterov=True),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, nesterov=True),
    ),
    "decay": (
        SGD(lr=0.1, momentum=0.5, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.5, weight_decay=0.1),
    ),
    "adam": (Adam(lr=0.01), lambda p: torch.optim.Adam(p, lr=0.01)),
    "adam-betas": (
        Adam(lr=0.01, beta1=0.5, beta2=0.9, eps=1e-4),
        lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.5, 0.9), eps=1e-4),
    ),
    "adam-decay": (
        Adam(lr=0.01, weight_decay=0.1),
        lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1),
    ),
    "adam-decoupled": (
        Adam(lr=0.01, weight_decay=0.1, decoupled=True),
        lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    ),
    "adamw": (AdamW(lr=0.01), lambda p: torch.optim.AdamW(p, lr=0.01)),
    "adamw-betas": (
        AdamW(lr=0.01, beta1=0.5, beta2=0.9, eps=1e-4, weight_decay=0.3),
        lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.5, 0.9), eps=1e-4, weight_decay=0.3),
    ),
}


@pytest.mark.parametrize(
    ("pair", "dtype"),
    [*((pair, torch.float64) for pair in PAIRS), *((pair, torch.float32) for pair in ("decay", "adamw"))],
)
def test_as_torch_over_rounds_whose_state_is_kept_or_starts_afresh(pair, dtype, client_of, net_of):
    kernel, make = PAIRS[pair]
    case = Case(dtype)
    net = net_of(case.module, [client_of(case.x, case.y)])
    for keep in (True, False):
        beliefs = case.beliefs()
        for r in (1, 2):
            work = replace(kernel, batch=5, shuffle=False, keep=keep)
            beliefs, _ = visited(net, work, beliefs, Key(0).at_round(r, 2))
        assert_same(beliefs, case.by_torch(make, 2, restart=not keep), dtype)


def test_batch_norm_follows_along(client_of, net_of):
    kernel, make = PAIRS["nesterov"]
    case = Case(torch.float64, nn.BatchNorm1d(8))
    net = net_of(case.module, [client_of(case.x, case.y)])
    found, _ = visited(net, replace(kernel, batch=5, shuffle=False, epochs=2), case.beliefs())
    assert_same(found, case.by_torch(make, 2), torch.float64)
    assert found["1.num_batches_tracked"].tolist() == [10]


def test_adam_corrects_its_bias_as_exactly_in_float32(client_of, net_of):
    # 1 - 0.999 taken in float32 is off by 1.3e-5; the first step should be lr to the last digits
    net = net_of(nn.Linear(1, 1, bias=False), [client_of(torch.ones(1, 1), torch.full((1,), 1000.0))])
    found, _ = visited(net, Adam(lr=1.0), {"weight": torch.zeros(1, 1, 1)})
    assert found["weight"].item() == pytest.approx(1.0, abs=1e-6)


def test_frozen_parameters_stay(client_of, net_of):
    case = Case(torch.float32)
    case.module[0].weight.requires_grad_(False)
    net = net_of(case.module, [client_of(case.x, case.y)])
    after, _ = visited(net, SGD(weight_decay=0.5, momentum=0.9), case.beliefs())
    assert torch.equal(after["0.weight"][0], case.module[0].weight)
    assert not torch.equal(after["3.bias"][0], case.module[3].bias)


def test_kernels_are_registered():
    assert WORK.make("sgd", lr=0.5) == SGD(lr=0.5)
    assert KERNELS.make("adam", beta1=0.5) == Adam(beta1=0.5)


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (SGD, {"lr": 0}, "lr=0 must be above 0 and finite: try 0.1"),
        (SGD, {"lr": float("nan")}, "lr=nan must"),
        (SGD, {"lr": float("inf")}, "lr=inf must"),
        (SGD, {"final": 0}, "final=0 must be above 0 and finite: try 0.01"),
        (SGD, {"epochs": 0}, "epochs=0 must be at least 1"),
        (SGD, {"steps": -1}, "steps=-1 must be at least 0"),
        (Adam, {"batch": 0}, "batch=0 must be at least 1"),
        (SGD, {"momentum": 1.0}, "momentum=1.0 must lie in [0, 1): try 0.9"),
        (SGD, {"momentum": -0.1}, "momentum=-0.1 must"),
        (SGD, {"weight_decay": -1}, "weight_decay=-1 must be at least 0: try 1e-4"),
        (SGD, {"weight_decay": float("nan")}, "weight_decay=nan must"),
        (SGD, {"weight_decay": float("inf")}, "weight_decay=inf must"),
        (SGD, {"nesterov": True}, "try momentum=0.9"),
        (Adam, {"beta1": 1.0}, "beta1=1.0 must lie in [0, 1)"),
        (Adam, {"eps": 0}, "eps=0 must be above 0: try 1e-8"),
        (Adam, {"eps": float("nan")}, "eps=nan must"),
        (Adam, {"weight_decay": -1}, "weight_decay=-1 must"),
        (Adam, {"weight_decay": float("nan")}, "weight_decay=nan must"),
        (SGD, {"schedule": "cosin"}, "unknown schedule 'cosin': did you mean cosine?"),
    ],
)
def test_bad_options(make, options, said):
    with pytest.raises(BadInput, match=re.escape(said)):
        make(**options)
