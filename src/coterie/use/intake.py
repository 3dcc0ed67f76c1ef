"""New rows for a model: found by the names of their columns, checked all at once, made into its inputs.

A mistake of a table as a whole (a missing column, another unit in a header, rows of other sites) is refused.
A row that cannot be read, or cannot be, is left to whoever asks: to refuse all (`Asked.refuse`), or to go on
without it.

A model without a recipe of its own reads its columns by name, as they are. Columns that its client's training
rows did not have need not be there: the model looks at none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch import Tensor

from coterie.core.errors import BadData, Several
from coterie.data.intake import Array
from coterie.data.preparation import Part, Preparation, numbers
from coterie.use.trust import Judge, Refusal, Trust

if TYPE_CHECKING:
    from coterie.data.quality.ranges import Ranges
    from coterie.data.tables.read import Table
    from coterie.data.tables.recipe import Recipe, Rule

MOST = 50  # lines that a person is shown at once
# what a recipe would have to say: nothing to a person who has none
IN_RECIPE = re.compile(r",? or (write|list|change) .* under \[columns\..*$")
ABSENT = re.compile(r", or write absent = true under \[columns\..*$")


@dataclass(frozen=True, eq=False)
class Asked:
    """Rows that a model is asked about.

    inputs   [kept, *shape] as it takes them, of rows that are not refused
    raw      [n, column] as they were read, NaN where missing; None where columns have no names
    trust    where each of n rows stands and how far it may be trusted, or why it is refused
    said     worth knowing: what was not looked at
    name     what messages call the place that they come from
    """

    inputs: Array
    raw: Array | None
    trust: Trust
    said: tuple[str, ...] = ()
    name: str = "array"

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def lines(self) -> Sequence[int]:
        """[n] where each stands: lines of a file, rows of anything else, from 1."""
        return self.trust.lines

    @property
    def word(self) -> str:
        return self.trust.word

    @cached_property
    def kept(self) -> Array:
        kept = np.ones(len(self), dtype=bool)
        kept[list(self.trust.refused)] = False
        return np.flatnonzero(kept)

    def refuse(self) -> Asked:
        """All that is wrong with rows at once, as far as a person reads; itself if nothing is."""
        lines = list(dict.fromkeys(r.line for r in sorted(self.trust.refusals, key=lambda r: r.row)))
        if len(lines) > MOST:
            lines = [*lines[:MOST], f"{self.name}: {len(lines) - MOST} more of this kind"]
        if lines:
            units = [f"{self.name}: {sign.says}" for sign in self.trust.signs if sign.of_unit]
            raise Several([*units, *lines])
        return self

    def without(self, rows: Sequence[int], why: str) -> Asked:
        """The same, with some of the kept rows refused as well."""
        where = [f"{self.name}, {self.word} {self.lines[r]}" for r in rows]
        more = [Refusal(r, "", why, f"{at}: {why}") for r, at in zip(rows, where, strict=True)]
        trust = replace(self.trust, refusals=(*self.trust.refusals, *more))
        return replace(self, inputs=self.inputs[~np.isin(self.kept, rows)], trust=trust)


@dataclass(frozen=True, eq=False)
class Intake:
    """How the rows of one client's model are read; see `Predictor` for what its parts are."""

    client: str
    shape: tuple[int, ...]
    features: tuple[str, ...]
    preparation: Preparation | None
    own_recipe: Recipe | None
    ranges: Ranges | None = None
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
        from coterie.data.tables.recipe import plain_recipe

        if self.own_recipe is not None:
            return self.own_recipe
        assert self.way is not None
        return plain_recipe([p.column for p in self.way.parts])

    @cached_property
    def judge(self) -> Judge:
        from coterie.data.quality.ranges import shipped

        assert self.way is not None
        return Judge(self.way, shipped() if self.ranges is None else self.ranges)

    def asked(self, source: Any) -> Asked:
        """Rows of a file, a frame or an array."""
        if isinstance(source, np.ndarray | Tensor):
            return self.of_array(np.asarray(source))
        if self.way is None:
            raise BadData(self.no_names())
        from coterie.data.tables.read import read_table

        encoding = None if self.own_recipe is None else self.own_recipe.encoding(self.site)
        table = read_table(source, encoding, by_row=True)
        raw, refusals, said = self.read(table)
        return self.usable_rows(raw, refusals, _Place(table.name, table.row_word, table.lines.tolist()), said)

    def of_array(self, values: Array) -> Asked:
        """Numbers in the model's order: raw columns where they are prepared, else inputs."""
        wanted = (len(self.columns),) if self.way is not None else self.shape
        if values.shape[1:] != wanted or values.dtype.kind not in "biuf":
            raise BadData(
                f"an array of {values.dtype} {list(values.shape)} for the model of {self.client!r}, which "
                f"takes numbers [n, {', '.join(map(str, wanted))}]: give those"
            )
        place = _Place("array", "row", list(range(1, len(values) + 1)))
        if self.way is None:
            if not np.isfinite(values).all():
                raise BadData("an array with values that are not finite: fill or drop them")
            return Asked(np.asarray(values, dtype=np.float32), None, Trust(place.lines, recorded=False))
        return self.usable_rows(np.asarray(values, dtype=np.float64), [], place, [])

    def usable_rows(
        self, raw: Array, refusals: Sequence[Refusal], place: _Place, said: Sequence[str]
    ) -> Asked:
        """Rows that were read, without those that could not be read or that the model cannot take."""
        assert self.way is not None
        known, broken = {(r.row, r.column) for r in refusals}, {r.row for r in refusals if not r.column}
        impossible = (
            (row, column, says, f"column {column!r}: {says}: correct it, or leave the row out")
            for row, column, says in self.judge.impossible(raw)
        )
        wrong = [
            Refusal(row, column, says, f"{place.at(row)}, {line}")
            for row, column, says, line in (*_untakeable(self.way, raw), *impossible)
            if (row, column) not in known and row not in broken
        ]
        trust = self.judge.trust(raw, place.lines, place.word, [*refusals, *wrong])
        asked = Asked(np.empty(0), raw, trust, tuple(said), place.name)
        with np.errstate(over="ignore"):  # what the model then says of such a row is no number, and refused
            return replace(asked, inputs=self.way.inputs(raw[asked.kept]))

    def read(self, table: Table) -> tuple[Array, list[Refusal], list[str]]:
        """[row, column] in the model's order, what of it cannot be read, and what is to be said of the table.

        A column that the model does not look at may hold anything.
        """
        from coterie.data.tables.apply_recipe import rows_of, sites_in, unread
        from coterie.data.tables.texts import plain

        assert self.way is not None
        whose = sites_in(self.recipe, table)
        site = self.site or self.client
        if others := sorted({w for w in set(whose or ()) if plain(w) not in ("", plain(self.client))}):
            raise BadData(
                f"{table.name} has rows of other sites ({', '.join(others)}), which the model of "
                f"{self.client!r} is not for: leave them out"
            )
        spare = [p.column.name for p in self.way.parts if not p.read]
        try:
            found = rows_of(self.recipe, table, site, may_lack=spare, by_row=True)
        except Several as troubles:
            broken = [f"{table.name}, line {line}: {says}" for line, says in table.broken.items()]
            raise self.in_use(Several([*broken[:MOST], *troubles.lines])) from None
        said = []
        if strange := unread(self.recipe, table, site):
            said.append(
                f"columns of {table.name} that the model does not know, left out: {', '.join(strange)}"
            )
        if idle := [name for name in spare if _has(table, self.recipe.rule(name), site)]:
            said.append(
                f"columns that {self.client} had no values of in training, left out: {', '.join(idle)}"
            )
        names = [c.name for c in self.recipe.columns]
        refusals = [
            Refusal(row, "", table.broken[line], f"{table.where(row)}: {table.broken[line]}")
            for row, line in (enumerate(found.lines) if table.broken else ())
            if line in table.broken
        ]
        for misfit in (m for m in found.misfits if m.column not in spare):
            (line,) = self.in_use(Several([misfit.line])).lines
            says = f"{misfit.column} {misfit.says.partition(': correct it')[0]}"
            refusals += [Refusal(row, misfit.column, says, line) for row in misfit.rows]
        return found.raw[:, [names.index(name) for name in self.columns]], refusals, said

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


