"""A recipe: how the tables of some sites are read, as data that a person can edit.

It names the files, the target, and for each column what it is used as. What differs at a site (its name
there, its unit, its spellings) stands under that site. Nothing is done to a table that is not in its recipe.

A column is used as one of
number      a number, in its unit
flag        no or yes: 0 or 1; `values` are its two words, the one for 0 first
category    one of its `values`
ordered     one of its `values`, which are steps from the lowest to the highest, as far apart as each other
date        the time since another date (`since`: a column, or a date such as 2024-01-31), in days or years
leave-out   not looked at

The target is a column like any other: used as a number it makes a regression, else its values are classes.
With an `event` it makes a survival: the target is then the time, a number or a date counted from another, and
the event a flag that says whether it was seen at that time, or the row was only watched until then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, get_type_hints

from coterie.core.client import Task
from coterie.core.errors import UnknownName
from coterie.data.kinds import KINDS, ColumnKind
from coterie.data.preparation import Column
from coterie.data.tables.names import conversion
from coterie.data.tables.texts import Decimal, Thousands, plain, same
from coterie.data.tabular import Absent, Missing, Scale

Spellings = Mapping[str, tuple[str, ...]]
LEFT_OUT = ColumnKind()
"""What stands for the kind of a column that is not looked at."""


@dataclass(frozen=True)
class Here:
    """What differs at one site.

    name        the column's name there
    unit        its unit there, if another
    factor      a value there, times this ...
    offset      ... plus this, is one in the column's own unit
    spellings   {value: other words for it}, besides those for all
    missing     words for a missing value, besides those for all
    decimal     how numbers are written: 1.5 or 1,5, or either
    thousands   what divides thousands: 1,234 is 1234 only where a comma does
    dates       how dates are written: %d.%m.%Y
    absent      the site does not have the column
    """

    name: str = ""
    unit: str = ""
    factor: float | None = None
    offset: float = 0.0
    spellings: Spellings = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    decimal: Decimal = ""
    thousands: Thousands = ""
    dates: str = ""
    absent: bool = False


@dataclass(frozen=True)
class Rule:
    """A column: what it is used as, and how it is written.

    values      what it may hold, in order; of a flag the word for 0 first
    codes       the numbers that stand for them; 0, 1, 2, ... unless told
    lowest      a number below is refused
    highest     one above, too
    center      with scale = "constants" a number becomes (value - center) / spread
    spread
    since       what a date is counted from: a column's name, or a date
    counted     in days or years
    at          what differs, by site
    why         said in a file's comments, no part of what is done
    """

    name: str
    use: str
    unit: str = ""
    values: tuple[str, ...] = ()
    codes: tuple[float, ...] = ()
    spellings: Spellings = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    decimal: Decimal = ""
    thousands: Thousands = ""
    lowest: float | None = None
    highest: float | None = None
    center: float = 0.0
    spread: float = 1.0
    dates: str = ""
    since: str = ""
    counted: Literal["days", "years"] = "days"
    at: Mapping[str, Here] = field(default_factory=dict)
    why: tuple[str, ...] = field(default=(), compare=False)

    @property
    def read(self) -> bool:
        return self.use != "leave-out"

    def marks(self, site: str) -> tuple[Decimal, Thousands]:
        """The decimal mark, and what divides thousands; a site that has another of the first has its own of
        both.
        """
        here = self.here(site)
        return here.decimal or self.decimal, here.thousands or ("" if here.decimal else self.thousands)

    def here(self, site: str) -> Here:
        return self.at.get(site, Here())

    @property
    def kind(self) -> ColumnKind:
        return KINDS.get(self.use, LEFT_OUT)

    def missing_marks(self, site: str) -> set[str]:
        """Cells that stand for a missing value, as `same` has them."""
        return {"", *map(same, (*self.missing, *self.here(site).missing))}

    def words(self, site: str) -> dict[str, str]:
        """{a way of writing: the value}; of a number, other words for it."""
        words = {same(v): v for v in self.values}
        for spellings in (self.spellings, self.here(site).spellings):
            words |= {same(w): value for value, others in spellings.items() for w in others}
        return words

    def conversion(self, site: str) -> tuple[float, float]:
        """factor, offset from a site's unit to the column's."""
        here = self.here(site)
        if here.factor is not None:
            return here.factor, here.offset
        known = conversion(self.name, here.unit, self.unit) if here.unit else None
        return (known.factor, known.offset) if known else (1.0, here.offset)

    @cached_property
    def column(self) -> Column:
        """What it becomes for `TabularPrepare`."""
        return self.kind.column(self)


@dataclass(frozen=True)
class Recipe:
    """How tables are read.

    sites        {site: file}, relative to the recipe's own place
    file         instead of them, one file whose rows are told apart by ...
    site         ... a column
    target       the column to predict
    event        with a time to predict, the column that says whether the event was seen
    rules        all columns
    missing      what becomes of missing values: refuse, drop, median
    scale        how numbers are scaled: site, shared, constants
    absent       what stands for a column that a site lacks: flag, mask, common, refuse
    unlabelled   what becomes of rows without a target: refuse, drop
    one_class    whether a site may have rows of a single class: allow, refuse
    patient      columns that tell who a row is about: rows of one are all for training or all for testing
    encodings    {site: how its file writes letters}, of all under ""; UTF-8 where nothing is said
    folder       where the recipe is, for its files
    """

    rules: tuple[Rule, ...]
    target: str = ""
    sites: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
    site: str = ""
    missing: Missing = "median"
    scale: Scale = "shared"
    absent: Absent = "flag"
    unlabelled: Literal["refuse", "drop"] = "refuse"
    one_class: Literal["allow", "refuse"] = "allow"
    patient: tuple[str, ...] = ()
    event: str = ""
    encodings: Mapping[str, str] = field(default_factory=dict)
    folder: str = field(default="", compare=False)

    @cached_property
    def inputs(self) -> tuple[Rule, ...]:
        """The columns that are read as inputs, in order."""
        return tuple(r for r in self.rules if r.read and r.name not in (self.target, self.event, self.site))

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(r.column for r in self.inputs)

    @cached_property
    def goal(self) -> Rule:
        return self.rule(self.target)

    @property
    def goals(self) -> str:
        """What is predicted, in words that sites can agree on."""
        return f"{self.target} until {self.event}" if self.event else self.target

    @cached_property
    def goal_rules(self) -> tuple[Rule, ...]:
        """Of the target, and of the event, if there is one."""
        return (self.goal, self.rule(self.event)) if self.event else (self.goal,)

    @property
    def task(self) -> Task:
        if self.event:
            return "survival"
        return "classification" if self.classes else "regression"

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; none for a number or a time, or without a target."""
        return self.goal.values if self.target and not self.event and self.goal.kind.words else ()

    def encoding(self, site: str = "") -> str:
        """How a site's file writes letters; empty for UTF-8."""
        return self.encodings.get(site) or self.encodings.get("", "")

    def rule(self, name: str) -> Rule:
        for rule in self.rules:
            if plain(rule.name) == plain(name):
                return rule
        raise UnknownName("column of the recipe", name, [r.name for r in self.rules])

    def without(self, name: str) -> Recipe:
        """With one column left out."""
        rules = (replace(r, use="leave-out") if r.name == name else r for r in self.rules)
        return replace(self, rules=tuple(rules))

    def for_site(self, site: str) -> Recipe:
        """For one site's own use: nothing of files, of what was seen in them, or of other sites."""
        rules = (
            replace(r, at={s: here for s, here in r.at.items() if plain(s) == plain(site)}, why=())
            for r in self.rules
        )
        written = self.encoding(next((s for s in self.encodings if plain(s) == plain(site)), ""))
        encodings = {"": written} if written else {}
        return replace(self, rules=tuple(rules), sites={}, file="", folder="", encodings=encodings)

    def forgetting(self, names: Collection[str]) -> Recipe:
        """As if no file had these columns; what tells patients apart, or what the target is counted since, is
        still read for that.
        """
        gone, needed = set(map(plain, names)), {*map(plain, self.patient)}
        needed |= {plain(r.since) for r in self.goal_rules}
        kept = (r for r in self.rules if plain(r.name) not in gone - needed)
        rules = (replace(r, use="leave-out") if plain(r.name) in gone else r for r in kept)
        return replace(self, rules=tuple(rules))

    def table(self) -> dict[str, Any]:
        """As TOML and JSON hold it."""
        files = {key: told for key in ("file", "site") if (told := getattr(self, key))}
        letters = (
            self.encodings[""] if set(self.encodings) == {""} else dict(self.encodings)
        )  # of all, by site
        head = {k: getattr(self, k) for k in HEAD}
        return {
            "target": self.target,
            **({"event": self.event} if self.event else {}),
            **head,
            **({"patient": list(self.patient)} if self.patient else {}),
            **({"encoding": letters} if self.encodings else {}),
            **files,
            **({"sites": dict(self.sites)} if self.sites else {}),
            "columns": {r.name: _rule_table(r) for r in self.rules},
        }


