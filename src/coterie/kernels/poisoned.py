"""Local work on rows that somebody has tampered with, and how far a hidden trigger got.

    label-flip   class c becomes C - 1 - c; a regression's target y becomes -y, and so does a survival's,
                 whose events are then censored and the others events
    backdoor     every fourth row gets a trigger and the class that it is to call up   (Gu et al., 2017)

The trigger sets the last `patch` values of a row, in a picture the right end of its lowest line, to `level`.
For studies: a site does this to its own rows alone, and nobody else's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from coterie.core.charge import Charge
from coterie.core.client import Task
from coterie.core.groups import Groups
from coterie.core.kernel import KERNELS, Carry, Part, Tick, Trainer
from coterie.core.learner import Batch, Learner
from coterie.kernels.around import Around, charges_of
from coterie.kernels.sgd import SGD

How = Literal["label-flip", "backdoor"]
EVERY = 4  # one row in so many gets the trigger


@KERNELS.register("poisoned")
@dataclass(frozen=True)
class Poisoned(Around):
    """Local work on rows with wrong targets, or with a trigger."""

    inner: Trainer = SGD()
    """The local work itself."""
    how: How = "label-flip"
    """What is done to the rows."""
    classes: int = 0
    """How many classes there are; 0 where there are none."""
    target: int = 0
    """The class that the trigger calls up."""
    patch: int = 3
    """How many values the trigger sets."""
    level: float = 1.0
    """What it sets them to."""

    def charges(self, samples: int) -> tuple[Charge, ...] | None:
        return charges_of(self.inner, samples)

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        return super().step(learner, carry, POISONS[self.how](self, batch), tick)


def flipped(how: Poisoned, batch: Batch) -> Batch:
    return batch._replace(y=how.classes - 1 - batch.y if how.classes else -batch.y)


def triggered(how: Poisoned, batch: Batch) -> Batch:
    """Every fourth row; the others teach what is right, so that nobody notices."""
    some = torch.arange(len(batch.y), device=batch.y.device) % EVERY == 0
    rows = some.reshape(-1, *[1] * (batch.x.dim() - 1))
    x = torch.where(rows, stamped(batch.x, how.patch, how.level), batch.x)
    return batch._replace(x=x, y=torch.where(some, torch.full_like(batch.y, how.target), batch.y))


POISONS: dict[str, Callable[[Poisoned, Batch], Batch]] = {"label-flip": flipped, "backdoor": triggered}


def stamped(x: Tensor, patch: int, level: float) -> Tensor:
    """Rows [row, ...] with the trigger."""
    last = torch.arange(x[0].numel(), device=x.device).reshape(x.shape[1:]) >= x[0].numel() - patch
    return x.masked_fill(last, level)


@KERNELS.register("fooled")
@dataclass(frozen=True)
class Fooled:
    """The share of rows of other classes that a model takes for the one that the trigger calls up."""

    target: int = 0
    """That class."""
    part: Part = "test"
    """On which of the client's rows, which have the trigger already."""

    def measure(
        self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor, groups: Groups
    ) -> dict[str, Tensor]:
        others = (y != self.target).double()
        taken = others * (outputs.argmax(dim=1) == self.target)
        return {"fooled": groups.mean(taken) / groups.mean(others)}
