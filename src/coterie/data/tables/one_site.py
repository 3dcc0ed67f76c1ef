"""A recipe for one site's own use: nothing of files, of what was seen in them, or of other sites."""

from __future__ import annotations

from dataclasses import replace

from coterie.data.tables.rules import Recipe
from coterie.data.tables.texts import plain


def for_site(recipe: Recipe, site: str) -> Recipe:
    rules = tuple(
        replace(rule, at={s: here for s, here in rule.at.items() if plain(s) == plain(site)}, why=())
        for rule in recipe.rules
    )
    written = recipe.encoding(next((s for s in recipe.encodings if plain(s) == plain(site)), ""))
    encodings = {"": written} if written else {}
    return replace(recipe, rules=rules, sites={}, file="", folder="", encodings=encodings)
