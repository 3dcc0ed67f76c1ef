"""Values against what a body can have, by a table that comes with Coterie and that a user can add to.

A column is matched by its name, or one of the other names of a range, and is held against the bounds in its
own unit. A column without a unit is taken to be in the one, of those that are known for it, in which most of
its values are plausible; that is said. Bounds are for any age, in illness too: wide, and no normal ranges.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from coterie.core.checks import is_list, is_number
from coterie.core.errors import BadInput, Gathered, UnknownName, shown
from coterie.data.preparation import Column
from coterie.data.quality.check import Check, Finding, Home, Seen, Severity, number, register
from coterie.data.quality.site_rows import SiteRows
from coterie.data.tables.names import Conversion, conversion, conversions_for, name_and_unit, unit_of
from coterie.data.tables.texts import loose
from coterie.show.words import Saying, Share, said
from coterie.storage.paths import read_given_toml

SHIPPED = "ranges.toml"
KEYS = ("words", "unit", "possible", "plausible", "source", "ours")
LISTED = 30  # names in a note
MOSTLY = 0.5  # of the values that are to lie within bounds in the unit that a column is taken to have


@dataclass(frozen=True)
class Range:
    """Bounds of one quantity in `unit`; `ours` says which of them are our judgement and not the source's."""

    name: str
    unit: str
    possible: tuple[float, float]
    plausible: tuple[float, float]
    words: tuple[str, ...] = ()
    source: str = ""
    ours: str = ""

    def within(self, by: Conversion) -> Range:
        """The same in another unit."""
        both = ((by(low), by(high)) for low, high in (self.possible, self.plausible))
        possible, plausible = (tuple(sorted(pair)) for pair in both)
        return Range(self.name, self.unit, possible, plausible, self.words, self.source, self.ours)  # type: ignore[arg-type]

    @property
    def units(self) -> dict[str, Conversion]:
        """Units that the quantity is measured in, each with what turns the range's own into it."""
        made = {self.unit: Conversion(1.0)}
        for known in conversions_for(self.name):
            if known.there == self.unit:
                made.setdefault(known.here, known.by)
        return made


Ranges = Mapping[str, Range]
"""By each of their names, in plain letters."""


@dataclass(frozen=True)
class Match:
    """A column's bounds, in the unit that it is in; `guessed` where nobody told it."""

    range: Range
    unit: str
    guessed: bool


@cache
def shipped() -> Ranges:
    text = files("coterie.data.quality").joinpath(SHIPPED).read_text(encoding="utf-8")
    return _named(_ranges_of(tomllib.loads(text), SHIPPED))


def read_ranges(path: str | Path | None) -> Ranges:
    """Coterie's own, and a user's beside and before them."""
    if path is None:
        return shipped()
    return {**shipped(), **_named(_ranges_of(read_given_toml(path), str(path)))}


def _named(ranges: Sequence[Range]) -> dict[str, Range]:
    return {loose(word): r for r in ranges for word in (*r.words, r.name)}


def _ranges_of(table: Mapping[str, Any], where: str) -> list[Range]:
    """All that is wrong in a file is said at once."""
    found, wrong = list[Range](), Gathered()
    for name, entry in table.items():
        with wrong.one():
            found.append(_range_of(name, entry, f"{where}, [{name}]"))
    wrong.refuse()
    return found


def _range_of(name: str, entry: Any, where: str) -> Range:
    if not isinstance(entry, Mapping):
        raise BadInput(f"{where} is {shown(entry)}, but must be a table: write [{name}] above its keys")
    for key in entry:
        if key not in KEYS:
            raise UnknownName(f"key of {where}:", key, KEYS)
    bounds = dict[str, tuple[float, float]]()
    for key in ("possible", "plausible"):
        pair = entry.get(key, entry.get("possible"))
        if not (is_list(pair) and len(pair) == 2 and all(map(is_number, pair)) and pair[0] < pair[1]):
            raise BadInput(f"{where}: {key} = {shown(pair)} must be [lowest, highest]: try [0, 100]")
        bounds[key] = (float(pair[0]), float(pair[1]))
    (lowest, highest), (low, high) = bounds["possible"], bounds["plausible"]
    if low < lowest or high > highest:
        raise BadInput(
            f"{where}: plausible = [{low:g}, {high:g}] is not within possible = [{lowest:g}, {highest:g}]: "
            "widen possible"
        )
    words = entry.get("words", ())
    if not is_list(words) or not all(isinstance(w, str) for w in words):
        raise BadInput(f"{where}: words = {shown(words)} must be a list of names: try ['sbp']")
    texts = {key: entry.get(key, "") for key in ("unit", "source", "ours")}
    for key, text in texts.items():
        if not isinstance(text, str):
            raise BadInput(f"{where}: {key} = {shown(text)} must be a text: put it in quotes")
    return Range(
        name, unit_of(texts["unit"]), **bounds, words=tuple(words), source=texts["source"], ours=texts["ours"]
    )


