"""What a column holds, read off its cells and its name.

An empty cell is missing, and so are words that mean nothing else (NA, ?). Codes such as -9 and 999 are taken
as missing only if they cannot be values: far from all others. Of the rest all kinds are asked (`data/kinds`).

Columns of several tables are one where their names differ in case, blanks, accents, what divides words, or a
unit behind them. Names that are alike, abbreviate each other or mean the same are proposed to be one, as a
question.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from coterie.data.intake import Array
from coterie.data.kinds import KINDS, ColumnKind, Verdict
from coterie.data.kinds.left_out import Constant
from coterie.data.tables.cells import Column, Values
from coterie.data.tables.names import name_and_unit
from coterie.data.tables.texts import Cell, loose, plain, trimmed

BLANK_WORDS = {
    "na", "n/a", "n.a.", "n.a", "nan", "null", "?", "??", "-", "--", "---", ".", "..", "#n/a", "#na",
    "#null!", "#value!", "nd", "n/d", "unk", "missing", "not available", "not recorded", "not done",
    "not known",
    "keine angabe", "k.a.",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Profile(Verdict):
    """A column's cells at one site, or at all: what they are, and ...

    rows      how many cells
    empty     how many are
    values    known cells, with how many
    """

    rows: int
    empty: int
    values: Values

    @classmethod
    def of_cells(cls, name: str, cells: Iterable[Cell] | Column | Values, commas: bool = False) -> Profile:
        """Of a column called `name`; `commas` where its file has decimal commas in other columns."""
        values = Values.of(cells)
        rows, gaps = values.total(), values.words(lambda c: c == "")
        empty, values = int(values.counts[gaps].sum()), values.kept(~gaps)
        blank = values.words(lambda c: isinstance(c, str) and plain(c) in BLANK_WORDS)
        if blank.any() and {plain(str(c)) for c in values} == {"-", "+"}:  # a column's words for no and yes
            blank &= values.words(lambda c: plain(str(c)) not in ("-", "+"))
        marks = tuple(sorted(map(str, values.kept(blank))))
        values = values.kept(~blank)
        if not values:
            found = Verdict("empty", "no cell is filled in", marks=marks)
            return cls(rows=rows, empty=empty, values=values, **vars(found))
        kinds = sorted(KINDS.values(), key=lambda kind: kind.cells_at)
        found = next(v for kind in kinds if (v := kind.of_cells(name, values, commas)) is not None)
        marks = (*marks, *found.marks)
        left = values.kept(~values.among(marks, as_written=True)) if marks else values
        if left.different(1) == 1 and not KINDS[found.kind].lasts:
            same = cast(Constant, KINDS["constant"]).of_rows(left, rows)
            found = Verdict(same.kind, same.why, found.writing)
        return cls(rows=rows, empty=empty, values=left, **{**vars(found), "marks": marks})

    @property
    def of(self) -> ColumnKind:
        return KINDS[self.kind]

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
        return self.writing.read(self.values)

    def numbers(self) -> Array:
        """[row] those that are known."""
        read = self.read()
        known = ~np.isnan(read)
        return np.repeat(read[known], self.values.counts[known])


Profiles = Mapping[str, Profile]
"""Of one column, by site."""


SAME_MEANING = (
    {"sex", "gender", "geschlecht", "sexe"},
    {"age", "alter", "age at admission", "age years", "patient age"},
    {"weight", "body weight", "wt", "gewicht", "poids"},
    {"height", "body height", "ht", "grosse", "taille"},
    {"glucose", "blood sugar", "blood glucose", "sugar", "gluc", "fasting glucose"},
    {"cholesterol", "chol", "total cholesterol", "serum cholesterol"},
    {"creatinine", "crea", "creat", "kreatinin", "serum creatinine"},
    {"systolic blood pressure", "sbp", "systolic", "rr syst", "systolic bp"},
    {"diastolic blood pressure", "dbp", "diastolic", "diastolic bp"},
    {"heart rate", "hr", "pulse"},
    {"temperature", "temp", "body temperature"},
    {"smoker", "smoking", "smokes", "current smoker", "raucher"},
    {"haemoglobin", "hemoglobin", "hb", "hgb"},
    {"body mass index", "bmi"},
    {"diabetes", "diabetic", "dm"},
)
ALIKE = 0.8  # how alike two names must be, as difflib counts


@dataclass
class Group:
    """A column and what each site calls it; `guessed` are sites where that is a question."""

    name: str
    headers: dict[str, str]
    guessed: set[str] = field(default_factory=set)

    def of(self, profiles: Mapping[str, Profiles]) -> dict[str, Profile]:
        """The column's own, by site."""
        return {site: profiles[site][header] for site, header in self.headers.items()}


def matched(
    headers: Mapping[str, Sequence[str]], profiles: Mapping[str, Mapping[str, Profile]]
) -> list[Group]:
    """Columns of all sites, those of the first site first."""
    groups = list[Group]()
    for site, names in headers.items():
        keys = [loose(name_and_unit(h)[0]) for h in names]
        for header, key in zip(names, keys, strict=True):
            bare = key if keys.count(key) == 1 else loose(header)  # temp_c beside temp_f are two columns
            group = next((g for g in groups if site not in g.headers and loose(g.name) == bare), None)
            if group is None:
                shown = name_and_unit(header)[0] if bare == key else trimmed(header)
                groups.append(Group(shown, {site: header}))
            else:
                group.headers[site] = header
    return _joined(groups, profiles)


def _joined(groups: list[Group], profiles: Mapping[str, Profiles]) -> list[Group]:
    """Groups that no site has both of, and whose names are akin, the most likely first."""
    pairs = itertools.combinations(range(len(groups)), 2)
    alike = [(_likeness(groups[i].name, groups[j].name), i, j) for i, j in pairs]
    gone = set[int]()
    for _, i, j in sorted((-likeness, i, j) for likeness, i, j in alike if likeness >= ALIKE):
        a, b = groups[i], groups[j]
        ours, theirs = ({p.of.family for p in g.of(profiles).values()} - {""} for g in (a, b))
        akin = not ours or not theirs or ours & theirs  # both numbers, dates, or anything else
        if {i, j} & gone or a.headers.keys() & b.headers.keys() or not akin:
            continue
        if len(b.headers) > len(a.headers):  # the name that most sites have
            a.name, a.guessed = b.name, a.guessed | a.headers.keys()
        else:
            a.guessed = a.guessed | b.headers.keys()
        a.headers |= b.headers
        gone.add(j)
    return [g for i, g in enumerate(groups) if i not in gone]


def _likeness(one: str, other: str) -> float:
    """0 to 1: the same meaning, an abbreviation, or letters that are alike."""
    a, b = loose(one), loose(other)
    if any(a in words and b in words for words in SAME_MEANING):
        return 1.0
    short, long = sorted((a, b), key=len)
    if [c for c in a if c.isdigit()] != [c for c in b if c.isdigit()]:
        return 0.0  # lab 1 and lab 2
    if len(short) >= 4 and long.startswith(short):
        return 0.85
    if len(short) < 4:
        return 0.0
    return difflib.SequenceMatcher(None, a, b).ratio()
