"""A site's rows as a linear model sees them, and coefficients as the module has them.

    z_j = (x_j - m_j) / s_j         inputs in deviations of the site's own rows, so that one strength fits all
    u   = (y - a) / b               a regression's target likewise; other targets as they are
    η   = Θ [z, 1]

A column that never changes has s = 0: its coefficient is 0. What comes out are weights and biases for x as it
is and y in its own unit. Of two classes the module has two rows, of which half a coefficient each: that is
where a penalty on both would put them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from coterie.core.belief import Belief
from coterie.core.client import Task
from coterie.core.errors import BadInput
from coterie.core.learner import LOSSES, Learner
from coterie.core.target_scale import TargetScale
from coterie.linear.families import Family, family_of


class Names(NamedTuple):
    """What a module calls the weights [k, d] and biases [k] of its one linear map."""

    weight: str
    bias: str


def names_in(tensors: Mapping[str, Tensor]) -> Names | None:
    """Of a model's tensors; None if they are not those of one linear map."""
    one = next((n for n in tensors if n.rpartition(".")[2] == "weight"), "")
    other = f"{one.removesuffix('weight')}bias"
    if set(tensors) != {one, other} or tensors[one].ndim < 2:
        return None
    return Names(one, other)


def why_not_linear(model: nn.Module) -> str:
    """Why a module is not one linear map that can be solved; nothing if it is."""
    kinds = nn.Linear | nn.Flatten | nn.Sequential | TargetScale
    plain = all(isinstance(m, kinds) for m in model.modules())
    if not plain or names_in(dict(model.named_parameters())) is None:
        return "it is no single linear map"
    return ""


@dataclass(frozen=True, eq=False)
class Design:
    """Rows z [n, d] with a 1 behind them where there is an intercept, targets u [n], and the way back.

    mean, scale    [d] of the inputs; a scale is 0 where there is nothing to scale
    centre, unit   of a regression's target; 0 and 1 otherwise
    """

    family: Family
    z: Tensor
    u: Tensor
    mean: Tensor
    scale: Tensor
    centre: float
    unit: float

    @property
    def inputs(self) -> int:
        return len(self.mean)

    @property
    def slopes(self) -> Tensor:
        """[k·d] which coefficients are no intercepts."""
        one = torch.ones(self.z.shape[1], dtype=torch.bool)
        if self.family.intercept:
            one[-1] = False
        return one.repeat(self.family.outputs)

    def weights(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Weights [k, d] and biases [k] for rows as they are, of coefficients [k·d] of these."""
        table = theta.view(self.family.outputs, -1)
        inverse = torch.where(self.scale > 0, 1 / self.scale.clamp(min=1e-300), 0.0)
        weights = table[:, : self.inputs] * inverse * self.unit
        bias = (
            table[:, -1] * self.unit + self.centre if self.family.intercept else table.new_zeros(len(table))
        )
        return weights, bias - weights @ self.mean if self.family.intercept else bias

    def coefficients(self, weights: Tensor, bias: Tensor) -> Tensor:
        """The inverse: [k·d], without what columns that never change are worth."""
        slopes = weights * self.scale / self.unit
        if not self.family.intercept:
            return slopes.flatten()
        level = (bias + weights @ self.mean - self.centre) / self.unit
        return torch.cat([slopes, level.unsqueeze(1)], 1).flatten()


def design_of(task: Task, outputs: int, x: Tensor, y: Tensor, scaled: bool = True) -> Design:
    """Of rows as a client has them; `scaled` in deviations of their own, else as they are."""
    rows = x.reshape(len(x), -1).double().cpu()
    if not scaled:
        zeros = torch.zeros(rows.shape[1], dtype=torch.float64)
        return designed(task, outputs, x, y, zeros, zeros + 1, 0.0, 1.0)
    target = y.double().cpu()
    centre, unit = float(target.mean()), float(target.std(correction=0))
    return designed(task, outputs, x, y, rows.mean(0), rows.std(0, correction=0), centre, unit)


def designed(
    task: Task, outputs: int, x: Tensor, y: Tensor, mean: Tensor, scale: Tensor, centre: float, unit: float
) -> Design:
    """Of rows in these deviations from these means; a target's are used for a regression alone."""
    family = family_of(task, outputs)
    scale = torch.where(scale > 1e-6 * (1 + mean.abs()), scale, 0.0)
    inverse = torch.where(scale > 0, 1 / scale.clamp(min=1e-300), 0.0)
    rows = (x.reshape(len(x), len(mean)).double().cpu() - mean) * inverse
    centre, unit = (centre, unit or 1.0) if task == "regression" else (0.0, 1.0)
    target = (y.double().cpu() - centre) / unit
    z = torch.cat([rows, torch.ones(len(rows), 1).double()], 1) if family.intercept else rows
    return Design(family, z, target, mean, scale, centre, unit)


def linear_names(belief: Belief) -> Names:
    """The same of a belief that is known to be one."""
    found = names_in(belief)
    if found is None:
        raise BadInput(f"tensors {', '.join(belief)} are not those of a linear map: use sgd or adamw")
    return found


def read_linear(belief: Belief) -> tuple[Tensor, Tensor]:
    """Weights [k, d] and biases [k] of a module's tensors; of two classes, one row: their difference."""
    names = linear_names(belief)
    weights, bias = belief[names.weight].double().cpu(), belief[names.bias].double().cpu()
    if len(bias) == 2:
        return weights[1:] - weights[:1], bias[1:] - bias[:1]
    return weights, bias


def written_linear(belief: Belief, weights: Tensor, bias: Tensor) -> Belief:
    """The belief with these in place of its own."""
    names = linear_names(belief)
    if len(belief[names.bias]) == 2:
        weights, bias = torch.cat([-weights, weights]) / 2, torch.cat([-bias, bias]) / 2
    return {**belief, names.weight: weights.to(belief[names.weight]), names.bias: bias.to(belief[names.bias])}


def why_not_exact(learner: Learner) -> str:
    """Why a learner's model cannot be solved exactly; nothing if it can."""
    if why := why_not_linear(learner.scoring):
        return why
    if learner.rule is not LOSSES[learner.task]:
        return "its loss is one's own"
    if learner.transform is not None:
        return "its rows are transformed anew at each step"
    return ""