# which bounds a column has


def match(column: Column, values: np.ndarray, ranges: Ranges) -> Match | None:
    """The bounds for a column of numbers, if there are some; its known `values` may tell its unit."""
    if not column.quantity:
        return None
    bare, behind = name_and_unit(column.name)
    found = ranges.get(loose(column.name)) or ranges.get(loose(bare))
    if found is None:
        return None
    unit = unit_of(column.unit or behind)
    if unit:
        by = conversion(found.name, found.unit, unit) if found.unit else Conversion(1.0)
        return None if by is None else Match(found.within(by), unit, False)
    fits = {u: inside(values, found.within(by).plausible) for u, by in found.units.items()}
    best = max(fits, key=lambda u: fits[u])
    if fits[found.unit] >= MOSTLY or fits[best] < MOSTLY:  # a few that do not fit are what is looked for
        best = found.unit
    return Match(found.within(found.units[best]), best, True)


def inside(values: np.ndarray, bounds: tuple[float, float]) -> float:
    """The share of values within bounds."""
    return float(((values >= bounds[0]) & (values <= bounds[1])).mean()) if len(values) else 0.0


def matches(rows: SiteRows, ranges: Ranges) -> dict[int, Match]:
    """{column: its bounds}, of those that have some."""
    known = ((i, c, rows.raw[:, i]) for i, c in enumerate(rows.columns))
    found = {i: match(c, values[~np.isnan(values)], ranges) for i, c, values in known}
    return {i: m for i, m in found.items() if m is not None}


# values outside of them


def check(rows: SiteRows, matched: Mapping[int, Match]) -> list[Finding]:
    """Impossible values, then implausible ones, of each column that has bounds."""
    found = list[Finding]()
    for i, m in matched.items():
        values, possible, plausible = rows.raw[:, i], m.range.possible, m.range.plausible
        never = (values < possible[0]) | (values > possible[1])
        rarely = ((values < plausible[0]) | (values > plausible[1])) & ~never
        if never.any():
            found.append(_outside(rows, i, m, never, "impossible", possible))
        if rarely.any():
            found.append(_outside(rows, i, m, rarely, "look", plausible))
    return found


def _outside(
    rows: SiteRows, i: int, m: Match, which: np.ndarray, severity: Severity, bounds: tuple[float, float]
) -> Finding:
    name, values, known = rows.columns[i].name, rows.raw[which, i], int((~np.isnan(rows.raw[:, i])).sum())
    bound, unit = said("list.to", low=bounds[0], high=bounds[1]), f" {m.unit}" if m.unit else ""
    many, first, last = len(values), float(values.min()), float(values.max())
    span = first if first == last else said("list.to", low=first, high=last)
    says = said(
        "check.ranges.never" if severity == "impossible" else "check.ranges.rarely",
        column=name,
        many=many,
        known=known,
        share=Share(many / known),
        span=span,
        bound=bound,
        unit=unit,
        taken=said("check.ranges.taken") if m.guessed and m.unit else "",
    )
    remedy = said("check.ranges.correct" if severity == "impossible" else "check.ranges.look")
    value = number(first) if first == last else str(span)
    return Finding.of_rows(
        rows, which, name, "ranges", severity, (value, f"{bound}{unit}", says, remedy), known
    )


def _unmatched(rows: SiteRows, matched: Mapping[int, Match]) -> list[Saying]:
    """Columns of numbers without bounds, and units that were taken from values."""
    without = [c.name for i, c in enumerate(rows.columns) if c.quantity and i not in matched]
    guessed = [
        said("check.ranges.in_unit", column=rows.columns[i].name, unit=m.unit)
        for i, m in matched.items()
        if m.guessed and m.unit
    ]
    notes, lists = list[Saying](), dict[str, Sequence[str]](unmatched=without, guessed=guessed)
    for kind, names in lists.items():
        if names:
            kept, more = list(names[:LISTED]), len(names) - LISTED
            columns = said("list.more", names=kept, n=more) if more > 0 else kept
            notes.append(said(f"check.ranges.{kind}", columns=columns))
    return notes


def _seen(home: Home) -> Seen:
    matched = matches(home.rows, home.ranges)
    return Seen(check(home.rows, matched), notes=tuple(_unmatched(home.rows, matched)))


register(Check(name="ranges", place=10, at_home=_seen))
