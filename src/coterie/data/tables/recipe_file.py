"""Recipes in files: commented TOML for a person to edit, read back with all mistakes said at once."""

from __future__ import annotations

import math
import re
import textwrap
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import tomli_w

from coterie.core.errors import BadInput, Several, UnknownName
from coterie.data.kinds import KINDS, in_recipes
from coterie.data.tables.names import conversion
from coterie.data.tables.recipe import (
    HEAD,
    HERE_KEYS,
    RULE_KEYS,
    Here,
    Recipe,
    Rule,
    Spellings,
)
from coterie.data.tables.texts import plain
from coterie.storage.atomic import write_whole

ABOUT = """\
# How these tables are read. Edit what is not right: nothing is done that is not written here.
#
# use        {uses}
# values     what a flag, category or ordered column may hold, in order
# spellings  other words for a value: { yes = ["y", "1"] }
# missing    words for a missing value; an empty cell always is one
# unit       what a number is measured in
# decimal    "," where numbers are written 1,5; "either" where some are written 1,5 and some 1.5
# thousands  what divides them: 1,003 is 1003 only with thousands = ",", and is refused without
# lowest     a number below is refused, as is one above highest
# center     with scale = "constants", a number becomes (value - center) / spread: what sites agreed on
# since      what a date is counted from, another column or a date; in = "days" or "years"
# at.SITE    what differs at a site: name, unit (and factor, offset, if it is not a known one), spellings,
#            missing, decimal, thousands, dates, absent = true
# Blanks, case, the order of columns and a byte-order mark do not matter.
"""
HEAD_WHY = {
    "target": "the column to predict: one with values makes classes, a number a regression",
    "event": "whether the event was seen, a flag: the target is then the time until it, or until last seen",
    "missing": "median: the site's own training median, or most frequent value; drop: the row; refuse",
    "scale": "shared: by mean and deviation of all sites' training rows, so that levels stay comparable; "
    "site: each by its own; constants: by the center and spread of each column below, or as they are",
    "absent": "a column that a site lacks. flag: the others' mean and an input that says so, the site's own "
    "intercept; mask: 0; common: left out for all; refuse",
    "unlabelled": "rows without a target: refuse or drop",
    "one_class": "a site whose rows are all of one class: allow or refuse",
}

ENCODING_WHY = (
    'how files write letters, where not in UTF-8: "cp1252" (Windows, Western Europe), "latin-1", ...; '
    'of some sites only: { north = "cp1252" }'
)
PATIENT_WHY = "who a row is about: rows of one are all for training or all for testing"


def read_recipe(path: str | Path) -> Recipe:
    path = Path(path)
    try:
        text = path.read_text("utf-8-sig")
        table = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, OSError) or "null" in str(error):
            said = getattr(error, "strerror", None) or error
            raise BadInput(f"cannot read {str(path)!r}: {said}: check the path") from None
        raise BadInput(f"{path} is not valid TOML: {' '.join(str(error).split())[:200]}") from None
    recipe = recipe_of(table, str(path))
    whys = _comments_of(text)
    rules = tuple(replace(r, why=whys.get(r.name, ())) for r in recipe.rules)
    return replace(recipe, rules=rules, folder=str(path.parent))


def write_recipe(path: str | Path, recipe: Recipe) -> None:
    write_whole(Path(path), recipe_text(recipe))


def recipe_of(table: Mapping[str, Any], where: str = "recipe") -> Recipe:
    """The inverse of `Recipe.table`; whatever does not belong is refused, all at once."""
    reader = _Reader(where)
    recipe = reader.recipe(table)
    if reader.troubles:
        raise Several(reader.troubles)
    return recipe


