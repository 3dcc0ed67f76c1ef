"""What sites tell of their rows before they learn together: JSON that a stranger may have written.

Every field is checked before anything is made of it, and what does not fit is refused in one line. Fields
that are not known here are not looked at, so that a later version may tell more.

hello     what a site has: columns or the shape of its inputs, classes, rules, how many rows; never a value
common    what the sites of a run have in common, which each puts its rows into
lacks     [site, column] of which columns a site's training rows have no value
sums      [site, column] what a preparation needs of a site's column (`TabularPrepare.sums`), or nothing
gaps      which columns some site lacks, and all; agreed: what follows from everybody's sums, for all
forbid    names of columns that are no inputs in a run
facts     what a site's inputs have become: how many rows for what, names of the inputs
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np

from coterie.core.checks import Kind, in_one_line
from coterie.core.client import EVENTS, Task
from coterie.core.errors import BadData, shown
from coterie.data.intake import MOST_CLASSES
from coterie.data.missing import Missing
from coterie.data.preparation import Column
from coterie.data.preparation import Kind as ColumnKind
from coterie.data.tables.texts import plain
from coterie.data.tabular import Absent, Agreed, Gaps, Moments, Scale, TabularPrepare, Told

MOST_SITES = 100_000
MOST_COLUMNS = 100_000
MOST_VALUES = 10_000  # of one column
MOST_NOTES = 1_000
LONGEST = 1_000  # letters of a text
MOST_ROWS = 2**53
FARTHEST = 1e100  # whose square, times all rows there are, is still a number
CHOICES = {"missing": get_args(Missing), "scale": get_args(Scale), "absent": get_args(Absent)}
OTHER_VERSION = "is it of another version?"


@dataclass(frozen=True)
class Common:
    """What sites that learn together have in common.

    columns   of a table; none for other inputs, which have a shape instead
    target    what is predicted is called, if it is told
    rules     missing, scale, absent: how a table becomes inputs
    """

    task: Task
    columns: tuple[Column, ...]
    classes: tuple[str, ...]
    target: str
    rules: Mapping[str, str]
    shape: tuple[int, ...]

    def told(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            **asdict(self),
            "columns": [asdict(c) | {"values": list(c.values), "codes": list(c.codes)} for c in self.columns],
            "classes": list(self.classes),
            "rules": dict(self.rules),
            "shape": list(self.shape),
        }


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
    absent: frozenset[str]
    rows: int
    patients: bool
    digest: str
    place: int | None = None

    def told(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("rows", "patients", "digest", "place")}
        return {**self.common.told(), **own, "absent": sorted(self.absent)}


@dataclass(frozen=True)
class Facts:
    """What a site's inputs have become; labels and notes only where the site tells them."""

    train: int
    validation: int
    test: int
    shape: tuple[int, ...]
    outputs: int
    features: tuple[str, ...]
    cluster: int | None
    digest: str
    labels: tuple[tuple[int, ...], ...] | None
    notes: tuple[str, ...]


# what fields must be


def is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST and (value.isprintable() or in_one_line(value))


def is_name(value: Any) -> bool:
    return is_text(value) and bool(value.strip())


def is_count(value: Any, most: int = MOST_ROWS) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def is_number(value: Any) -> bool:
    """Finite, and not so large that its square is not."""
    plain_number = isinstance(value, int | float) and not isinstance(value, bool)
    return plain_number and abs(value) <= FARTHEST  # which NaN is not


def is_list(value: Any, fits: Callable[[Any], bool], most: int) -> bool:
    return isinstance(value, list | tuple) and len(value) <= most and all(map(fits, value))


def list_of(what: str, fits: Callable[[Any], bool], most: int) -> Kind:
    return Kind(f"a list of at most {most:,} {what}", lambda v: is_list(v, fits, most))


def one_of(choices: Sequence[str]) -> Kind:
    return Kind(f"one of {', '.join(choices)}", lambda v: isinstance(v, str) and v in choices)


def none_or(kind: Kind) -> Kind:
    return Kind(f"{kind.must}, or nothing", lambda v: v is None or kind.fits(v))


