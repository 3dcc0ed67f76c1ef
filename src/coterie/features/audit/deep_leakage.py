"""Rows from a gradient: exactly from that of a first linear layer, else by finding inputs with the same one.

Phong, Aono, Hayashi, Wang and Moriai, 2018, "Privacy-Preserving Deep Learning via Additively Homomorphic
Encryption", section 3. For z = W x + b and any loss behind it,

    dL/dW_i = (dL/dz_i) x,    dL/db_i = dL/dz_i,    so    x = (dL/dW_i) / (dL/db_i)      `rows_of`

for every unit i whose bias moves: one row is recovered exactly, without guessing anything. Of a batch, unit i
gives the mean of its rows, each weighted by its own dL/dz_i: a unit that only one row switches on still gives
that row. The factor of the learning rate is the same above and below the line, so the step of a visit serves
as well as a gradient. dL/dW is `weight` [unit, input], dL/db `bias` [unit].

Zhu, Liu and Han, 2019, "Deep Leakage from Gradients" (DLG):

    x* = argmin_x |∇_θ ℓ(f_θ(x), y) - g|²                                     `mismatch`, by L-BFGS

Zhao, Mopuri and Bilen, 2020, "iDLG": of one row, the label is the only class whose entry of the last bias's
gradient is below 0, as dL/db = softmax(z) - onehot(y)                        `label_of`
Geiping, Bauermeister, Dröge and Moeller, 2020, "Inverting Gradients": signed steps of Adam on

    1 - <∇_θ ℓ, g> / (|∇_θ ℓ| |g|)                                            `angle`

f_θ is the learner's model, g `gradient`, x `pictures`. Deviations. DLG replaces ReLU by smooth units and
takes strides out; here the network is attacked as it is, on which L-BFGS alone stays in the next corner. So
the steps of Geiping et al. come first (without their prior on smooth pictures) and L-BFGS polishes what they
found. Of several starts the one whose gradient fits best is kept: that can be seen without knowing the rows.
Labels of a batch are taken as known, as label counts are public unless a site keeps them to itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from coterie.core.belief import Belief
from coterie.core.learner import Learner
from coterie.core.seeds import Key

STARTS = 2
SIGNED_STEPS, POLISHING_STEPS = 300, 100
RATE = 0.1
NOTHING = 1e-6  # a mismatch at which another start would find nothing better
MOST_PARAMETERS = 2**19
STILL = 1e-6  # of the largest: a bias that moves no more than this says nothing


class _Found(NamedTuple):
    """Pictures, and how far their gradient is from the one given: 0 is the same, 1 is as far as nothing."""

    pictures: Tensor
    mismatch: float


def label_of(bias: Tensor) -> int:
    """The class of one row: the entry of the last bias's gradient that lies below 0."""
    return int(bias.argmin())


def mismatch(found: Mapping[str, Tensor], gradient: Belief) -> Tensor:
    """|∇ - g|² / |g|²"""
    total = _sum([t.square().sum() for t in gradient.values()])
    apart = _sum([(found[name] - t).square().sum() for name, t in gradient.items()])
    return apart / total.clamp(min=torch.finfo(total.dtype).tiny)


def angle(found: Mapping[str, Tensor], gradient: Belief) -> Tensor:
    """1 - cos(∇, g)"""
    along = _sum([(found[name] * t).sum() for name, t in gradient.items()])
    mine = _sum([found[name].square().sum() for name in gradient]).clamp(min=1e-30).sqrt()
    given = _sum([t.square().sum() for t in gradient.values()]).clamp(min=1e-30).sqrt()
    return 1 - along / (mine * given)


