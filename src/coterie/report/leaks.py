"""Which columns to look at before any figure, as they tell the outcome alone: see `sites/leaning.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.data.tables.leaks import shown_score
from coterie.report import words
from coterie.runs.record import Record

NAMED = 3  # columns in the line


def line(records: Sequence[Record]) -> str:
    """One line for all of them; nothing where no column does, or a record is too old to say."""
    found = telling(records)
    if not found:
        return ""
    if len(found) == 1:
        (leak,) = found
        return (
            f"Look at `{leak['column']}` first: alone it tells {told(leak)} ({measured(leak)}): is it known "
            "before the outcome?"
        )
    listed = [f"`{leak['column']}` ({measured(leak)})" for leak in found[:NAMED]]
    more = [f"{len(found) - NAMED} more"] if len(found) > NAMED else []
    *most, last = [*listed, *more]
    return (
        f"Look at {', '.join(most)} and {last} first: each tells the outcome alone: are they known before it?"
    )


def telling(records: Sequence[Record]) -> list[Mapping[str, Any]]:
    """Each column once, where it tells most: seeds may deal rows differently."""
    best = dict[str, Mapping[str, Any]]()
    for record in records:
        for leak in record.about.get("leaks") or ():
            name = str(leak["column"])
            if name not in best or leak["score"] > best[name]["score"]:
                best[name] = leak
    return sorted(best.values(), key=lambda leak: (-leak["score"], -leak["rows"]))


def told(leak: Mapping[str, Any]) -> str:
    return str(leak["tells"]).replace("the target", "the outcome")


def measured(leak: Mapping[str, Any]) -> str:
    whose = f"{leak['site']}'s " if leak["site"] else ""
    rows = f"{words.whole(leak['rows'])} training rows"
    return f"{leak['measure']} {shown_score(float(leak['score']))} on {whose}{rows}"
