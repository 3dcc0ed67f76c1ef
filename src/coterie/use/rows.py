"""New rows for a model: found by the names of their columns, checked all at once, made into its inputs.

A model without a recipe of its own reads its columns by name, as they are. Columns that its client's training
rows did not have need not be there: the model looks at none of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from coterie.core.errors import BadData, Several
from coterie.data.intake import Array
from coterie.data.preparation import Part, Preparation, numbers

if TYPE_CHECKING:
    from coterie.data.tables.read import Table
    from coterie.data.tables.rules import Recipe, Rule

MOST = 50  # lines that a person is shown at once
# what a recipe would have to say: nothing to a person who has none
IN_RECIPE = re.compile(r",? or (write|list|change) .* under \[columns\..*$")
ABSENT = re.compile(r", or write absent = true under \[columns\..*$")


@dataclass(frozen=True, eq=False)
class Asked:
    """Rows that a model is asked about.

    inputs   [n, *shape] as it takes them
    raw      [n, column] as they were read, NaN where missing; None where columns have no names
    lines    [n] where each stands: lines of a file, rows of anything else, from 1
    word     what such a place is called
    said     worth knowing: what was not looked at
    """

    inputs: Array
    raw: Array | None
    lines: list[int]
    word: str = "row"
    said: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.lines)


@dataclass(frozen=True, eq=False)
class Intake:
    """How the rows of one client's model are read; see `Predictor` for what its parts are."""

    client: str
    shape: tuple[int, ...]
    features: tuple[str, ...]
    preparation: Preparation | None
    own_recipe: Recipe | None
    in_python: str = "coterie.load(FOLDER)"

    @cached_property
    def way(self) -> Preparation | None:
        """The preparation; one that changes nothing where columns with names are taken as they are."""
        if self.preparation is not None:
            return self.preparation
        if self.features and self.shape == (len(self.features),):
            return Preparation(tuple(map(Part, numbers(self.features))))
        return None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the raw columns, in the model's order; none where inputs have no names."""
        return () if self.way is None else self.way.columns

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe that rows are read by."""
        from coterie.data.tables.recipe import plain_recipe

        if self.own_recipe is not None:
            return self.own_recipe
        assert self.way is not None
        return plain_recipe([p.column for p in self.way.parts])

    def asked(self, source: Any) -> Asked:
        """Rows of a file, a frame or an array."""
        if isinstance(source, np.ndarray | Tensor):
            return self.of_array(np.asarray(source))
        if self.way is None:
            raise BadData(self.no_names())
        from coterie.data.tables.read import read_table

        encoding = None if self.own_recipe is None else self.own_recipe.encoding(self.site)
        table = read_table(source, encoding)
        raw, said = self.read(table)
        refuse_gaps(self.way, raw, table.name, table.row_word, table.lines)
        lines = [int(line) for line in table.lines]
        return Asked(self.way.inputs(raw), raw, lines, table.row_word, tuple(said))

    def of_array(self, values: Array) -> Asked:
        """Numbers in the model's order: raw columns where they are prepared, else inputs."""
        wanted = (len(self.columns),) if self.way is not None else self.shape
        if values.shape[1:] != wanted or values.dtype.kind not in "biuf":
            raise BadData(
                f"an array of {values.dtype} {list(values.shape)} for the model of {self.client!r}, which "
                f"takes numbers [n, {', '.join(map(str, wanted))}]: give those"
            )
        lines = list(range(1, len(values) + 1))
        if self.way is None:
            if not np.isfinite(values).all():
                raise BadData("an array with values that are not finite: fill or drop them")
            return Asked(np.asarray(values, dtype=np.float32), None, lines)
        raw = np.asarray(values, dtype=np.float64)
        refuse_gaps(self.way, raw, "array", "row", np.array(lines))
        return Asked(self.way.inputs(raw), raw, lines)

    def read(self, table: Table) -> tuple[Array, list[str]]:
        """[row, column] in the model's order, and what is to be said of the table."""
        from coterie.data.tables.follow import rows_of, sites_in, unread
        from coterie.data.tables.texts import plain

        assert self.way is not None
        whose = sites_in(self.recipe, table)
        site = self.site or self.client
        if others := sorted({w for w in whose or () if plain(w) not in ("", plain(self.client))}):
            raise BadData(
                f"{table.name} has rows of other sites ({', '.join(others)}), which the model of "
                f"{self.client!r} is not for: leave them out"
            )
        spare = [p.column.name for p in self.way.parts if not p.read]
        try:
            found = rows_of(self.recipe, table, site, may_lack=spare)
        except Several as troubles:
            raise self.in_use(troubles) from None
        said = []
        if strange := unread(self.recipe, table, site):
            said.append(
                f"columns of {table.name} that the model does not know, left out: {', '.join(strange)}"
            )
        if idle := [name for name in spare if has(table, self.recipe.rule(name), site)]:
            said.append(
                f"columns that {self.client} had no values of in training, left out: {', '.join(idle)}"
            )
        names = [c.name for c in self.recipe.columns]
        return found.raw[:, [names.index(name) for name in self.columns]], said

    @property
    def site(self) -> str:
        """The client, if the recipe knows it as a site."""
        from coterie.data.tables.texts import plain

        known = {*self.recipe.sites, *(site for rule in self.recipe.rules for site in rule.at)}
        return next((site for site in known if plain(site) == plain(self.client)), "")

    def in_use(self, troubles: Several) -> Several:
        """Without advice that is for training, or for a recipe that nobody wrote."""
        cut = ABSENT if self.own_recipe is not None else IN_RECIPE
        return Several([cut.sub("", line) for line in troubles.lines])

    def no_names(self) -> str:
        what = "x".join(map(str, self.shape))
        kind = f"pictures of {what}" if len(self.shape) > 1 else f"{what} inputs that have no names"
        return (
            f"the model of {self.client!r} takes {kind}, which columns of a table cannot be matched to: "
            f"predict from Python, {self.in_python}.proba(array)"
        )


def has(table: Table, rule: Rule, site: str) -> bool:
    """Whether a table has any value in a rule's column."""
    from coterie.data.tables.follow import header_of

    header = header_of(table, rule, rule.here(site))
    return header is not None and any(cell != "" for cell in table.columns[header])


def refuse_gaps(way: Preparation, raw: Array, name: str, word: str, lines: Array) -> None:
    """All missing values at once for which the model has nothing to put there, and all infinite ones."""
    troubles = []
    for i, part in enumerate(way.parts):
        if not part.read:
            continue
        gaps, endless = np.isnan(raw[:, i]), np.isinf(raw[:, i])
        for bad, what, remedy in (
            (gaps & (part.fill is None), "is missing", "fill it in or leave the row out"),
            (endless, "is infinite", "correct it"),
        ):
            troubles += [
                f"{name}, {word} {lines[r]}, column {part.column.name!r} {what}: {remedy}"
                for r in np.flatnonzero(bad)
            ]
    if len(troubles) > MOST:
        troubles = [*troubles[:MOST], f"{name}: {len(troubles) - MOST} more of this kind"]
    if troubles:
        raise Several(troubles)
