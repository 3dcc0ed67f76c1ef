"""Who a row is about: columns whose values stand for persons, found by how a table hangs together.

A person keeps some things from row to row: sex, date of birth; an age or a weight moves slowly. So a column
tells persons if its values stand in several rows, and rows of one value agree in what persons keep far more
often than any two rows do, and than rows of neighbouring values do: a year of school goes with an age, but so
does the year after. Wards, doctors and postcodes stand in several rows too, but sex changes within them;
laboratory values repeat by chance alone. An age speaks for persons, not against them: a cohort is seen again
after years. Where no column is known to be a sex or a birth, several columns that stay the same take their
place: one of them with many values, or a value must not stand in too many rows.

Names are not needed for it, but they are believed: patient_id is one, postcode is none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from coterie.data.intake import Array
from coterie.data.tables.cells import Column
from coterie.data.tables.names import names_age, names_birth, names_measure, names_place, names_sex
from coterie.data.tables.profile import Profile
from coterie.data.tables.read import Table
from coterie.data.tables.texts import same

KEEPS, CHANGES = 0.95, 0.85  # of pairs of a person's rows that agree; typing errors are allowed for
SURE = 14.0  # logarithm of one to a million: agreement that chance does not bring
USUALLY = 0.9  # a column in which so many of any two rows agree tells nothing
HANDFUL = 10  # values: fewer are wards
MOST_EACH = 10  # rows of one, where neither sex nor birth is known
FEW_VALUES = 20  # of a column that may take their place
NARROW = 0.03  # of the range of numbers: what else may stay the same, or nearly so
NEAR = 1 / 3  # of any two rows are so near in a quantity that moves slowly within a person
SLOWLY, AT_CHANCE = 0.75, 0.5  # of pairs of a person's rows that are so near; of what tells no person
WRONG = 0.3  # of the way from chance to always: how much rows of one agree in spite of wrong entries
SELDOM = 0.2  # agreement by chance, below which a column outweighs wrong entries in another
RARE = 0.1  # agreement by chance in what wards and doctors do not keep
YEARS = 2.0  # that an age may change from row to row
SEX_VALUES = 5  # at most: a column of more is no sex, whatever its name
DRAWN = 4000  # pairs of rows by which chance is told
Pairs = tuple[Array, Array]  # of rows
NO_PAIRS: Pairs = (np.empty(0, int), np.empty(0, int))
SEXES = {
    "f", "m", "w", "h", "female", "male", "man", "woman", "mannlich", "männlich", "weiblich", "homme",
    "femme",
}  # fmt: skip


class Kept(NamedTuple):
    """How often rows of one value agree in a column, of how many pairs, and other rows; `personal` of what
    all persons keep, `wide` of a quantity in which they are near each other.
    """

    name: str
    share: float
    pairs: float
    chance: float
    personal: bool
    wide: bool = False

    @property
    def tells(self) -> bool:
        return self.pairs > 0 and self.chance < USUALLY

    @property
    def fixed(self) -> bool:
        """Sex or birth, which no person changes."""
        return self.personal and not names_age(self.name)

    @property
    def steady(self) -> bool:
        return self.tells and self.share >= (SLOWLY if self.wide else KEEPS)

    @property
    def noisy(self) -> bool:
        """Whether it agrees so much more than by chance that wrong entries explain the rest."""
        return self.tells and self.share >= self.chance + WRONG * (1 - self.chance)

    @property
    def evidence(self) -> float:
        """The logarithm of how much likelier so much agreement is than by chance."""
        chance, share = max(self.chance, 1e-4), self.share
        if share <= chance:
            return 0.0
        differ = (1 - share) * math.log((1 - share) / (1 - chance)) if share < 1 else 0.0
        return self.pairs * (share * math.log(share / chance) + differ)


@dataclass(frozen=True, eq=False)
class _Feature:
    """A column of one site beside which others are held: [row] numbers, NaN where missing; of a `quantity`,
    else of codes.
    """

    name: str
    values: Array
    slack: float
    personal: bool
    quantity: bool = False
    wide: bool = False

    @cached_property
    def chance(self) -> float:
        return float((self.apart_by_chance <= self.slack).mean())

    @cached_property
    def apart_by_chance(self) -> Array:
        known = np.flatnonzero(~np.isnan(self.values))
        one, other = np.random.default_rng(0).choice(known, (2, DRAWN))
        return np.asarray(np.abs(self.values[one] - self.values[other]))

    @cached_property
    def widened(self) -> _Feature:
        """The same column, with what a third of any two rows differ by as its slack."""
        slack = float(np.quantile(self.apart_by_chance, NEAR))
        return replace(self, slack=slack, wide=True)

    def goes_with(self, beside: Array) -> bool:
        """Whether a quantity follows the order of values that are beside each other, and so far apart in it:
        one is of the other, as a dose is of a weight.
        """
        near = beside <= self.widened.slack if self.quantity else np.empty(0)
        return len(near) > 0 and float(near.mean()) >= (1 + NEAR) / 2

    def apart(self, pairs: Pairs) -> Array:
        """[pair] how far apart they are, of which both are known."""
        apart = np.abs(self.values[pairs[0]] - self.values[pairs[1]])
        return np.asarray(apart[~np.isnan(apart)])

    def kept(self, apart: Array, beside: Array) -> Kept:
        """By how far pairs of rows are apart, against any two rows and those of values beside each other."""
        agree, there = apart <= self.slack, beside <= self.slack
        share = float(agree.mean()) if len(agree) else 0.0
        near = float(there.sum() + 2 * self.chance) / (len(there) + 2)  # few pairs tell little
        chance = max(self.chance, near) if len(agree) and not self.goes_with(beside) else 1.0
        return Kept(self.name, share, len(agree), chance, self.personal, self.wide)


@dataclass(frozen=True, eq=False)
class Site:
    """One site's table, by the common names of its columns."""

    table: Table
    headers: Mapping[str, str]
    profiles: Mapping[str, Profile]
    _codes: dict[str, Array] = field(default_factory=dict)

    def cells(self, name: str) -> Column:
        return self.table.columns[self.headers[name]]

    def codes(self, name: str) -> Array:
        """[row] a number for each value, -1 where missing."""
        if name not in self._codes:
            found, seen = self.profiles[self.headers[name]], dict[str, int]()
            known = {same(c) for c in found.values}
            made = self.cells(name).each(
                lambda c: seen.setdefault(text, len(seen)) if (text := same(c)) in known else -1
            )
            self._codes[name] = made.astype(np.int64)
        return self._codes[name]

    @cached_property
    def features(self) -> list[_Feature]:
        """Columns that persons keep, and others that they may: of few values, dates, or numbers."""
        made = (f for name in self.headers if (f := self.feature(name)) is not None)
        known = [f for f in made if not np.isnan(f.values).all()]
        return known + [f.widened for f in known if f.slack > 0]

    def feature(self, name: str) -> _Feature | None:
        found = self.profiles[self.headers[name]]
        different = found.values.different(FEW_VALUES)
        sex = names_sex(name) and different <= SEX_VALUES
        if names_age(name) and found.kind == "number" and found.numeric:
            return _Feature(name, self.numbers(name), YEARS, True, True)
        if names_birth(name) and found.numeric:
            return _Feature(name, self.numbers(name), 0.0, True, True)
        if sex or (different == 2 and {same(c) for c in found.values} <= SEXES) or names_birth(name):
            return _Feature(name, self.known_codes(name), 0.0, True)
        if names_place(name):
            return None
        if found.kind == "number" and different > FEW_VALUES:
            numbers = self.numbers(name)
            low, high = np.nanquantile(numbers, [0.05, 0.95])
            return _Feature(name, numbers, NARROW * float(high - low), False, True)
        few = 2 <= different <= FEW_VALUES or found.kind == "date"
        return _Feature(name, self.known_codes(name), 0.0, False) if few else None

    def known_codes(self, name: str) -> Array:
        """[row] the same, NaN where missing."""
        codes = self.codes(name)
        return np.where(codes < 0, np.nan, codes.astype(float))

    def beside(self, name: str) -> Pairs:
        """A row of each value with one of the next, in the order of its numbers or texts."""
        codes = self.codes(name)
        if self.profiles[self.headers[name]].numeric:
            order = self.numbers(name)
        else:
            order = np.unique(self.cells(name).each(same).astype(str), return_inverse=True)[1]
        rows = np.argsort(order, kind="stable")
        rows = rows[codes[rows] >= 0]
        steps = codes[rows[1:]] != codes[rows[:-1]]
        return rows[:-1][steps], rows[1:][steps]

    def numbers(self, name: str) -> Array:
        found, cells = self.profiles[self.headers[name]], self.cells(name)
        read = np.full(len(cells.spellings), np.nan)
        if found.values.spellings is cells.spellings and found.values.usual.all():
            read[found.values.which] = found.read()
            return np.asarray(read[cells.codes])
        pairs = zip(found.values, found.read().tolist(), strict=True)
        by_text = {same(c): v for c, v in pairs if v == v}
        return cells.each(lambda c: by_text.get(same(c), np.nan)).astype(np.float64)

    def kept(self, columns: Sequence[str], pairs: Pairs) -> list[Kept]:
        """What rows of one value of some columns keep in the others; a column that is looked at in two ways
        is taken out of the table once.
        """
        beside = self.beside(columns[0]) if len(columns) == 1 else NO_PAIRS
        found, apart = list[Kept](), dict[str, tuple[Array, Array]]()
        for feature in self.features:
            if feature.name not in columns:
                if feature.name not in apart:
                    apart[feature.name] = feature.apart(pairs), feature.apart(beside)
                found.append(feature.kept(*apart[feature.name]))
        return found

    def first_rows(self, name: str) -> dict[str, int]:
        """{a value: the first row that has it}."""
        cells, known = self.cells(name).each(same), self.codes(name) >= 0
        return {cells[i]: i for i in reversed(range(len(cells))) if known[i]}

    def one_each(self, one: str, other: str) -> bool:
        """Whether a value of one column always goes with one of the other."""
        both = np.unique(_joint([self.codes(one), self.codes(other)]))
        return len(both) <= len(np.unique(self.codes(one))) + 1

    def may_tell(self, name: str) -> bool:
        """Whether a column's values could stand for persons: texts or whole numbers, some of them twice."""
        found = self.profiles[self.headers[name]]
        if not found.of.persons:
            return False
        if names_sex(name) or names_birth(name) or names_age(name) or names_place(name):
            return False
        read = found.read()
        whole = bool((read[~np.isnan(read)] % 1 == 0).all())
        measured = found.kind == "number" and names_measure(name)
        return whole and not measured and 3 <= len(found.values) < found.known


