"""Pictures from the gradient of a network, by finding inputs whose gradient is the same.

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
from typing import NamedTuple

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


class Found(NamedTuple):
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
) -> Found:
    """As many pictures as there are labels, of the shape and about the size of numbers that `like` has."""
    best: Found | None = None
    for i in range(STARTS):
        found = _from(learner, belief, gradient, labels, like, key.at("start", i).torch())
        best = found if best is None or found.mismatch < best.mismatch else best
        if best.mismatch < NOTHING:
            break
    assert best is not None
    return best


def _from(
    learner: Learner,
    belief: Belief,
    gradient: Belief,
    labels: Tensor,
    like: Tensor,
    source: torch.Generator,
) -> Found:
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
    best, signed = x.detach().clone(), _apart(learner, belief, gradient, labels, x)
    polish = torch.optim.LBFGS(
        [x],
        max_iter=POLISHING_STEPS,
        history_size=50,
        line_search_fn="strong_wolfe",
        tolerance_grad=1e-14,
        tolerance_change=1e-18,
    )

    def closure() -> Tensor:
        polish.zero_grad()
        apart = mismatch(gradient_at(learner, belief, x, labels), gradient)
        apart.backward()  # type: ignore[no-untyped-call]
        return apart.detach()

    polish.step(closure)  # type: ignore[no-untyped-call]
    polished = _apart(learner, belief, gradient, labels, x)
    if polished < signed and bool(torch.isfinite(x).all()):
        return Found(x.detach().clone(), polished)
    return Found(best, signed)


def _apart(learner: Learner, belief: Belief, gradient: Belief, labels: Tensor, x: Tensor) -> float:
    return float(mismatch(gradient_at(learner, belief, x.detach(), labels), gradient).detach())


def _sum(terms: list[Tensor]) -> Tensor:
    return torch.stack(terms).sum()


def last_bias(model: nn.Module) -> str:
    """The name of the last linear layer's bias; nothing if there is none."""
    found = [
        n for n, layer in model.named_modules() if isinstance(layer, nn.Linear) and layer.bias is not None
    ]
    return f"{found[-1]}.bias" if found else ""


def why_not(model: nn.Module, parameters: int) -> str:
    """Why a network is not tried; nothing if it is."""
    if parameters > MOST_PARAMETERS:
        return f"the network has {parameters} parameters, at most {MOST_PARAMETERS} are tried"
    if any("norm" in type(layer).__name__.lower() for layer in model.modules()):
        return "the network normalises over rows or channels, which this attack does not model"
    if not last_bias(model):
        return "the network's last layer has no bias to read the label from"
    return ""
