"""What a column holds, read off its cells and its name.

number       perhaps with a decimal comma, thousands in groups or a few cells that are none
flag         no and yes, in one of many spellings
category     a few texts
ordered      steps of a known scale: low, medium, high; grade 1 to 4
date
identifier   a number or name of a person or a row: no two patients have the same
text         free text
constant     the same in all rows
empty        nothing

An empty cell is missing, and so are words that mean nothing else (NA, ?). Codes such as -9 and 999 are taken
as missing only if they cannot be values: far from all others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from coterie.data.intake import Array
from coterie.data.tables.dates import FORMATS, ISO, date_of
from coterie.data.tables.texts import Cell, loose, number_of, plain, same, shown, some

Kind = Literal["number", "flag", "category", "ordered", "date", "identifier", "text", "constant", "empty"]

MOST_VALUES = 50  # a category with more is a name or a remark
MANY = 20  # rows from which on it tells something that no two are alike
MOSTLY = 0.9  # a column of numbers or dates may have so few odd cells

BLANK_WORDS = {
    "na", "n/a", "n.a.", "n.a", "nan", "null", "?", "??", "-", "--", "---", ".", "..", "#n/a", "#na",
    "#null!", "#value!", "nd", "n/d", "unk", "missing", "not available", "not recorded", "not done",
    "not known",
    "keine angabe", "k.a.",
}  # fmt: skip
DOUBTFUL_WORDS = frozenset({"none", "unknown", "unclear", "not applicable"})  # may be values of a category
LOW_CODES, HIGH_CODES = (
    (-1.0, -8.0, -9.0, -88.0, -99.0, -999.0, -9999.0),
    (9.0, 88.0, 99.0, 888.0, 999.0, 9999.0, 99999.0),
)

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
SCALE_WORDS = {
    "grade", "stage", "class", "score", "level", "ecog", "asa", "nyha", "killip", "degree", "severity",
    "step", "tnm",
}  # fmt: skip
IDENTIFIERS = {
    "id", "pid", "mrn", "uuid", "guid", "ssn", "pseudonym", "patientid", "patid", "caseid", "recordid",
    "subjectid",
}  # fmt: skip
NUMBERING = {
    "no", "nr", "num", "number", "key", "index", "code", "record", "case", "row", "patient", "subject",
}  # fmt: skip
PERSONAL = {
    "name", "surname", "firstname", "lastname", "vorname", "nachname", "address", "street", "phone",
    "telephone", "email", "mail",
}  # fmt: skip
DATES = {
    "date", "day", "time", "datum", "birth", "born", "dob", "admission", "admitted", "visit",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Found:
    """A column's cells at one site, or at all.

    rows      how many cells
    empty     how many are
    marks     other words for missing, as written
    values    known cells, with how many
    decimal   "," if numbers are written so
    dates     how they are written
    scale     the steps of an ordered column, all of them
    grouped   a cell whose comma may divide thousands, or be a decimal one
    odd       cells that are no number or date, in a column of them
    why       what speaks for the kind
    says      what a person should know
    asks      what a person should decide
    """

    kind: Kind
    rows: int
    empty: int
    marks: tuple[str, ...]
    values: Counter[Cell]
    why: str
    decimal: Literal["", ","] = ""
    dates: str = ""
    scale: tuple[str, ...] = ()
    odd: tuple[Cell, ...] = ()
    grouped: Cell = ""
    says: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()

    @property
    def known(self) -> int:
        return sum(self.values.values())

    @property
    def numeric(self) -> bool:
        return bool(self.values) and all(number_of(c, self.decimal) is not None for c in self.values)

    def numbers(self) -> Array:
        """[row] those that are known."""
        pairs = [(number_of(c, self.decimal), n) for c, n in self.values.items()]
        return np.array([v for v, n in pairs if v is not None for _ in range(n)])


def look(name: str, cells: Iterable[Cell]) -> Found:
    """The kind of a column called `name`."""
    counts = Counter(cells)
    rows, empty = counts.total(), counts.pop("", 0)
    words = [c for c in counts if isinstance(c, str) and plain(c) in BLANK_WORDS]
    if flag_marks(counts):
        words = [w for w in words if plain(w) not in ("-", "+")]
    values = Counter({c: n for c, n in counts.items() if c not in words})
    marks = tuple(sorted(map(str, words)))
    if not values:
        return Found("empty", rows, empty, marks, values, "no cell is filled in")
    found = as_flag(values) or as_numbers(name, values) or as_dates(name, values) or as_text(name, values)
    kind, more = found
    marks = (*marks, *more.pop("marks", ()))  # type: ignore[misc]
    left = Counter({c: n for c, n in values.items() if str(c) not in marks and same(c) not in marks})
    if len({same(c) for c in left}) == 1 and kind not in ("identifier", "date"):
        kind, more = "constant", {"decimal": more.get("decimal", ""), **only(left, rows)}
    return Found(kind, rows, empty, marks, left, **more)  # type: ignore[arg-type]


def only(values: Counter[Cell], rows: int) -> dict[str, object]:
    cell, gaps = next(iter(values)), rows - values.total()
    if not gaps:
        return {"why": f"it is {shown(cell)} in all rows"}
    why = f"it is {shown(cell)} in {values.total()} rows and missing in {gaps}"
    if plain(str(cell)) in YES | {"x"}:
        return {"why": f"{why}; if missing means no, fill that in and inspect again"}
    return {"why": why}


Told = tuple[Kind, dict[str, object]]


def flag_marks(counts: Counter[Cell]) -> bool:
    """Whether - and + are a column's words for no and yes."""
    return {plain(str(c)) for c in counts} == {"-", "+"}


