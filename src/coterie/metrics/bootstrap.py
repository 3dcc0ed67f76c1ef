"""What other test rows might have said: a paired bootstrap over rows, client by client.

Of client k's n_k test rows, n_k - 1 are drawn with replacement, by which the draws' variance is right for
few rows too (McCarthy and Snowden, "The bootstrap and finite population sampling", 1985); two methods are
judged on the same draw. The bounds are the 2.5 and 97.5 % points of all draws (Efron, 1979): a difference of
two means on the same rows is nearly symmetric, so that nothing is gained by correcting for a skew.

A figure has such bounds if it is a mean over rows, or a function of one (`by_row` in `table.py`). What looks
at several rows at once, as AUC does, has none.

Where all rows of a client say the same, so do all draws, and that is no certainty: a share of rows then has
the bounds that so many rows allow (`least_bounds`), also in a mean with other clients; other figures have
none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from torch import Tensor

from coterie.metrics.operating import wilson

DRAWS = 2000
AT_ONCE = 2**20  # numbers
ROUNDING = 1e-12  # draws that lie nearer to each other are the same


class Figure(NamedTuple):
    """What it says of a row, from outputs [row, out] and targets [row], and what the mean of that becomes;
    without that it is the share of rows that are right.
    """

    of_row: Callable[[Tensor, Tensor], Tensor]
    of_mean: Callable[[np.ndarray], np.ndarray] | None = None


class Outcomes(NamedTuple):
    """What came of each test row: `values` [row] as `Figure.of_row` has it, one client after the other, and
    how many rows of each there are: `sizes` [client].
    """

    sizes: np.ndarray
    values: np.ndarray

    def only(self, clients: np.ndarray) -> np.ndarray:
        """The values of some [client]."""
        return np.asarray(self.values[np.repeat(clients, self.sizes)], dtype=float)


def differences(
    ours: np.ndarray, theirs: np.ndarray, sizes: np.ndarray, figure: Figure, rng: np.random.Generator
) -> np.ndarray:
    """[draw, client] how far our figure lies above theirs, the mean over runs.

    Values are [run, row], the same rows in all runs, `sizes` [client] of them, two of each at least: the
    spread of one row is not known. Where a figure is the plain mean, rows are averaged over runs first.
    """
    of_mean = figure.of_mean
    sides = [ours, theirs] if of_mean else [(ours - theirs).mean(axis=0, keepdims=True)]
    taken = sizes - 1
    first, each = np.repeat(np.cumsum(sizes) - sizes, taken), np.repeat(sizes, taken)
    starts = np.cumsum(taken) - taken
    step, found = max(1, AT_ONCE // (len(first) * len(sides[0]))), []
    for begun in range(0, DRAWS, step):
        shape = (min(step, DRAWS - begun), len(first))
        rows = first + (rng.random(shape) * each).astype(np.int64)
        means = [np.add.reduceat(side[:, rows], starts, axis=2) / taken for side in sides]
        found.append((of_mean(means[0]) - of_mean(means[1]) if of_mean else means[0]).mean(axis=0))
    return np.concatenate(found)


def bounds(draws: np.ndarray, level: float = 0.95) -> np.ndarray:
    """[2, ...] between which so many of the draws [draw, ...] lie."""
    return np.asarray(np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0))


def bounds_by_client(draws: np.ndarray, sizes: np.ndarray, figure: Figure) -> np.ndarray:
    """[2, client] of draws [draw, client]; none of width zero."""
    found = bounds(draws)
    for i in np.flatnonzero(np.ptp(draws, axis=0) <= ROUNDING):
        found[:, i] = np.nan if figure.of_mean else least_bounds(float(draws[0, i]), int(sizes[i]))
    return found


def bounds_of_mean(draws: np.ndarray, sizes: np.ndarray, figure: Figure) -> np.ndarray:
    """[2] of the mean over clients. Those whose draws do not differ have no spread in them: each brings its
    own bounds, and they are put together with those of the others, as of independent differences: the squares
    of their distances add up. A figure that has no such bounds is the same to the last digit of a real number
    only where models are the same, which adds nothing; where all are, nothing is known.
    """
    fixed = np.ptp(draws, axis=0) <= ROUNDING
    if not fixed.any():
        return bounds(draws.mean(axis=1))
    each = bounds_by_client(draws, sizes, figure)[:, fixed] - draws[0, fixed]
    if not fixed.all():
        others = draws[:, ~fixed].sum(axis=1)
        each = np.column_stack([np.nan_to_num(each), bounds(others) - others.mean()])
    apart = np.sqrt(np.square(each).sum(axis=1)) / len(sizes)
    return np.asarray(draws.mean() + apart * np.array([-1, 1]))


def least_bounds(difference: float, rows: float) -> tuple[float, float]:
    """Between which a difference of two shares of these rows lies at best, where folds, seeds or draws agree
    too well; NaN of no rows.

    Two models are right on k and l of the same n rows: at least m = |k - l| of the rows differ, all one way.
    Of n rows, m of one kind and none of the other have Wilson's bounds (`operating.py`), and the difference
    of the two shares has Newcombe's, made of these ("Interval estimation for the difference between
    independent proportions", 1998, method 10), here of k >= l:

        m/n - √((m/n - low(m))² + high(0)²)   to   high(m),     high(0) = z² / (n + z²)

    If more rows differ, both ways, the difference is known less well: no interval of two accuracies on n rows
    can be narrower. With m = 0 it is ± z² / (n + z²), about 4 / n: of 27 rows, two accuracies that are the
    same may lie 12 points apart on others. It leaves out 0 from m = 5 on.
    """
    if math.isnan(difference) or not rows > 0:
        return math.nan, math.nan
    size = min(abs(difference), 1.0)
    low, high = (float(end) for end in wilson(size * rows, rows))
    none = float(wilson(0, rows)[1])
    ends = size - math.hypot(size - low, none), max(high, none)
    return ends if difference >= 0 else (-ends[1], -ends[0])
