"""One rule for a column from what each site's cells look like: kind, values, units, what differs where.

Codes may mean different things at different sites: 0 and 1 here, 1 and 2 there. A word says what it means
wherever it stands; a code does not. Where sites have few values and neither has all of the other's, what one
site lacks is asked about: of an input where it would hardly be lacking by chance, of a target always. What is
to be predicted is the column of the target and, where that is a time, of the event.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from coterie.core.errors import BadData, Several, UnknownName
from coterie.data.kinds import KINDS
from coterie.data.kinds.number import HIGH_CODES, LOW_CODES
from coterie.data.kinds.words import MOST_VALUES, word_for
from coterie.data.tables.cells import Values
from coterie.data.tables.draft_numbers import told_by_others
from coterie.data.tables.names import name_and_unit
from coterie.data.tables.numerals import USUAL
from coterie.data.tables.profile import Group, Profile, Profiles
from coterie.data.tables.read import Table
from coterie.data.tables.recipe import Here, Recipe, Rule
from coterie.data.tables.texts import Cell, cell_text, number_of, plain, same, some
from coterie.data.targets import FEW, is_whole, kind_of_numbers

NUMBERS = ("regression", "survival")  # tasks whose target is one
FEW_CODES = 6  # more are counts, or classes of which a site may well lack some
BY_CHANCE = 1e-3  # that a site has no row of what others have


@dataclass
class Draft:
    """A rule in the making, with what a person should know or decide.

    profiles   by site, of those that have the column
    pooled     what all of these that are alike look like as one column
    kind       of which it is taken to be, or why it is left out
    here       what differs, by site
    """

    group: Group
    profiles: Profiles
    pooled: Profile
    kind: str
    rule: Rule = field(init=False)
    says: list[str] = field(init=False)
    asks: list[str] = field(default_factory=list)
    here: dict[str, Here] = field(default_factory=dict)
    why: str = ""

    def __post_init__(self) -> None:
        self.rule, self.says = Rule(self.name, "leave-out"), list(self.pooled.says)

    @classmethod
    def of(cls, group: Group, profiles: Profiles, sites: Sequence[str], task: str) -> Draft:
        """`profiles` by site, of those that have the column; `task` of a target: auto or what it shall be."""
        profiles = told_by_others(profiles)
        apart = _odd_sites(profiles)
        pooled = _together(group.name, [profiles[s] for s in profiles if s not in apart])
        kind = _target_kind(pooled, task) if task else _common_kind(pooled, profiles)
        draft, uses = cls(group, profiles, pooled, kind), KINDS[kind]
        uses.propose(draft)
        _names(draft, sites)
        _missing(draft)
        alike = [f for f in (pooled, *profiles.values()) if f.kind == kind]
        if (doubt := next((f.doubt for f in alike if f.doubt), "")) and not task:
            draft.asks.append(doubt)
        if draft.rule.read or uses.counted:
            draft.asks += [f"at {s}: {ask}" for s, f in profiles.items() for ask in f.asks]
        _ask_codes(draft, {s: p for s, p in profiles.items() if s not in apart}, bool(task))
        for site in apart if draft.rule.read else ():
            draft.differs(site, absent=True)
            there = some([cell_text(c) for c in profiles[site].values], 4)
            others = some(list(draft.rule.values), 4) if draft.rule.values else "numbers"
            draft.asks.append(
                f"{site} writes {there} where others have {others}: say which is which under "
                f"at.{site}.spellings; until then it counts as absent there"
            )
        why = [f"{kind}: {draft.why or (alike[0] if alike else pooled).why}"]
        if uses.left_out:
            why.append(f"left out: {uses.left_out}")
        at = {s: draft.here[s] for s in sites if draft.here.get(s, Here()) != Here()}
        draft.rule = replace(draft.rule, why=tuple(why), at=at)
        return draft

    @property
    def name(self) -> str:
        return self.group.name

    def use(self, kind: str, **what: Any) -> None:
        """As what kind the column is used, and what else its rule then says."""
        self.rule = replace(self.rule, use=kind, **what)

    def differs(self, site: str, **what: object) -> None:
        self.here[site] = replace(self.here.get(site, Here()), **what)  # type: ignore[arg-type]


def _together(name: str, profiles: Sequence[Profile]) -> Profile:
    """What all sites' cells look like as one column."""
    if len(profiles) == 1 and profiles[0].writing == USUAL:
        return profiles[0]
    parts = list[Values]()
    for found in profiles:  # known cells alone, with each site's way of writing numbers read
        counts, cells = Counter[Cell](), found.values
        if found.writing != USUAL:
            for cell, value, n in zip(cells, found.read().tolist(), cells.counts.tolist(), strict=True):
                counts[cell if math.isnan(value) else value] += n
        parts.append(cells if found.writing == USUAL else Values.of(counts))
    return Profile.of_cells(name, Values.joined(parts))


