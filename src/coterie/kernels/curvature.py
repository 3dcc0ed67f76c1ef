"""What a site says to those who fit a linear model together: sums over its rows, no model of its own.

`column-sums`    means and mean squares of its columns, and of a regression's target: a common scale
`curvature`      how its log-likelihood bends around its own best guess near a common model, with what it may
                 differ by summed over, for each way of a grid (`linear/evidence.py`)
`near`           its own model: the optimum of its likelihood and of how far models lie from the common one;
                 or the one that it finds alone, where its own rows say clearly that it does not belong

All are over the number of rows, so that the sum over sites weighed by their rows is the mean over all rows.
With `tau` and `level` 0 the guess is the common model itself, and `curvature` says slope and curvature there:
what a Newton step needs. `noise` is the variance that a regression leaves unexplained, in the target's common
unit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from coterie.core.belief import Belief
from coterie.core.errors import BadInput
from coterie.core.kernel import KERNELS, Carry, Reply, Tick
from coterie.core.learner import Batch, Learner
from coterie.kernels.ridge import Ridge, strength_of
from coterie.kernels.solving import (
    Solving,
    coefficients_of,
    design_for,
    digest,
    outputs_of,
    remembered,
    targets_in_units,
)
from coterie.linear.design import Design, designed, written_linear
from coterie.linear.evidence import grid, marginal, variances
from coterie.linear.newton import minimise
from coterie.linear.strength import MANY, cross_losses, not_worse, own_losses, some_rows

SCALE, ALL, CENTRES, UNITS = "scale", "all", "centres", "units"
MEANS, SQUARES = "means", "squares"
BEND, SLOPE, CONSTANT, REST = "bend", "slope", "constant", "rest"
SURE = 2.0  # standard errors: with one, many small sites would leave by chance
TIGHT = 1e8  # precision of what may not differ


@KERNELS.register("column-sums")
@dataclass(frozen=True)
class ColumnSums(Solving):
    """Means and mean squares of a site's columns and targets, around centres and in units that it is given;
    without any, the asinh of its own means and deviations: that fits into a sealed sum whatever their size,
    and its mean over sites is near enough to centres and units to lose no digits by.
    """

    sums: ClassVar[bool] = True  # of columns, in place of a model

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        return {**super().start(belief, memory, beside), UNITS: dict(beside.get(UNITS, {}))}

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        carry = super().step(learner, carry, batch, tick)
        rough = carry.pop(UNITS)
        x = batch.x.reshape(len(batch.x), -1).double().cpu()
        y = torch.zeros(1, dtype=torch.float64)
        if learner.task == "regression":
            y = targets_in_units(learner, batch.y).double().cpu()
        table = torch.cat([x, y.unsqueeze(1)], 1) if len(y) == len(x) else F.pad(x, (0, 1))
        if rough:
            centre, unit = roughly(rough)
            table = (table - centre) / unit
            found = {MEANS: table.mean(0), SQUARES: table.square().mean(0)}
        else:
            found = {MEANS: table.mean(0).asinh(), SQUARES: table.std(0, correction=0).asinh()}
        return {**carry, "belief": {n: t.float() for n, t in found.items()}}


def roughly(told: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Centres and units of columns and target, from the mean over sites of what they told without any."""
    centre, unit = told[MEANS].double().sinh(), told[SQUARES].double().sinh()
    return centre, torch.where(unit > 1e-9 * centre.abs(), unit, centre.abs().clamp(min=1.0))


