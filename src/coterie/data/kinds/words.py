"""Kinds whose cells are words of a list: no and yes, in one of many spellings (flag); a few texts, each an
input of 0 and 1, fixed beforehand so that all clients agree (category); and steps of a known scale, low,
medium, high or grade 1 to 4, as numbers that are as far apart as each other (ordered).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from coterie.data.kinds.base import Array, Verdict, Words, register
from coterie.data.tables.cells import Values
from coterie.data.tables.names import SCALE_WORDS, words_in
from coterie.data.tables.texts import Cell, number_of, same, some

if TYPE_CHECKING:
    from torch import Tensor

    from coterie.data.preparation import Column
    from coterie.data.tables.draft import Draft
    from coterie.data.tables.numerals import Numbers
    from coterie.data.tables.recipe import Spellings

FLAGS = (
    ("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("0", "1"), ("nein", "ja"), ("non", "oui"),
    ("neg", "pos"), ("negative", "positive"), ("absent", "present"), ("-", "+"), ("no", "si"), ("n", "j"),
)  # fmt: skip
NO, YES = {no for no, _ in FLAGS}, {yes for _, yes in FLAGS}
MOST_VALUES = 50  # a category with more is a name or a remark
MANY = 20  # rows from which on it tells something that there are few values
SYNONYMS = (
    ("f", ("female", "w", "woman", "weiblich", "femme", "fem")),
    ("m", ("male", "man", "mannlich", "männlich", "homme", "h")),
)
SCALES = (
    ("low", "medium", "high"), ("low", "moderate", "high"), ("low", "normal", "high"),
    ("small", "medium", "large"), ("mild", "moderate", "severe"), ("none", "mild", "moderate", "severe"),
    ("none", "mild", "moderate", "severe", "very severe"), ("poor", "fair", "good", "excellent"),
    ("poor", "fair", "good", "very good", "excellent"), ("never", "rarely", "sometimes", "often", "always"),
    ("i", "ii", "iii", "iv"), ("i", "ii", "iii", "iv", "v"), ("negative", "trace", "1+", "2+", "3+", "4+"),
    ("grade 1", "grade 2", "grade 3", "grade 4"), ("stage i", "stage ii", "stage iii", "stage iv"),
    ("stage 1", "stage 2", "stage 3", "stage 4"), ("niedrig", "mittel", "hoch"),
    ("leicht", "mittel", "schwer"),
)  # fmt: skip


@register
class _Flag(Words):
    name = "flag"
    about = "flag (no or yes)"
    place = 20
    cells_at = 10
    numbers_at = 10
    persons = False
    as_classes = "flag"
    encodes = True
    same_everywhere = True
    least = 2
    needs = "two values, the one for 0 first"

    def of_cells(self, name: str, values: Values, commas: bool) -> Verdict | None:
        if values.different(len(NO | YES)) > len(NO | YES):
            return None
        words = {same(c) for c in values}
        if len(words) >= 2 and words <= NO | YES and words & NO and words & YES:
            pairs = [p for p in FLAGS if words == set(p)]
            if pairs or len(words) > 2 or not words <= {"f", "n", "t", "y", "j"}:
                return Verdict(self.name, f"its cells are {some(sorted(words), 8)}")
        return None

    def of_numbers(self, name: str, numbers: Numbers, zeros: bool) -> Verdict | None:
        if set(numbers.values[:3].tolist()) == {0.0, 1.0}:
            return Verdict(self.name, "its numbers are 0 and 1")
        return None

    def propose(self, draft: Draft) -> None:
        words = Counter[str]()
        for cell, n in draft.pooled.values.items():
            words[same(cell)] += n
        pairs = [p for p in FLAGS if set(p) <= words.keys()]
        spelt = max(pairs or [("no", "yes")], key=lambda p: (p != ("0", "1"), sum(words[w] for w in p)))
        alike = zip(spelt, ([w for w in words if (w in NO) == no] for no in (True, False)), strict=True)
        others = {v: tuple(sorted(w for w in like if w != v)) for v, like in alike}
        draft.use(self.name, values=spelt, spellings={v: o for v, o in others.items() if o})

    def allowed(self, column: Column) -> tuple[float, ...] | None:
        return 0.0, 1.0

    def exported(self, column: Column, known: Tensor, codes: Tensor) -> Tensor:
        return known

    def text_of_inputs(self, column: Column, inputs: Sequence[float]) -> str:
        return f"{inputs[0]:.2g}"


def word_for(cell: Cell) -> str:
    """A value by its usual word: female is f, oui is yes."""
    text = same(cell)
    return next((word for word, others in SYNONYMS if text in others), text)


@register
class _Category(Words):
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


@register
class _Ordered(Words):
    name = "ordered"
    about = "ordered (steps of equal width)"
    place = 40
    cells_at = 40
    numbers_at = 50
    persons = False
    as_classes = "category"

    def of_cells(self, name: str, values: Values, commas: bool) -> Verdict | None:
        """The shortest known scale that has all these steps."""
        texts = {same(c) for c in values}
        fits = [s for s in SCALES if texts <= set(s)]
        if not fits or len(texts) < 2:
            return None
        scale = min(fits, key=len)
        return Verdict(self.name, f"its words are steps: {', '.join(scale)}", scale=scale)

    def of_numbers(self, name: str, numbers: Numbers, zeros: bool) -> Verdict | None:
        least, most = numbers.least, numbers.most
        few = 3 <= len(numbers) <= 10 and least >= 0 and most <= 10
        if not (numbers.whole and few and words_in(name) & SCALE_WORDS):
            return None
        steps = tuple(f"{v:g}" for v in np.arange(least, most + 1))
        return Verdict(self.name, f"its name ({name}) is that of a scale, its numbers are steps", scale=steps)

    def propose(self, draft: Draft) -> None:
        draft.use(self.name, values=draft.pooled.scale)