def _common_kind(pooled: Profile, profiles: Profiles) -> str:
    """What most rows' sites say of identifiers and dates, which do not show when sites are joined."""
    rows = Counter[str]()
    for found in profiles.values():
        rows[found.kind] += found.known
    (most, _), *_ = rows.most_common()
    if KINDS[most].by_site:
        return most
    many = pooled.kind == "category" and pooled.values.different(MOST_VALUES) > MOST_VALUES
    return "text" if many else pooled.kind


def _target_kind(pooled: Profile, task: str) -> str:
    """Classes or numbers by the rule for all doors (`data/targets.py`), however numbers are written."""
    values = pooled.values.numbers()
    numeric = len(values) > 0 and not np.isnan(values).any()
    numbers = numeric and kind_of_numbers(values, pooled.known).kind == "numbers"
    if not pooled.of.family or (task in NUMBERS and not numeric):
        return pooled.kind
    if task in NUMBERS or (task == "auto" and numbers):
        return "number"
    if numeric and pooled.of.as_classes != "flag":
        return "category"
    return pooled.of.as_classes or pooled.kind


def _odd_sites(profiles: Profiles) -> list[str]:
    """Sites whose cells are of another sort than most rows', or whose words no other site has."""
    told = {s: p for s, p in profiles.items() if not p.of.left_out}
    if all(p.of.same_everywhere for p in told.values()):
        return []
    rows = Counter[str]()
    for found in told.values():
        rows[_sort(found)] += found.known
    if len(rows) > 1:
        most = rows.most_common(1)[0][0]
        return [s for s, f in told.items() if _sort(f) != most]
    if "text" not in rows:
        return []
    words = {s: {word_for(c) for c in f.values} for s, f in told.items()}
    lone = [s for s in told if not words[s] & set().union(*(words[o] for o in told if o != s))]
    return lone if len(lone) < len(told) else sorted(lone, key=lambda s: -told[s].known)[1:]


def _sort(found: Profile) -> str:
    if found.of.family not in ("values", "number"):
        return found.of.family
    return "number" if found.numeric or found.kind == "number" else "text"


def _names(draft: Draft, sites: Sequence[str]) -> None:
    """What sites call it, and who lacks it."""
    group = draft.group
    for site in sites:
        if site not in group.headers:
            if not KINDS[draft.kind].left_out:
                draft.differs(site, absent=True)
        elif plain(group.name) not in (plain(h := group.headers[site]), plain(name_and_unit(h)[0])):
            draft.differs(site, name=group.headers[site])
    for site in sorted(group.guessed) if draft.rule.read else ():
        draft.asks.append(f"is {group.headers[site]!r} of {site} the same as {group.name!r} of others?")


def _missing(draft: Draft) -> None:
    """Words for a missing value: for all where no site has them as a value."""
    profiles = draft.profiles
    if not draft.rule.read:
        return
    marks = {m for f in profiles.values() for m in f.marks}
    for mark in sorted(marks):
        if not any(f.values.among({same(mark)}).any() for f in profiles.values()):
            draft.rule = replace(draft.rule, missing=(*draft.rule.missing, mark))
        else:
            for site, found in profiles.items():
                if mark in found.marks:
                    draft.differs(site, missing=(*draft.here.get(site, Here()).missing, mark))
    codes = [m for m in sorted(marks) if (v := number_of(m)) is not None and v in (*LOW_CODES, *HIGH_CODES)]
    if codes:
        draft.says.append(f"{', '.join(codes)} taken as missing: far from all other values")


