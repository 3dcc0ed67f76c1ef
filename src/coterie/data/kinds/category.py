"""A few texts: one input of 0 and 1 for each value of a list fixed beforehand, so that all clients agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from coterie.data.kinds.base import Array, Verdict, Words, register
from coterie.data.tables.cells import Values
from coterie.data.tables.texts import number_of, same, some

if TYPE_CHECKING:
    from torch import Tensor

    from coterie.data.preparation import Column
    from coterie.data.tables.draft import Draft
    from coterie.data.tables.numerals import Numbers
    from coterie.data.tables.recipe import Spellings
    from coterie.data.tables.texts import Cell

MOST_VALUES = 50  # a category with more is a name or a remark
MANY = 20  # rows from which on it tells something that there are few values
SYNONYMS = (
    ("f", ("female", "w", "woman", "weiblich", "femme", "fem")),
    ("m", ("male", "man", "mannlich", "männlich", "homme", "h")),
)


def word_for(cell: Cell) -> str:
    """A value by its usual word: female is f, oui is yes."""
    text = same(cell)
    return next((word for word, others in SYNONYMS if text in others), text)


@register
class Category(Words):
    name = "category"
    about = "category"
    place = 30
    cells_at = 900
    numbers_at = 60
    as_classes = "category"
    encodes = True
    ranked = False

    def of_cells(self, name: str, values: Values, commas: bool) -> Verdict | None:
        different = len({same(c) for c in values})
        return Verdict(self.name, f"{different} different texts in {values.total()} rows")

    def of_numbers(self, name: str, numbers: Numbers, zeros: bool) -> Verdict | None:
        if numbers.whole and len(numbers) == 2 and numbers.total() >= MANY:
            least, most = numbers.least, numbers.most
            return Verdict(self.name, f"it holds two numbers only, {least:g} and {most:g}")
        return None

    def propose(self, draft: Draft) -> None:
        shown_as, spelt = dict[str, str](), dict[str, set[str]]()
        sexes = {w for word, others in SYNONYMS for w in (word, *others)}
        all_sexes = {same(c) for c in draft.pooled.values} <= sexes  # m and w may be days of a week
        usual = word_for if all_sexes else same
        for cell, _ in draft.pooled.values.most_common():
            word = usual(cell)
            text = f"{cell:.15g}" if isinstance(cell, float) else cell
            shown_as.setdefault(word, same(cell) if number_of(cell) is not None else text)
            if same(cell) == word != same(shown_as[word]):
                shown_as[word] = text
            spelt.setdefault(word, set()).add(same(cell))
        ordered = sorted(shown_as, key=lambda w: (number_of(w) is None, number_of(w) or 0.0, w))
        values = tuple(shown_as[w] for w in ordered)
        spellings: Spellings = {
            shown_as[w]: others for w in ordered if (others := tuple(sorted(spelt[w] - {same(shown_as[w])})))
        }
        draft.use(self.name, values=values, spellings=spellings)
        if spellings:
            draft.says.append(f"one value for {some(['/'.join((k, *v)) for k, v in spellings.items()])}")

    def inputs(self, column: Column) -> list[str]:
        return [f"{column.name}={v}" for v in column.values]

    def encoded(self, column: Column, known: Array) -> Array:
        return np.asarray(known[:, None] == np.array(column.codes), dtype=np.float64)

    def exported(self, column: Column, known: Tensor, codes: Tensor) -> Tensor:
        return (known == codes).double()

    def usual(self, column: Column, fill: float | None) -> float | None:
        return fill

    def text_of_inputs(self, column: Column, inputs: Sequence[float]) -> str:
        return column.values[int(np.argmax(inputs[: len(column.values)]))]
