"""Reading a recipe from the table that a file holds: keys, values and what concerns several, checked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.core.errors import UnknownName
from coterie.data.tables.dates import date_of
from coterie.data.tables.encodings import known_encoding
from coterie.data.tables.rules import CHOICES, HEAD, HERE_KEYS, KEYS, Here, Recipe, Rule
from coterie.data.tables.texts import plain, same
from coterie.data.tables.units import conversion

TOP = ("target", "event", *HEAD, "patient", "encoding", "file", "site", "sites", "columns")


@dataclass
class Reader:
    """Reads a recipe from a table, and gathers what is wrong with it."""

    where: str
    troubles: list[str] = field(default_factory=list)

    def wrong(self, place: str, said: str) -> None:
        self.troubles.append(f"{self.where}: {place}{': ' if place else ''}{said}")

    def recipe(self, table: Mapping[str, Any]) -> Recipe:
        self.unknown("", table, TOP)
        head = {k: self.choice(k, k, table[k]) for k in HEAD if k in table}
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
            if self.text(place, name) and not known_encoding(name):
                self.wrong(place, f'{short(name)} is no known encoding: try "cp1252", "latin-1" or "utf-8"')
        return {str(site): name for site, name in by_site.items() if name}

    def rule(self, name: str, table: Any) -> Rule:
        place = f"columns.{name}"
        entries = dict(self.mapping(place, table))
        at = dict(self.mapping(f"{place}.at", entries.pop("at", {})))
        self.unknown(place, entries, KEYS)
        if "use" not in entries:
            self.wrong(place, f"use is missing: give one of {', '.join(CHOICES['use'])}")
        values = self.values(place, entries, KEYS)
        heres = {}
        for site, there in at.items():
            spot = f"{place}.at.{site}"
            found = dict(self.mapping(spot, there))
            self.unknown(spot, found, HERE_KEYS)
            heres[str(site)] = Here(**self.values(spot, found, HERE_KEYS))
        return Rule(**{"name": name, "use": "number", **values, "at": heres})

    def values(
        self, place: str, entries: Mapping[str, Any], keys: Mapping[str, tuple[str, str]]
    ) -> dict[str, Any]:
        """Fields and their values; one that is wrong is left out."""
        read: dict[str, Callable[[str, str, Any], Any]] = {
            "choice": self.choice,
            "text": lambda key, spot, v: self.text(spot, v),
            "texts": lambda key, spot, v: self.texts(spot, v),
            "number": lambda key, spot, v: self.number(spot, v),
            "numbers": lambda key, spot, v: self.numbers(spot, v),
            "spellings": lambda key, spot, v: self.spellings(spot, v),
            "yes": lambda key, spot, v: self.yes(spot, v),
        }
        found = {}
        for key, (name, kind) in keys.items():
            if key in entries:
                value = read[kind](key, f"{place}.{key}", entries[key])
                if value is not None:
                    found[name] = value
        return found

    def unknown(self, place: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
        names = tuple(known)
        for key in table:
            if key not in names:
                self.wrong(place, str(UnknownName("key", str(key), names)))

    def mapping(self, place: str, value: Any) -> Iterable[tuple[str, Any]]:
        if not isinstance(value, Mapping):
            self.wrong(place, f"must be a table; got {short(value)}")
            return ()
        return value.items()

    def choice(self, key: str, place: str, value: Any) -> str | None:
        if not isinstance(value, str) or value not in CHOICES[key]:
            self.wrong(place, f"must be one of {', '.join(CHOICES[key])}; got {short(value)}")
            return None
        return value

    def text(self, place: str, value: Any) -> str:
        if not isinstance(value, str):
            self.wrong(place, f"must be a text; got {short(value)}: put it in quotation marks")
            return ""
        return value

    def texts(self, place: str, value: Any) -> tuple[str, ...] | None:
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            self.wrong(place, f'must be a list of texts such as ["a", "b"]; got {short(value)}')
            return None
        return tuple(value)

    def number(self, place: str, value: Any) -> float | None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not finite(value):
            self.wrong(place, f"must be a finite number; got {short(value)}")
            return None
        return float(value)

    def numbers(self, place: str, value: Any) -> tuple[float, ...] | None:
        found = [self.number(place, v) for v in value] if isinstance(value, list | tuple) else [None]
        return tuple(v for v in found if v is not None)

    def yes(self, place: str, value: Any) -> bool:
        if not isinstance(value, bool):
            self.wrong(place, f"must be true or false; got {short(value)}")
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
        elif recipe.target and plain(recipe.target) in names and recipe.goal.use in ("leave-out", "date"):
            self.wrong(
                "target", f"{recipe.target!r} is used as {recipe.goal.use}: use it as a flag or number"
            )
        for rule in recipe.rules:
            self.check_rule(recipe, rule)
        for site in recipe.sites:
            self.check_names(recipe, site)

    def check_event(self, recipe: Recipe, names: Mapping[str, int]) -> None:
        """A survival has a time and a flag."""
        uses = {"target": ("number", "date"), "event": ("flag",)}
        for key, may in uses.items():
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
        if rule.use in ("flag", "category", "ordered"):
            self.check_values(place, rule)
        if rule.spread <= 0:
            self.wrong(f"{place}.spread", f"{rule.spread:g} must be above 0: try 1")
        if (rule.center, rule.spread) != (0.0, 1.0) and recipe.scale != "constants":
            self.wrong(place, f'center and spread need scale = "constants", not {recipe.scale!r}')
        if rule.lowest is not None and rule.highest is not None and rule.lowest > rule.highest:
            self.wrong(place, f"lowest {rule.lowest:g} is above highest {rule.highest:g}: exchange them")
        if rule.use == "date":
            known = plain(rule.since) in {plain(r.name) for r in recipe.rules}
            if not rule.since or (not known and date_of(rule.since) is None):
                self.wrong(
                    f"{place}.since",
                    f"{rule.since!r} is neither a column nor a date such as 2024-01-31: "
                    'name one, or write use = "leave-out"',
                )
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
            if rule.use == "number" and unknown and here.factor is None and not here.absent:
                self.wrong(
                    f"{place}.at.{site}",
                    f"no conversion from {here.unit!r} to {rule.unit or 'no unit'!r} is known for "
                    f"{rule.name!r}: write factor (and offset)",
                )

    def check_values(self, place: str, rule: Rule) -> None:
        least = 2 if rule.use == "flag" else 1
        if len(rule.values) < least or (rule.use == "flag" and len(rule.values) != 2):
            wanted = "two values, the one for 0 first" if rule.use == "flag" else "values"
            return self.wrong(place, f"used as {rule.use}, it needs {wanted}; got {list(rule.values)}")
        if rule.codes and len(rule.codes) != len(rule.values):
            self.wrong(place, f"{len(rule.codes)} codes for {len(rule.values)} values: give one for each")
        for spot, mapped, moved in [
            (place, rule.spellings, set[str]()),
            *(
                (f"{place}.at.{s}", {**rule.spellings, **h.spellings}, {same(v) for v in h.spellings})
                for s, h in rule.at.items()
            ),
        ]:  # a site that writes 1 and 2 for 0 and 1 says so of both: its 1 is then no other site's 1
            known = {same(v) for v in rule.values}
            for value in mapped:
                if same(value) not in known:
                    self.wrong(f"{spot}.spellings", str(UnknownName("value", value, rule.values)))
            said = Counter({same(v) for v in rule.values} - moved)
            for value, words in mapped.items():
                said.update({same(w) for w in words} - {same(value)})
            for word, count in said.items():
                if count > 1:
                    self.wrong(f"{spot}.spellings", f"{word!r} stands for {count} values: keep it under one")
        return None

    def check_names(self, recipe: Recipe, site: str) -> None:
        """Two columns cannot be one at a site."""
        read = [r for r in recipe.rules if r.read and not r.here(site).absent]
        counts = Counter(plain(r.here(site).name or r.name) for r in read)
        for name, count in counts.items():
            if count > 1:
                who = ", ".join(r.name for r in read if plain(r.here(site).name or r.name) == name)
                self.wrong("", f"column {name!r} of site {site!r} is read as {who}: keep one")


def finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # a number of thousands of digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
