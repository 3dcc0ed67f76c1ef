"""What is measured of a round beside scores: whether clients find their own kind, and how far models part.

    precision, recall                 of those a client gave a weight above 0, beside itself
    circle_precision, circle_recall   of the method's CIRCLE, where it fills one (PENS, table 4.3)
    drift                             how far a client's model is from the mean of all clients' models

Each is [client], NaN where it is not defined; the formulas are in `metrics/collaboration.py`. The first four
need true clusters and a round; drift needs the models, and so is measured only when they are scored and all
sites are in this process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from coterie.core.belief import Beliefs
from coterie.core.method import CIRCLE, Info
from coterie.metrics.collaboration import drifts, neighbours_found
from coterie.metrics.table import COLLABORATION

MEASURES = tuple(COLLABORATION)


def measure(
    info: Info | None,
    beliefs: Beliefs | None,
    of: Tensor | None,
    clusters: Sequence[int | None],
    trained: Sequence[str],
) -> dict[str, Tensor]:
    """What a round's info tells, if there was one, and the models after it, if they are at hand: row of[i] is
    client i's, which has none below 0.
    """
    told: dict[str, Tensor] = {}
    if info is not None and None not in clusters:
        chosen = neighbours_found(info.weights, clusters)
        gone = info.weights.sum(dim=1) == 0  # was not reached, and so had no choice
        told |= {"precision": chosen.precision, "recall": chosen.recall.masked_fill(gone, math.nan)}
        if CIRCLE in info.matrices:
            circle = neighbours_found(info.matrices[CIRCLE], clusters)
            told |= {"circle_precision": circle.precision, "circle_recall": circle.recall}
    if beliefs is not None and of is not None:
        told["drift"] = drifts(beliefs, of, trained)
    return told
