"""All checks: at one site, on its rows; then from what sites tell of theirs.

home = at_home(rows, ranges)             what one site finds, and its sketch
quality = together(homes, ranges, sites) the same of all, what sketches show, and what rows of all show
where they are at hand
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.core.errors import UnknownName
from coterie.data import quality
from coterie.data.quality import check
from coterie.data.quality.check import Finding, Suspect, worst_first
from coterie.data.quality.ranges import Ranges
from coterie.data.quality.site_rows import FEWEST, SiteRows, Sketch
from coterie.show.words import Saying, said

for _module in pkgutil.iter_modules(quality.__path__):
    importlib.import_module(f"{quality.__name__}.{_module.name}")

CHECKS = {c.name: c for c in sorted(check.KNOWN, key=lambda c: c.place)}
"""Every check by its name, in the order of what is said of them."""


@dataclass(frozen=True)
class Home:
    """What one site finds in its own rows, and what it could tell of them."""

    sketch: Sketch
    findings: tuple[Finding, ...]
    suspects: tuple[Suspect, ...] = ()
    notes: tuple[Saying, ...] = ()


@dataclass(frozen=True)
class Quality:
    """What was found at all sites, worst first; notes say what was not looked at, and why."""

    sketches: tuple[Sketch, ...]
    findings: tuple[Finding, ...]
    suspects: tuple[Suspect, ...] = ()
    notes: tuple[str, ...] = ()
    worth: tuple[Any, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "about": dict(self.about),
            "sites": [s.to_dict() for s in self.sketches],
            "findings": [f.to_dict() for f in self.findings],
            "suspects": [s.to_dict() for s in self.suspects],
            "worth": [w.to_dict() for w in self.worth],
            "notes": list(self.notes),
            "said": [n.to_dict() if isinstance(n, Saying) else None for n in self.notes],
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
    rows, infinite = rows.finite()
    here = check.Home(rows, known, seed)
    seen = [c.at_home(here) for name, c in CHECKS.items() if name in names and c.at_home is not None]
    notes = [said("check.infinite", n=infinite)] if infinite else []
    notes += [note for s in seen for note in s.notes]
    findings = worst_first([f for s in seen for f in s.findings])
    suspects = tuple(suspect for s in seen for suspect in s.suspects)
    named = tuple(said("check.note", where=rows.site, text=note) for note in notes)
    return Home(Sketch.of(rows, fewest), tuple(findings), suspects, named)


def together(
    homes: Sequence[Home],
    known: Ranges,
    sites: Sequence[SiteRows] = (),
    names: Collection[str] = tuple(CHECKS),
    seed: int = 0,
) -> Quality:
    """`sites` are the rows of all, where they are at hand."""
    sketches, asked = [home.sketch for home in homes], [c for name, c in CHECKS.items() if name in names]
    found = [f for home in homes for f in home.findings]
    for across in (c.across for c in asked if c.across is not None):
        found += across(sketches, known, found)
    if sites:
        finite = [rows.finite()[0] for rows in sites]
        found += [f for c in asked if c.with_rows is not None for f in c.with_rows(finite, seed)]
    where = dict[Saying, list[str]]()  # what is the same at several sites is said once
    for note in (note for home in homes for note in home.notes):
        where.setdefault(note.blanks["text"], []).append(note.blanks["where"])
    notes = tuple(said("check.note", where=here, text=text) for text, here in where.items())
    suspects = tuple(s for home in homes for s in home.suspects)
    return Quality(tuple(sketches), tuple(worst_first(found)), suspects, notes)


def checked(
    sites: Sequence[SiteRows], known: Ranges, names: Collection[str] = tuple(CHECKS), seed: int = 0
) -> Quality:
    """Of rows that are all in this process, where what looks at all sites and at each is asked once."""
    home = [name for name in names if not CHECKS[name].at_each]
    return together([at_home(rows, known, home, seed) for rows in sites], known, sites, names, seed)