@dataclass(frozen=True)
class _NearCommon(Solving):
    """What `curvature` and `near` share: a best guess near the common model that came, in a common scale."""

    tau: float = 0.0
    """How far slopes of sites lie apart, in deviations of a column; 0: not at all."""
    level: float = 0.0
    """How far intercepts do."""
    noise: float = 1.0
    """The variance that a regression leaves."""

    varies: ClassVar[tuple[str, ...]] = ("tau", "level", "noise")
    also: ClassVar[str]  # the number that it tells beside those of any work

    def __post_init__(self) -> None:
        for name, least in (("tau", 0), ("level", 0), ("noise", 1e-30)):
            if not least <= getattr(self, name) < math.inf:
                raise BadInput(f"{name}={getattr(self, name)} must be at least {least:g} and finite: try 1")

    @property
    def numbers(self) -> tuple[str, ...]:
        return ("loss", "samples", self.also)

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        if SCALE not in beside:
            raise BadInput(f"this work needs a belief beside it, named {SCALE!r}: give one to the visit")
        return {**super().start(belief, memory, beside), SCALE: dict(beside[SCALE])}

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        carry = super().step(learner, carry, batch, tick)
        return {k: v for k, v in carry.items() if k != SCALE}

    def finish(self, carry: Carry) -> Reply:
        reply = super().finish(carry)
        return reply._replace(numbers={**reply.numbers, self.also: carry[self.also]})

    def guess(self, learner: Learner, belief: Belief, batch: Batch, scale: Belief) -> tuple[Design, Tensor]:
        """The rows in the common scale, and the site's own coefficients [q] near the common ones."""
        mean, deviation, level, unit = scale_of(scale)
        y = targets_in_units(learner, batch.y)
        design = designed(learner.task, outputs_of(learner), batch.x, y, mean, deviation, level, unit)
        centre = coefficients_of(design, belief)
        if not self.tau and not self.level:
            return design, centre

        def make() -> Tensor:
            spread = torch.where(design.slopes, self.tau, self.level).double()
            hold = (self.noise_of(learner) / spread.square().clamp(min=1 / TIGHT)).unsqueeze(0)
            everyone = torch.ones(1, len(design.z), dtype=torch.float64)
            theta = minimise(
                design.family,
                design.z,
                design.u,
                everyone,
                hold,
                centre.unsqueeze(0),
                centre.unsqueeze(0),
                check=learner.watch.check,
            )
            return theta[0]

        options = ("near", self.tau, self.level, self.noise, learner.task, learner.scale)
        mark = digest(*options, batch.x, batch.y, *belief.values(), *scale.values())
        return design, remembered(mark, make)  # coefficients alone: rows would be kept for each round

    def noise_of(self, learner: Learner) -> float:
        return self.noise if learner.task == "regression" else 1.0


@KERNELS.register("curvature")
@dataclass(frozen=True)
class Curvature(_NearCommon):
    """How a site's likelihood bends around its best guess near a common model."""

    apart: bool = False
    """For each way of a grid in which sites may differ; false: for one model that all share."""

    sums: ClassVar[bool] = True  # of columns, in place of a model
    also: ClassVar[str] = "share"

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        design, theta = self.guess(learner, carry["belief"], batch, carry[SCALE])
        carry = super().step(learner, carry, batch, tick)
        everyone = torch.ones(1, len(design.z), dtype=torch.float64)
        point = design.family.at(theta.unsqueeze(0), design.z, design.u, everyone)
        noise, rows = self.noise_of(learner), len(design.z)
        bend, slope = point.curvature[0] / noise, point.slope[0] / noise
        pairs = grid(self.apart, design.family.intercept)
        sums = marginal(bend, bend @ theta - slope, variances(pairs, design.slopes))
        # parameters that rows have used up, of those that are near the common ones
        spread = torch.where(design.slopes, self.tau, self.level).double().square()
        used = torch.linalg.solve(torch.eye(len(theta)).double() + bend * spread, bend * spread).trace()
        told = {
            BEND: noise * sums.curvature / rows,
            SLOPE: noise * sums.slope / rows,
            CONSTANT: noise * sums.constant / rows,
            REST: torch.stack([point.loss[0] / rows, used / rows]),
        }
        share = used / max(1, len(theta))
        return {**carry, "belief": {n: t.float() for n, t in told.items()}, "share": share}


