"""Times and events as targets: +t where the event was seen at t, -t where a row was watched until t without.

A person gives times and events in one of these ways; whatever is no time or no event is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coterie.core.errors import BadData, BadInput, shown
from coterie.data.intake import ARRAYS, Array, Source, TaskChoice, targets_of

MERGED = 0.01  # of the times, at most, may tie by rounding
REMEDY = "correct the row, or leave it out"


def goals_of(
    y: Any,
    event: Any,
    name: str,
    classes: Sequence[Any] | None,
    task: TaskChoice = "auto",
    source: Source = ARRAYS,
) -> tuple[Array, tuple[str, ...], tuple[str, ...]]:
    """Targets as `intake.targets_of` has them; with events, or of a survival, signed times."""
    if event is None and task != "survival":
        return targets_of(y, name, classes, task, source)
    whose = f"client {name!r}: "
    if classes is not None or task not in ("auto", "survival"):
        beside = "classes" if classes is not None else f"task={task!r}"
        raise BadInput(f"{whose}{beside} beside an event, which makes a survival: leave one out")
    if event is None:
        y, event = pairs_of(y, whose)
    return survival_targets(y, event, whose), (), ()


def pairs_of(y: Any, whose: str) -> tuple[Array, Array]:
    """Times and events of pairs [row, 2]."""
    array = y.detach().cpu().numpy() if hasattr(y, "detach") else np.asarray(y)
    if array.ndim != 2 or array.shape[1] != 2:
        raise BadData(
            f"{whose}targets of a survival have shape {array.shape}, but need pairs (time, event): pass "
            "event=, 1 where the event was seen, 0 where not"
        )
    return array[:, 0], array[:, 1]


def stored(times: Array) -> Array:
    """Times as clients have them, in 32 bits."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(times).astype(np.float32)


def signed(times: Array, events: Array, whose: str = "") -> Array:
    """[row] of times above 0 and events that are 0 or 1; times that seven digits cannot tell apart are
    refused, unless they are a few.
    """
    different = len(np.unique(times))
    lost = different - len(np.unique(stored(times)))
    if lost > MERGED * different:
        raise BadData(
            f"{whose}{lost} of {different} different times become the same number in 32 bits, with seven "
            "digits: count them from a later start, or round them"
        )
    return np.where(np.asarray(events) == 1, times, -np.asarray(times)).astype(np.float64)


def survival_targets(times: Any, events: Any, whose: str) -> Array:
    """Signed times of what a person gave; all that is wrong with them is said at once."""
    t, e = numbers(times, "times", whose), numbers(events, "events", whose)
    if len(t) != len(e):
        raise BadData(f"{whose}{len(t)} times but {len(e)} events: give one event, 0 or 1, for each time")
    said = []
    for what, values, bad, must in (
        ("time", t, ~(np.isfinite(stored(t)) & (stored(t) > 0)), "above 0 and finite"),
        (
            "event",
            e,
            ~np.isin(e, (0.0, 1.0)),
            "1 where it was seen, 0 where the row was only watched until then",
        ),
    ):
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            many = f" ({int(bad.sum())} such rows)" if bad.sum() > 1 else ""
            value = "missing" if np.isnan(values[row]) else f"{values[row]:g}"
            said.append(f"{what} is {value} in row {row}{many}, but must be {must}")
    if said:
        raise BadData(f"{whose}{'; '.join(said)}: {REMEDY}")
    return signed(t, e, whose)


def numbers(values: Any, what: str, whose: str) -> Array:
    """[row] as floats, NaN where missing; of anything else a refusal."""
    import pandas as pd  # only here: it takes a while to import

    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise BadData(f"{whose}{what} have shape {array.shape}, but need [samples]: give one for each row")
    found = pd.to_numeric(pd.Series(array), errors="coerce")
    wrong = found.isna() & ~pd.Series(array).isna()
    if wrong.any():
        first = array[int(np.flatnonzero(wrong)[0])]
        first = first.item() if isinstance(first, np.generic) else first
        raise BadData(f"{whose}{what} hold {shown(first)}, which is no number: {REMEDY}")
    return np.asarray(found.to_numpy(dtype=np.float64, na_value=np.nan))
