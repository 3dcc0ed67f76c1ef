"""The optimum near the model that came: a proximal step, solved exactly.

    w = argmin mean_i ℓ(w; x_i, y_i) + μ/2 ‖w - w_came‖² + λ/2 ‖w‖²

μ is `pull`, λ `penalty` (which does not hold biases). No learning rate, and nothing that can diverge: a step
goes from what came as far as the loss pays for, whatever the scale of inputs and targets. Round after round,
what is averaged goes from the first model towards the common optimum as slowly as μ says, so that few rounds
are a penalty of about μ / rounds. (Rockafellar, 1976, "Monotone operators and the proximal point algorithm".)

Pulls of work around it (`proximal`, `controlled`) are in the sum if they are linear in the coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.belief import Belief
from coterie.core.errors import BadInput
from coterie.core.kernel import WORK
from coterie.core.learner import Batch, Learner
from coterie.core.options import bounded, check_options
from coterie.kernels.solving import Solving, coefficients_of, design_for, digest, remembered
from coterie.linear.design import Design, linear_names, written_linear
from coterie.linear.newton import minimise

HALF_A_SQUARE = 2.0  # the loss of a regression is the square, that of its likelihood half of it


@WORK.register("newton")
@dataclass(frozen=True)
class Newton(Solving):
    """A linear model's optimum near the one that came: no learning rate, and nothing that diverges."""

    pull: float = bounded(1.0, "be above 0 and finite", "try 1")
    """How strongly the model that came holds the new one, beside the mean loss over rows."""
    penalty: float = bounded(0.0, "be at least 0 and finite", "try 0.01")
    """How strongly weights are held towards 0, beside the mean loss over rows; biases are not."""

    def __post_init__(self) -> None:
        check_options(self)

    def solve(self, learner: Learner, belief: Belief, batch: Batch) -> Belief:
        terms, names = _affine(learner, belief), linear_names(belief)

        def make() -> Belief:
            design = design_for(learner, batch, scaled=False)
            came = coefficients_of(design, belief).unsqueeze(0)
            rows, unit = len(design.z), HALF_A_SQUARE if learner.task == "regression" else 1.0
            each = 0.5 if len(belief[names.bias]) == 2 else 1.0  # two classes share a coefficient, half each
            shrink = torch.where(design.slopes, self.penalty, 0.0).double()
            bends, tilts = _folded(*terms, design)
            scale = rows / unit
            total = scale * (each * (self.pull + shrink) + bends)
            lean = scale * (tilts - each * self.pull * came[0])
            everyone = torch.ones(1, rows, dtype=torch.float64)
            theta = minimise(
                design.family,
                design.z,
                design.u,
                everyone,
                total.unsqueeze(0),
                came,
                tilt=lean.unsqueeze(0),
                check=learner.watch.check,
            )
            return written_linear(belief, *design.weights(theta[0]))

        mark = digest(
            repr(self),
            tuple(belief),
            learner.task,
            learner.scale,
            batch.x,
            batch.y,
            belief[names.weight],
            belief[names.bias],
            *terms[0].values(),
            *terms[1].values(),
        )
        found: Belief = remembered(mark, make)
        return {**belief, **found}


Parts = dict[str, Tensor]


def _affine(learner: Learner, belief: Belief) -> tuple[Parts, Parts]:
    """a and b of the pulls a ∘ w + b that a learner has in its gradients; others are refused."""
    names = linear_names(belief)
    zeros = {n: torch.zeros_like(belief[n], dtype=torch.float64) for n in names}
    if not learner.terms:
        return zeros, zeros

    def pulls(at: Belief) -> Parts:
        found = [term(at) for term in learner.terms]
        return {n: torch.stack([f[n].double() for f in found]).sum(0) for n in names}

    here: Belief = {n: torch.zeros_like(belief[n]) for n in names}
    low, high = pulls(here), pulls({n: t + 1 for n, t in here.items()})
    three = pulls({n: t + 3 for n, t in here.items()})
    bends = {n: high[n] - low[n] for n in low}
    for n in low:
        if not torch.allclose(
            three[n], low[n] + 3 * bends[n], rtol=1e-3, atol=1e-4 * (1 + float(low[n].abs().max()))
        ):
            raise BadInput("kernel newton takes pulls that are linear, and this one is not: use sgd or adamw")
    return bends, low


def _folded(bends: Parts, tilts: Parts, design: Design) -> tuple[Tensor, Tensor]:
    """The same on coefficients [k·d]; of two classes, whose rows are half a coefficient each, on that."""
    names = linear_names(bends)
    a, b = (
        torch.cat([p[names.weight].flatten(1), p[names.bias].unsqueeze(1)], 1)
        if design.family.intercept
        else p[names.weight]
        for p in (bends, tilts)
    )
    if len(a) == 2:
        a, b = (a[:1] + a[1:]) / 4, (b[1:] - b[:1]) / 2
    return a.flatten(), b.flatten()
