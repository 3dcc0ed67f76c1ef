"""One rule for a column from what each site's cells look like: kind, values, units, what differs where."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from coterie.data.tables.cells import Values
from coterie.data.tables.kinds import FLAGS, NO, Found, look
from coterie.data.tables.match import Group
from coterie.data.tables.merge_numbers import as_number, told_by_others
from coterie.data.tables.merged import Merged
from coterie.data.tables.number_kinds import HIGH_CODES, LOW_CODES, MOST_VALUES
from coterie.data.tables.numerals import USUAL
from coterie.data.tables.rules import Here, Rule, Spellings
from coterie.data.tables.site_codes import ask_codes
from coterie.data.tables.texts import Cell, number_of, plain, same, shown, some
from coterie.data.tables.units import name_and_unit
from coterie.data.targets import kind_of_numbers

SYNONYMS = (
    ("f", ("female", "w", "woman", "weiblich", "femme", "fem")),
    ("m", ("male", "man", "mannlich", "männlich", "homme", "h")),
)
NUMBERS = ("regression", "survival")  # tasks whose target is one

LEFT_OUT = {
    "identifier": "it tells who a row is, nothing that holds for others",
    "code": "its digits are no quantity",
    "text": "free text is no input",
    "constant": "there is nothing to learn from it",
    "empty": "there is nothing to learn from it",
}


def merge(group: Group, looks: Mapping[str, Found], sites: Sequence[str], task: str = "") -> Merged:
    """`looks` by site, of those that have the column; `task` for the target: auto or what it shall be."""
    looks = told_by_others(looks)
    apart = odd_sites(looks)
    pooled = together(group.name, [looks[s] for s in looks if s not in apart])
    kind = target_kind(pooled, task) if task else common_kind(pooled, looks)
    merged = Merged(Rule(group.name, "leave-out"), kind, list(pooled.says), numeric=pooled.numeric)
    fill = {
        "number": as_number,
        "flag": as_flag,
        "category": as_category,
        "ordered": as_ordered,
        "date": as_date,
    }
    if kind in fill:
        fill[kind](merged, group, looks, pooled)
    names(merged, group, sites)
    missing(merged, looks)
    alike = [f for f in (pooled, *looks.values()) if f.kind == kind]
    if (doubt := next((f.doubt for f in alike if f.doubt), "")) and not task:
        merged.asks.append(doubt)
    if merged.rule.read or kind == "date":
        merged.asks += [f"at {s}: {ask}" for s, f in looks.items() for ask in f.asks]
    ask_codes(merged, {s: f for s, f in looks.items() if s not in apart}, bool(task))
    for site in apart:
        if merged.rule.read:
            merged.differs(site, absent=True)
            there = some([shown(c) for c in looks[site].values], 4)
            others = some(list(merged.rule.values), 4) if merged.rule.values else "numbers"
            merged.asks.append(
                f"{site} writes {there} where others have {others}: say which is which under "
                f"at.{site}.spellings; until then it counts as absent there"
            )
    why = [f"{kind}: {merged.why or (alike[0] if alike else pooled).why}"]
    if kind in LEFT_OUT:
        why.append(f"left out: {LEFT_OUT[kind]}")
    merged.rule = replace(merged.rule, why=tuple(why))
    return merged.done(sites)


def together(name: str, looks: Sequence[Found]) -> Found:
    """What all sites' cells look like as one column."""
    if len(looks) == 1 and looks[0].writing == USUAL:
        return looks[0]
    return look(name, Values.joined([uniform(found) for found in looks]))


def uniform(found: Found) -> Values:
    """A site's known cells, with its way of writing numbers read and its marks of missing values left out."""
    if found.writing == USUAL:
        return found.values
    counts = Counter[Cell]()
    for cell, value, n in zip(found.values, found.read().tolist(), found.values.counts.tolist(), strict=True):
        counts[cell if math.isnan(value) else value] += n
    return Values.of(counts)


def common_kind(pooled: Found, looks: Mapping[str, Found]) -> str:
    """What most rows' sites say of identifiers and dates, which do not show when sites are joined."""
    rows = Counter[str]()
    for found in looks.values():
        rows[found.kind] += found.known
    (most, _), *_ = rows.most_common()
    if most in ("identifier", "code", "date"):
        return most
    many = pooled.kind == "category" and pooled.values.different(MOST_VALUES) > MOST_VALUES
    return "text" if many else pooled.kind


def target_kind(pooled: Found, task: str) -> str:
    """Classes or numbers by the rule for all doors (`data/targets.py`), however numbers are written."""
    values = pooled.values.numbers()
    numeric = len(values) > 0 and not np.isnan(values).any()
    numbers = numeric and kind_of_numbers(values, pooled.known).kind == "numbers"
    if pooled.kind in ("empty", "constant") or (task in NUMBERS and not numeric):
        return pooled.kind
    if task in NUMBERS or (task == "auto" and numbers):
        return "number"
    if pooled.kind == "flag":
        return "flag"
    return "category" if numeric or pooled.kind in ("category", "ordered") else pooled.kind


