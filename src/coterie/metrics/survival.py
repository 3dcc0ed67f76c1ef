"""How well risks order times until an event, in each of several groups of rows, [group]; without groups, all
are one.

Targets are signed: +t for an event at t, -t for a row that was watched until t without one.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from coterie.core.groups import Groups, each, whole
from coterie.core.survival import cox

CELLS = 2**22  # pairs that are compared at a time


def concordance(risk: Tensor, y: Tensor, groups: Groups | None = None) -> Tensor:
    """The share of comparable pairs in which the row with the earlier event has the higher risk.

    Harrell, Califf, Pryor, Lee and Rosati, 1982, "Evaluating the yield of medical tests". Two rows are
    comparable if it is known whose event came first: the shorter time is an event, or both times are the same
    and one of the two is an event, which then counts as the earlier. Two events at the same time are not
    comparable. Equal risks count half. These are the rules of lifelines. NaN where no pair is comparable.
    """
    sizes = whole(groups, y).sizes.tolist()
    own = zip(torch.split(risk.double(), sizes), torch.split(y.double(), sizes), strict=True)
    found = [_in_order(r.numpy(force=True), t.numpy(force=True)) for r, t in own]
    return torch.tensor(found, dtype=torch.float64)


def excess(risk: Tensor, y: Tensor, kinds: Tensor) -> Tensor:
    """Of each row [row] with an event, Cox's loss less that of a model that knows nothing, which gives all
    rows the same risk: the logarithm of the size of the risk set. 0 of a censored row. Rows are beside
    those of their kind.
    """
    column = risk.double().unsqueeze(1)
    return each(kinds, cox, column, y.double()) - each(kinds, cox, torch.zeros_like(column), y.double())


def _in_order(risk: np.ndarray, y: np.ndarray) -> float:
    """The same of one group."""
    right = pairs = 0.0
    events, step = np.flatnonzero(y > 0), max(1, CELLS // max(1, len(y)))
    for first in range(0, len(events), step):
        some = events[first : first + step, None]
        later = (np.abs(y) > y[some]) | (y == -y[some])
        pairs += later.sum()
        right += (later & (risk < risk[some])).sum() + 0.5 * (later & (risk == risk[some])).sum()
    return float(right / pairs) if pairs else float("nan")
