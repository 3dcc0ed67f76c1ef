"""Cross-validation as two kernels: `Fold` trains on all rows but one fold's, `HeldOut` scores on that fold.

A client's training rows are dealt at random to K folds of equal size (±1). The dealing depends on the seed
and on the number of rows alone, so that both kernels, wherever they run, mean the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from coterie.core.contract import Charge, Extent, Groups, Key, Part, Plan, Task, Trainer
from coterie.core.kernel import KERNELS, extent_of
from coterie.core.watch import look
from coterie.kernels.around import Around, charges_of
from coterie.kernels.sgd import SGD


@KERNELS.register("fold")
@dataclass(frozen=True)
class Fold(Around):
    """Local work on all training rows but those of one fold; its memory is fresh at each visit.

    A batch of a single row, which only leaving rows out may have brought about, is left out too: batch
    norm cannot train on it. A mark after it comes after the step before it, where the state is the same. Work
    that hides rows behind noise keeps it, as it keeps an empty one.
    """

    inner: Trainer = SGD()
    """The local work itself."""
    folds: int = 0
    """Into how many folds rows are dealt; 0 leaves nothing out."""
    fold: int = 0
    """The fold that is left out, from 0."""
    seed: int = 0
    """Deals the rows."""
    passes: int = 1
    """How many times over the local work is done; a falling rate falls from the first to the last."""
    inside: bool = False
    """Work on the rows of the fold alone, instead of on all others."""

    deals: ClassVar[tuple[str, ...]] = ("fold", "seed")

    @property
    def keeps(self) -> bool:
        return False

    def charges(self, samples: int) -> tuple[Charge, ...] | None:
        once = charges_of(self.inner, len(self.rows(samples)))
        return None if once is None else tuple(replace(c, times=c.times * self.passes) for c in once)

    def extent(self, samples: int) -> Extent | None:
        rows = self.rows(samples)
        found = extent_of(self.inner, len(rows))
        if found is None:
            return None
        alone = self.folds and found.batch > 1 and len(rows) % found.batch == 1  # such a batch is left out
        mine = rows if found.rows is None else rows[found.rows]
        evenly, least = found.evenly and not alone, found.least - bool(alone)
        return Extent(found.steps * self.passes, found.batch, evenly, least, mine)

    def plan(self, samples: int, key: Key) -> Plan:
        rows = self.rows(samples)
        plans = [self.planned(len(rows), key, p) for p in range(1, self.passes + 1)]
        wide = max(p.rows.shape[1] for p in plans)
        steps = torch.cat([F.pad(p.rows, (0, wide - p.rows.shape[1]), value=-1) for p in plans])
        rates = torch.cat([p.rates for p in plans])
        found = [p.marks for p in plans if p.marks is not None]
        marks = torch.cat(found) if found else None
        planned = torch.where(steps >= 0, rows[steps.clamp(min=0)], -1)
        if self.folds and planned.shape[1] > 1 and charges_of(self.inner, len(rows)) is None:
            several = (planned >= 0).sum(dim=1) > 1
            planned, rates = planned[several], rates[several]
            marks = None if marks is None else moved(marks, several)
        return Plan(planned, rates, plans[0].seed, marks)

    def planned(self, samples: int, key: Key, number: int) -> Plan:
        """One of the passes."""
        look()
        return self.inner.plan(samples, key.at_round(number, self.passes))

    def rows(self, samples: int) -> Tensor:
        """The rows to work on, in order."""
        if not self.folds:
            return torch.arange(samples)
        held = torch.zeros(samples, dtype=torch.bool)
        held[fold_rows(samples, self.folds, self.fold, self.seed)] = True
        return (held if self.inside else ~held).nonzero().flatten()


@KERNELS.register("held-out")
@dataclass(frozen=True)
class HeldOut:
    """The mean loss on the training rows of one fold."""

    folds: int = 2
    """Into how many folds rows are dealt."""
    fold: int = 0
    """The fold to score on, from 0."""
    seed: int = 0
    """Deals the rows."""
    part: Part = "train"
    """Folds are made of training rows."""

    deals: ClassVar[tuple[str, ...]] = ("fold", "seed")

    def measure(
        self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor, groups: Groups
    ) -> dict[str, Tensor]:
        rows, held = self.held(groups)
        return {"loss": held.mean(losses[rows]), "samples": held.sizes.double()}

    def apart(self, groups: Groups) -> Tensor:
        rows, _ = self.held(groups)
        return torch.zeros_like(groups.index).index_fill_(0, rows, 1)

    def held(self, groups: Groups) -> tuple[Tensor, Groups]:
        """The rows of the fold, and how many each group has."""
        sizes = groups.sizes.tolist()
        dealt = {n: fold_rows(n, self.folds, self.fold, self.seed) for n in set(sizes)}
        firsts = (groups.sizes.cumsum(0) - groups.sizes).tolist()
        rows = torch.cat([first + dealt[n] for first, n in zip(firsts, sizes, strict=True)])
        return rows, Groups.of(torch.tensor([len(dealt[n]) for n in sizes]))


def moved(marks: Tensor, stay: Tensor) -> Tensor:
    """Marks of the steps that stay, with those of the others at the last step before that stays."""
    after = stay.cumsum(0)[marks] - 1
    left = torch.zeros(int(stay.sum()), dtype=torch.bool)
    left[after[after >= 0]] = True
    return left


def fold_rows(samples: int, folds: int, fold: int, seed: int) -> Tensor:
    """The rows of one fold, in order; every row is in exactly one."""
    dealt = torch.randperm(samples, generator=Key(seed, ("folds", samples)).torch())
    return dealt[fold::folds].sort().values