def odd_sites(looks: Mapping[str, Found]) -> list[str]:
    """Sites whose cells are of another sort than most rows', or whose words no other site has."""
    told = {
        s: f for s, f in looks.items() if f.kind not in ("empty", "constant", "identifier", "code", "text")
    }
    if all(f.kind == "flag" for f in told.values()):
        return []
    rows = Counter[str]()
    for found in told.values():
        rows[sort(found)] += found.known
    if len(rows) > 1:
        most = rows.most_common(1)[0][0]
        return [s for s, f in told.items() if sort(f) != most]
    if "text" not in rows:
        return []
    words = {s: {word_for(c) for c in f.values} for s, f in told.items()}
    lone = [s for s in told if not words[s] & set().union(*(words[o] for o in told if o != s))]
    return lone if len(lone) < len(told) else sorted(lone, key=lambda s: -told[s].known)[1:]


def sort(found: Found) -> str:
    if found.kind == "date":
        return "date"
    return "number" if found.numeric or found.kind == "number" else "text"


def word_for(cell: Cell) -> str:
    """A value by its usual word: female is f, oui is yes."""
    text = same(cell)
    return next((word for word, others in SYNONYMS if text in others), text)


def as_flag(merged: Merged, group: Group, looks: Mapping[str, Found], pooled: Found) -> None:
    words = Counter[str]()
    for cell, n in pooled.values.items():
        words[same(cell)] += n
    pairs = [p for p in FLAGS if set(p) <= words.keys()]
    spelt = max(pairs or [("no", "yes")], key=lambda p: (p != ("0", "1"), sum(words[w] for w in p)))
    others = {
        v: tuple(sorted(w for w in words if (w in NO) == (i == 0) and w != v)) for i, v in enumerate(spelt)
    }
    spellings = {v: o for v, o in others.items() if o}
    merged.rule = replace(merged.rule, use="flag", values=spelt, spellings=spellings)


def as_category(merged: Merged, group: Group, looks: Mapping[str, Found], pooled: Found) -> None:
    shown_as, spelt = dict[str, str](), dict[str, set[str]]()
    sexes = {w for word, others in SYNONYMS for w in (word, *others)}
    usual = word_for if {same(c) for c in pooled.values} <= sexes else same  # m and w may be days of a week
    for cell, _ in pooled.values.most_common():
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
    merged.rule = replace(merged.rule, use="category", values=values, spellings=spellings)
    if spellings:
        merged.says.append(f"one value for {some(['/'.join((k, *v)) for k, v in spellings.items()])}")


def as_ordered(merged: Merged, group: Group, looks: Mapping[str, Found], pooled: Found) -> None:
    merged.rule = replace(merged.rule, use="ordered", values=pooled.scale)


def as_date(merged: Merged, group: Group, looks: Mapping[str, Found], pooled: Found) -> None:
    """Left out, but ready to be used: how it is written is kept."""
    written = {s: f.dates for s, f in looks.items() if f.dates}
    common = Counter(written.values()).most_common(1)
    merged.rule = replace(merged.rule, dates=common[0][0] if common else "")
    for site, format in written.items():
        if format != merged.rule.dates:
            merged.differs(site, dates=format)
    merged.says.append(
        'a date is left out; to use it, write use = "date", since = a column or a date, in = "years"'
    )


def names(merged: Merged, group: Group, sites: Sequence[str]) -> None:
    """What sites call it, and who lacks it."""
    for site in sites:
        if site not in group.headers:
            if merged.kind not in LEFT_OUT:
                merged.differs(site, absent=True)
        elif plain(group.name) not in (plain(h := group.headers[site]), plain(name_and_unit(h)[0])):
            merged.differs(site, name=group.headers[site])
    for site in sorted(group.guessed) if merged.rule.read else ():
        merged.asks.append(f"is {group.headers[site]!r} of {site} the same as {group.name!r} of others?")


def missing(merged: Merged, looks: Mapping[str, Found]) -> None:
    """Words for a missing value: for all where no site has them as a value."""
    if not merged.rule.read:
        return
    marks = {m for f in looks.values() for m in f.marks}
    for mark in sorted(marks):
        if not any(f.values.among({same(mark)}).any() for f in looks.values()):
            merged.rule = replace(merged.rule, missing=(*merged.rule.missing, mark))
        else:
            for site, found in looks.items():
                if mark in found.marks:
                    merged.differs(site, missing=(*merged.here.get(site, Here()).missing, mark))
    codes = [m for m in sorted(marks) if (v := number_of(m)) is not None and v in (*LOW_CODES, *HIGH_CODES)]
    if codes:
        merged.says.append(f"{', '.join(codes)} taken as missing: far from all other values")
