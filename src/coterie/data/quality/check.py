"""What checks find, and the table of checks: an entry in the file of each, found by looking here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from coterie.data.intake import Array
from coterie.data.quality.site_rows import SiteRows, Sketch
from coterie.show.words import Saying, Words, said

if TYPE_CHECKING:
    from coterie.data.quality.ranges import Ranges

Severity = Literal["impossible", "likely", "look"]
SEVERITIES: dict[str, str] = {
    "impossible": "cannot be right",
    "likely": "likely a mistake",
    "look": "to look at, and may be right",
}
ALL_SITES = "all sites"  # whose a finding is that only the rows of all together show
MOST_LINES = 1_000  # that a finding lists


@dataclass(frozen=True)
class Finding:
    """What one check found in one column of one site.

    kind       the check that found it
    column     its name; empty where it is about whole rows, or the target
    rows       how many rows it is about; None where it is about the site as a whole
    share      the same as a share of the rows that were looked at
    value      what was found, and ...
    bound      ... what it was held against, as people write them
    says       a sentence, in English to whoever reads it as a text
    remedy     what to do about it
    lines      which rows, in the site's file or counted from 1; none where rows are not at hand
    """

    site: str
    column: str
    kind: str
    severity: Severity
    rows: int | None
    share: float | None
    value: str
    bound: str
    says: Saying
    remedy: Saying
    lines: tuple[int, ...] = ()

    @classmethod
    def of_rows(
        cls,
        rows: SiteRows,
        which: Array,
        column: str,
        kind: str,
        severity: Severity,
        words: tuple[str, str, Saying, Saying],
        among: int,
    ) -> Finding:
        """Of the rows that are marked, `among` those looked at; `words` are value, bound, says and remedy."""
        many, lines = int(which.sum()), rows.lines[np.flatnonzero(which)[:MOST_LINES]]
        about = rows.site, column, kind, severity, many, many / among
        return cls(*about, *words, tuple(int(n) for n in lines))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {
            "lines": list(self.lines),
            "said": [self.says.to_dict(), self.remedy.to_dict()],
        }


@dataclass(frozen=True)
class Suspect:
    """A label to review: the one that was given, the one that a model would have, and its chance for it."""

    site: str
    line: int
    given: str
    likely: str
    chance: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def worst_first(findings: Sequence[Finding]) -> list[Finding]:
    order = list(SEVERITIES)
    return sorted(findings, key=lambda f: (order.index(f.severity), -(f.share or 0.0), f.site, f.column))


def in_other_units(findings: Sequence[Finding]) -> set[tuple[str, str]]:
    """Sites and columns of which that is said already."""
    return {(f.site, f.column) for f in findings if f.kind == "units"}


def number(value: float) -> str:
    """As people write it: four digits, no trailing zeros."""
    return f"{value:.4g}" if abs(value) < 1e4 or abs(value) >= 1e7 else f"{value:.0f}"


def percent(share: float) -> str:
    """In English, as a part of a value."""
    return Words("en").share(share)


@dataclass(frozen=True)
class Home:
    """One site's own rows, with what a check may hold them against."""

    rows: SiteRows
    ranges: Ranges
    seed: int = 0


class Seen(NamedTuple):
    """What a check saw at one site; notes say what it did not look at, and why."""

    findings: Sequence[Finding] = ()
    suspects: tuple[Suspect, ...] = ()
    notes: tuple[Saying, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Check:
    """One kind of finding, looked for in up to three ways.

    place       where it stands among the others
    at_home     at one site, in its own rows
    across      in what all sites tell of theirs; it gets what was found before
    with_rows   in the rows of all, by a seed, where they are at hand; this looks `at_each` by itself too
    """

    name: str
    place: int
    at_home: Callable[[Home], Seen] | None = None
    across: Callable[[Sequence[Sketch], Ranges, Sequence[Finding]], list[Finding]] | None = None
    with_rows: Callable[[Sequence[SiteRows], int], list[Finding]] | None = None
    at_each: bool = False

    @property
    def about(self) -> Saying:
        return said(f"check.about.{self.name}")


KNOWN: list[Check] = []


def register(check: Check) -> None:
    if check.name in [known.name for known in KNOWN]:
        raise ValueError(f"check {check.name!r} is registered twice")
    KNOWN.append(check)
