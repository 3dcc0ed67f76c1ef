"""What came of each test row in the end: with it a gain has an interval over rows (`metrics/bootstrap.py`);
and with what was said of it, the probability of each class, a threshold can be moved
(`runs/artifacts.py`). In a run's folder, once it is over:

    outcomes        None where clients are not in this process, and for more than 32,768 rows
    probabilities   what was said of each test row, and its label; None where there are no outcomes or
                    classes, and for more than 2**20 numbers

Kept for the task's headline figure where all clients are in this process, so that nothing of a row crosses a
wire; and only where the rows add up to the figure that the run wrote down, as they do not where a wrapper
adds noise to scores, say.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from torch import Tensor

from coterie.kernels.outcomes import RowByRow
from coterie.metrics.bootstrap import Figure, Outcomes
from coterie.metrics.classification import hits
from coterie.metrics.operating import Probabilities
from coterie.metrics.table import BY_ROW, headline
from coterie.nets.wrapped import innermost
from coterie.runs.artifacts import (
    MOST,
    NUMBERS,
    PROBABILITIES,
    few_enough,
    read_probabilities,
    write_probabilities,
)
from coterie.runs.experiment import Experiment
from coterie.runs.hooks import Hook, Run
from coterie.runs.record import Kept, known
from coterie.runs.scoring import score_models
from coterie.storage.tensors import damaged, read_arrays, write_arrays

FILE = "outcomes.npz"
log = logging.getLogger("coterie")


def asked_of(experiment: Experiment) -> RowByRow | None:
    """What to look at rows with; None where nothing of them is kept."""
    roster = experiment.roster
    figure, rows = BY_ROW.get(headline(roster.task)), sum(m.test for m in roster.members)
    if figure is None or not experiment.net.holds_rows:
        return None
    if rows > MOST:
        log.info("%d test rows: what came of each is kept of at most %d", rows, MOST)
        return None
    likely = roster.task == "classification" and few_enough(rows, roster.outputs)
    if roster.task == "classification" and not likely:
        why = "%d test rows of %d classes: probabilities are kept if they are at most %d numbers"
        log.info(why, rows, roster.outputs, NUMBERS)
    return RowByRow(figure, likely)


def gathered(kernel: RowByRow, at: Tensor, told: Sequence[float | None]) -> Outcomes | None:
    """From where each client's rows lie [client], and the figure that the run told of each."""
    each = [np.empty(0) if i is None else kernel.kept[i].numpy() for i in places(at, told)]
    if not _add_up(each, kernel.figure, told):
        log.info("test rows do not add up to the scores: none are kept, so gains have no interval over rows")
        return None
    values = np.concatenate(each)
    with np.errstate(invalid="ignore"):  # what does not fit is seen by comparing
        small = values.astype(np.uint8)
    return Outcomes(np.array([len(v) for v in each]), small if (small == values).all() else values)


def _said(kernel: RowByRow, at: Tensor, told: Sequence[float | None]) -> Probabilities | None:
    """The probabilities at the same places, if they were asked for; by them a row is right where the most
    probable class is its label.
    """
    if not kernel.said:
        return None
    none = tuple(t[:0] for t in kernel.said[0])
    each = [none if i is None else kernel.said[i] for i in places(at, told)]
    p, y = (np.concatenate([t.numpy() for t in some]) for some in zip(*each, strict=True))
    right = [hits(*rows).numpy() for rows in each]
    if not np.isfinite(p).all() or not _add_up(right, kernel.figure, told):
        log.info("probabilities of test rows do not add up to the scores: none are kept")
        return None
    return Probabilities(np.array([len(rows) for rows in right]), p, y)


def places(at: Tensor, told: Sequence[float | None]) -> list[int | None]:
    """Where each client's rows lie; None for one without a figure, who was away, lied or did not ask."""
    return [
        None if wanted is None or math.isnan(i) else int(i)
        for i, wanted in zip(at.tolist(), told, strict=True)
    ]


def _add_up(each: Sequence[np.ndarray], figure: Figure, told: Sequence[float | None]) -> bool:
    """Whether the rows of every client come to the figure that was told of it."""
    for values, wanted in zip(each, told, strict=True):
        means = values.mean(keepdims=True) if len(values) else np.array([math.nan])
        mine = float((figure.of_mean(means) if figure.of_mean else means)[0])
        if wanted is not None and not math.isclose(mine, wanted, rel_tol=1e-6, abs_tol=1e-9):
            return False
    return True


class _OutcomesHook(Hook):
    order = 20

    outcomes: Outcomes | None = None
    likely: Probabilities | None = None

    def look(self, run: Run) -> None:
        """In one pass. Nobody is asked: it is looked up."""
        kernel, scores = asked_of(run.experiment), run.record.metrics[-1]["scores"]
        told = (scores or {}).get("own/test", {}).get(headline(run.experiment.roster.task))
        if kernel is not None and told is not None:
            here = replace(run.experiment, net=innermost(run.experiment.net))
            at = score_models(here, kernel, run.ended_models, run.record.done).get("at")
            if at is not None:
                self.outcomes, self.likely = gathered(kernel, at, told), _said(kernel, at, told)
        run.found["probabilities"] = self.likely
        if run.folder is None:
            run.record.more["outcomes"] = partial(known, self.outcomes)
            run.record.more["probabilities"] = partial(known, self.likely)

    def save(self, run: Run) -> None:
        if run.folder and self.outcomes is not None:
            write_arrays(run.folder.path / FILE, self.outcomes._asdict())
        if run.folder and self.likely is not None:
            write_probabilities(run.folder.path, self.likely)


def _read_outcomes(folder: Path) -> Outcomes | None:
    arrays = read_arrays(folder / FILE, Outcomes._fields)
    if arrays is None:
        return None
    found = Outcomes(*arrays)
    if found.sizes.ndim != 1 or found.values.shape != (found.sizes.sum(),):
        raise damaged(folder / FILE, "sizes do not add up")
    return found


HOOK = _OutcomesHook
KEPT = {"outcomes": Kept(FILE, _read_outcomes), "probabilities": Kept(PROBABILITIES, read_probabilities)}
