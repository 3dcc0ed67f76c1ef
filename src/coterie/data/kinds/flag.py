"""No and yes, in one of many spellings: 0 and 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coterie.data.kinds.base import Verdict, Words, register
from coterie.data.tables.cells import Values
from coterie.data.tables.texts import plain, same, some

if TYPE_CHECKING:
    from torch import Tensor

    from coterie.data.preparation import Column
    from coterie.data.tables.draft import Draft
    from coterie.data.tables.numerals import Numbers

FLAGS = (
    ("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("0", "1"), ("nein", "ja"), ("non", "oui"),
    ("neg", "pos"), ("negative", "positive"), ("absent", "present"), ("-", "+"), ("no", "si"), ("n", "j"),
)  # fmt: skip
NO, YES = {no for no, _ in FLAGS}, {yes for _, yes in FLAGS}


def signs_are_flags(values: Values) -> bool:
    """Whether - and + are a column's words for no and yes."""
    return {plain(str(c)) for c in values} == {"-", "+"}


@register
class Flag(Words):
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
