"""Recipes in files: commented TOML for a person to edit, read back with all mistakes said at once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import tomli_w

from coterie.core.errors import BadInput, Several
from coterie.data.tables.recipe_reader import Reader
from coterie.data.tables.rules import HEAD, Here, Recipe, Rule, plain_recipe, rule_table
from coterie.data.tables.units import conversion
from coterie.storage.atomic import write_whole

__all__ = [
    "Here",
    "Recipe",
    "Rule",
    "plain_recipe",
    "read_recipe",
    "recipe_of",
    "recipe_text",
    "write_recipe",
]

ABOUT = """\
# How these tables are read. Edit what is not right: nothing is done that is not written here.
#
# use        number, flag (no or yes), category, ordered (steps of equal width), date, leave-out
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
    whys = comments_of(text)
    rules = tuple(replace(r, why=whys.get(r.name, ())) for r in recipe.rules)
    return replace(recipe, rules=rules, folder=str(path.parent))


def write_recipe(path: str | Path, recipe: Recipe) -> None:
    write_whole(Path(path), recipe_text(recipe))


def recipe_of(table: Mapping[str, Any], where: str = "recipe") -> Recipe:
    """The inverse of `Recipe.table`; whatever does not belong is refused, all at once."""
    reader = Reader(where)
    recipe = reader.recipe(table)
    if reader.troubles:
        raise Several(reader.troubles)
    return recipe


def recipe_text(recipe: Recipe) -> str:
    """Commented TOML."""
    table = recipe.table()
    lines = [ABOUT]
    for key in ("target", *(["event"] if recipe.event else []), *HEAD):
        lines += [f"# {line}" for line in wrapped(HEAD_WHY[key])]
        lines += [f"{key} = {toml(table[key])}", ""]
    if recipe.patient:
        lines += [f"# {PATIENT_WHY}", f"patient = {toml(list(recipe.patient))}", ""]
    if recipe.encodings:
        lines += [f"# {line}" for line in wrapped(ENCODING_WHY)]
        lines += [f"encoding = {toml(table['encoding'])}", ""]
    if recipe.file:
        lines += ["# one file, whose rows are told apart by a column"]
        lines += [f"file = {toml(recipe.file)}", ""]
    if recipe.site:
        lines += ["# the column that says whose a row is", f"site = {toml(recipe.site)}", ""]
    if recipe.sites:
        lines += ["# one file a site, relative to this one", "[sites]"]
        lines += [f"{key_text(site)} = {toml(file)}" for site, file in recipe.sites.items()] + [""]
    for rule in recipe.rules:
        lines += rule_lines(rule)
    return "\n".join(lines).rstrip() + "\n"


def rule_lines(rule: Rule) -> list[str]:
    head = f"columns.{key_text(rule.name)}"
    lines = [f"# {line}" for why in rule.why for line in wrapped(why)] + [f"[{head}]"]
    table = rule_table(rule)
    at = table.pop("at", {})
    lines += [f"{key} = {toml(value)}" for key, value in table.items()]
    for site, here in at.items():
        lines += [f"[{head}.at.{key_text(site)}]", *(f"{key} = {toml(value)}" for key, value in here.items())]
    return [*lines, ""]


def wrapped(text: str, width: int = 100) -> list[str]:
    lines, line = list[str](), ""
    for word in text.split():
        if line and len(line) + len(word) >= width:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return [*lines, line]


def toml(value: Any) -> str:
    """In one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key_text(k)} = {toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return tomli_w.dumps({"k": value}).strip()[4:]


def key_text(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml(key)


def comments_of(text: str) -> dict[str, tuple[str, ...]]:
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


def converted_by(rule: Rule, here: Here) -> tuple[float, float]:
    """factor, offset from a site's unit to the column's."""
    if here.factor is not None:
        return here.factor, here.offset
    known = conversion(rule.name, here.unit, rule.unit) if here.unit else None
    return (known.factor, known.offset) if known else (1.0, here.offset)
