"""What sites tell of their rows before they learn together: JSON that a stranger may have written.

Every field is checked before anything is made of it, and what does not fit is refused in one line. A
dataclass says at its fields what each must be (`told_as`); a table of kinds by name does where nothing is
made of them. Fields that are not known here are not looked at, so that a later version may tell more.

hello     what a site has: columns or the shape of its inputs, classes, rules, how many rows; never a value
common    what the sites of a run have in common, which each puts its rows into
lacks     [site, column] of which columns a site's training rows have no value
sums      [site, column] what a preparation needs of a site's column (`TabularPrepare.sums`), or nothing
gaps      which columns some site lacks, and all; agreed: what follows from everybody's sums, for all
forbid    names of columns that are no inputs in a run
facts     what a site's inputs have become: how many rows for what, names of the inputs
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

import numpy as np

from coterie.core.checks import Kind, in_one_line
from coterie.core.client import EVENTS, Task
from coterie.core.errors import BadData, shown
from coterie.core.roster import Member
from coterie.data.kinds import of_models
from coterie.data.preparation import Column
from coterie.data.tables.texts import plain
from coterie.data.tabular import Absent, Agreed, Gaps, Missing, Moments, Scale, TabularPrepare, Told
from coterie.data.targets import MOST_CLASSES
from coterie.federation.messages import AGAIN
from coterie.nets.site import PARTS

_LONGEST = 1_000  # letters of a text
MOST_COLUMNS = 100_000
_MOST_NUMBER = 2**53
_FARTHEST = 1e100  # whose square, times all rows there are, is still a number


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST and (value.isprintable() or in_one_line(value))


def _is_name(value: Any) -> bool:
    return _is_text(value) and bool(value.strip())


def is_count(value: Any, most: int = _MOST_NUMBER) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def is_number(value: Any) -> bool:
    """Finite, and not so large that its square is not."""
    plain_number = isinstance(value, int | float) and not isinstance(value, bool)
    return plain_number and abs(value) <= _FARTHEST  # which NaN is not


def is_list(value: Any, fits: Callable[[Any], bool], most: int) -> bool:
    return isinstance(value, list | tuple) and len(value) <= most and all(map(fits, value))


def list_of(what: str, fits: Callable[[Any], bool], most: int) -> Kind:
    return Kind(f"a list of at most {most:,} {what}", lambda v: is_list(v, fits, most))


def one_of(choices: Sequence[str]) -> Kind:
    return Kind(f"one of {', '.join(choices)}", lambda v: isinstance(v, str) and v in choices)


def none_or(kind: Kind) -> Kind:
    return Kind(f"{kind.must}, or nothing", lambda v: v is None or kind.fits(v))


TEXT = Kind(f"a text in one line of at most {_LONGEST:,} letters", _is_text)
NAME = Kind(f"a name in one line of at most {_LONGEST:,} letters", _is_name)
COUNT = Kind("a whole number that is not negative", is_count)
NUMBER = Kind("a finite number", is_number)
SWITCH = Kind("true or false", lambda v: isinstance(v, bool))
TABLE = Kind("a table of fields", lambda v: isinstance(v, Mapping))


def _told_as(kind: Kind, **default: Any) -> Any:
    """A field of a dataclass that is told as this."""
    return dataclasses.field(metadata={"kind": kind}, **default)


def kinds_of(cls: type) -> dict[str, Kind]:
    """Of the fields of a dataclass that are told."""
    return {f.name: f.metadata["kind"] for f in dataclasses.fields(cls) if "kind" in f.metadata}


def fields(told: Any, kinds: Mapping[str, Kind], whose: str, quote: bool = True) -> dict[str, Any]:
    """The fields of these kinds, each of its kind; lists become tuples. A value that does not fit is quoted,
    unless it may be what nobody here is to read.
    """
    if not isinstance(told, Mapping):
        raise BadData(f"{whose} is {shown(told)}, but must be a table of fields: {AGAIN}")
    found = {}
    for name, kind in kinds.items():
        value = told.get(name)
        if not kind.fits(value):
            said = f" is {shown(value)}, but" if quote else ""
            raise BadData(f"{whose}: {name}{said} must be {kind.must}: {AGAIN}")
        found[name] = tuple(value) if isinstance(value, list | tuple) else value
    return found


# what is told

_MOST_SITES = 100_000
_MOST_VALUES = 10_000  # of one column
_MOST_NOTES = 1_000
_CHOICES = {"missing": get_args(Missing), "scale": get_args(Scale), "absent": get_args(Absent)}
NAMES = list_of("names", _is_name, MOST_COLUMNS)
_SOME = Kind(f"a whole number from 1 to {MOST_CLASSES:,}", lambda v: is_count(v, MOST_CLASSES) and v > 0)
_SHAPE = list_of("whole numbers above 0", lambda v: is_count(v, 2**31) and v > 0, 8)
_LABELS = list_of("lists of counts", lambda v: is_list(v, is_count, MOST_CLASSES), 3)
_NOTES = list_of("texts", lambda v: isinstance(v, str) and in_one_line(v), _MOST_NOTES)
_COLUMN = {
    "name": NAME,
    "kind": one_of(of_models()),
    "values": list_of("texts", _is_text, _MOST_VALUES),
    "codes": list_of("finite numbers", is_number, _MOST_VALUES),
    "unit": TEXT,
    "center": NUMBER,
    "spread": Kind("a finite number above 0", lambda v: is_number(v) and v > 0),
}


@dataclass(frozen=True)
class Common:
    """What sites that learn together have in common.

    columns   of a table; none for other inputs, which have a shape instead
    target    what is predicted is called, if it is told
    rules     missing, scale, absent: how a table becomes inputs
    """

    task: Task = _told_as(one_of(get_args(Task)))
    columns: tuple[Column, ...] = _told_as(list_of("columns", TABLE.fits, MOST_COLUMNS))
    classes: tuple[str, ...] = _told_as(list_of("names", _is_name, MOST_CLASSES))
    target: str = _told_as(TEXT)
    rules: Mapping[str, str] = _told_as(TABLE)
    shape: tuple[int, ...] = _told_as(_SHAPE)

    @classmethod
    def of(cls, told: Any, whose: str = "what the sites have in common") -> Common:
        """The inverse of `to_dict`."""
        found = fields(told, kinds_of(cls), whose)
        columns = tuple(_column_of(c, f"{whose}, column {i}") for i, c in enumerate(found["columns"], 1))
        rules = fields(found["rules"], {k: one_of(v) for k, v in _CHOICES.items()}, whose) if columns else {}
        names, classes = [plain(c.name) for c in columns], found["classes"]
        troubles = {
            "a column is there twice": len(set(names)) < len(names),
            "a class is there twice": len(set(classes)) < len(classes),
            f"a {found['task']} has classes": found["task"] != "classification" and bool(classes),
            "inputs have columns and a shape, or neither": bool(columns) == bool(found["shape"]),
        }
        if wrong := [what for what, so in troubles.items() if so]:
            raise BadData(f"{whose}: {wrong[0]}: {AGAIN}")
        return cls(**{**found, "columns": columns, "rules": rules})

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        columns = [asdict(c) | {"values": list(c.values), "codes": list(c.codes)} for c in self.columns]
        lists = {"columns": columns, "classes": list(self.classes), "shape": list(self.shape)}
        return {**asdict(self), "rules": dict(self.rules), **lists}

    @property
    def _prepare(self) -> TabularPrepare:
        return TabularPrepare(self.columns, **self.rules)  # type: ignore[arg-type]

    def gaps(self, lacks: Any) -> dict[str, Any]:
        """Which columns some site lacks, and all, from what each says of its own [site, column]."""
        gaps = self._prepare.gaps(_lacks_of(lacks, len(self.columns)))
        return {"some": gaps.some.tolist(), "every": gaps.every.tolist()}

    def agreed(self, lacks: Any, sums: Any) -> tuple[list[Any], bool]:
        """[column] what follows from everybody's sums [site, column]; and whether any had to be told."""
        prepare, gone = self._prepare, _lacks_of(lacks, len(self.columns))
        found = _sums_of(sums, prepare, gone)
        told = any(s is not None for row in found for s in row)
        return list(prepare.agreed(prepare.gaps(gone), found)), told