def as_flag(values: Counter[Cell]) -> Told | None:
    words = {same(c) for c in values}
    if len(words) >= 2 and words <= NO | YES and words & NO and words & YES:
        pairs = [p for p in FLAGS if words == set(p)]
        if pairs or len(words) > 2 or not words <= {"f", "n", "t", "y", "j"}:
            return "flag", {"why": f"its cells are {some(sorted(words), 8)}"}
    return None


def as_numbers(name: str, values: Counter[Cell]) -> Told | None:
    decimal, parsed = best_decimal(values)
    total, read = values.total(), sum(values[c] for c in parsed)
    odd = [c for c in values if c not in parsed]
    if not parsed or read < MOSTLY * total or (len(odd) > 10 and read < 0.99 * total):
        return None
    doubtful = [c for c in odd if plain(str(c)) in DOUBTFUL_WORDS]
    odd = [c for c in odd if c not in doubtful]
    more: dict[str, object] = {"decimal": decimal, "odd": tuple(odd), "marks": tuple(map(str, doubtful))}
    asks = list[str]()
    says = list[str]()
    if ambiguous(parsed, decimal):
        more["grouped"] = next(c for c in parsed if "," in str(c))
    numbers = Counter[float]()
    for c, v in parsed.items():
        numbers[v] += values[c]
    codes, doubts, hints = missing_codes(numbers)
    asks += doubts
    says += hints
    written = [str(c) for c, v in parsed.items() if v in codes and same(c) != f"{v:g}"]  # -9,0 for -9
    more["marks"] = (*map(str, doubtful), *(f"{c:g}" for c in codes), *written)
    left = Counter({v: n for v, n in numbers.items() if v not in codes})
    kind, why, scale = number_kind(name, left)
    dates = "%Y%m%d" if kind == "date" else ""
    return kind, {
        **more,
        "why": why,
        "scale": scale,
        "dates": dates,
        "asks": tuple(asks),
        "says": tuple(says),
    }


def best_decimal(values: Counter[Cell]) -> tuple[Literal["", ","], dict[Cell, float]]:
    """The mark with which the most cells are numbers; a point unless a comma reads more."""
    point = {c: v for c in values if (v := number_of(c)) is not None}
    if not any(isinstance(c, str) and "," in c for c in values):
        return "", point
    comma = {c: v for c in values if (v := number_of(c, ",")) is not None}
    dotted = any(isinstance(c, str) and re.search(r"\.\d{1,2}$|\.\d{4,}$", c) for c in values)
    return (",", comma) if len(comma) > len(point) and not dotted else ("", point)


def ambiguous(parsed: dict[Cell, float], decimal: str) -> bool:
    """Whether all that speaks for thousands is a comma with three digits behind it."""
    texts = [c for c in parsed if isinstance(c, str) and "," in c]
    return not decimal and bool(texts) and all(re.fullmatch(r"[+-]?\d{1,3},\d{3}", c) for c in texts)


