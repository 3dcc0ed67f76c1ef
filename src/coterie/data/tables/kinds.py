"""What a column holds, read off its cells and its name.

number       perhaps with a decimal comma, thousands in groups or a few cells that are none
flag         no and yes, in one of many spellings
category     a few texts
ordered      steps of a known scale: low, medium, high; grade 1 to 4
date
identifier   a number or name of a person or a row
code         digits that are no quantity, too many for a category: a postcode
text         free text
constant     the same in all rows
empty        nothing

An empty cell is missing, and so are words that mean nothing else (NA, ?). Codes such as -9 and 999 are taken
as missing only if they cannot be values: far from all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from coterie.data.intake import Array
from coterie.data.tables.cells import Column, Values
from coterie.data.tables.dates import FORMATS, ISO, date_of
from coterie.data.tables.names import PERSONAL, names_identifier, words_in
from coterie.data.tables.number_kinds import (
    DOUBTFUL_WORDS,
    MANY,
    MOST_VALUES,
    MOSTLY,
    Kind,
    Read,
    all_read_as,
    as_numbers,
)
from coterie.data.tables.numerals import USUAL, Writing
from coterie.data.tables.texts import Cell, plain, same, shown, some

BLANK_WORDS = {
    "na", "n/a", "n.a.", "n.a", "nan", "null", "?", "??", "-", "--", "---", ".", "..", "#n/a", "#na",
    "#null!", "#value!", "nd", "n/d", "unk", "missing", "not available", "not recorded", "not done",
    "not known",
    "keine angabe", "k.a.",
}  # fmt: skip
FLAGS = (
    ("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("0", "1"), ("nein", "ja"), ("non", "oui"),
    ("neg", "pos"), ("negative", "positive"), ("absent", "present"), ("-", "+"), ("no", "si"), ("n", "j"),
)  # fmt: skip
NO, YES = {no for no, _ in FLAGS}, {yes for _, yes in FLAGS}
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


@dataclass(frozen=True, eq=False)
class Found:
    """A column's cells at one site, or at all.

    rows      how many cells
    empty     how many are
    marks     other words for missing, as written
    values    known cells, with how many
    writing   how numbers are written
    dates     how they are written
    scale     the steps of an ordered column, all of them
    odd       cells that are no number or date, in a column of them
    why       what speaks for the kind
    says      what a person should know
    asks      what a person should decide
    doubt     ... about its kind
    """

    kind: Kind
    rows: int
    empty: int
    marks: tuple[str, ...]
    values: Values
    why: str
    writing: Writing = USUAL
    dates: str = ""
    scale: tuple[str, ...] = ()
    odd: tuple[Cell, ...] = ()
    says: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    doubt: str = ""

    @property
    def decimal(self) -> str:
        return self.writing.decimal

    @property
    def grouped(self) -> str:
        """A cell whose only mark may divide thousands or be a decimal one, which nothing here tells."""
        return "" if self.writing.ask else self.writing.doubtful

    @property
    def known(self) -> int:
        return self.values.total()

    @property
    def numeric(self) -> bool:
        return bool(self.values) and not np.isnan(self.read()).any()

    def read(self) -> Array:
        """A number for each of `values`, NaN where it is none."""
        return all_read_as(self.values, self.writing)

    def numbers(self) -> Array:
        """[row] those that are known."""
        read = self.read()
        known = ~np.isnan(read)
        return np.repeat(read[known], self.values.counts[known])


def look(name: str, cells: Iterable[Cell] | Column | Values, commas: bool = False) -> Found:
    """The kind of a column called `name`; `commas` where its file has decimal commas in other columns."""
    values = Values.of(cells)
    rows, gaps = values.total(), values.words(lambda c: c == "")
    empty, values = int(values.counts[gaps].sum()), values.kept(~gaps)
    blank = values.words(lambda c: isinstance(c, str) and plain(c) in BLANK_WORDS)
    if blank.any() and flag_marks(values):
        blank &= values.words(lambda c: plain(str(c)) not in ("-", "+"))
    marks = tuple(sorted(map(str, values.kept(blank))))
    values = values.kept(~blank)
    if not values:
        return Found("empty", rows, empty, marks, values, "no cell is filled in")
    found = (
        as_flag(values) or as_numbers(name, values, commas) or as_dates(name, values) or as_text(name, values)
    )
    kind, more = found
    marks = (*marks, *more.pop("marks", ()))  # type: ignore[misc]
    left = values.kept(~values.among(marks, as_written=True)) if marks else values
    if left.different(1) == 1 and kind not in ("identifier", "date"):
        kind, more = "constant", {"writing": more.get("writing", USUAL), **only(left, rows)}
    return Found(kind, rows, empty, marks, left, **more)  # type: ignore[arg-type]


def only(values: Values, rows: int) -> dict[str, object]:
    cell, gaps = next(iter(values)), rows - values.total()
    if not gaps:
        return {"why": f"it is {shown(cell)} in all rows"}
    why = f"it is {shown(cell)} in {values.total()} rows and missing in {gaps}"
    if plain(str(cell)) in YES | {"x"}:
        return {"why": f"{why}; if missing means no, fill that in and inspect again"}
    return {"why": why}


def flag_marks(values: Values) -> bool:
    """Whether - and + are a column's words for no and yes."""
    return {plain(str(c)) for c in values} == {"-", "+"}


