"""What to say beside means over clients where some of them rest on little: see `runs/small.py`."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.report import views, words
from coterie.runs import small
from coterie.runs.record import Record

NAMED = 3  # clients in the line


def commented(records: Sequence[Record]) -> dict[str, str]:
    """By client, from the first run that has something to say of it: seeds may deal rows differently."""
    found: dict[str, str] = {}
    for record in records:
        for name, said in small.comments(record.about["clients"], views.task(record)).items():
            found.setdefault(name, said)
    return {name: found[name] for name in records[0].clients if name in found}


def line(records: Sequence[Record]) -> str:
    """One line for all of them; nothing where there are none, or a single client has no mean."""
    found, n = commented(records), len(records[0].clients)
    if not found or n == 1:
        return ""
    shown = [f"{name} ({said})" for name, said in list(found.items())[:NAMED]]
    more = f", and {len(found) - NAMED} more" if len(found) > NAMED else ""
    whole = f"{words.several(len(found), 'client')} of {n} " + ("rests" if len(found) == 1 else "rest")
    counts = small.MEAN if len(found) == 1 else small.MEAN.replace("counts", "count")
    return f"{whole} on little, and {counts}: {', '.join(shown)}{more}."


def marked(name: str, found: dict[str, str]) -> str:
    """A name, with a mark where there is something to say of it."""
    return f"{name} {small.MARK}" if name in found else name


def notes(records: Sequence[Record]) -> list[str]:
    """What the marks mean, a line for each client; of many that share a reason, one."""
    by_reason: dict[str, list[str]] = {}
    for name, said in commented(records).items():
        by_reason.setdefault(said, []).append(name)
    return [
        f"{small.MARK} {', '.join(names)}: {said}; {small.MEAN if len(names) == 1 else 'each ' + small.MEAN}."
        for said, names in by_reason.items()
    ]