def _ask_codes(draft: Draft, profiles: Profiles, target: bool) -> None:
    """Asks about codes of sites that differ; flags are no and yes, however they are written."""
    if KINDS[draft.kind].same_everywhere or not draft.rule.read or (target and not draft.rule.values):
        return
    if any(f.values.different(FEW_CODES) > FEW_CODES for f in profiles.values()):
        return
    counts = {s: Counter[str]() for s, f in profiles.items() if f.values}
    for site, known in counts.items():
        for cell, n in profiles[site].values.items():
            known[same(cell)] += n
    codes = [number_of(code) for found in counts.values() for code in found]
    if not target and not all(v is not None and v % 1 == 0 for v in codes):
        return
    sites = dict[frozenset[str], list[str]]()
    for site, found in counts.items():
        sites.setdefault(frozenset(found), []).append(site)
    usual = max(sites, key=lambda v: sum(counts[s].total() for s in sites[v]), default=frozenset[str]())
    theirs = [counts[s] for s in sites.get(usual, ())]
    odd = [v for v in sites if v != usual and _differ(theirs, counts, sites[v], target)]
    if odd:
        told = "; ".join(f"{', '.join(_in_order(v))} at {', '.join(sites[v])}" for v in (usual, *odd))
        where = ", ".join(f"at.{s}.spellings" for v in odd for s in sites[v])
        quoted = [f'"{v}"' for v in _in_order(usual)]
        draft.asks.append(
            f"{told}: do they mean the same? If not, say which is which under {where}"
            + (f", and write values = [{', '.join(quoted)}]" if draft.rule.values else "")
        )


def _differ(
    usual: Sequence[Counter[str]], counts: Mapping[str, Counter[str]], sites: Sequence[str], target: bool
) -> bool:
    """Whether neither these sites nor the usual ones have all of the others' values, and not by chance."""
    here, there = sum((counts[s] for s in sites), Counter[str]()), sum(usual, Counter[str]())
    for one, other in itertools.permutations((here, there)):
        lacking = [n for v, n in one.items() if v not in other]
        if not any(target or (1 - n / one.total()) ** other.total() < BY_CHANCE for n in lacking):
            return False
    return True


def _in_order(values: frozenset[str]) -> list[str]:
    return sorted(values, key=lambda v: (number_of(v) is None, number_of(v) or 0.0, v))


EACH = 2  # odd rows of a site: a total and a mean
EVEN_FEWER = 0.02  # ... or this share of all rows
ENOUGH = 10  # rows of each value on average, or numbers are no classes
BEYOND = 10.0  # times the greatest value: a sum

NOT_CLASSES = {"regression": "use task=classification", "survival": "name the column of times"}
REGRESSION = "a number to predict: a regression"
SAID = {"survival": "the time until the event, or until a row was last seen: a survival"}


@dataclass(frozen=True, eq=False)
class Goals:
    """What is to be predicted: the columns of the target and of the event, where there are such."""

    target: Group | None
    event: Group | None

    @classmethod
    def of(cls, groups: Sequence[Group], tables: Mapping[str, Table], target: str, event: str) -> Goals:
        return cls(_named(groups, tables, target, "the target"), _named(groups, tables, event, "the event"))

    def without_totals(
        self, profiles: Mapping[str, dict[str, Profile]], tables: Mapping[str, Table]
    ) -> tuple[dict[str, dict[str, Profile]], str]:
        """The same profiles, with rows of totals without a target; and what is asked about them."""
        made, cells, where = dict(profiles), set[str](), list[str]()
        odd = [] if self.target is None else sorted(_odd_goals(self.target.of(profiles)))
        if self.target is None or not odd:
            return made, ""
        for site, header in self.target.headers.items():
            found, table = profiles[site][header], tables[site]
            out = np.isin(found.read(), odd)
            gone = set(found.values.kept(out))
            marks = sorted(map(same, gone))
            changed = replace(found, values=found.values.kept(~out), marks=(*found.marks, *marks))
            made[site] = {**profiles[site], header: changed}
            cells |= set(marks)
            here = np.flatnonzero(table.columns[header].each(gone.__contains__))
            where += [table.where(i) for i in here.tolist()]
        said = f"{some(sorted(cells))} in {len(where)} row(s) ({some(where)})"
        return made, (
            f"{said}, where all others are few whole numbers: totals or means? They count as without a "
            "target. If so, take these rows out of the file and inspect again; if it is a number to predict, "
            'take them out of missing and write use = "number"'
        )

    def check(
        self, recipe: Recipe, its: Mapping[str, Draft], tables: Mapping[str, Table], task: str
    ) -> Recipe:
        """The recipe with goals that can be learned, of the drafts by name; whether rows lack them."""
        if self.target is not None:
            recipe = replace(recipe, target=self.target.name)
            recipe = _check_target(recipe, its[recipe.target], tables, task)
        if self.event is not None:
            recipe = replace(recipe, event=self.event.name)
            recipe = _check_event(recipe, its[recipe.event], tables)
        return recipe