@KERNELS.register("near")
@dataclass(frozen=True)
class Near(_NearCommon):
    """A site's own model near a common one; or, where that is clearly worse for it, the one that it finds
    alone.
    """

    also: ClassVar[str] = "alone"

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        if ALL not in beside:
            raise BadInput(f"this work needs a belief beside it, named {ALL!r}: give one to the visit")
        zero = torch.zeros((), dtype=torch.float64)
        return {**super().start(belief, memory, beside), ALL: dict(beside[ALL]), "alone": zero}

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        design, theta = self.guess(learner, carry["belief"], batch, carry[SCALE])
        after = written_linear(carry["belief"], *design.weights(theta))
        alone = self.alone_is_better(learner, batch, design, theta, carry[ALL])
        if alone:
            after = Ridge().solve(learner, after, batch)
        rest = {k: v for k, v in carry.items() if k != ALL}
        told = {**rest, "belief": dict(after), "alone": torch.tensor(float(alone), dtype=torch.float64)}
        return super().step(learner, told, batch, tick)

    def alone_is_better(
        self, learner: Learner, batch: Batch, design: Design, theta: Tensor, all_: Belief
    ) -> bool:
        """Whether rows that are held out lose more near the mean of the others, in which they have no part,
        than by a model of one's own, by more than SURE standard errors.
        """
        spread = torch.where(design.slopes, self.tau, self.level).double().square()
        others = _mean_of_others(self, learner, design, theta, spread, all_)
        unit = None if learner.units is None else learner.units.numpy()
        strength = strength_of(learner, batch)
        own = design_for(learner, batch, scaled=True)
        check = learner.watch.check
        if others is None or not len(strength.losses):
            return False
        if len(design.z) > MANY:  # the same rows of both
            (design, some), (own, _) = some_rows(design, unit, 0), some_rows(own, unit, 0)
            unit = some
        hold = (self.noise_of(learner) / spread.clamp(min=1 / TIGHT)).clamp(max=TIGHT)
        near = cross_losses(design, hold, others, unit, 0, check)
        free = own_losses(own, strength.value, unit, 0, check)
        if near is None or free is None:
            return False
        scale = design.unit**2 / own.unit**2 if learner.task == "regression" else 1.0
        return not not_worse(near * scale - free, unit, SURE)


def _mean_of_others(
    work: _NearCommon, learner: Learner, design: Design, theta: Tensor, spread: Tensor, all_: Belief
) -> Tensor | None:
    """The common coefficients [q] without a site's own part in the sums of all; None if nothing is left."""
    everyone = torch.ones(1, len(design.z), dtype=torch.float64)
    point = design.family.at(theta.unsqueeze(0), design.z, design.u, everyone)
    noise = work.noise_of(learner)
    bend, slope = point.curvature[0] / noise, point.slope[0] / noise
    mine = marginal(bend, bend @ theta - slope, spread.unsqueeze(0))
    matrix = all_[BEND].double() - mine.curvature[0]
    factor, wrong = torch.linalg.cholesky_ex((matrix + matrix.T) / 2)
    if bool(wrong):
        return None
    right = (all_[SLOPE].double() - mine.slope[0]).unsqueeze(1)
    return torch.cholesky_solve(right, factor).squeeze(1)


def scale_of(sums: Mapping[str, Any]) -> tuple[Tensor, Tensor, float, float]:
    """Means and deviations of columns [d], and of the target, from what `column-sums` told of all: sums, and
    the centres and units that they are in.
    """
    centre, unit = (sums[name].double() for name in (CENTRES, UNITS))
    mean, square = sums[MEANS].double(), sums[SQUARES].double()
    spread = (square - mean.square()).clamp(min=0)
    deviation = torch.where(spread > 1e-6 * (1 + square), spread, 0.0).sqrt() * unit
    mean = centre + mean * unit
    return mean[:-1], deviation[:-1], float(mean[-1]), float(deviation[-1]) or 1.0