def _has(table: Table, rule: Rule, site: str) -> bool:
    from coterie.data.tables.apply_recipe import header_of

    header = header_of(table, rule, rule.here(site))
    return header is not None and any(cell != "" for cell in table.columns[header].values())


class _Place(NamedTuple):
    """Where rows come from: what that is called, what a row's place is called, and where each row stands."""

    name: str
    word: str
    lines: list[int]

    def at(self, row: int) -> str:
        return f"{self.name}, {self.word} {self.lines[row]}"


def _untakeable(way: Preparation, raw: Array) -> Iterator[tuple[int, str, str, str]]:
    """(row, column, what is wrong, the same with a remedy): missing values for which the model has nothing to
    put there, infinite ones, and numbers that stand for none of a column's values.
    """
    for i, part in enumerate(way.parts):
        if not part.read:
            continue
        column, values = part.column, raw[:, i]
        gaps, endless = np.isnan(values), np.isinf(values)
        allowed = column.allowed
        strange = np.zeros(len(values), dtype=bool) if allowed is None else ~np.isin(values, allowed)
        strange &= ~gaps & ~endless
        may = ", ".join(map(column.text, allowed or ()))
        for bad, what, remedy in (
            (gaps & (part.fill is None), "is missing", "fill it in or leave the row out"),
            (endless, "is infinite", "correct it"),
            (strange, f"is none of {may}", "correct it"),
        ):
            for row in np.flatnonzero(bad):
                yield (
                    int(row),
                    column.name,
                    f"{column.name} {what}",
                    f"column {column.name!r} {what}: {remedy}",
                )
