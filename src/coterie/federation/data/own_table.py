"""A site's own rows of a table: recipes and files may be written for several sites, of which one is here.

A recipe for several sites, or several files, is read for the site of that name alone: files of the others
need not be there. A table of a single site is that site's, whatever it is called there. With a recipe that
all sites share, a path says where this site's table is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from coterie.core.errors import UnknownName
from coterie.data.dataset import Dataset
from coterie.data.partition.silos import texts_of
from coterie.data.sources.table import TableFile
from coterie.data.tables.texts import plain

if TYPE_CHECKING:
    from coterie.data.tables.read import Table
    from coterie.data.tables.recipe import Recipe


def own_rows(source: TableFile, name: str) -> Dataset:
    """The rows of the site of that name; a name that several sites do not have is refused."""
    own = _OneSite(**{f.name: getattr(source, f.name) for f in fields(source)}, whose=name)
    return _rows_of_site(own.load(), name)


@dataclass(frozen=True)
class _OneSite(TableFile):
    """A table of which the files of other sites are not looked at."""

    whose: str = ""

    def _given(self) -> Recipe:
        if len(self.paths) != 1:
            return _for_one_site(super()._given(), self.whose, self.recipe)
        own = str(Path(self.paths[0]).absolute())
        return _with_file(TableFile._given(replace(self, path=())), self.whose, own)

    def _found(self) -> tuple[Recipe, Mapping[str, Table]]:
        recipe, read = super()._found()
        return _for_one_site(recipe, self.whose, self._called()), read


def _for_one_site(recipe: Recipe, name: str, where: str) -> Recipe:
    """The recipe with file and columns of that site alone; a single site may be called otherwise."""
    if recipe.sites:
        like = [s for s in recipe.sites if plain(s) == plain(name)] or list(recipe.sites)
        if len(like) > 1:
            raise UnknownName(f"site of {where}", name, recipe.sites)
        return _with_sites(replace(recipe, sites={like[0]: recipe.sites[like[0]]}), like)
    if not recipe.site:
        return _with_file(recipe, name, recipe.file) if recipe.file else recipe
    from coterie.data.tables.apply_recipe import sites_in
    from coterie.data.tables.read import read_table

    here = sites_in(recipe, read_table(Path(recipe.folder) / recipe.file, recipe.encoding()))
    return recipe if here is None else _with_sites(recipe, here)


def _with_file(recipe: Recipe, name: str, file: str) -> Recipe:
    """Read from that file, all of whose rows are the site's."""
    if recipe.site:  # such a table tells itself whose its rows are
        return _for_one_site(replace(recipe, file=file), name, file)
    known = (s for rule in recipe.rules for s in rule.at)
    here = next((s for s in known if plain(s) == plain(name)), name)  # as the recipe's columns call it
    return _with_sites(replace(recipe, sites={here: file}, file=""), [here])


def _with_sites(recipe: Recipe, sites: Collection[str]) -> Recipe:
    """Without what is said of columns at other sites."""
    rules = (replace(r, at={s: h for s, h in r.at.items() if s in sites}) for r in recipe.rules)
    return replace(recipe, rules=tuple(rules))


def _rows_of_site(data: Dataset, name: str) -> Dataset:
    """A site's own rows: all, unless a column says that there are several sites'."""
    columns = data.train.columns or {}
    if not data.silos or data.silos not in columns:
        return data
    whose = texts_of(columns[data.silos])
    sites = sorted({site for site in whose if site is not None})
    like = [site for site in sites if plain(site) == plain(name)] or sites
    if len(like) > 1:
        raise UnknownName(f"site of {data.name}", name, sites)
    rows = np.flatnonzero([site in like for site in whose])
    others = len(whose) - len(rows)
    note = (f"rows of other sites or of none, left out: {others}",) if others else ()
    lines = None if data.lines is None else data.lines[rows]
    return replace(data, train=data.train.take(rows), notes=(*data.notes, *note), lines=lines)
