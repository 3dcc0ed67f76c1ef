"""What so many rows can tell of a difference of two shares, where folds, seeds or draws agree too well.

Two models are right on k and l of the same n rows: at least m = |k - l| of the rows differ, all one way. Of n
rows, m of one kind and none of the other have Wilson's bounds (`operating.py`), and the difference of the two
shares has Newcombe's, made of these ("Interval estimation for the difference between independent
proportions", 1998, method 10), here of k >= l:

    m/n - √((m/n - low(m))² + high(0)²)   to   high(m),     high(0) = z² / (n + z²)

If more rows differ, both ways, the difference is known less well: no interval of two accuracies on n rows can
be narrower. With m = 0 it is ± z² / (n + z²), about 4 / n: of 27 rows, two accuracies that are the same may
lie 12 points apart on others. It leaves out 0 from m = 5 on.
"""

from __future__ import annotations

import math

from coterie.metrics.operating import wilson


def least_bounds(difference: float, rows: float) -> tuple[float, float]:
    """Between which a difference of two shares of these rows lies at best; NaN of no rows."""
    if math.isnan(difference) or not rows > 0:
        return math.nan, math.nan
    size = min(abs(difference), 1.0)
    low, high = (float(end) for end in wilson(size * rows, rows))
    none = float(wilson(0, rows)[1])
    ends = size - math.hypot(size - low, none), max(high, none)
    return ends if difference >= 0 else (-ends[1], -ends[0])
