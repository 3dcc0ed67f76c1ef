"""Which columns to look at before any figure, as they tell the outcome alone: see `sites/leaning.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.runs.record import Record
from coterie.sites.leaning import look_first


def line(records: Sequence[Record]) -> str:
    """One line for all of them; nothing where no column does, or a record is too old to say. Each column is
    named once, where it tells most: seeds may deal rows differently.
    """
    best = dict[str, Mapping[str, Any]]()
    for record in records:
        for leak in record.about.get("leaks") or ():
            name = str(leak["column"])
            if name not in best or leak["score"] > best[name]["score"]:
                best[name] = leak
    return look_first(sorted(best.values(), key=lambda leak: (-leak["score"], -leak["rows"])))
