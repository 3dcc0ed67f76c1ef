"""Dates as people write them."""

from __future__ import annotations

import datetime
import re

from coterie.data.tables.texts import Cell

ISO = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([ T]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[+-]\d{2}:?\d{2})?")
# which other ways are tried, the day before the month first
FORMATS = (
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%Y/%m/%d",
    "%d.%m.%y",
    "%d-%b-%Y",
    "%d %b %Y",
    "%Y%m%d",
)
DAYS_IN = {"days": 1.0, "years": 365.2425}
DAY = 86400.0


def date_of(cell: Cell, format: str = "") -> datetime.datetime | None:
    """A date in ISO form, or as `format` has it (a time of day behind it counts); None for anything else."""
    text = f"{cell:.15g}" if isinstance(cell, float) else cell.strip()
    if len(text) > 40:
        return None
    try:
        if ISO.fullmatch(text):
            day, _, rest = text.replace("T", " ").partition(" ")
            year, month, date = map(int, day.split("-"))
            clock = (
                [float(p) for p in re.split(":", re.sub(r"(Z|[+-]\d{2}:?\d{2})$", "", rest))] if rest else [0]
            )
            seconds = sum(p * u for p, u in zip(clock, (3600, 60, 1), strict=False))
            return datetime.datetime(year, month, date) + datetime.timedelta(seconds=seconds)
        if not format:
            return None
        if " " in text and " " not in format:
            text = text.partition(" ")[0]
        return datetime.datetime.strptime(text, format)
    except (ValueError, OverflowError):
        return None


def days_between(later: datetime.datetime, earlier: datetime.datetime) -> float:
    return (later - earlier).total_seconds() / DAY
