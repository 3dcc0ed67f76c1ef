"""SGD and Adam: by hand, and against torch.optim on the same batches."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from coterie.core.belief import Beliefs, belief_of, stack
from coterie.core.errors import BadInput, UnknownName
from coterie.core.net import edges_of
from coterie.core.seeds import Key
from coterie.kernels import KERNELS, SGD, Adam

KEY = Key(0).at_round(1, 1)


@pytest.fixture
def line(client_of, net_of):
    """w · x on (1, 2) and (2, 4), from w = 0: at full batch, the loss is 2.5 (w - 2)²."""
    module = nn.Linear(1, 1, bias=False)
    net = net_of(module, [client_of(torch.tensor([[1.0], [2.0]]), torch.tensor([2.0, 4.0]))])
    return net, {"weight": torch.zeros(1, 1, 1)}


class TestByHand:
    @pytest.mark.parametrize(
        ("options", "after"),
        [
            # slopes -10, -5: 0 → 1 → 1.5
            ({}, 1.5),
            # velocities -10, -9 - 5 = -14: 0 → 1 → 2.4
            ({"momentum": 0.9}, 2.4),
            # steps -10 - 9 = -19 (w = 1.9), v = -9.5 at w = 1.9: g = -0.5, v = -9.5, step = -0.5 - 8.55
            ({"momentum": 0.9, "nesterov": True}, 2.805),
            # slopes -10, -5 + 0.5: 0 → 1 → 1.45
            ({"weight_decay": 0.5}, 1.45),
        ],
    )
    def test_two_steps_of_sgd(self, line, options, after):
        net, start = line
        replies = net.visit(SGD(lr=0.1, batch=2, steps=2, **options), start, edges_of([(0, 0)]), KEY)
        assert net.open(replies)["weight"].item() == pytest.approx(after, rel=1e-6)

    def test_the_reported_loss_is_the_mean_on_the_way(self, line):
        # 10 before the first step, 2.5 before the second
        net, start = line
        replies = net.visit(SGD(lr=0.1, batch=2, epochs=2), start, edges_of([(0, 0)]), KEY)
        assert replies.numbers["loss"].tolist() == [pytest.approx(6.25)]
        assert replies.numbers["samples"].tolist() == [4.0]

    def test_a_short_batch_counts_by_its_rows(self, client_of, net_of):
        # w stays near 0: losses 1, 1 in the first batch, 16 in the second
        net = net_of(
            nn.Linear(1, 1, bias=False), [client_of(torch.ones(3, 1), torch.tensor([1.0, 1.0, 4.0]))]
        )
        kernel = SGD(lr=1e-9, batch=2, shuffle=False)
        replies = net.visit(kernel, {"weight": torch.zeros(1, 1, 1)}, edges_of([(0, 0)]), KEY)
        assert replies.numbers["loss"].item() == pytest.approx(18 / 3)
        assert replies.numbers["samples"].item() == 3

    def test_the_first_step_of_adam_is_the_rate(self, line):
        # bias-corrected, the first step is lr · g / (|g| + eps)
        net, start = line
        replies = net.visit(Adam(lr=0.1, batch=2), start, edges_of([(0, 0)]), KEY)
        assert net.open(replies)["weight"].item() == pytest.approx(0.1, rel=1e-6)

    def test_the_first_step_of_adamw_decays_before(self, line):
        # 10 · (1 - 0.1 · 0.5) - 0.1
        net, _ = line
        kernel = Adam(lr=0.1, batch=2, weight_decay=0.5, decoupled=True)
        replies = net.visit(kernel, {"weight": torch.full((1, 1, 1), 10.0)}, edges_of([(0, 0)]), KEY)
        assert net.open(replies)["weight"].item() == pytest.approx(9.4, rel=1e-6)

    def test_a_falling_rate_reaches_the_steps(self, line):
        # factors 1 and 0.75 of lr: 0 → 1, slope -5: + 0.075 · 5
        net, start = line
        kernel = SGD(lr=0.1, batch=2, steps=2, schedule="linear", final=0.5)
        replies = net.visit(kernel, start, edges_of([(0, 0)]), KEY)
        assert net.open(replies)["weight"].item() == pytest.approx(1.375, rel=1e-6)


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
    "adamw": (
        Adam(lr=0.01, weight_decay=0.1, decoupled=True),
        lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    ),
}


def options(kernel, **more):
    return replace(kernel, batch=5, shuffle=False, **more)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("pair", PAIRS)
class TestAgainstTorch:
    def test_three_epochs_are_the_same(self, pair, dtype, client_of, net_of):
        kernel, make = PAIRS[pair]
        case = Case(dtype)
        net = net_of(case.module, [client_of(case.x, case.y)])
        replies = net.visit(options(kernel, epochs=3), case.beliefs(), edges_of([(0, 0)]), KEY)
        assert_same(net.open(replies), case.by_torch(make, 3), dtype)
        assert replies.memory is None

    @pytest.mark.parametrize("keep", [True, False])
    def test_over_rounds_the_state_is_kept_or_starts_afresh(self, pair, dtype, keep, client_of, net_of):
        kernel, make = PAIRS[pair]
        case = Case(dtype)
        net = net_of(case.module, [client_of(case.x, case.y)])
        beliefs, memory = case.beliefs(), None
        for r in (1, 2, 3):
            replies = net.visit(
                options(kernel, keep=keep), beliefs, edges_of([(0, 0)]), Key(0).at_round(r, 3), memory
            )
            beliefs, memory = net.open(replies), replies.memory
        assert_same(beliefs, case.by_torch(make, 3, restart=not keep), dtype)


def test_batch_norm_follows_along(client_of, net_of):
    kernel, make = PAIRS["nesterov"]
    case = Case(torch.float64, nn.BatchNorm1d(8))
    net = net_of(case.module, [client_of(case.x, case.y)])
    replies = net.visit(options(kernel, epochs=3), case.beliefs(), edges_of([(0, 0)]), KEY)
    assert_same(net.open(replies), case.by_torch(make, 3), torch.float64)
    assert net.open(replies)["1.num_batches_tracked"].tolist() == [15]


@pytest.mark.parametrize("kernel", [SGD(momentum=0.9, keep=True), Adam(lr=0.05, keep=True)])
def test_what_is_kept_matters(kernel, client_of, net_of):
    case = Case(torch.float64)
    net = net_of(case.module, [client_of(case.x, case.y)])
    first = net.visit(options(kernel), case.beliefs(), edges_of([(0, 0)]), KEY)
    kept = net.visit(options(kernel), net.open(first), edges_of([(0, 0)]), KEY, first.memory)
    fresh = net.visit(options(kernel), net.open(first), edges_of([(0, 0)]), KEY)
    assert not torch.allclose(net.open(kept)["0.weight"], net.open(fresh)["0.weight"])
    assert first.memory["t"].tolist() == [5]
    assert kept.memory["t"].tolist() == [10]


def test_adam_corrects_its_bias_as_exactly_in_float32(client_of, net_of):
    # 1 - 0.999 taken in float32 is off by 1.3e-5; the first step should be lr to the last digits
    net = net_of(nn.Linear(1, 1, bias=False), [client_of(torch.ones(1, 1), torch.full((1,), 1000.0))])
    replies = net.visit(Adam(lr=1.0), {"weight": torch.zeros(1, 1, 1)}, edges_of([(0, 0)]), KEY)
    assert net.open(replies)["weight"].item() == pytest.approx(1.0, abs=1e-6)


def test_frozen_parameters_stay(client_of, net_of):
    case = Case(torch.float32)
    case.module[0].weight.requires_grad_(False)
    net = net_of(case.module, [client_of(case.x, case.y)])
    replies = net.visit(SGD(weight_decay=0.5, momentum=0.9), case.beliefs(), edges_of([(0, 0)]), KEY)
    after = net.open(replies)
    assert torch.equal(after["0.weight"][0], case.module[0].weight)
    assert not torch.equal(after["3.bias"][0], case.module[3].bias)


def test_kernels_are_registered():
    assert KERNELS.make("sgd", lr=0.5) == SGD(lr=0.5)
    assert KERNELS.make("adam", beta1=0.5) == Adam(beta1=0.5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SGD(lr=0), "lr=0 must be above 0 and finite: try 0.1"),
        (lambda: SGD(lr=-1.0), "lr=-1.0 must be above 0 and finite: try 0.1"),
        (lambda: SGD(lr=float("nan")), "lr=nan must be above 0 and finite: try 0.1"),
        (lambda: SGD(final=0), "final=0 must be above 0 and finite: try 0.01"),
        (lambda: SGD(epochs=0), "epochs=0 must be at least 1: try 1, or give steps"),
        (lambda: SGD(steps=-1), "steps=-1 must be at least 0: 0 leaves it to epochs"),
        (lambda: Adam(batch=0), "batch=0 must be at least 1: try 32"),
        (lambda: SGD(momentum=1.0), "momentum=1.0 must lie in [0, 1): try 0.9"),
        (lambda: SGD(momentum=-0.1), "momentum=-0.1 must lie in [0, 1): try 0.9"),
        (lambda: SGD(weight_decay=-1), "weight_decay=-1 must be at least 0: try 1e-4"),
        (lambda: SGD(nesterov=True), "nesterov needs a momentum above 0: try momentum=0.9"),
        (lambda: Adam(beta1=1.0), "beta1=1.0 must lie in [0, 1): try 0.9"),
        (lambda: Adam(eps=0), "eps=0 must be above 0: try 1e-8"),
        (lambda: Adam(weight_decay=-1), "weight_decay=-1 must be at least 0: try 1e-4"),
    ],
)
def test_bad_options(make, message, refused):
    with refused(BadInput, message):
        make()


def test_unknown_schedule(refused):
    with refused(UnknownName, "unknown schedule 'cosin': did you mean cosine?"):
        SGD(schedule="cosin")


@pytest.mark.parametrize(
    "make",
    [
        lambda: SGD(weight_decay=float("nan")),
        lambda: SGD(weight_decay=float("inf")),
        lambda: Adam(weight_decay=float("nan")),
        lambda: Adam(eps=float("nan")),
        lambda: SGD(lr=float("inf")),
    ],
    ids=["sgd nan", "sgd inf", "adam nan", "eps nan", "lr inf"],
)
def test_options_that_are_not_finite(make):
    with pytest.raises(BadInput):
        make()
