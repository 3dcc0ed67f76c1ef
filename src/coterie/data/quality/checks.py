"""All checks: at one site, on its rows; then from what sites tell of theirs.

home = at_home(rows, ranges)             what one site finds, and its sketch
quality = together(homes, ranges, sites) the same of all, what sketches show, and what rows of all show
where they are at hand
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.core.errors import UnknownName
from coterie.data.quality import (
    constant,
    differs,
    duplicates,
    labels,
    leaks,
    missing,
    order,
    ranges,
    unit_shares,
    units,
)
from coterie.data.quality.finding import Finding, Suspect, worst_first
from coterie.data.quality.ranges import Match, Ranges
from coterie.data.quality.rows import SiteRows, without_infinite
from coterie.data.quality.sketch import FEWEST, Sketch, sketch_of
from coterie.data.tables.texts import some

CHECKS = {
    "ranges": "values that a body cannot have, or rarely has",
    "units": "values in another unit: all of a site's, or some",
    "constant": "columns with one value in all rows",
    "duplicates": "rows that are there twice",
    "missing": "gaps: columns that a site lacks, or misses more than others; gaps that go with the label",
    "leaks": "columns that tell the outcome alone, as if they were known only after it",
    "differs": "sites whose quantiles differ from the others'",
    "order": "columns that go with nothing, as if shuffled",
    "labels": "labels that a model finds unlikely, to review",
}
LISTED = 30  # names in a note


@dataclass(frozen=True)
class Asked:
    """What a check at home may look at."""

    rows: SiteRows
    ranges: Ranges
    matched: Mapping[int, Match]


AT_HOME: dict[str, Callable[[Asked], list[Finding]]] = {
    "ranges": lambda a: ranges.check(a.rows, a.matched),
    "units": lambda a: units.check(a.rows, a.ranges),
    "constant": lambda a: constant.check(a.rows),
    "duplicates": lambda a: duplicates.check(a.rows),
    "missing": lambda a: missing.check(a.rows),
    "leaks": lambda a: leaks.check(a.rows),
}
ACROSS: dict[str, Callable[[Sequence[Sketch], Ranges], list[Finding]]] = {
    "units": units.across,
    "missing": lambda sketches, _: missing.across(sketches),
}
WITH_ROWS: dict[str, Callable[[Sequence[SiteRows], int], list[Finding]]] = {
    "duplicates": lambda sites, _: duplicates.across(sites),
    "leaks": leaks.across,
    "order": order.across,
}


@dataclass(frozen=True)
class Home:
    """What one site finds in its own rows, and what it could tell of them."""

    sketch: Sketch
    findings: tuple[Finding, ...]
    suspects: tuple[Suspect, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Quality:
    """What was found at all sites, worst first; notes say what was not looked at, and why."""

    sketches: tuple[Sketch, ...]
    findings: tuple[Finding, ...]
    suspects: tuple[Suspect, ...] = ()
    notes: tuple[str, ...] = ()
    worth: tuple[Any, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)

    def told(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "about": dict(self.about),
            "sites": [s.told() for s in self.sketches],
            "findings": [f.told() for f in self.findings],
            "suspects": [s.told() for s in self.suspects],
            "worth": [w.told() for w in self.worth],
            "notes": list(self.notes),
        }


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in CHECKS:
            raise UnknownName("check", name, CHECKS)
    return tuple(name for name in CHECKS if name in names)


def at_home(
    rows: SiteRows,
    known: Ranges,
    names: Collection[str] = tuple(CHECKS),
    seed: int = 0,
    fewest: int = FEWEST,
) -> Home:
    """`fewest` values are needed to tell quantiles."""
    rows, infinite = without_infinite(rows)
    asked = Asked(rows, known, ranges.matches(rows, known))
    findings = [f for name, check in AT_HOME.items() if name in names for f in check(asked)]
    notes = [f"{rows.site}: {infinite} infinite values, taken as missing"] if infinite else []
    if "ranges" in names:
        notes += unmatched(rows, asked.matched)
    found = labels.review(rows, seed) if "labels" in names else labels.Review()
    findings += labels.finding(rows.site, len(rows), found.suspects)
    if found.skipped:
        notes.append(f"{rows.site}: {found.skipped}")
    return Home(sketch_of(rows, fewest), tuple(worst_first(findings)), found.suspects, tuple(notes))


def unmatched(rows: SiteRows, matched: Mapping[int, Match]) -> list[str]:
    """Columns of numbers without bounds, and units that were taken from values."""
    without = [
        c.name for i, c in enumerate(rows.columns) if c.kind == "number" and not c.values and i not in matched
    ]
    guessed = [f"{rows.columns[i].name} in {m.unit}" for i, m in matched.items() if m.guessed and m.unit]
    said = {
        "no bounds are known for": without,
        "the unit is not told, and taken from the values, of": guessed,
    }
    return [f"{rows.site}: {what} {some(names, LISTED)}" for what, names in said.items() if names]


def together(
    homes: Sequence[Home],
    known: Ranges,
    sites: Sequence[SiteRows] = (),
    names: Collection[str] = tuple(CHECKS),
    seed: int = 0,
) -> Quality:
    """`sites` are the rows of all, where they are at hand."""
    sketches = [home.sketch for home in homes]
    findings = [f for home in homes for f in home.findings]
    seen = [f for name, check in ACROSS.items() if name in names for f in check(sketches, known)]
    if "units" in names:
        seen += unit_shares.across(sketches, known, of_kind("units", (*findings, *seen)))
    if "differs" in names:
        seen += differs.across(sketches, of_kind("units", (*findings, *seen)))
    if sites:
        finite = [without_infinite(rows)[0] for rows in sites]
        seen += [f for name, check in WITH_ROWS.items() if name in names for f in check(finite, seed)]
    return Quality(
        tuple(sketches),
        tuple(worst_first([*findings, *seen])),
        tuple(s for home in homes for s in home.suspects),
        tuple(gathered([note for home in homes for note in home.notes])),
    )


def of_kind(kind: str, findings: Sequence[Finding]) -> set[tuple[str, str]]:
    """Sites and columns of which that is said already."""
    return {(f.site, f.column) for f in findings if f.kind == kind}


def gathered(notes: Sequence[str]) -> list[str]:
    """What is the same at several sites in one line."""
    by = dict[str, list[str]]()
    for note in notes:
        site, _, text = note.partition(": ")
        by.setdefault(text, []).append(site)
    return [f"{', '.join(where)}: {text}" for text, where in by.items()]


def checked(
    sites: Sequence[SiteRows], known: Ranges, names: Collection[str] = tuple(CHECKS), seed: int = 0
) -> Quality:
    """Of rows that are all in this process, where leaks are looked for once: at all sites and at each."""
    home = [name for name in names if name != "leaks"]
    return together([at_home(rows, known, home, seed) for rows in sites], known, sites, names, seed)