TEXT = Kind(f"a text in one line of at most {LONGEST:,} letters", is_text)
NAME = Kind(f"a name in one line of at most {LONGEST:,} letters", is_name)
COUNT = Kind("a whole number that is not negative", is_count)
SOME = Kind(f"a whole number from 1 to {MOST_CLASSES:,}", lambda v: is_count(v, MOST_CLASSES) and v > 0)
NUMBER = Kind("a finite number", is_number)
SWITCH = Kind("true or false", lambda v: isinstance(v, bool))
TABLE = Kind("a table of fields", lambda v: isinstance(v, Mapping))
SHAPE = list_of("whole numbers above 0", lambda v: is_count(v, 2**31) and v > 0, 8)
HELLO = {
    "task": one_of(get_args(Task)),
    "columns": list_of("columns", TABLE.fits, MOST_COLUMNS),
    "classes": list_of("names", is_name, MOST_CLASSES),
    "target": TEXT,
    "rules": TABLE,
    "shape": SHAPE,
}
OWN = {
    "absent": list_of("names", is_name, MOST_COLUMNS),
    "rows": COUNT,
    "patients": SWITCH,
    "digest": TEXT,
    "place": none_or(COUNT),
}
FORBID = {"forbid": list_of("names", is_name, MOST_COLUMNS)}
COLUMN = {
    "name": NAME,
    "kind": one_of(get_args(ColumnKind)),
    "values": list_of("texts", is_text, MOST_VALUES),
    "codes": list_of("finite numbers", is_number, MOST_VALUES),
    "unit": TEXT,
    "center": NUMBER,
    "spread": Kind("a finite number above 0", lambda v: is_number(v) and v > 0),
}
FACTS = {
    "train": COUNT,
    "validation": COUNT,
    "test": COUNT,
    "shape": SHAPE,
    "outputs": SOME,
    "features": list_of("names", is_name, MOST_COLUMNS * 10),
    "cluster": none_or(COUNT),
    "digest": TEXT,
    "labels": none_or(list_of("lists of counts", lambda v: is_list(v, is_count, MOST_CLASSES), 3)),
    "notes": list_of("texts", lambda v: isinstance(v, str) and in_one_line(v), MOST_NOTES),
}


def fields(told: Any, kinds: Mapping[str, Kind], whose: str, quote: bool = True) -> dict[str, Any]:
    """The fields of these kinds, each of its kind; lists become tuples. A value that does not fit is quoted,
    unless it may be what nobody here is to read.
    """
    if not isinstance(told, Mapping):
        raise BadData(f"{whose} is {shown(told)}, but must be a table of fields: {OTHER_VERSION}")
    found = {}
    for name, kind in kinds.items():
        value = told.get(name)
        if not kind.fits(value):
            said = f" is {shown(value)}, but" if quote else ""
            raise BadData(f"{whose}: {name}{said} must be {kind.must}: {OTHER_VERSION}")
        found[name] = tuple(value) if isinstance(value, list | tuple) else value
    return found


# reading


def hello_of(told: Any, site: str) -> Hello:
    """As `Hello.told` makes it."""
    whose = f"what site {shown(site)} says of its rows"
    common, own = common_of(told, whose), fields(told, OWN, whose)
    strange = sorted(set(own["absent"]) - {c.name for c in common.columns})
    if strange:
        raise BadData(f"{whose}: {shown(strange[0])} is absent, but none of its columns: {OTHER_VERSION}")
    return Hello(common, **{**own, "absent": frozenset(own["absent"])})


def common_of(told: Any, whose: str = "what the sites have in common") -> Common:
    found = fields(told, HELLO, whose)
    columns = tuple(column_of(c, f"{whose}, column {i}") for i, c in enumerate(found["columns"], 1))
    rules = fields(found["rules"], {k: one_of(v) for k, v in CHOICES.items()}, whose) if columns else {}
    names, classes = [plain(c.name) for c in columns], found["classes"]
    troubles = {
        "a column is there twice": len(set(names)) < len(names),
        "a class is there twice": len(set(classes)) < len(classes),
        f"a {found['task']} has classes": found["task"] != "classification" and bool(classes),
        "inputs have columns and a shape, or neither": bool(columns) == bool(found["shape"]),
    }
    if wrong := [what for what, so in troubles.items() if so]:
        raise BadData(f"{whose}: {wrong[0]}: {OTHER_VERSION}")
    return Common(**{**found, "columns": columns, "rules": rules})


def column_of(told: Any, whose: str) -> Column:
    found = fields(told, COLUMN, whose)
    values, codes = found["values"], found["codes"]
    odd = len(values) != len(codes) or len(set(values)) < len(values) or len(set(codes)) < len(codes)
    if odd or (found["kind"] == "category" and not values) or (found["kind"] == "flag" and len(values) > 2):
        raise BadData(
            f"{whose}: {len(values)} values and {len(codes)} codes for them, but a value has one code of its "
            f"own, a category has some and a flag at most 2: {OTHER_VERSION}"
        )
    return Column(**{**found, "codes": tuple(map(float, codes))})


def forbid_of(told: Any) -> tuple[str, ...]:
    """Names of columns that are to be no inputs."""
    names: tuple[str, ...] = fields({"forbid": told}, FORBID, "what a run forbids")["forbid"]
    return names


def lacks_of(told: Any, columns: int) -> list[tuple[bool, ...]]:
    """[site, column]."""
    if not is_list(told, lambda row: is_list(row, SWITCH.fits, columns) and len(row) == columns, MOST_SITES):
        raise BadData(
            f"which columns sites lack is {shown(told)}, but must be {columns} times true or false for each "
            f"of the sites: {OTHER_VERSION}"
        )
    return [tuple(row) for row in told]


def told_gaps(gaps: Gaps) -> dict[str, list[bool]]:
    """As JSON holds it."""
    return {"some": gaps.some.tolist(), "every": gaps.every.tolist()}