def recipe_text(recipe: Recipe) -> str:
    table = recipe.table()
    uses = sorted((k for k in KINDS.values() if k.about), key=lambda k: k.place)
    lines = [ABOUT.replace("{uses}", ", ".join([*(k.about for k in uses), "leave-out"]))]
    for key in ("target", *(["event"] if recipe.event else []), *HEAD):
        lines += [f"# {line}" for line in _wrapped(HEAD_WHY[key])]
        lines += [f"{key} = {_toml(table[key])}", ""]
    if recipe.patient:
        lines += [f"# {PATIENT_WHY}", f"patient = {_toml(list(recipe.patient))}", ""]
    if recipe.encodings:
        lines += [f"# {line}" for line in _wrapped(ENCODING_WHY)]
        lines += [f"encoding = {_toml(table['encoding'])}", ""]
    if recipe.file:
        lines += ["# one file, whose rows are told apart by a column"]
        lines += [f"file = {_toml(recipe.file)}", ""]
    if recipe.site:
        lines += ["# the column that says whose a row is", f"site = {_toml(recipe.site)}", ""]
    if recipe.sites:
        lines += ["# one file a site, relative to this one", "[sites]"]
        lines += [f"{_key_text(site)} = {_toml(file)}" for site, file in recipe.sites.items()] + [""]
    for rule in recipe.rules:
        head, rows = f"columns.{_key_text(rule.name)}", table["columns"][rule.name]
        lines += [f"# {line}" for why in rule.why for line in _wrapped(why)]
        for place, here in (("", rows), *((f".at.{_key_text(s)}", h) for s, h in rows.pop("at", {}).items())):
            lines += [f"[{head}{place}]", *(f"{key} = {_toml(value)}" for key, value in here.items())]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _wrapped(text: str) -> list[str]:
    whole = " ".join(text.split())
    return textwrap.wrap(whole, 100, break_long_words=False, break_on_hyphens=False) or [""]