@dataclass(frozen=True)
class Hello:
    """What a site tells of its rows.

    absent     names of the columns of which it has no value
    rows       how many it has
    patients   whether rows of one patient stay together
    digest     its rows in a few letters, to find the same again
    place      its number among the clients of a study that all deal alike; None for rows of its own
    """

    common: Common
    absent: frozenset[str] = _told_as(NAMES)
    rows: int = _told_as(COUNT)
    patients: bool = _told_as(SWITCH)
    digest: str = _told_as(TEXT)
    place: int | None = _told_as(none_or(COUNT), default=None)

    @classmethod
    def of(cls, told: Any, site: str) -> Hello:
        """The inverse of `to_dict`."""
        whose = f"what site {shown(site)} says of its rows"
        common, own = Common.of(told, whose), fields(told, kinds_of(cls), whose)
        strange = sorted(set(own["absent"]) - {c.name for c in common.columns})
        if strange:
            raise BadData(f"{whose}: {shown(strange[0])} is absent, but none of its columns: {AGAIN}")
        return cls(common, **{**own, "absent": frozenset(own["absent"])})

    def without(self, forbid: Sequence[str]) -> Hello:
        """As a site would say it that has none of these columns."""
        keys = set(map(plain, forbid))
        columns = tuple(c for c in self.common.columns if plain(c.name) not in keys)
        absent = frozenset(name for name in self.absent if plain(name) not in keys)
        return replace(self, common=replace(self.common, columns=columns), absent=absent)

    def unrecorded(self, require: Sequence[str]) -> str:
        """Why a site takes no part, if it has no value of a required column."""
        has = {plain(c.name) for c in self.common.columns if c.name not in self.absent}
        gone = [name for name in require if plain(name) not in has]
        return f"it does not record {', '.join(gone)}, which is required" if gone else ""

    def to_dict(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in kinds_of(Hello)}
        return {**self.common.to_dict(), **own, "absent": sorted(self.absent)}


