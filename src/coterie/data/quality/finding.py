"""One thing to look at, in words that end with what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["impossible", "likely", "look"]
SEVERITIES: dict[str, str] = {
    "impossible": "cannot be right",
    "likely": "likely a mistake",
    "look": "to look at, and may be right",
}
ALL_SITES = "all sites"  # whose a finding is that only the rows of all together show


@dataclass(frozen=True)
class Finding:
    """What one check found in one column of one site.

    kind       the check that found it
    column     its name; empty where it is about whole rows, or the target
    rows       how many rows it is about; None where it is about the site as a whole
    share      the same as a share of the rows that were looked at
    value      what was found, and ...
    bound      ... what it was held against, as people write them
    says       a sentence
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
    says: str
    remedy: str
    lines: tuple[int, ...] = ()

    def told(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self) | {"lines": list(self.lines)}


@dataclass(frozen=True)
class Suspect:
    """A label to review: the one that was given, the one that a model would have, and its chance for it."""

    site: str
    line: int
    given: str
    likely: str
    chance: float

    def told(self) -> dict[str, Any]:
        return asdict(self)


def worst_first(findings: Sequence[Finding]) -> list[Finding]:
    order = list(SEVERITIES)
    return sorted(findings, key=lambda f: (order.index(f.severity), -(f.share or 0.0), f.site, f.column))


def number(value: float) -> str:
    """As people write it: four digits, no trailing zeros."""
    return f"{value:.4g}" if abs(value) < 1e4 or abs(value) >= 1e7 else f"{value:.0f}"


def percent(share: float) -> str:
    """0 % is none at all, and 100 % is all."""
    if 0 < share < 0.001:
        return "below 0.1 %"
    if 0.999 < share < 1:
        return "above 99.9 %"
    return f"{100 * share:.3g} %"
