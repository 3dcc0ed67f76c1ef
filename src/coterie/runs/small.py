"""Clients whose figures rest on little, and what to say of them: each counts as much as any other in a mean.

    few test rows    below TEST: half of the 95 % interval of an accuracy p on n rows, 1.96 √(p (1 - p) / n),
                     is 14 points at p = 0.8 and n = 30, more than most differences between methods
    one class        among training rows, where there is nothing to learn, or among test rows, where whoever
                     always names it is right; of a survival, no event
    much smaller     fewer training rows than SHARE of the median client's

Of a client that keeps its labels to itself only the sizes are known; of one whose sizes are not known either,
because it is not there yet or this is another site's part of a run, nothing is said.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

TEST = 30  # test rows
SHARE = 0.1  # of the median client's training rows
LIKELY = 0.8  # an accuracy for which the half width is told
MARK = "†"
MEAN = "counts as much as any other in the mean"

Described = Mapping[str, Any]
"""What a record says of a client: name, train, validation, test, labels."""


class Place(NamedTuple):
    """A client among the others."""

    client: Described
    median: float
    task: str


def half_width(rows: int, accuracy: float = LIKELY) -> float:
    """Of the 95 % interval of an accuracy on so many rows, in points."""
    return 196 * math.sqrt(accuracy * (1 - accuracy) / rows)


def few_test_rows(place: Place) -> str:
    rows = int(place.client.get("test") or 0)
    if not 0 < rows < TEST:
        return ""
    known = f", on which an accuracy of {100 * LIKELY:.0f} % is known to ±{half_width(rows):.0f} points"
    return f"{rows} test row{'s' * (rows != 1)}{known if place.task == 'classification' else ''}"


def one_class(place: Place) -> str:
    labels = place.client.get("labels")
    if not labels:
        return ""
    parts = dict(zip(("training", "test"), (labels[0], labels[-1]), strict=True))
    single = [name for name, counts in parts.items() if sum(1 for c in counts if c) == 1]
    if place.task == "survival":  # events alone are no lack: their order is learnt
        single = [name for name in single if not parts[name][1]]
        return f"{' and '.join(single)} rows without an event" if single else ""
    return f"{' and '.join(single)} rows of one class" if single else ""


def much_smaller(place: Place) -> str:
    rows = int(place.client.get("train") or 0)
    if rows >= SHARE * place.median:
        return ""
    return f"{rows} training row{'s' * (rows != 1)} where the median client has {place.median:.0f}"


RULES: tuple[Callable[[Place], str], ...] = (few_test_rows, one_class, much_smaller)
"""What each says of a client; nothing where it does not hold."""


def comments(clients: Sequence[Described], task: str = "classification") -> dict[str, str]:
    """By client, of those whose figures rest on little."""
    known = [c for c in clients if c.get("train")]
    median = statistics.median(int(c["train"]) for c in known) if known else 0.0
    said = {str(c["name"]): [s for rule in RULES if (s := rule(Place(c, median, task)))] for c in known}
    return {name: "; ".join(some) for name, some in said.items() if some}