def _named(groups: Sequence[Group], tables: Mapping[str, Table], target: str, what: str) -> Group | None:
    """A goal's column, which all tables must have; None where there is no such goal."""
    if not target:
        return None
    named = [g for g in groups if plain(target) in {plain(g.name), *map(plain, g.headers.values())}]
    if not named:
        raise UnknownName("column", target, sorted({g.name for g in groups}))
    lacking = [t.name for s, t in tables.items() if s not in named[0].headers]
    if lacking:
        says = f"column {named[0].name!r}, {what}, is missing: add or rename it"
        raise Several([f"{name}: {says}" for name in lacking])
    return named[0]


def _check_target(recipe: Recipe, draft: Draft, tables: Mapping[str, Table], task: str) -> Recipe:
    """A target that can be learned; whether rows lack it."""
    where = ", ".join(t.name for t in tables.values())
    founds = list(draft.profiles.values())
    values = {same(c) for f in founds for c in f.values}
    if not values or not KINDS[draft.kind].family:
        if len(values) > 1:
            different = some(sorted(values))
            raise BadData(
                f"{where}: target {draft.name!r} is the same in all rows of each site ({different}): nothing "
                "to learn within a site"
            )
        only = next(iter(values), "missing")
        raise BadData(f"{where}: target {draft.name!r} is {only} in every row: nothing to learn")
    if not draft.rule.read:
        raise BadData(
            f"{where}: target {draft.name!r} looks like {draft.kind} ({len(values)} different values): name "
            "a column of classes or numbers"
        )
    if task in NOT_CLASSES and draft.rule.use != "number":
        raise BadData(f"{where}: target {draft.name!r} is not a number: {NOT_CLASSES[task]}")
    numbers, why = np.concatenate([f.values.numbers() for f in founds]), ""
    if task == "auto" and not np.isnan(numbers).any() and is_whole(numbers):  # nobody said what they are
        why = kind_of_numbers(numbers, sum(f.known for f in founds)).why
    decimals = sorted({str(c) for f in founds for c in f.values if str(c).endswith(".0")})
    if draft.rule.values and decimals:
        draft.says.append(f"classes, though written as {some(decimals)}: not a regression")
    elif draft.rule.use == "number":
        draft.says.append(SAID.get(task, f"a number to predict: a regression ({why})" if why else REGRESSION))
    elif why and len(draft.rule.values) > 2:
        draft.says.append(f'taken as classes ({why}); if they are numbers to predict, write use = "number"')
    return _without_gaps(recipe, draft, "target")


def _check_event(recipe: Recipe, draft: Draft, tables: Mapping[str, Table]) -> Recipe:
    """An event that was seen or not; whether rows lack it."""
    if draft.rule.use != "flag":
        words = draft.rule.values
        if len(words) != 2:
            where = ", ".join(t.name for t in tables.values())
            raise BadData(
                f"{where}: event {draft.name!r} looks like {draft.kind}: name a column of two values, one "
                "for rows whose event was seen"
            )
        draft.rule = replace(draft.rule, use="flag")
        draft.asks.append(
            f"is it {words[1]!r} where the event was seen, and {words[0]!r} else? Or exchange values"
        )
    draft.says.append(f"the event was seen where it is {draft.rule.values[1]!r}")
    return _without_gaps(recipe, draft, "event")


def _without_gaps(recipe: Recipe, draft: Draft, what: str) -> Recipe:
    gaps = {s: p.rows - p.known for s, p in draft.profiles.items()}
    if total := sum(gaps.values()):
        by_site = ", ".join(f"{s} {n}" for s, n in gaps.items() if n)
        draft.asks.append(
            f'the {what} is missing in {total} row(s) ({by_site}): they are left out, unlabelled = "drop"'
        )
        return replace(recipe, unlabelled="drop")
    return recipe


def _odd_goals(profiles: Mapping[str, Profile]) -> set[float]:
    """Numbers of few rows that cannot be classes as all others are, such as totals or means below a table;
    empty where numbers are to predict.
    """
    counts = Counter[float]()
    for found in profiles.values():
        read = found.read()
        if np.isnan(read).any():
            return set()
        for value, n in zip(read.tolist(), found.values.counts.tolist(), strict=True):
            counts[value] += n
    usual = {v: n for v, n in counts.items() if v % 1 == 0 and n > EACH}
    if not 2 <= len(usual) <= FEW or sum(usual.values()) < ENOUGH * len(usual):
        return set()
    top = max(map(abs, usual))
    odd = {v for v in counts if v % 1 or (v not in usual and abs(v) >= BEYOND * max(top, 1.0))}
    rows = sum(counts[v] for v in odd)
    return odd if rows <= max(EACH * len(profiles), EVEN_FEWER * counts.total()) else set()