def as_flag(values: Values) -> Read | None:
    if values.different(len(NO | YES)) > len(NO | YES):
        return None
    words = {same(c) for c in values}
    if len(words) >= 2 and words <= NO | YES and words & NO and words & YES:
        pairs = [p for p in FLAGS if words == set(p)]
        if pairs or len(words) > 2 or not words <= {"f", "n", "t", "y", "j"}:
            return "flag", {"why": f"its cells are {some(sorted(words), 8)}"}
    return None


def as_dates(name: str, values: Values) -> Read | None:
    texts = {c: n for c, n in values.items() if isinstance(c, str)}
    doubtful = [c for c in texts if plain(c) in DOUBTFUL_WORDS]
    texts = {c: n for c, n in texts.items() if c not in doubtful}
    total = sum(texts.values())
    likely = sum(n for c, n in texts.items() if len(c) <= 30 and sum(map(str.isdigit, c)) >= 4)
    if not total or likely < MOSTLY * total:
        return None
    read = {f: {c for c in texts if date_of(c, f)} for f in ("", *FORMATS)}
    best = max(read, key=lambda f: sum(texts[c] for c in read[f]))
    if sum(texts[c] for c in read[best]) < MOSTLY * total:
        return None
    odd = tuple(c for c in texts if c not in read[best])
    asks = [f"these are no dates: {some([shown(c) for c in odd])}"] if odd else []
    if best == "%d/%m/%Y" and len(read["%m/%d/%Y"]) == len(read[best]):
        asks.append(
            f"{shown(next(iter(texts)))} is read as day/month: if the month is first, write "
            'dates = "%m/%d/%Y"'
        )
    iso = all(ISO.fullmatch(c) for c in read[best])
    why = f"its cells are dates such as {shown(next(iter(read[best])))}"
    return "date", {
        "why": why,
        "dates": "" if iso else best,
        "odd": odd,
        "marks": tuple(doubtful),
        "asks": tuple(asks),
    }


def as_text(name: str, values: Values) -> Read:
    total = values.total()
    texts = {same(c) for c in values}
    alone = len(texts) / total
    length = sum(len(str(c).split()) * n for c, n in values.items()) / total
    scale = known_scale(texts)
    if scale and len(texts) >= 2:
        return "ordered", {"why": f"its words are steps: {', '.join(scale)}", "scale": scale}
    if names_identifier(name) or words_in(name) & PERSONAL:
        return "identifier", {"why": f"its name says so ({name})"}
    if total >= MANY and alone > 0.9 and length <= 2.5:
        return "identifier", {"why": f"{len(texts)} different texts in {total} rows"}
    if (length >= 4 and alone > 0.5) or len(texts) > MOST_VALUES or (total >= MANY and alone > 0.5):
        return "text", {"why": f"{len(texts)} different texts in {total} rows, of {length:.1f} words each"}
    return "category", {"why": f"{len(texts)} different texts in {total} rows"}


def known_scale(texts: set[str]) -> tuple[str, ...]:
    """The shortest known scale that has all these steps."""
    fits = [s for s in SCALES if texts <= set(s)]
    return min(fits, key=len) if fits else ()
