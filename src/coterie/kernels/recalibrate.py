"""A model of others, put right at a site by two numbers: where it lies and how far it goes.

    η'_i = a + b η_i,    (a, b) = argmin Σ_i ℓ(a + b η_i; y_i) + κ/2 (b - 1)²

η are the model's outputs: log odds, a number, a risk (which has no level, so no a). With several classes a
has one number for each. b is drawn towards 1, as if κ rows had said so, in the unit of the loss; a is free.
Any network whose last layer is linear can be put right so: its weights are b times what they were. (Cox,
1958, "Two further applications of a model for binary regression"; Steyerberg, 2009, "Clinical Prediction
Models", ch. 20.)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from coterie.core.belief import Belief
from coterie.core.errors import BadInput
from coterie.core.kernel import KERNELS
from coterie.core.learner import LOSSES, Batch, Learner
from coterie.core.options import bounded, check_options
from coterie.kernels.solving import Solving
from coterie.linear.families import family_of
from coterie.linear.newton import minimise, slope_and_levels
from coterie.linear.strength import FIRM


@KERNELS.register("recalibrate")
@dataclass(frozen=True)
class Recalibrate(Solving):
    """Level and slope of a model's outputs, found on a site's own rows."""

    trust: float = bounded(4.0, "be above 0 and finite", "try 4")
    """How strongly the slope is drawn towards 1."""

    def __post_init__(self) -> None:
        check_options(self)

    def suits(self, model: nn.Module) -> None:
        _last_layer(model)

    def solve(self, learner: Learner, belief: Belief, batch: Batch) -> Belief:
        name = _last_layer(learner.scoring)
        weight, bias = f"{name}weight", f"{name}bias"
        outputs = learner.outputs(belief, batch.x).double().cpu()
        level, slope = put_right(learner, outputs, batch.y.double().cpu(), self.trust)
        centre, unit = learner.scale
        level = (level + (slope - 1) * centre) / unit  # in that of the layer, where outputs have another
        mine = {weight: belief[weight] * slope, bias: belief[bias] * slope + level.to(belief[bias])}
        return {**belief, **mine}

    def unsolved(self, learner: Learner) -> str:
        return "" if learner.rule is LOSSES[learner.task] else "its loss is one's own"


def put_right(learner: Learner, outputs: Tensor, y: Tensor, trust: float) -> tuple[Tensor, float]:
    """a [out] and b, of outputs [n, out] and targets [n]."""
    many = outputs.shape[1]
    family, check = family_of(learner.task, many), learner.watch.check
    unit, firm = 1.0, FIRM
    if learner.task == "regression":
        unit, firm = float(y.std(correction=0)) or 1.0, 0.0  # a mean is never infinite
        y, outputs = y / unit, outputs / unit
    if many > 2:  # one slope for all classes, and a level for each
        middle = outputs.mean(0)
        slope, levels = slope_and_levels((outputs - middle).numpy(), y.long().numpy(), trust, FIRM, check)
        return torch.from_numpy(levels) - slope * middle, slope
    eta = outputs[:, 1:] - outputs[:, :1] if many == 2 else outputs
    middle = eta.mean(0, keepdim=True)
    spread = float(eta.std(correction=0))
    if spread < 1e-9:
        eta_scaled, hold = torch.zeros_like(eta), torch.tensor([1e6, firm]).double()
    else:
        eta_scaled, hold = eta - middle, torch.tensor([trust, firm]).double()
    z = torch.cat([eta_scaled, torch.ones_like(eta)], 1) if family.intercept else eta_scaled
    hold, towards = hold[: z.shape[1]], torch.tensor([1.0, 0.0]).double()[: z.shape[1]]
    mask = torch.ones(1, len(z), dtype=torch.float64)
    hold, towards = hold.unsqueeze(0), towards.unsqueeze(0)
    theta = minimise(family, z, y, mask, hold, towards, towards, check=check)[0]
    b = float(theta[0])
    if not family.intercept:
        return torch.zeros(1, dtype=torch.float64), b
    a = float(theta[1] - b * middle) * unit
    return torch.tensor([-a / 2, a / 2] if many == 2 else [a], dtype=torch.float64), b


def _last_layer(model: nn.Module) -> str:
    """What the names of a network's last layer begin with; it must be linear with a bias."""
    layers = [
        (name, m)
        for name, m in model.named_modules()
        if next(iter(m.parameters(recurse=False)), None) is not None
    ]
    name, layer = layers[-1] if layers else ("", None)
    if not isinstance(layer, nn.Linear) or layer.bias is None:
        raise BadInput("recalibration needs a model whose last layer is linear with a bias: use finetune")
    return f"{name}." if name else ""
