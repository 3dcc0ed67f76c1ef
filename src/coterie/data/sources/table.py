"""Tables of your own: from files, or held by the sites of a federation, where their rows stay."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import numpy as np

from coterie.core.checks import check_choice
from coterie.core.errors import BadData, BadInput, Several
from coterie.data.dataset import Arrays, Dataset
from coterie.data.intake import Array
from coterie.data.sources.base import SOURCES, AtHand, Natural
from coterie.data.tables.texts import number_of
from coterie.data.tabular import Missing, TabularPrepare
from coterie.data.targets import FRACTIONS, kind_of_numbers, said_of

if TYPE_CHECKING:
    from coterie.data.tables.read import Table
    from coterie.data.tables.recipe import Recipe


@SOURCES.register("table")
@dataclass(frozen=True)
class TableFile(AtHand):
    """Your own tables (CSV, TSV, Excel, Parquet): one file a site, or one with a column that says whose.

    A recipe, written by `coterie table inspect` and edited by you, says what is read and how. Without one
    the files are inspected here and now, and refused if there is anything that you should decide.
    """

    path: tuple[str, ...] = ()
    """The files, each with a header line: one a site, called by its name; or one, with --table.site."""
    target: str = ""
    """The column to predict; with an event, the time until it, or until a row was last seen."""
    site: str = ""
    """The column that says whose a row is; never an input."""
    recipe: str = ""
    """A recipe that says all of this, by coterie table inspect; --recipe for short."""
    leave_out: tuple[str, ...] = ()
    """Columns that are no inputs."""
    missing: Literal["auto", "refuse", "drop", "median"] = "auto"
    """Missing values: refuse them, drop their rows, or fill in each client's own training median; auto does
    as the recipe says, and refuses without one."""
    scale: Literal["auto", "site", "shared", "constants"] = "auto"
    """Numbers are scaled by each client's own mean and deviation, by those of all, or not; auto does as the
    recipe says, and by each client's own without one."""
    absent: Literal["auto", "flag", "mask", "common", "refuse"] = "auto"
    """A column that a client lacks: the others' mean and a flag, zeros, left out for all; auto does as the
    recipe says, and takes the flag without one."""
    task: Literal["auto", "classification", "regression"] = "auto"
    """What the target is; auto takes words and up to 20 whole numbers as classes, 0.0 and 1.0 among them."""
    event: str = ""
    """The column that says whether the event was seen, no or yes; it makes a survival of a time."""

    natural: ClassVar[Natural] = Natural("silos", "logistic", table=True, by_task=True)
    about: ClassVar[str] = "your own tables: --recipe FILE, or --table.path FILE --table.target COLUMN"
    citation: ClassVar[str] = ""
    licence: ClassVar[str] = "yours"

    def __post_init__(self) -> None:
        if self.missing != "auto":
            check_choice("rule for missing values", self.missing, get_args(Missing))
        check_choice("scale", self.scale, ("auto", "site", "shared", "constants"))
        check_choice("rule for absent columns", self.absent, ("auto", "flag", "mask", "common", "refuse"))
        check_choice("task", self.task, ("auto", "classification", "regression"))

    @property
    def paths(self) -> tuple[str, ...]:
        """Of Python's callers, one file may come as it is."""
        return (self.path,) if isinstance(self.path, str) else self.path

    def load(self) -> Dataset:
        from coterie.data.tables.apply_recipe import gather  # only here: pandas takes a while to import

        recipe, read = (self._given(), None) if self.recipe else self._found()
        if not recipe.inputs:
            raise BadData(f"{self._called()}: no input columns are left: leave fewer out")
        rows = gather(recipe, read)
        prepare = TabularPrepare(recipe.columns, recipe.missing, recipe.scale, recipe.absent)
        one_file = not self.recipe and len(self.paths) == 1 and not self.site
        silos = "" if one_file else recipe.site or "site"
        columns = dict(rows.columns)
        if silos:
            columns[silos] = np.array([s or None for s in rows.sites], dtype=object)
        return Dataset(
            name=Path(self.recipe or self.paths[0]).stem,
            task=recipe.task,
            train=Arrays(rows.raw, rows.y, columns),
            features=prepare.features,
            classes=recipe.classes,
            prepare=prepare,
            notes=(*rows.notes, *self._said(recipe, rows.y)),
            recipe=recipe,
            silos=silos,
            one_class=recipe.one_class == "allow",
            together=tuple(recipe.rule(name).name for name in recipe.patient),
            lines=rows.lines,
        )

    def _said(self, recipe: Recipe, y: Array) -> tuple[str, ...]:
        """How the target is read, where a person might read it otherwise and nobody said what it is."""
        if self.recipe or self.event or self.task != "auto":
            return ()
        what, values = f"target {recipe.target!r} is", y
        if recipe.classes:
            numbers = [number_of(c) for c in recipe.classes]
            if len(numbers) < 3 or None in numbers:
                return ()
            values = np.array(numbers, dtype=np.float64)
        decision = kind_of_numbers(np.unique(values).tolist(), len(y))
        return () if decision.why == FRACTIONS else (said_of(what, decision),)

    def _called(self) -> str:
        return self.recipe or ", ".join(self.paths)

    def _given(self) -> Recipe:
        """The recipe, with what flags say besides."""
        from coterie.data.tables.recipe_file import read_recipe

        told = [n for n in ("path", "target", "event", "site", "leave_out") if getattr(self, n)]
        if told or self.task != "auto":
            name = (told or ["task"])[0].replace("_", "-")
            raise BadInput(f"--table.{name} beside a recipe, which has that already: edit {self.recipe}")
        recipe = read_recipe(self.recipe)
        if not recipe.target:
            raise BadInput(f'{self.recipe} names no target: write target = "COLUMN" into it')
        return replace(recipe, **self._rules())  # type: ignore[arg-type]

    def _found(self) -> tuple[Recipe, Mapping[str, Table]]:
        """What inspecting the files proposes, and the files as read; what a person should decide is refused,
        all at once.
        """
        from coterie.data.tables.inspect import inspect

        if not self.paths or not self.target:
            raise BadInput(
                "a table needs a recipe, or files and a target: give --recipe FILE, or "
                "--table.path FILE --table.target COLUMN"
            )
        seen = inspect(
            self.paths, self.target, self.site, leave_out=self.leave_out, task=self.task, event=self.event
        )
        if seen.asks:
            flags = {"--target": self.target, "--event": self.event, "--site": self.site}
            words = [word for flag, value in flags.items() if value for word in (flag, value)]
            command = shlex.join(["coterie", "table", "inspect", *self.paths, *words])
            last = f"{len(seen.asks)} question(s) for you: {command} writes a recipe to edit"
            raise Several([*seen.asks, last])
        rules = {"missing": "refuse", "scale": "site", "absent": "flag", **self._rules()}
        return replace(seen.recipe, one_class="refuse", **rules), seen.files  # type: ignore[arg-type]

    def _rules(self) -> dict[str, str]:
        rules = {name: getattr(self, name) for name in ("missing", "scale", "absent")}
        return {name: rule for name, rule in rules.items() if rule != "auto"}


@SOURCES.register("sites")
@dataclass(frozen=True)
class _Sites(AtHand):
    """What the sites of a federation hold; their rows stay with them."""

    natural: ClassVar[Natural] = Natural("silos", "logistic", table=True, by_task=True)
    about: ClassVar[str] = "what the sites of a federation hold: --net federation"
    citation: ClassVar[str] = ""
    licence: ClassVar[str] = "theirs"

    def load(self) -> Dataset:
        raise BadInput(
            "data 'sites' is held by sites of a federation: add --net federation, or name other data"
        )
