"""What to say beside means over clients where some of them rest on little: see `runs/small.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coterie.report import views, words
from coterie.runs import small
from coterie.runs.record import Record

NAMED = 3  # reasons in the line, and clients of each


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
    groups = [f"{_few(names)} ({said})" for said, names in list(by_reason(found).items())[:NAMED]]
    rest = sum(len(names) for names in list(by_reason(found).values())[NAMED:])
    more = f", and {rest} more" if rest else ""
    whole = f"{words.several(len(found), 'client')} of {n} " + ("rests" if len(found) == 1 else "rest")
    counts = small.MEAN if len(found) == 1 else small.MEAN.replace("counts", "count")
    return f"{whole} on little, and {counts}: {', '.join(groups)}{more}."


def by_reason(found: Mapping[str, str]) -> dict[str, list[str]]:
    """Clients of which the same is said."""
    made: dict[str, list[str]] = {}
    for name, said in found.items():
        made.setdefault(said, []).append(name)
    return made


def _few(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def marked(name: str, found: Mapping[str, str]) -> str:
    """A name, with a mark where there is something to say of it."""
    return f"{name} {small.MARK}" if name in found else name


def notes(records: Sequence[Record]) -> list[str]:
    """What the marks mean, a line for each client; of many that share a reason, one."""
    return [
        f"{small.MARK} {', '.join(names)}: {said}; {small.MEAN if len(names) == 1 else 'each ' + small.MEAN}."
        for said, names in by_reason(commented(records)).items()
    ]