def missing_codes(numbers: Counter[float]) -> tuple[list[float], list[str], list[str]]:
    """Codes for missing values, what is doubtful, and what is worth saying."""
    candidates = [c for c in (*LOW_CODES, *HIGH_CODES) if c in numbers]
    codes, asks, says = list[float](), list[str](), list[str]()
    for code in candidates:
        others = [v for v in numbers if v not in candidates or abs(v) < abs(code)]
        others = [v for v in others if v not in codes and v != code and v not in LOW_CODES]
        if len(others) < 2:
            continue
        rest = np.repeat(others, [numbers[v] for v in others])
        if not far(code, rest, numbers[code]):
            continue
        if numbers[code] >= 2 or code < -1:
            codes.append(code)
        else:
            asks.append(
                f"{code:g} stands in one row, far from all others (up to {rest.max():g}): is it missing?"
            )
    rest = np.array([v for v in numbers if v not in codes and v != 0])
    if numbers.get(0.0, 0) >= 2 and len(rest) >= 10 and rest.min() > 0.25 * np.median(rest):
        says.append(
            f"0 stands in {numbers[0.0]} rows, the least other value is {rest.min():g}: if it means missing, "
            'write missing = ["0"]'
        )
    return codes, asks, says


def far(code: float, rest: Array, count: int) -> bool:
    """Whether a code cannot be a value among the rest."""
    if code < 0:
        return bool(rest.min() >= 0) and (code != -1 or count >= 2)
    low, high = np.quantile(rest, [0.05, 0.95])
    if code == 9:  # beside answers such as 0, 1, 2
        return bool(rest.max() <= 4) and bool((rest % 1 == 0).all()) and bool(rest.min() >= 0)
    return bool(code > rest.max()) and bool(code - rest.max() > 2 * max(high - low, 1.0))


def number_kind(name: str, numbers: Counter[float]) -> tuple[Kind, str, tuple[str, ...]]:
    words, total, whole = set(loose(name).split()), numbers.total(), all(v % 1 == 0 for v in numbers)
    if set(numbers) == {0.0, 1.0}:
        return "flag", "its numbers are 0 and 1", ()
    if whole and words & DATES and all(19000101 <= v <= 21001231 for v in numbers) and compact_dates(numbers):
        return "date", "its numbers are dates such as 20240131", ()
    if whole and (words & IDENTIFIERS or joined_identifier(words)):
        return "identifier", f"its name says so ({name})", ()
    alone = len(numbers) / max(total, 1)
    counting = min(numbers) in (0, 1) or min(numbers) >= 1000 or words & NUMBERING
    if whole and counting and total >= MANY and alone == 1 and max(numbers) - min(numbers) == total - 1:
        return "identifier", "it counts the rows: no number is there twice and none is left out", ()
    if whole and total >= MANY and alone >= 0.9 and (words & NUMBERING or min(numbers) >= 1e5):
        return "identifier", f"{len(numbers)} different numbers in {total} rows", ()
    if whole and words & SCALE_WORDS and 3 <= len(numbers) <= 10 and min(numbers) >= 0 and max(numbers) <= 10:
        steps = tuple(f"{v:g}" for v in np.arange(min(numbers), max(numbers) + 1))
        return "ordered", f"its name ({name}) is that of a scale, its numbers are steps", steps
    if whole and len(numbers) == 2 and total >= MANY:
        return "category", f"it holds two numbers only, {min(numbers):g} and {max(numbers):g}", ()
    return "number", f"its cells are numbers from {min(numbers):g} to {max(numbers):g}", ()


def joined_identifier(words: set[str]) -> bool:
    return any(
        w.endswith("id") and w[:-2] in {"patient", "case", "record", "subject", "person"} for w in words
    )


def compact_dates(numbers: Counter[float]) -> bool:
    return all(date_of(f"{v:.0f}", "%Y%m%d") for v in numbers)


def as_dates(name: str, values: Counter[Cell]) -> Told | None:
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


def as_text(name: str, values: Counter[Cell]) -> Told:
    words, total = set(loose(name).split()), values.total()
    texts = {same(c) for c in values}
    alone = len(texts) / total
    length = sum(len(str(c).split()) * n for c, n in values.items()) / total
    scale = known_scale(texts)
    if scale and len(texts) >= 2:
        return "ordered", {"why": f"its words are steps: {', '.join(scale)}", "scale": scale}
    if words & IDENTIFIERS or joined_identifier(words) or words & PERSONAL:
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
