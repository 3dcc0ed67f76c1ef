"""What a report is made of: parts, each a maker of blocks with its place.

A feature brings its own in `features/NAME/shown.py`, and nobody knows them by name:

    PARTS = (Part("energy", "energy.title", 211, energy, within="cost"),)

    def energy(runs: Runs) -> list[Block]: ...

A maker that has nothing to say gives nothing, and then there is no such part. Texts are of the catalogue,
where `words.toml` beside it has the feature's own (`show/words`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from coterie import features
from coterie.runs.record import Record
from coterie.show import views
from coterie.show.blocks import Block, Cell, Section, Table
from coterie.show.inks import Ink, inks
from coterie.show.words import said

Place = Literal["report", "summary", "screen", "ended", "notes", "paper", "bar"]
"""
report    a part of the report, which a page shows too
summary   beside the summary's table: what must not be overlooked
screen    below the summary in a terminal: a table, and sentences that are said of it
ended     what a terminal says of each run before its table
notes     a line on what happened to the data
bar       below the bar of a run that goes on
paper     plots that can be drawn for a paper, each under the name of its file
"""


@dataclass(frozen=True)
class Runs:
    """Runs on the same clients under one heading, as makers read them: a single run, or methods by seeds.

    folder    where they lie, if they were written: what was found of them afterwards is beside them
    spent     the seconds by part of the command that made them, when a report has come to its cost
    failed    a line for each run that has no result
    colours   of each method, the same in all of a report
    key       what names of parts and figures begin with, as a report may be of several such groups
    served    shown on a page, which nobody passes on, while somebody may be writing what it reads
    """

    title: str
    records: Sequence[Record]
    folder: Path | None = None
    spent: Callable[[], Mapping[str, float] | None] = lambda: None
    failed: Sequence[str] = ()
    colours: Mapping[str, Ink] = field(default_factory=dict)
    key: str = "s0"
    served: bool = False

    @functools.cached_property
    def by_label(self) -> views.Groups:
        return views.groups(self.records)

    @functools.cached_property
    def inks(self) -> Mapping[str, Ink]:
        return self.colours or inks(list(self.by_label), views.baseline(self.by_label))

    @property
    def several_seeds(self) -> bool:
        return any(len(runs) > 1 for runs in self.by_label.values())

    def have(self, what: str) -> bool:
        if "." in what:
            return self.folder is not None and (self.folder / what).exists()
        return any(what in (r.config.get("method"), *r.config) or r.of(what) for r in self.records)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[Any]], kind: str = "figures") -> Table:
        """Whose rows begin with a method, in its colour."""
        return coloured(header, rows, self.inks, kind)


def coloured(
    header: Sequence[str], rows: Sequence[Sequence[Any]], inks: Mapping[str, Ink], kind: str = "figures"
) -> Table:
    """A table whose rows begin with a method, in its colour."""
    made = [[Cell(first, ink=inks[first].colour) if first in inks else first, *rest] for first, *rest in rows]
    return Table(header, made, kind=kind)


@dataclass(frozen=True)
class Part:
    """
    name     by which it is linked to
    title    key of its heading in the catalogue
    order    where it stands: the report's own are at tens
    within   the part that it is a piece of, if it is one: then the heading is a smaller one, or none
    of       what it is made of, if that is one thing; it is not made without. A file beside the runs, with
             its ending; the runs' method, or a table of its options; or what a feature keeps of them
    """

    name: str
    title: str
    order: int
    make: Callable[[Runs], Sequence[Block]]
    on: Place = "report"
    within: str = ""
    of: str = ""

    def blocks(self, runs: Runs) -> Sequence[Block]:
        return self.make(runs) if not self.of or runs.have(self.of) else ()


def brought(on: Place, own: Iterable[Part] = ()) -> list[Part]:
    """Those of all features, and the report's own, in their order."""
    found = [part for module in features.brought("shown") for part in module.PARTS]
    return sorted((part for part in (*own, *found) if part.on == on), key=lambda part: part.order)


def blocks(on: Place, runs: Runs, own: Iterable[Part] = ()) -> list[Block]:
    """What all of them have to show, without headings."""
    return [block for part in brought(on, own) for block in part.blocks(runs)]


def sections(parts: Sequence[Part], runs: Runs) -> list[Section]:
    """Those that have something to show, each with its pieces."""
    made = []
    for part in parts:
        if part.within:
            continue
        inner = [*part.blocks(runs)]
        for piece in parts:
            if piece.within == part.name and (more := piece.blocks(runs)):
                inner += [Section(said(piece.title), more)] if piece.title else more
        if inner:
            made.append(Section(said(part.title), inner, f"{runs.key}-{part.name}"))
    return made