BLANK_WORDS = ("NA", "N/A", "NaN", "null", "?")  # nobody writes them for anything but a missing value
HEAD = ("missing", "scale", "absent", "unlabelled", "one_class")
NO_KEYS = {"at", "why"}
SPELT = {"counted": "in"}


def _keys_of(kind: type[Here] | type[Rule]) -> dict[str, tuple[str, Any]]:
    """{key as files spell it: (field, its type)}: what a file may say is what the class has."""
    hints, named = get_type_hints(kind), {"name"} if kind is Rule else set[str]()
    names = (f.name for f in fields(kind) if f.name not in NO_KEYS | named)
    return {SPELT.get(name, name): (name, hints[name]) for name in names}


RULE_KEYS, HERE_KEYS = _keys_of(Rule), _keys_of(Here)


def plain_recipe(columns: Sequence[Column], classes: Sequence[str] = (), target: str = "") -> Recipe:
    """For data without a recipe of their own: columns are read by their names, as they are."""
    rules = list[Rule]()
    for c in columns:
        if c.kind == "flag":
            words = c.values or ("0", "1")
            spellings = {words[0]: ("0", "no", "false"), words[1]: ("1", "yes", "true")}
            rules.append(Rule(c.name, "flag", values=words, spellings=spellings, missing=BLANK_WORDS))
        else:
            use = "ordered" if c.values and c.scaled else c.kind
            rules.append(Rule(c.name, use, c.unit, c.values, c.codes, missing=BLANK_WORDS))
    if target:
        rules.append(Rule(target, "category" if classes else "number", values=tuple(classes)))
    return Recipe(tuple(rules), target)


def _rule_table(rule: Rule) -> dict[str, Any]:
    """A rule's settings, those left at their default left out."""
    table = {"use": rule.use, **_settings(rule, Rule(rule.name, rule.use), RULE_KEYS)}
    if rule.kind.counted:
        table["in"] = rule.counted
    if rule.at:
        table["at"] = {site: _settings(here, Here(), HERE_KEYS) for site, here in rule.at.items()}
    return table


def _settings(own: Any, usual: Any, keys: Mapping[str, tuple[str, Any]]) -> dict[str, Any]:
    found = dict[str, Any]()
    for key, (name, _) in keys.items():
        if (value := getattr(own, name)) != getattr(usual, name):
            lists = isinstance(value, Mapping) and {k: list(v) for k, v in value.items()}
            found[key] = lists or (list(value) if isinstance(value, tuple) else value)
    return found