@dataclass(frozen=True)
class Facts:
    """What a site's inputs have become; labels and notes only where the site tells them."""

    train: int = _told_as(COUNT)
    validation: int = _told_as(COUNT)
    test: int = _told_as(COUNT)
    shape: tuple[int, ...] = _told_as(_SHAPE)
    outputs: int = _told_as(_SOME)
    features: tuple[str, ...] = _told_as(list_of("names", _is_name, MOST_COLUMNS * 10))
    cluster: int | None = _told_as(none_or(COUNT))
    digest: str = _told_as(TEXT)
    labels: tuple[tuple[int, ...], ...] | None = _told_as(none_or(_LABELS))
    notes: tuple[str, ...] = _told_as(_NOTES)

    @classmethod
    def of(cls, told: Any, site: str) -> Facts:
        whose = f"what site {shown(site)} says of its inputs"
        told = {"labels": None, "notes": [], **told} if isinstance(told, Mapping) else told
        found = fields(told, kinds_of(cls), whose)
        labels = found["labels"]
        if labels is not None:
            labels = tuple(map(tuple, labels))
            sizes, most = [found[part] for part in PARTS], max(found["outputs"], len(EVENTS))
            if [sum(counts) for counts in labels] != sizes or max(map(len, labels)) > most:
                raise BadData(f"{whose}: labels {shown(labels)} do not add up to its rows {sizes}")
        named, shape = len(found["features"]), found["shape"]
        if named and shape != (named,):
            raise BadData(f"{whose}: {named} names for inputs of shape {list(shape)}")
        if not shape or not found["train"]:
            raise BadData(f"{whose}: {found['train']} training rows of shape {list(shape)}: add some")
        return cls(**{**found, "labels": labels})

    def member(self, name: str, outputs: int) -> Member:
        """A site of that name in the roster of a run."""
        labels = self.labels and tuple((*counts, *(0,) * (outputs - len(counts))) for counts in self.labels)
        sizes = self.train, self.validation, self.test
        return Member(name, *sizes, labels, self.cluster, self.notes, self.digest)


# reading