def _pairs_of(codes: Array) -> Pairs:
    """Rows of one value, each with the next one of it."""
    order = np.argsort(codes, kind="stable")
    order = order[codes[order] >= 0]
    again = codes[order[1:]] == codes[order[:-1]]
    return order[:-1][again], order[1:][again]


def _joint(sites: Sequence[Array]) -> Array:
    """[row] a number for each combination of values, -1 where one is missing."""
    codes, *others = sites
    for other in others:
        both = (codes + 1) * (int(other.max(initial=0)) + 2) + other + 1
        missing = (codes < 0) | (other < 0)
        codes = np.where(missing, -1, np.unique(both, return_inverse=True)[1])
    return codes


@dataclass(frozen=True, eq=False)
class Evidence:
    """What speaks for columns that tell persons: how many values in how many rows, what rows of one keep."""

    columns: tuple[str, ...]
    values: int
    rows: int
    again: int
    kept: tuple[Kept, ...]
    against: tuple[str, ...] = ()

    @classmethod
    def of(cls, columns: Sequence[str], sites: Mapping[str, Site], believed: bool = False) -> Evidence:
        """Of all sites that have these columns; one at which they tell something else does not count, unless
        their name is believed.
        """
        values = rows = again = 0
        by_name, against = dict[tuple[str, bool], list[Kept]](), list[str]()
        for site, here in sites.items():
            if not all(c in here.headers for c in columns):
                continue
            codes = _joint([here.codes(c) for c in columns])
            kept = here.kept(columns, _pairs_of(codes))
            if cls(tuple(columns), 0, 0, 0, tuple(kept)).changed and not believed:
                against.append(site)
                continue
            _, counts = np.unique(codes[codes >= 0], return_counts=True)
            values, rows = values + len(counts), rows + int(counts.sum())
            again += int((counts > 1).sum())
            for k in kept:
                by_name.setdefault((k.name, k.wide), []).append(k)
        kept_at_all = [_added(parts) for parts in by_name.values()]
        return cls(tuple(columns), values, rows, again, tuple(kept_at_all), tuple(against))

    def joins(self, coarse: str, sites: Mapping[str, Site]) -> bool:
        """Whether rows of one coarse value are of one person also where their values here differ: in all that
        persons keep or, where that is not known, in most of what rows of one value here keep.
        """
        name, by_name = self.columns[0], dict[str, list[Kept]]()
        wanted = {(k.name, k.wide) for k in self.steady if k.name != coarse}
        for site in sites.values():
            if name in site.headers and coarse in site.headers:
                one, other = _pairs_of(site.codes(coarse))
                differ = site.codes(name)[one] != site.codes(name)[other]
                for feature in (f for f in site.features if (f.name, f.wide) in wanted):
                    apart = feature.apart((one[differ], other[differ]))
                    by_name.setdefault(feature.name, []).append(feature.kept(apart, np.empty(0)))
        kept = [k for parts in by_name.values() if (k := _added(parts)).tells]
        fixed = [k for k in kept if k.fixed]
        if fixed:
            return all(k.share >= CHANGES for k in fixed)
        return bool(kept) and 2 * sum(k.steady or k.share >= CHANGES for k in kept) >= len(kept)

    @cached_property
    def fixed(self) -> list[Kept]:
        return [k for k in self.kept if k.fixed and k.tells]

    @cached_property
    def steady(self) -> list[Kept]:
        """What stays the same, or nearly so where it never stays the same; a column once."""
        steady = [k for k in self.kept if k.steady]
        return [k for k in steady if not k.wide or all(o.wide or o.name != k.name for o in steady)]

    @property
    def changed(self) -> bool:
        """Whether something changes from row to row of one that a person keeps; wrong entries are allowed for
        where rows agree in something else that they hardly would by chance.
        """
        fine = any(k.chance < SELDOM and not k.wide for k in self.steady)
        return any(k.share < CHANGES and k.pairs >= 5 and not (fine and k.noisy) for k in self.fixed)

    @property
    def ages_at_chance(self) -> bool:
        ages = [k for k in self.kept if k.personal and not k.fixed and k.wide and k.tells]
        return any(k.share < AT_CHANCE for k in ages)

    @property
    def speaks(self) -> bool:
        """Whether these are persons."""
        if self.values < HANDFUL or self.changed or sum(k.evidence for k in self.steady) < SURE:
            return False
        fine = any(k.chance < RARE for k in self.steady)
        several = len(self.steady) >= 2
        if self.fixed:  # a doctor may see men only, of any age
            kept = all(k.noisy for k in self.fixed)
            return kept and (several or fine or not self.ages_at_chance)
        if any(k.personal and not k.wide for k in self.steady):
            return True
        common = [k for k in self.kept if k.tells and k.chance >= RARE and not k.wide]
        enough = several and 3 * len(self.steady) >= len(common) and not self.ages_at_chance
        return enough and (fine or self.rows <= MOST_EACH * self.values)

    def in_words(self) -> str:
        keeps = sorted(self.steady, key=lambda k: (not k.personal, k.chance))[:3]
        what = ", ".join(
            f"{k.name} ({near}{100 * k.share:.0f} %, by chance {100 * k.chance:.0f} %)"
            for k in keeps
            for near in ["nearly, " if k.wide else ""]
        )
        return f"{self.values} different in {self.rows} rows, and rows of one agree in {what}"


def _added(parts: Sequence[Kept]) -> Kept:
    """What several sites say of a column."""
    pairs = sum(k.pairs for k in parts)
    if not pairs:
        return parts[0]
    share, chance = (sum(getattr(k, w) * k.pairs for k in parts) / pairs for w in ("share", "chance"))
    return parts[0]._replace(share=share, pairs=pairs, chance=chance)