def _toml(value: Any) -> str:
    """In one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key_text(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return tomli_w.dumps({"k": value}).strip()[4:]


def _key_text(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)


def _comments_of(text: str) -> dict[str, tuple[str, ...]]:
    """{column: the comment lines right above it}."""
    found, above = dict[str, tuple[str, ...]](), list[str]()
    for line in text.splitlines():
        if line.startswith("#"):
            above.append(line.lstrip("#").strip())
            continue
        if line.startswith("[columns.") and above:
            try:
                (name,) = tomllib.loads(line)["columns"]
            except (tomllib.TOMLDecodeError, ValueError):
                name = ""
            found.setdefault(name, tuple(above))
        above = []
    return found


TOP = ("target", "event", *HEAD, "patient", "encoding", "file", "site", "sites", "columns")


@dataclass
class _Reader:
    """Reads a recipe from a table, and gathers what is wrong with it."""

    where: str
    troubles: list[str] = field(default_factory=list)

    def wrong(self, place: str, said: str) -> None:
        self.troubles.append(f"{self.where}: {place}{': ' if place else ''}{said}")

    def recipe(self, table: Mapping[str, Any]) -> Recipe:
        self.unknown("", table, TOP)
        hints = get_type_hints(Recipe)
        head = {k: self.choice(k, _choices_of(k, hints[k]), table[k]) for k in HEAD if k in table}
        texts = {k: self.text(k, table[k]) for k in ("target", "event", "file", "site") if k in table}
        sites = {str(k): self.text(f"sites.{k}", v) for k, v in self.mapping("sites", table.get("sites", {}))}
        rules = tuple(
            self.rule(str(name), columns)
            for name, columns in self.mapping("columns", table.get("columns", {}))
        )
        if not rules:
            self.wrong("columns", "there are none: give a table [columns.NAME] for each")
        if sites and texts.get("file"):
            self.wrong("", "holds both sites and file: keep one")
        told = table.get("patient", [])
        patient = self.texts("patient", [told] if isinstance(told, str) else told) or ()
        encodings = self.encodings(table.get("encoding", ""))
        chosen = {k: v for k, v in head.items() if v}
        recipe = Recipe(rules, sites=sites, patient=patient, encodings=encodings, **texts, **chosen)  # type: ignore[arg-type]
        if not self.troubles:
            self.check(recipe)
        return recipe

    def encodings(self, value: Any) -> dict[str, str]:
        """One for all, or by site."""
        by_site = {"": value} if isinstance(value, str) else dict(self.mapping("encoding", value))
        for site, name in by_site.items():
            place = f"encoding.{site}" if site else "encoding"
            if self.text(place, name) and not _known_encoding(name):
                self.wrong(place, f'{_short(name)} is no known encoding: try "cp1252", "latin-1" or "utf-8"')
        return {str(site): name for site, name in by_site.items() if name}

    def rule(self, name: str, table: Any) -> Rule:
        place = f"columns.{name}"
        entries = dict(self.mapping(place, table))
        at = dict(self.mapping(f"{place}.at", entries.pop("at", {})))
        self.unknown(place, entries, RULE_KEYS)
        if "use" not in entries:
            self.wrong(place, f"use is missing: give one of {', '.join(in_recipes())}")
        values = self.values(place, entries, RULE_KEYS)
        heres = {str(site): self.here(f"{place}.at.{site}", there) for site, there in at.items()}
        return Rule(**{"name": name, "use": "number", **values, "at": heres})

    def here(self, place: str, table: Any) -> Here:
        entries = dict(self.mapping(place, table))
        self.unknown(place, entries, HERE_KEYS)
        return Here(**self.values(place, entries, HERE_KEYS))

    def values(
        self, place: str, entries: Mapping[str, Any], keys: Mapping[str, tuple[str, Any]]
    ) -> dict[str, Any]:
        """Fields and their values, each of its field's type; one that is wrong is left out."""
        read: dict[Any, Callable[[str, Any], Any]] = {
            str: self.text, tuple[str, ...]: self.texts, float: self.number, float | None: self.number,
            tuple[float, ...]: self.numbers, Spellings: self.spellings, bool: self.yes,
        }  # fmt: skip
        found = {}
        for key, (name, hint) in keys.items():
            if key in entries:
                spot, may = f"{place}.{key}", _choices_of(key, hint)
                value = self.choice(spot, may, entries[key]) if may else read[hint](spot, entries[key])
                if value is not None:
                    found[name] = value
        return found

    def unknown(self, place: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
        names = tuple(known)
        for key in table:
            if key not in names:
                self.wrong(place, str(UnknownName("key", str(key), names)))

    def must(self, fits: bool, place: str, what: str, value: Any, remedy: str = "") -> bool:
        if not fits:
            self.wrong(place, f"must be {what}; got {_short(value)}{remedy}")
        return fits

    def mapping(self, place: str, value: Any) -> Iterable[tuple[str, Any]]:
        return value.items() if self.must(isinstance(value, Mapping), place, "a table", value) else ()

    def choice(self, place: str, may: Sequence[str], value: Any) -> str | None:
        fits = isinstance(value, str) and value in may
        return value if self.must(fits, place, f"one of {', '.join(may)}", value) else None

    def text(self, place: str, value: Any) -> str:
        fits = self.must(isinstance(value, str), place, "a text", value, ": put it in quotation marks")
        return value if fits else ""

    def texts(self, place: str, value: Any) -> tuple[str, ...] | None:
        fits = isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)
        return tuple(value) if self.must(fits, place, 'a list of texts such as ["a", "b"]', value) else None

    def number(self, place: str, value: Any) -> float | None:
        fits = isinstance(value, int | float) and not isinstance(value, bool) and _finite(value)
        return float(value) if self.must(fits, place, "a finite number", value) else None

    def numbers(self, place: str, value: Any) -> tuple[float, ...] | None:
        found = [self.number(place, v) for v in value] if isinstance(value, list | tuple) else [None]
        return tuple(v for v in found if v is not None)

    def yes(self, place: str, value: Any) -> bool:
        self.must(isinstance(value, bool), place, "true or false", value)
        return bool(value)

    def spellings(self, place: str, value: Any) -> dict[str, tuple[str, ...]]:
        return {str(k): self.texts(f"{place}.{k}", v) or () for k, v in self.mapping(place, value)}

    def check(self, recipe: Recipe) -> None:
        """What concerns several entries."""
        names = Counter(plain(r.name) for r in recipe.rules)
        for name, count in names.items():
            if count > 1:
                self.wrong(f"columns.{name}", "is there twice but for case or blanks: rename or drop one")
        for site in recipe.encodings:
            if site and not recipe.sites:
                self.wrong("encoding", "by site needs a file for each, [sites]: write it as one text")
            elif site and site not in recipe.sites:
                self.wrong("encoding", str(UnknownName("site", site, recipe.sites)))
        for name in recipe.patient:
            if plain(name) not in names:
                self.wrong("patient", str(UnknownName("column", name, [r.name for r in recipe.rules])))
        if recipe.target and plain(recipe.target) not in names:
            self.wrong("target", str(UnknownName("column", recipe.target, [r.name for r in recipe.rules])))
        if recipe.event:
            self.check_event(recipe, names)
        elif (
            recipe.target
            and plain(recipe.target) in names
            and (not recipe.goal.read or recipe.goal.kind.counted)
        ):
            self.wrong(
                "target", f"{recipe.target!r} is used as {recipe.goal.use}: use it as a flag or number"
            )
        for rule in recipe.rules:
            self.check_rule(recipe, rule)
        for site in recipe.sites:
            self.check_names(recipe, site)

    def check_event(self, recipe: Recipe, names: Mapping[str, int]) -> None:
        """A survival has a time and a flag."""
        times = tuple(use for use in in_recipes() if use in KINDS and not KINDS[use].words)
        for key, may in (("target", times), ("event", ("flag",))):
            name: str = getattr(recipe, key)
            if plain(name) not in names:
                if name and key == "target":
                    continue  # said already
                self.wrong(key, str(UnknownName("column", name, [r.name for r in recipe.rules])))
            elif (use := recipe.rule(name).use) not in may:
                what = "the time until the event" if key == "target" else "whether it was seen"
                self.wrong(key, f"{name!r}, {what}, is used as {use}: use it as a {' or '.join(may)}")
        if plain(recipe.event) == plain(recipe.target):
            self.wrong("event", f"{recipe.event!r} is the target too: name the time and the event apart")

    def check_rule(self, recipe: Recipe, rule: Rule) -> None:
        place = f"columns.{rule.name}"
        for key, said in rule.kind.check(rule, recipe):
            self.wrong(f"{place}.{key}" if key else place, said)
        if rule.spread <= 0:
            self.wrong(f"{place}.spread", f"{rule.spread:g} must be above 0: try 1")
        if (rule.center, rule.spread) != (0.0, 1.0) and recipe.scale != "constants":
            self.wrong(place, f'center and spread need scale = "constants", not {recipe.scale!r}')
        if rule.lowest is not None and rule.highest is not None and rule.lowest > rule.highest:
            self.wrong(place, f"lowest {rule.lowest:g} is above highest {rule.highest:g}: exchange them")
        for site in ("", *rule.at):
            decimal, thousands = rule.marks(site)
            if thousands and decimal in (thousands, "either", "" if thousands == "." else thousands):
                self.wrong(
                    f"{place}.at.{site}" if site else place,
                    f'thousands = "{thousands}" beside decimal = "{decimal or "."}": one mark cannot be both',
                )
        for site, here in rule.at.items():
            if recipe.sites and site not in recipe.sites:
                self.wrong(f"{place}.at.{site}", str(UnknownName("site", site, recipe.sites)))
            told = conversion(rule.name, here.unit, rule.unit) if here.unit else None
            if told and here.factor is not None and not math.isclose(told.factor, here.factor, rel_tol=0.01):
                self.wrong(
                    f"{place}.at.{site}",
                    f"{here.unit} to {rule.unit} is x {told.factor:g}, factor says {here.factor:g}: keep one",
                )
            unknown = conversion(rule.name, here.unit or rule.unit, rule.unit) is None
            if rule.kind.in_units and unknown and here.factor is None and not here.absent:
                self.wrong(
                    f"{place}.at.{site}",
                    f"no conversion from {here.unit!r} to {rule.unit or 'no unit'!r} is known for "
                    f"{rule.name!r}: write factor (and offset)",
                )

    def check_names(self, recipe: Recipe, site: str) -> None:
        """Two columns cannot be one at a site."""
        read = [r for r in recipe.rules if r.read and not r.here(site).absent]
        counts = Counter(plain(r.here(site).name or r.name) for r in read)
        for name, count in counts.items():
            if count > 1:
                who = ", ".join(r.name for r in read if plain(r.here(site).name or r.name) == name)
                self.wrong("", f"column {name!r} of site {site!r} is read as {who}: keep one")


def _choices_of(key: str, hint: Any) -> tuple[str, ...]:
    """What stands for a key that has a few words; none for any other."""
    if key == "use":
        return in_recipes()
    return tuple(word for word in get_args(hint) if word) if get_origin(hint) is Literal else ()


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # a number of thousands of digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _known_encoding(name: str) -> bool:
    try:
        b"a".decode(name)
    except UnicodeError:
        return True  # of another width
    except (LookupError, ValueError):
        return False
    return True
