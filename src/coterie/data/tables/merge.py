"""One rule for a column from what each site's cells look like: kind, values, units, what differs where."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from coterie.data.tables.kinds import FLAGS, MOST_VALUES, NO, Found, look
from coterie.data.tables.match import Group
from coterie.data.tables.rules import Here, Rule, Spellings
from coterie.data.tables.texts import Cell, number_of, plain, same, shown, some
from coterie.data.tables.units import Conversion, conversion, conversions_for, name_and_unit
from coterie.data.targets import kind_of_numbers

SYNONYMS = (
    ("f", ("female", "w", "woman", "weiblich", "femme", "fem")),
    ("m", ("male", "man", "mannlich", "männlich", "homme", "h")),
)
BOUNDED = re.compile(r"\s*[<>≤≥~]?=?\s*([+\u2212-]?[\d.,]+)\s*\*?\s*")  # <5, >=300, 12*
NUMBERS = ("regression", "survival")  # tasks whose target is one
ANOTHER_UNIT = 1.6  # medians further apart than this may be in different units
FITTING = 1.25  # converted medians this near each other speak for a conversion
FAR_APART = 5.0  # medians further apart are worth a question, conversion or not

LEFT_OUT = {
    "identifier": "it tells who a row is, nothing that holds for others",
    "text": "free text is no input",
    "constant": "there is nothing to learn from it",
    "empty": "there is nothing to learn from it",
}


@dataclass
class Merged:
    """A rule in the making, with what a person should know or decide about it."""

    rule: Rule
    kind: str
    says: list[str] = field(default_factory=list)
    asks: list[str] = field(default_factory=list)
    here: dict[str, Here] = field(default_factory=dict)
    why: str = ""

    def differs(self, site: str, **what: object) -> None:
        self.here[site] = replace(self.here.get(site, Here()), **what)  # type: ignore[arg-type]

    def done(self, sites: Sequence[str]) -> Merged:
        at = {s: self.here[s] for s in sites if self.here.get(s, Here()) != Here()}
        self.rule = replace(self.rule, at=at)
        return self


def merge(group: Group, looks: Mapping[str, Found], sites: Sequence[str], task: str = "") -> Merged:
    """`looks` by site, of those that have the column; `task` for the target: auto or what it shall be."""
    apart = odd_sites(looks)
    pooled = together(group.name, [looks[s] for s in looks if s not in apart])
    kind = target_kind(pooled, task) if task else common_kind(pooled, looks)
    merged = Merged(Rule(group.name, "leave-out"), kind, list(pooled.says))
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
    if merged.rule.read or kind == "date":
        merged.asks += [f"at {s}: {ask}" for s, f in looks.items() for ask in f.asks]
    for site in apart:
        if merged.rule.read:
            merged.differs(site, absent=True)
            there = some([shown(c) for c in looks[site].values], 4)
            others = some(list(merged.rule.values), 4) if merged.rule.values else "numbers"
            merged.asks.append(
                f"{site} writes {there} where others have {others}: say which is which under "
                f"at.{site}.spellings; until then it counts as absent there"
            )
    alike = [f.why for f in looks.values() if f.kind == kind]
    why = [f"{kind}: {merged.why or (pooled.why if pooled.kind == kind or not alike else alike[0])}"]
    if kind in LEFT_OUT:
        why.append(f"left out: {LEFT_OUT[kind]}")
    merged.rule = replace(merged.rule, why=tuple(why))
    return merged.done(sites)


def together(name: str, looks: Sequence[Found]) -> Found:
    """What all sites' cells look like as one column."""
    if len(looks) == 1 and not looks[0].decimal:
        return looks[0]
    return look(name, [c for found in looks for c in uniform(found)])


def uniform(found: Found) -> Iterable[Cell]:
    """A site's known cells, with its decimal mark read and its marks of missing values left out."""
    for cell, count in found.values.items():
        value = number_of(cell, found.decimal) if found.decimal else None
        for _ in range(count):
            yield cell if value is None else value


