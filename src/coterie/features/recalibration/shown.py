"""What the models that a run leaves for use do to their probabilities, or why nothing; its scores stay those
of the models themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coterie.metrics.recalibration import Recalibrated, Recalibration
from coterie.runs.record import Record
from coterie.show import numbers
from coterie.show.blocks import Block, Points, Section, Sentence, Table
from coterie.show.parts import Part, Runs
from coterie.show.words import Figure, said, semicolons

FEW = 3  # clients that are named in a line
HEADER = ("by", "slope", "intercept", "fitted", "before", "after")


def _recalibration_part(runs: Runs) -> list[Block]:
    """Nothing where models are only compared."""
    made: list[Block] = []
    header = [said("column.client"), *(said(f"recalibration.{column}") for column in HEADER)]
    for label, some in runs.by_label.items():
        for _, each in _known(some):
            rows = [[name, *_cells(one, one.found)] for name, one in each.items() if one.found]
            left = [Sentence(one.words(), lead=f"{name}:") for name, one in each.items() if not one.found]
            blocks: list[Block] = [Table(header, rows)] if rows else []
            blocks += [Points(left)] if left else []
            made.append(Section(said("recalibration.title", method=label), blocks))
    return [*made, Sentence(said("recalibration.said"))] if made else []


def _on_screen(runs: Runs) -> list[Block]:
    return [Sentence(text)] if (text := line(runs.records)) else []


PARTS = (
    Part("recalibration", "", 71, _recalibration_part, within="calibration", of="recalibration"),
    Part("recalibration", "", 5, _on_screen, on="screen", of="recalibration"),
)


def _known(records: Sequence[Record]) -> list[tuple[Record, Mapping[str, Recalibrated]]]:
    return [(r, each) for r in records if (each := r.of("recalibration"))]


def line(records: Sequence[Record]) -> str:
    """For a terminal; nothing where no run's models are for use, or several runs are shown."""
    found = _known(records)
    if len(found) != 1:
        return ""
    _, each = found[0]
    changed = [name for name, one in each.items() if one.found]
    whys: dict[str, list[str]] = {}
    for name, one in each.items():
        if one.found is None:
            whys.setdefault(one.why, []).append(name)
    parts = [said("recalibration.left", who=_named(names), why=why) for why, names in whys.items()]
    if changed:
        source = next(one.found.source for one in each.values() if one.found)
        parts.insert(0, said("recalibration.changed", who=_named(changed), source=source))
    return said("recalibration.line", parts=semicolons(parts))


def _named(names: Sequence[str]) -> str:
    if len(names) > FEW:
        return said("cost.more", names=names[:FEW], n=len(names) - FEW)
    return said("list.plain", names=names)


def _cells(one: Recalibrated, found: Recalibration) -> list[str]:
    two = len(found.intercepts) == 2
    own = found.intercepts[1] - found.intercepts[0] if two else None
    before, after = one.test.get("nll", (float("nan"),) * 2)
    return [
        found.kind,
        Figure(f"{found.slope:.3f}"),
        numbers.NONE if own is None else Figure(f"{own:+.3f}".replace("-", "−")),
        said("recalibration.rows", n=found.rows, source=found.source),
        numbers.figure(before, "nll"),
        numbers.figure(after, "nll"),
    ]