def gaps_of(told: Any, prepare: TabularPrepare) -> Gaps:
    """Which columns some site lacks, and all; the inverse of `told_gaps`."""
    columns = len(prepare.columns)
    rows = [told.get(name) for name in ("some", "every")] if isinstance(told, Mapping) else [None, None]
    some, every = (np.array(row) for row in lacks_of(rows, columns))
    if bool((every & ~some).any()):
        raise BadData(f"columns that all sites lack and none does: {OTHER_VERSION}")
    return Gaps(some, every, some if prepare.absent == "common" else np.zeros(columns, dtype=bool))


def agreed_of(told: Any, prepare: TabularPrepare, gaps: Gaps) -> list[Agreed]:
    """[column] what all sites agreed on, of what each told alone."""
    if not isinstance(told, list | tuple) or len(told) != len(prepare.columns):
        raise BadData(
            f"what sites agreed on is {shown(told)}, but must be one for each column: {OTHER_VERSION}"
        )
    return [
        one_agreed(one, column, prepare, bool(gaps.some[i]))
        for i, (one, column) in enumerate(zip(told, prepare.columns, strict=True))
    ]


def one_agreed(told: Any, column: Column, prepare: TabularPrepare, some: bool) -> Agreed:
    wrong = f"what sites agreed on of column {shown(column.name)} is {shown(told)}: {OTHER_VERSION}"
    if not isinstance(told, list | tuple) or len(told) != 3:
        raise BadData(wrong)
    flag, scale, mean = told
    scaled = column.kind == "number" and prepare.scale == "shared"
    if scale is not None and (not scaled or not fits_sum(scale, column, len(Moments._fields))):
        raise BadData(wrong)
    if not isinstance(flag, bool) or flag != (some and prepare.absent == "flag"):
        raise BadData(wrong)
    if not is_list(mean, is_number, len(column.inputs)) or len(mean) != len(column.inputs):
        raise BadData(wrong)
    found = None if scale is None else Moments(int(scale[0]), float(scale[1]), float(scale[2]))
    return Agreed(flag, found, tuple(map(float, mean)))


def sums_of(told: Any, prepare: TabularPrepare, lacks: Sequence[Sequence[bool]]) -> list[list[Told]]:
    """[site, column], of as many sites as there are `lacks`."""
    if not is_list(told, lambda row: isinstance(row, list | tuple), MOST_SITES) or len(told) != len(lacks):
        raise BadData(f"sums are {shown(told)}, but must be a list for each of {len(lacks)} sites")
    wanted = prepare.tells(prepare.gaps(lacks))
    return [site_sums(row, prepare, wanted, lacks[i], f"site {i + 1}") for i, row in enumerate(told)]


def site_sums(
    told: Any, prepare: TabularPrepare, wanted: Sequence[int], lacks: Sequence[bool], whose: str
) -> list[Told]:
    """[column] of one site."""
    if not isinstance(told, list | tuple) or len(told) != len(wanted):
        raise BadData(f"sums of {whose} are {shown(told)}, but must be {len(wanted)}, one for each column")
    for column, numbers, many, gone in zip(prepare.columns, told, wanted, lacks, strict=True):
        if numbers is not None and (gone or not many or not fits_sum(numbers, column, many)):
            must = "nothing" if gone or not many else f"{many} finite numbers that fit, or nothing"
            raise BadData(
                f"sums of {whose}, column {shown(column.name)}: {shown(numbers)} must be {must}: "
                f"{OTHER_VERSION}"
            )
    return [None if numbers is None else tuple(numbers) for numbers in told]


def fits_sum(numbers: Any, column: Column, many: int) -> bool:
    if not is_list(numbers, is_number, many) or len(numbers) != many:
        return False
    if column.kind != "number":
        return all(map(is_count, numbers))
    return is_count(numbers[0]) and numbers[0] > 0 and not any(n < 0 for n in numbers[2:])


def facts_of(told: Any, site: str) -> Facts:
    whose = f"what site {shown(site)} says of its inputs"
    found = fields({"labels": None, "notes": [], **told} if isinstance(told, Mapping) else told, FACTS, whose)
    labels = found["labels"]
    if labels is not None:
        labels = tuple(map(tuple, labels))
        sizes = [found[part] for part in ("train", "validation", "test")]
        if [sum(counts) for counts in labels] != sizes or max(map(len, labels)) > max(
            found["outputs"], len(EVENTS)
        ):
            raise BadData(f"{whose}: labels {shown(labels)} do not add up to its rows {sizes}")
    if found["features"] and found["shape"] != (len(found["features"]),):
        raise BadData(f"{whose}: {len(found['features'])} names for inputs of shape {list(found['shape'])}")
    if not found["shape"] or not found["train"]:
        raise BadData(f"{whose}: {found['train']} training rows of shape {list(found['shape'])}: add some")
    return Facts(**{**found, "labels": labels})