def common_kind(pooled: Found, looks: Mapping[str, Found]) -> str:
    """What most rows' sites say of identifiers and dates, which do not show when sites are joined."""
    rows = Counter[str]()
    for found in looks.values():
        rows[found.kind] += found.known
    (most, _), *_ = rows.most_common()
    if most in ("identifier", "date"):
        return most
    many = pooled.kind == "category" and len({same(c) for c in pooled.values}) > MOST_VALUES
    return "text" if many else pooled.kind


def target_kind(pooled: Found, task: str) -> str:
    """Classes or numbers by the rule for all doors (`data/targets.py`), however numbers are written."""
    values = {number_of(c) for c in pooled.values}
    numeric = bool(values) and None not in values
    numbers = (
        numeric and kind_of_numbers([v for v in values if v is not None], pooled.known).kind == "numbers"
    )
    if pooled.kind in ("empty", "constant") or (task in NUMBERS and not numeric):
        return pooled.kind
    if task in NUMBERS or (task == "auto" and numbers):
        return "number"
    if pooled.kind == "flag":
        return "flag"
    return "category" if numeric or pooled.kind in ("category", "ordered") else pooled.kind


def odd_sites(looks: Mapping[str, Found]) -> list[str]:
    """Sites whose cells are of another sort than most rows', or whose words no other site has."""
    told = {s: f for s, f in looks.items() if f.kind not in ("empty", "constant", "identifier", "text")}
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


def as_number(merged: Merged, group: Group, looks: Mapping[str, Found], pooled: Found) -> None:
    units = {s: name_and_unit(group.headers[s])[1] for s in looks}
    told = Counter(u for u in units.values() if u)
    unit = told.most_common(1)[0][0] if told else ""
    merged.rule = replace(merged.rule, use="number", unit=unit)
    decimals(merged, looks)
    odd_numbers(merged, looks)
    for site, there in units.items():
        if there and there != unit:
            convert(merged, site, there, conversion(group.name, there, unit))
    if pooled.kind == "number":
        by_medians(merged, group.name, looks)
        thousands(merged, looks)
    merged.why = f"from {bound(merged, looks, min):g} to {bound(merged, looks, max):g}"
    whole = [v for c in pooled.values if (v := number_of(c)) is not None]
    few = some([f"{v:g}" for v in sorted(set(whole))], 6)
    if 3 <= len(set(whole)) <= 6 and all(v % 1 == 0 for v in whole) and pooled.known >= 30:
        merged.says.append(
            f"holds {len(set(whole))} whole numbers only ({few}): "
            'if they are codes, write use = "category" and values'
        )


def convert(merged: Merged, site: str, there: str, by: Conversion | None) -> None:
    """The header tells the unit, so that nothing is asked where the conversion is known."""
    unit = merged.rule.unit
    if by is None:
        merged.differs(site, unit=there, absent=True)
        merged.asks.append(
            f"{site} has {there}, others {unit}: write factor under at.{site}; until then it counts "
            "as absent there"
        )
    else:
        merged.differs(site, unit=there, factor=by.factor, offset=by.offset)
        merged.says.append(f"converted from {there} to {unit} at {site}, {formula(by)}")


def formula(by: Conversion) -> str:
    return f"value x {by.factor:.6g}" + (f" {by.offset:+.6g}" if by.offset else "")