def gradient_at(learner: Learner, belief: Belief, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """∇_θ of the mean loss of some rows, itself open to differentiation."""
    leaves = {name: belief[name].detach().requires_grad_() for name in learner.trainable}
    outputs = functional_call(learner.scoring, {**belief, **leaves}, (x,))
    loss = learner.losses(outputs, y).mean()
    found = torch.autograd.grad(loss, list(leaves.values()), create_graph=True)
    return dict(zip(learner.trainable, found, strict=True))


def recovered(
    learner: Learner, belief: Belief, gradient: Belief, labels: Tensor, like: Tensor, key: Key
) -> _Found:
    """As many pictures as there are labels, of the shape and about the size of numbers that `like` has."""
    best: _Found | None = None
    for i in range(STARTS):
        found = _from(learner, belief, gradient, labels, like, key.at("start", i).torch())
        best = found if best is None or found.mismatch < best.mismatch else best
        if best.mismatch < NOTHING:
            break
    assert best is not None
    return best


def _from(
    learner: Learner, belief: Belief, gradient: Belief, labels: Tensor, like: Tensor, source: torch.Generator
) -> _Found:
    noise = torch.randn(len(labels), *like.shape[1:], generator=source, dtype=like.dtype)
    x = (like.mean() + like.std() * noise).requires_grad_()
    steps = torch.optim.Adam([x], lr=RATE * float(like.max() - like.min()))
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(steps, SIGNED_STEPS)
    for _ in range(SIGNED_STEPS):
        steps.zero_grad()
        angle(gradient_at(learner, belief, x, labels), gradient).backward()  # type: ignore[no-untyped-call]
        if x.grad is not None:
            x.grad.nan_to_num_(0.0).sign_()
        steps.step()
        falling.step()

    def apart_at(x: Tensor) -> float:
        return float(mismatch(gradient_at(learner, belief, x.detach(), labels), gradient).detach())

    best, signed = x.detach().clone(), apart_at(x)
    limits: dict[str, Any] = {"tolerance_grad": 1e-14, "tolerance_change": 1e-18}
    limits |= {"max_iter": POLISHING_STEPS, "history_size": 50}
    polish = torch.optim.LBFGS([x], line_search_fn="strong_wolfe", **limits)

    def closure() -> Tensor:
        polish.zero_grad()
        apart = mismatch(gradient_at(learner, belief, x, labels), gradient)
        apart.backward()  # type: ignore[no-untyped-call]
        return apart.detach()

    polish.step(closure)  # type: ignore[no-untyped-call]
    polished = apart_at(x)
    if polished < signed and bool(torch.isfinite(x).all()):
        return _Found(x.detach().clone(), polished)
    return _Found(best, signed)


def _sum(terms: list[Tensor]) -> Tensor:
    return torch.stack(terms).sum()


def last_bias(model: nn.Module) -> str:
    """The name of the last linear layer's bias; nothing if there is none."""
    linear = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]
    names = [name for name, layer in linear if layer.bias is not None]
    return f"{names[-1]}.bias" if names else ""


def why_not(model: nn.Module, parameters: int) -> str:
    """Why a network is not tried; nothing if it is."""
    if parameters > MOST_PARAMETERS:
        return f"the network has {parameters} parameters, at most {MOST_PARAMETERS} are tried"
    if any("norm" in type(layer).__name__.lower() for layer in model.modules()):
        return "the network normalises over rows or channels, which this attack does not model"
    if not last_bias(model):
        return "the network's last layer has no bias to read the label from"
    return ""


def rows_of(weight: Tensor, bias: Tensor) -> Tensor:
    """x̂ = ΔW_i / Δb_i for each unit i that moves: [candidate, input]; none if no bias does."""
    weight, bias = weight.double(), bias.double()
    size = bias.abs()
    order = size.argsort(descending=True, stable=True)
    moved = order[size[order] > STILL * float(size.max())]
    return weight[moved] / bias[moved].unsqueeze(1)


def takes_rows_as_they_are(model: nn.Module, x: Tensor) -> tuple[str, str] | None:
    """The names of weight and bias of a first linear layer that gets the inputs [1, ...] unchanged; None
    otherwise.
    """
    passed: list[tuple[nn.Module, Any]] = []
    names = {layer: name for name, layer in model.named_modules()}
    own = [layer for layer in names if next(layer.parameters(recurse=False), None) is not None]
    note = [layer.register_forward_pre_hook(lambda *passing: passed.append(passing)) for layer in own]
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in note:
            handle.remove()
    first, given = passed[0]
    if not isinstance(first, nn.Linear) or first.bias is None:
        return None
    if given[0].numel() != x.numel() or not torch.equal(given[0].reshape(-1), x.reshape(-1)):
        return None
    inside = f"{names[first]}." if names[first] else ""  # a model may be one layer
    return f"{inside}weight", f"{inside}bias"
