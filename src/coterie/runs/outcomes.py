"""What came of each test row in the end: with it a gain has an interval over rows (`metrics/bootstrap.py`).

Kept for the task's headline figure where all clients are in this process, so that nothing of a row crosses a
wire; and only where the rows add up to the figure that the run wrote down, as they do not where a wrapper
adds noise to scores, say.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from coterie.kernels.outcomes import RowByRow
from coterie.metrics.bootstrap import FIGURES, Figure, Outcomes
from coterie.metrics.summary import HEADLINE
from coterie.nets.in_process import InProcess
from coterie.nets.wrapped import innermost
from coterie.runs.experiment import Experiment

log = logging.getLogger("coterie")

MOST = 2**15  # rows: so many say within half a point what others would


def asked_of(experiment: Experiment) -> RowByRow | None:
    """What to look at rows with; None where their outcomes are not kept."""
    figure = FIGURES.get(HEADLINE[experiment.roster.task])
    rows = sum(m.test for m in experiment.roster.members)
    here = isinstance(innermost(experiment.net), InProcess)
    return RowByRow(figure) if figure is not None and here and rows <= MOST else None


def gathered(kernel: RowByRow, at: Tensor, told: Sequence[float | None]) -> Outcomes | None:
    """From where each client's rows lie [client], and the figure that the run told of each."""
    each = [np.empty(0) if math.isnan(i) else kernel.kept[int(i)].numpy() for i in at.tolist()]
    # who was away, lied or did not ask has no figure
    each = [values if wanted is not None else values[:0] for values, wanted in zip(each, told, strict=True)]
    behind = zip(each, told, strict=True)
    if not all(wanted is None or _adds_up(values, kernel.figure, wanted) for values, wanted in behind):
        log.info("test rows do not add up to the scores: none are kept, so gains have no interval over rows")
        return None
    values = np.concatenate(each)
    small = values.astype(np.uint8)
    return Outcomes(np.array([len(v) for v in each]), small if (small == values).all() else values)


def _adds_up(values: np.ndarray, figure: Figure, wanted: float) -> bool:
    means = values.mean(keepdims=True) if len(values) else np.array([math.nan])
    found = float((figure.of_mean(means) if figure.of_mean else means)[0])
    return math.isclose(found, wanted, rel_tol=1e-6, abs_tol=1e-9)