def by_medians(merged: Merged, name: str, looks: Mapping[str, Found]) -> None:
    """Asks whether a site whose median is far from the others' has another unit."""
    medians, rows = dict[str, float](), dict[str, int]()
    for site, found in looks.items():
        numbers = found.numbers()
        if len(numbers) >= 5 and merged.here.get(site, Here()).factor is None:
            medians[site], rows[site] = float(np.median(numbers)), len(numbers)
    if len(medians) < 2 or min(medians.values()) <= 0:
        return
    near = {s: [o for o in medians if apart(medians[s], medians[o]) < ANOTHER_UNIT] for s in medians}
    lead = max(medians, key=lambda s: (len(near[s]), sum(rows[o] for o in near[s])))
    usual = float(np.median([medians[s] for s in near[lead]]))
    for site, median in medians.items():
        if site in near[lead]:
            continue
        level = f"its median is {median:g} at {site}, {usual:g} elsewhere"
        for known in conversions_for(name):
            fits = known.by(median) > 0 and apart(known.by(median), usual) < FITTING
            if fits and merged.rule.unit in ("", known.here):
                merged.rule = replace(merged.rule, unit=known.here)
                merged.differs(site, unit=known.there, factor=known.by.factor, offset=known.by.offset)
                merged.asks.append(
                    f"{level}: in {known.there}, not {known.here}? Converted, {formula(known.by)}"
                )
                break
        else:
            if apart(median, usual) > FAR_APART:
                merged.asks.append(f"{level}: another unit? If so, write unit and factor under at.{site}")


def bound(merged: Merged, looks: Mapping[str, Found], which: Callable[[list[float]], float]) -> float:
    """The least or greatest number of all sites, converted."""
    found = [
        float(which(numbers)) * (here.factor or 1.0) + here.offset
        for site, f in looks.items()
        if (numbers := f.numbers().tolist()) and not (here := merged.here.get(site, Here())).absent
    ]
    return which(found) if found else 0.0


def thousands(merged: Merged, looks: Mapping[str, Found]) -> None:
    """Asks what a comma means, unless the other sites' numbers tell."""
    for site, found in looks.items():
        if found.grouped == "":
            continue
        others = [float(np.median(f.numbers())) for s, f in looks.items() if s != site and len(f.numbers())]
        mine = float(np.median(found.numbers()))
        if others and apart(mine, float(np.median(others))) < ANOTHER_UNIT:
            merged.says.append(f"thousands with a comma at {site}, as the other sites' numbers show")
        else:
            merged.asks.append(
                f"{shown(found.grouped)} of {site} is read as thousands: or is it a decimal comma?"
            )


def apart(one: float, other: float) -> float:
    return max(one / other, other / one) if one > 0 and other > 0 else float("inf")


def decimals(merged: Merged, looks: Mapping[str, Found]) -> None:
    commas = [s for s, f in looks.items() if f.decimal == ","]
    if commas and len(commas) == len(looks):
        merged.rule = replace(merged.rule, decimal=",")
    else:
        for site in commas:
            merged.differs(site, decimal=",")
    if commas:
        merged.says.append(f"numbers with a decimal comma at {', '.join(commas)}")


def odd_numbers(merged: Merged, looks: Mapping[str, Found]) -> None:
    """Cells such as <5 are proposed to be the number in them, others to be missing."""
    for site, found in looks.items():
        spellings, gone = dict[str, tuple[str, ...]](), tuple[str, ...]()
        for cell in map(str, found.odd):
            bare = BOUNDED.fullmatch(cell)
            value = number_of(bare[1].replace("\u2212", "-"), found.decimal) if bare else None
            if value is None:
                gone = (*gone, cell)
            else:
                spellings[f"{value:.15g}"] = (*spellings.get(f"{value:.15g}", ()), cell)
        if spellings or gone:
            merged.differs(site, spellings=spellings, missing=gone)
        read = [f"{shown(w)} as {value}" for value, words in spellings.items() for w in words]
        read += [f"{shown(w)} as missing" for w in gone]
        if read:
            merged.asks.append(f"these are no numbers at {site}, and are read so: {some(read)}")


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
        if all(same(mark) not in {same(c) for c in f.values} for f in looks.values()):
            merged.rule = replace(merged.rule, missing=(*merged.rule.missing, mark))
        else:
            for site, found in looks.items():
                if mark in found.marks:
                    merged.differs(site, missing=(*merged.here.get(site, Here()).missing, mark))
    codes = [m for m in sorted(marks) if number_of(m) is not None]
    if codes:
        merged.says.append(f"{', '.join(codes)} taken as missing: far from all other values")
