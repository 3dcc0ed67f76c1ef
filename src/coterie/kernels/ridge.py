"""The optimum of a site's own penalised likelihood: what a competent user would do alone.

    w = argmin Σ_i ℓ(w; x_i, y_i) + λ/2 Σ_j s_j² w_j²

s_j is the deviation of column j at the site; the intercept is not held (but by a hundredth where rows are of
one class, which would make it infinite); ℓ is squared error, log loss, or Cox's partial likelihood. λ is
`penalty`, chosen by cross-validation within the training rows if it is not given (`linear/strength.py`); the
strongest leaves no more than the mean. The model that came is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from coterie.core.belief import Belief
from coterie.core.errors import BadInput
from coterie.core.kernel import WORK
from coterie.core.learner import Batch, Learner
from coterie.core.options import bounded, check_options
from coterie.kernels.solving import Solving, design_for, digest, outputs_of, remembered
from coterie.linear.design import Design, written_linear
from coterie.linear.strength import Strength, chosen_strength, fitted


@WORK.register("ridge")
@dataclass(frozen=True)
class Ridge(Solving):
    """A linear model's penalised optimum, its strength chosen by cross-validation; what came is forgotten."""

    forgets: ClassVar[bool] = True
    """What it finds does not depend on the model that came: once is enough."""

    penalty: float | None = bounded(None, "be above 0 and finite", "try 1, or leave it out", besides=None)
    """How strongly coefficients are held, in the units of a sum of losses (scikit-learn's 1/C); by default
    what cross-validation within the training rows finds best."""

    def __post_init__(self) -> None:
        check_options(self)

    def solve(self, learner: Learner, belief: Belief, batch: Batch) -> Belief:
        if learner.terms:
            raise BadInput("kernel ridge forgets what came, so nothing can pull it: use newton")

        def make() -> Belief:
            design = design_for(learner, batch, scaled=True)
            strength = self.penalty if self.penalty is not None else strength_of(learner, batch, design).value
            return self.at(design, strength, belief, learner)

        mark = digest(
            "ridge",
            [(name, tuple(t.shape), t.dtype) for name, t in belief.items()],
            self.penalty,
            learner.task,
            learner.scale,
            batch.x,
            batch.y,
            _units_of(learner),
        )
        found: Belief = remembered(mark, make)
        return {**belief, **found}

    def at(self, design: Design, strength: float, belief: Belief, learner: Learner) -> Belief:
        """The model of one strength."""
        everyone = torch.ones(1, len(design.z), dtype=torch.float64)
        theta = fitted(design, torch.tensor([strength], dtype=torch.float64), everyone, learner.watch.check)
        return written_linear(belief, *design.weights(theta[0]))


def strength_of(learner: Learner, batch: Batch, design: Design | None = None) -> Strength:
    """Of a site's training rows, found once."""

    def make() -> Strength:
        rows = design or design_for(learner, batch, scaled=True)
        unit = None if learner.units is None else learner.units.numpy()
        return chosen_strength(rows, unit, 0, learner.watch.check)

    mark = digest("strength", learner.task, outputs_of(learner), batch.x, batch.y, _units_of(learner))
    found: Strength = remembered(mark, make)
    return found


def _units_of(learner: Learner) -> object:
    return "each" if learner.units is None else learner.units
