"""Dates: left out, but ready to be used as the time since another date."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from coterie.data.kinds.base import ColumnKind, Read, Verdict, Written, register
from coterie.data.kinds.number import DOUBTFUL_WORDS, MOSTLY
from coterie.data.tables.cells import Values, object_array
from coterie.data.tables.names import DATES, words_in
from coterie.data.tables.texts import Cell, cell_text, plain, some

if TYPE_CHECKING:
    from coterie.data.preparation import Column
    from coterie.data.tables.apply_recipe import Reading
    from coterie.data.tables.draft import Draft
    from coterie.data.tables.numerals import Numbers
    from coterie.data.tables.recipe import Recipe, Rule

ISO = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([ T]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[+-]\d{2}:?\d{2})?")
# which other ways are tried, the day before the month first
FORMATS = (
    "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%d.%m.%y", "%d-%b-%Y", "%d %b %Y", "%Y%m%d",
)  # fmt: skip
DAYS_IN = {"days": 1.0, "years": 365.2425}
DAY = 86400.0


def _date_of(cell: Cell, format: str = "") -> datetime.datetime | None:
    """A date in ISO form, or as `format` has it (a time of day behind it counts); None for anything else."""
    text = f"{cell:.15g}" if isinstance(cell, float) else cell.strip()
    if len(text) > 40:
        return None
    try:
        if ISO.fullmatch(text):
            day, _, rest = text.replace("T", " ").partition(" ")
            year, month, date = map(int, day.split("-"))
            clock = re.sub(r"(Z|[+-]\d{2}:?\d{2})$", "", rest).split(":") if rest else ()
            seconds = sum(float(p) * u for p, u in zip(clock, (3600, 60, 1), strict=False))
            return datetime.datetime(year, month, date) + datetime.timedelta(seconds=seconds)
        if not format:
            return None
        if " " in text and " " not in format:
            text = text.partition(" ")[0]
        return datetime.datetime.strptime(text, format)
    except (ValueError, OverflowError):
        return None


COMPACT = "%Y%m%d"


@register
class _Date(ColumnKind):
    name = "date"
    about = "date"
    place = 50
    cells_at = 30
    numbers_at = 20
    family = "date"
    by_site = True
    lasts = True
    persons = False
    counted = True

    def of_cells(self, name: str, values: Values, commas: bool) -> Verdict | None:
        texts = {c: n for c, n in values.items() if isinstance(c, str)}
        doubtful = [c for c in texts if plain(c) in DOUBTFUL_WORDS]
        texts = {c: n for c, n in texts.items() if c not in doubtful}
        total = sum(texts.values())
        likely = sum(n for c, n in texts.items() if len(c) <= 30 and sum(map(str.isdigit, c)) >= 4)
        if not total or likely < MOSTLY * total:
            return None
        read = {f: [c for c in texts if _date_of(c, f)] for f in ("", *FORMATS)}
        best = max(read, key=lambda f: sum(texts[c] for c in read[f]))
        if sum(texts[c] for c in read[best]) < MOSTLY * total:
            return None
        known = set(read[best])
        odd = tuple(c for c in texts if c not in known)
        asks = [f"these are no dates: {some([cell_text(c) for c in odd])}"] if odd else list[str]()
        if best == "%d/%m/%Y" and len(read["%m/%d/%Y"]) == len(read[best]):
            asks.append(
                f"{cell_text(next(iter(texts)))} is read as day/month: if the month is first, write "
                'dates = "%m/%d/%Y"'
            )
        iso = all(ISO.fullmatch(c) for c in read[best])
        why, dates = f"its cells are dates such as {cell_text(read[best][0])}", "" if iso else best
        return Verdict(self.name, why, dates=dates, odd=odd, marks=tuple(doubtful), asks=tuple(asks))

    def of_numbers(self, name: str, numbers: Numbers, zeros: bool) -> Verdict | None:
        near = numbers.whole and numbers.least >= 19000101 and numbers.most <= 21001231
        if near and words_in(name) & DATES and all(_date_of(f"{v:.0f}", COMPACT) for v in numbers.listed):
            return Verdict(self.name, "its numbers are dates such as 20240131", dates=COMPACT)
        return None

    def propose(self, draft: Draft) -> None:
        """How it is written is kept."""
        written = {s: p.dates for s, p in draft.profiles.items() if p.dates}
        common = Counter(written.values()).most_common(1)
        draft.rule = replace(draft.rule, dates=common[0][0] if common else "")
        for site, format in written.items():
            if format != draft.rule.dates:
                draft.differs(site, dates=format)
        draft.says.append(
            'a date is left out; to use it, write use = "date", since = a column or a date, in = "years"'
        )

    def check(self, rule: Rule, recipe: Recipe) -> list[tuple[str, str]]:
        known = plain(rule.since) in {plain(r.name) for r in recipe.rules}
        if rule.since and (known or _date_of(rule.since) is not None):
            return []
        must = f"{rule.since!r} is neither a column nor a date such as 2024-01-31"
        return [("since", f'{must}: name one, or write use = "leave-out"')]

    def column(self, rule: Rule) -> Column:
        return replace(super().column(rule), unit=rule.counted)

    def read(self, reading: Reading, rule: Rule, written: Written) -> Read:
        """Days or years since another column or a date."""
        format = rule.here(reading.site).dates or rule.dates
        pairs = zip(written.cells, written.gone, strict=True)
        dates = object_array([None if gone else _date_of(cell, format) or cell for cell, gone in pairs])
        dates, fixed = dates[written.codes], _date_of(rule.since)
        then = self.dates(reading, reading.recipe.rule(rule.since)) if fixed is None else [fixed] * len(dates)
        numbers, unread = np.full(len(dates), np.nan), np.zeros(len(dates), dtype=bool)
        for i, (date, since) in enumerate(zip(dates, then, strict=True)):
            unread[i] = isinstance(date, str | float)
            if isinstance(date, datetime.datetime) and since is not None:
                numbers[i] = (date - since).total_seconds() / DAY / DAYS_IN[rule.counted]
        return Read(numbers, np.isnan(numbers) & ~unread, np.arange(len(dates)), unread)

    def dates(self, reading: Reading, rule: Rule) -> list[datetime.datetime | None]:
        """Of a column that others are counted from, used or not."""
        cells = reading.cells(rule)
        if cells is None:
            return [None] * len(reading.table)
        here = rule.here(reading.site)
        gone, format = cells.among(rule.missing_marks(reading.site)), here.dates or rule.dates
        found = cells.each(lambda c: _date_of(c, format))
        found[gone] = None
        reading.troubles += [
            reading.misfit(rule.name, [i], self.misfit(rule, "", cell_text(cells[i]), ""))
            for i in np.flatnonzero(~gone).tolist()
            if found[i] is None
        ]
        return list(found)

    def misfit(self, rule: Rule, site: str, value: str, cell: Cell) -> str:
        how = 'how dates are written, dates = "%d.%m.%Y",'
        return f"{value} is not a date: correct it, or write {how} under [columns.{rule.name}]"
