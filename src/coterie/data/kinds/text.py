"""Columns that are no input: free text, and those that hold nothing to learn from."""

from __future__ import annotations

from coterie.data.kinds.base import ColumnKind, Verdict, register
from coterie.data.kinds.words import MANY, MOST_VALUES, YES
from coterie.data.tables.cells import Values
from coterie.data.tables.texts import cell_text, plain, same


@register
class _Text(ColumnKind):
    name = "text"
    noun = "free text"
    cells_at = 60
    left_out = "free text is no input"
    family = "text"

    def of_cells(self, name: str, values: Values, commas: bool) -> Verdict | None:
        total, texts = values.total(), len({same(c) for c in values})
        length = sum(len(str(c).split()) * n for c, n in values.items()) / total
        alone = texts / total
        if (length >= 4 and alone > 0.5) or texts > MOST_VALUES or (total >= MANY and alone > 0.5):
            return Verdict(self.name, f"{texts} different texts in {total} rows, of {length:.1f} words each")
        return None


@register
class Constant(ColumnKind):
    name = "constant"
    left_out = "there is nothing to learn from it"
    family = ""
    persons = False

    def of_rows(self, values: Values, rows: int) -> Verdict:
        """Of so many rows, of which some have no value."""
        cell, gaps = next(iter(values)), rows - values.total()
        if not gaps:
            return Verdict(self.name, f"it is {cell_text(cell)} in all rows")
        why = f"it is {cell_text(cell)} in {values.total()} rows and missing in {gaps}"
        if plain(str(cell)) in YES | {"x"}:
            why += "; if missing means no, fill that in and inspect again"
        return Verdict(self.name, why)


@register
class _Empty(ColumnKind):
    name = "empty"
    left_out = "there is nothing to learn from it"
    family = ""
    persons = False
