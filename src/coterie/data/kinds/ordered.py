"""Steps of a known scale, low, medium, high or grade 1 to 4: numbers as far apart as each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coterie.data.kinds.base import Verdict, Words, register
from coterie.data.tables.cells import Values
from coterie.data.tables.names import SCALE_WORDS, words_in
from coterie.data.tables.texts import same

if TYPE_CHECKING:
    from coterie.data.tables.draft import Draft
    from coterie.data.tables.numerals import Numbers

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
class Ordered(Words):
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
