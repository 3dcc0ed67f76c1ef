"""Which columns of several tables are the same.

Names that differ in case, blanks, accents, what divides words, or a unit behind them are one. Names that are
alike, abbreviate each other or mean the same are proposed to be one, as a question.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coterie.data.tables.kinds import Found
from coterie.data.tables.texts import loose, trimmed
from coterie.data.tables.units import name_and_unit

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


def matched(headers: Mapping[str, Sequence[str]], looks: Mapping[str, Mapping[str, Found]]) -> list[Group]:
    """Columns of all sites, those of the first site first."""
    groups = list[Group]()
    for site, names in headers.items():
        keys = [loose(name_and_unit(h)[0]) for h in names]
        for header, key in zip(names, keys, strict=True):
            bare = key if keys.count(key) == 1 else loose(header)  # temp_c beside temp_f are two columns
            group = next((g for g in groups if site not in g.headers and key_of(g) == bare), None)
            if group is None:
                shown = name_and_unit(header)[0] if bare == key else trimmed(header)
                groups.append(Group(shown, {site: header}))
            else:
                group.headers[site] = header
    return joined(groups, looks)


def key_of(group: Group) -> str:
    return loose(group.name)


def joined(groups: list[Group], looks: Mapping[str, Mapping[str, Found]]) -> list[Group]:
    """Groups that no site has both of, and whose names are akin, the most likely first."""
    pairs = [
        (-likeness(a.name, b.name), i, j)
        for i, a in enumerate(groups)
        for j, b in enumerate(groups)
        if i < j and not a.headers.keys() & b.headers.keys() and likeness(a.name, b.name) >= ALIKE
    ]
    gone = set[int]()
    for _, i, j in sorted(pairs):
        a, b = groups[i], groups[j]
        if {i, j} & gone or a.headers.keys() & b.headers.keys() or not akin(a, b, looks):
            continue
        if len(b.headers) > len(a.headers):  # the name that most sites have
            a.name, a.guessed = b.name, a.guessed | a.headers.keys()
        else:
            a.guessed = a.guessed | b.headers.keys()
        a.headers |= b.headers
        gone.add(j)
    return [g for i, g in enumerate(groups) if i not in gone]


def akin(a: Group, b: Group, looks: Mapping[str, Mapping[str, Found]]) -> bool:
    """Whether both hold the like: numbers, dates, or anything else."""
    kinds = [{family(looks[s][h]) for s, h in g.headers.items()} - {""} for g in (a, b)]
    return not kinds[0] or not kinds[1] or bool(kinds[0] & kinds[1])


def family(found: Found) -> str:
    if found.kind in ("empty", "constant"):
        return ""
    return found.kind if found.kind in ("number", "date", "identifier", "text") else "values"


def likeness(one: str, other: str) -> float:
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
