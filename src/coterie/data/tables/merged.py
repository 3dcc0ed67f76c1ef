"""A rule in the making."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from coterie.data.tables.rules import Here, Rule


@dataclass
class Merged:
    """A rule in the making, with what a person should know or decide; `numeric` if its cells are numbers."""

    rule: Rule
    kind: str
    says: list[str] = field(default_factory=list)
    asks: list[str] = field(default_factory=list)
    here: dict[str, Here] = field(default_factory=dict)
    why: str = ""
    numeric: bool = False

    def differs(self, site: str, **what: object) -> None:
        self.here[site] = replace(self.here.get(site, Here()), **what)  # type: ignore[arg-type]

    def done(self, sites: Sequence[str]) -> Merged:
        at = {s: self.here[s] for s in sites if self.here.get(s, Here()) != Here()}
        self.rule = replace(self.rule, at=at)
        return self