def _column_of(told: Any, whose: str) -> Column:
    found = fields(told, _COLUMN, whose)
    values, codes = found["values"], found["codes"]
    odd = len(values) != len(codes) or len(set(values)) < len(values) or len(set(codes)) < len(codes)
    if odd or (found["kind"] == "category" and not values) or (found["kind"] == "flag" and len(values) > 2):
        must = "a value has one code of its own, a category has some and a flag at most 2"
        raise BadData(f"{whose}: {len(values)} values and {len(codes)} codes for them, but {must}: {AGAIN}")
    return Column(**{**found, "codes": tuple(map(float, codes))})


def _lacks_of(told: Any, columns: int) -> list[tuple[bool, ...]]:
    """[site, column]."""
    if not is_list(told, lambda row: is_list(row, SWITCH.fits, columns) and len(row) == columns, _MOST_SITES):
        must = f"{columns} times true or false for each of the sites"
        raise BadData(f"which columns sites lack is {shown(told)}, but must be {must}: {AGAIN}")
    return [tuple(row) for row in told]


def gaps_of(told: Any, prepare: TabularPrepare) -> Gaps:
    """Which columns some site lacks, and all, as `Common.gaps` tells it."""
    rows = [told.get(name) for name in ("some", "every")] if isinstance(told, Mapping) else [None, None]
    some, every = (np.array(row) for row in _lacks_of(rows, len(prepare.columns)))
    if bool((every & ~some).any()):
        raise BadData(f"columns that all sites lack and none does: {AGAIN}")
    return Gaps(some, every, some if prepare.absent == "common" else np.zeros_like(some))


def agreed_of(told: Any, prepare: TabularPrepare, gaps: Gaps) -> list[Agreed]:
    """[column] what all sites agreed on, of what each told alone."""
    if not isinstance(told, list | tuple) or len(told) != len(prepare.columns):
        wrong = f"what sites agreed on is {shown(told)}, but must be one for each column"
        raise BadData(f"{wrong}: {AGAIN}")
    found = []
    for one, column, some in zip(told, prepare.columns, gaps.some.tolist(), strict=True):
        three: Any = one if isinstance(one, list | tuple) and len(one) == 3 else (None, None, None)
        flag, scale, mean = three
        scaled = column.scaled and prepare.scale == "shared"
        fits = isinstance(flag, bool) and flag == (some and prepare.absent == "flag")
        fits &= scale is None or (scaled and _fits_sum(scale, column, len(Moments._fields)))
        if not fits or not is_list(mean, is_number, len(column.inputs)) or len(mean) != len(column.inputs):
            raise BadData(f"what sites agreed on of column {shown(column.name)} is {shown(one)}: {AGAIN}")
        moments = None if scale is None else Moments(int(scale[0]), float(scale[1]), float(scale[2]))
        found.append(Agreed(flag, moments, tuple(map(float, mean))))
    return found


def _sums_of(told: Any, prepare: TabularPrepare, lacks: Sequence[Sequence[bool]]) -> list[list[Told]]:
    """[site, column], of as many sites as there are `lacks`."""
    if not is_list(told, lambda row: isinstance(row, list | tuple), _MOST_SITES) or len(told) != len(lacks):
        raise BadData(f"sums are {shown(told)}, but must be a list for each of {len(lacks)} sites")
    wanted = prepare.tells(prepare.gaps(lacks))
    for i, row in enumerate(told):
        if len(row) != len(wanted):
            line = f"sums of site {i + 1} are {shown(row)}, but must be {len(wanted)}"
            raise BadData(f"{line}, one for each column")
        for column, numbers, many, gone in zip(prepare.columns, row, wanted, lacks[i], strict=True):
            if numbers is not None and (gone or not many or not _fits_sum(numbers, column, many)):
                must = "nothing" if gone or not many else f"{many} finite numbers that fit, or nothing"
                whose = f"sums of site {i + 1}, column {shown(column.name)}"
                raise BadData(f"{whose}: {shown(numbers)} must be {must}: {AGAIN}")
    return [[None if numbers is None else tuple(numbers) for numbers in row] for row in told]


def _fits_sum(numbers: Any, column: Column, many: int) -> bool:
    if not is_list(numbers, is_number, many) or len(numbers) != many:
        return False
    if not column.scaled:
        return all(map(is_count, numbers))
    return is_count(numbers[0]) and numbers[0] > 0 and not any(n < 0 for n in numbers[2:])
