"""Clients of several tables at once: they agree on texts and columns, and may share scales.

Frames and files go the same way as `--data table` in the shell, and are dealt by the same random numbers: the
same rows, seed and rules give the same clients.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from coterie.core import client as core
from coterie.core.checks import (
    COLUMN,
    COLUMNS,
    FILE,
    SHARE,
    TEXT,
    check_choice,
    checked,
    is_list,
    is_name,
    is_path,
    or_none,
)
from coterie.core.errors import BadData, BadInput, CoterieError, CoterieWarning, lines_of, shown
from coterie.core.seeds import Key
from coterie.data.build import deal_clients
from coterie.data.clients import ROWS, RULES, Client, far_off
from coterie.data.dataset import Arrays, Dataset
from coterie.data.frames import FrameRows, refuse, rows_of_frames
from coterie.data.intake import Array, TaskChoice
from coterie.data.partition.base import Deal
from coterie.data.partition.silos import in_order
from coterie.data.tables.recipe import Recipe
from coterie.data.tables.texts import plain
from coterie.data.tabular import Absent, Missing, Scale, TabularPrepare
from coterie.data.targets import FEW, goals_of

Tables = Any
"""{name: DataFrame}; one DataFrame, or file, with a column that tells sites apart; files, one a site."""
USUAL: dict[str, Any] = {"missing": "refuse", "scale": "site", "absent": "flag"}


@checked(
    **dict.fromkeys(("target", "event", "site"), or_none(COLUMN)),
    **{"recipe": or_none(FILE), "test": SHARE, **ROWS, **dict.fromkeys(RULES, or_none(TEXT))},
    **dict.fromkeys(("leave_out", "forbid", "require"), COLUMNS),
)
def clients_from(
    tables: Tables = None,
    *,
    target: str | None = None,
    event: str | None = None,
    site: str | None = None,
    recipe: str | Path | None = None,
    missing: Missing | None = None,
    scale: Scale | None = None,
    constants: Mapping[str, tuple[float, float]] | None = None,
    absent: Absent | None = None,
    test: float = 0.3,
    validation: float = 0.0,
    seed: int = 0,
    classes: Sequence[Any] | None = None,
    task: TaskChoice = "auto",
    leave_out: Sequence[str] = (),
    forbid: Sequence[str] = (),
    require: Sequence[str] = (),
) -> list[Client]:
    """Clients of several tables, in the order of their names.

    clients_from({"north": frame, "south": other}, target="ill")
    clients_from(frame, target="ill", site="hospital")
    clients_from(["north.csv", "south.csv"], target="ill")
    clients_from(recipe="hospitals.toml")

    tables       {name: DataFrame}, or one DataFrame with a column `site`; or paths of files, each called by
                 its name; with a recipe they stand in for its own files, and none need be given
    target       the column to predict
    event        for a survival, the column that is 1 where the event was seen, 0 where not; `target` is then
                 the time until it, or until the row was last seen
    recipe       how files are read, as `coterie table inspect` writes it
    missing      missing values: refuse them, drop their rows, or fill in each client's own training median
                 (of texts the most frequent); None does as the recipe says, and refuses without one
    scale        numbers are standardised with each client's own mean and deviation (site), with those of all
                 (shared), or by `constants`; None is the recipe's, or site. Per site is simple, but hides
                 that one site's values lie higher than another's: choose shared or constants where such
                 levels matter
    constants    {column: (center, spread)}, agreed beforehand
    absent       a column of which a client has no value: its inputs are the others' mean, and an input of
                 its own says so (flag); they are 0 (mask); it is left out for all (common), or refused; None
                 is the recipe's, or flag
    test         share of each client's rows to test on; `validation` of the rest to choose by
    classes      names of all classes, if they are not those found in all tables together
    task         classification, regression or survival; auto goes by the targets
    leave_out    columns that are no inputs: names, numbers of patients
    forbid       columns that no model may be trained on, also beside a recipe, and said so in notes
    require      columns that a client must record: one without any value of them is left out
    """
    given: dict[str, Any] = {"target": target, "event": event, "site": site, "classes": classes, "task": task}
    rules: dict[str, Any] = {"missing": missing, "scale": scale, "constants": constants, "absent": absent}
    data, owner = rows_from(tables, recipe=recipe, leave_out=leave_out, **given, **rules)
    shares: dict[str, Any] = {"test": test, "validation": validation}
    columns: dict[str, Any] = {"forbid": tuple(map(str, forbid)), "require": tuple(map(str, require))}
    key, split = Key(seed).at("data"), _Given(tuple(owner))
    dealt = deal_clients(data, split, None, key, one_class=True, **shares, **columns)  # as the shell does
    of_all = (*data.notes, *dealt.chosen)  # what stands with each
    return [_with_notes(client, of_all, dealt.recipe) for client in dealt.clients]


def _with_notes(client: core.Client, of_all: Sequence[str], recipe: Recipe | None) -> Client:
    """The same, as Python hands clients out; what lies far off among its rows is noted too."""
    far = far_off(client.train.x.numpy(), client.name, client.features)
    known = {field.name: getattr(client, field.name) for field in fields(client)}
    return Client(**{**known, "notes": (*of_all, *client.notes, *far), "recipe": recipe})


def rows_from(
    tables: Tables,
    *,
    target: str | None,
    event: str | None = None,
    site: str | None,
    recipe: str | Path | None,
    missing: Missing | None,
    scale: Scale | None = None,
    constants: Mapping[str, tuple[float, float]] | None = None,
    absent: Absent | None = None,
    classes: Sequence[Any] | None = None,
    task: TaskChoice = "auto",
    leave_out: Sequence[str] = (),
) -> tuple[Dataset, list[str]]:
    """Rows of all tables before they are prepared, and whose each is; arguments as of `clients_from`."""
    check_choice("task", task, get_args(TaskChoice))
    asked: dict[str, Any] = {"missing": missing, "scale": scale, "absent": absent}
    rules = {name: rule for name, rule in asked.items() if rule is not None}
    for name, kind in (("missing", Missing), ("scale", Scale), ("absent", Absent)):
        check_choice(f"rule {name}", rules.get(name, USUAL[name]), get_args(kind))
    beside = {"target": target, "event": event, "site": site, "classes": classes, "constants": constants}
    beside |= {"task": None if task == "auto" else task, "leave_out": leave_out if len(leave_out) else None}
    told = [name for name, value in beside.items() if value is not None]
    if recipe is not None:
        if told:
            raise BadInput(f"{told[0]} beside a recipe, which says that already: write it into {recipe}")
        read = _of_files(recipe=str(recipe), **rules) if tables is None else None
        return read or _by_recipe(tables, Path(recipe), rules)
    if task == "survival" and event is None:
        raise BadInput("task='survival' needs an event: name its column, event='died'")
    if target is None:
        raise BadInput("no target: name the column to predict, target='ill', or give a recipe")
    if files := _files(tables, site):
        if classes is not None or constants is not None:
            raise BadInput("classes and constants of files stand in a recipe: see coterie table inspect")
        named = {"path": files, "target": target, "site": site, "leave_out": tuple(leave_out)}
        named |= {"event": event, "task": "auto" if event and task == "survival" else task}
        return _of_files(**named, **rules)
    rules = {**USUAL, **rules}
    found = _named(tables, site)
    rows = rows_of_frames(found, target, event, site, leave_out, constants, rules["scale"], rules["missing"])
    y, names, notes = _targets(rows, classes, task)
    prepare = TabularPrepare(rows.columns, **rules)
    data = Dataset(
        name="tables",
        task="survival" if event else "classification" if y.dtype.kind == "i" else "regression",
        train=Arrays(rows.raw, y),
        features=prepare.features,
        classes=names,
        prepare=prepare,
        notes=notes,
    )
    return data, rows.owner


@dataclass(frozen=True)
class _Given:
    """A split that is known beforehand: one client for each name, in the order of names."""

    whose: tuple[str, ...]

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        names = tuple(sorted(set(self.whose) - {""}, key=in_order))
        places = {"": -1, **{name: i for i, name in enumerate(names)}}
        return Deal(np.array([places[w] for w in self.whose], dtype=np.int64), names)


def _named(tables: Tables, site: str | None) -> dict[str, Any]:
    """{name: table}; a single table that holds all sites goes by an empty name."""
    import pandas as pd  # only here: it takes a while to import

    if isinstance(tables, Mapping):
        if site is not None:
            raise BadInput(
                f"site={site!r} tells the rows of one table apart: leave it out, or give one table"
            )
        for name, table in tables.items():
            if not is_name(name) or not isinstance(table, pd.DataFrame):
                raise BadInput(
                    f"tables must be {{name: DataFrame}}, or a list of paths; got {shown(name)}: "
                    f"{type(table).__name__}: try {{'north': frame}}"
                )
        if not tables:
            raise BadInput("no tables: give at least one")
        return dict(tables)
    if not isinstance(tables, pd.DataFrame):
        raise BadInput(
            f"tables={shown(tables)} must be {{name: DataFrame}}, one DataFrame with site=, or a list of "
            "paths: try {'north': frame}"
        )
    if site is None:
        raise BadInput("one table needs a column that tells sites apart: pass site='hospital'")
    return {"": tables}


def _targets(
    rows: FrameRows, classes: Sequence[Any] | None, task: TaskChoice
) -> tuple[Array, tuple[str, ...], tuple[str, ...]]:
    """Of all tables; times and events are looked at table by table, whose rows are counted from 0."""
    if rows.event is None:
        whose = ", ".join(dict.fromkeys(rows.owner))
        y, names, notes = goals_of(rows.y, None, whose, classes, task, "tables")
        if classes is None and names:
            _refuse_spellings(names)
            notes = (*notes, *_apart_in_classes(np.array(rows.owner), y, names))
        return y, names, notes
    owner, parts, troubles = np.array(rows.owner), list[Array](), list[str]()
    for name in dict.fromkeys(rows.owner):
        mine = owner == name
        try:
            parts.append(goals_of(rows.y[mine], rows.event[mine], name, classes, task)[0])
        except BadData as error:
            troubles.append(str(error))
    refuse(troubles)
    return np.concatenate(parts), (), ()


def _refuse_spellings(names: Sequence[str]) -> None:
    """Classes that differ in case or blanks alone are one class, written in several ways."""
    same = dict[str, list[str]]()
    for name in names:
        same.setdefault(plain(name), []).append(name)
    twins = [written for written in same.values() if len(written) > 1]
    if twins:
        shown = "; ".join(" and ".join(map(repr, written)) for written in twins)
        raise BadData(f"classes that differ in case or blanks alone: {shown}: write each in one way")


def _apart_in_classes(owner: Array, y: Array, names: Sequence[str]) -> tuple[str, ...]:
    """A note, and a warning, of tables that have no class in common with any other: other words, perhaps."""
    each = {str(name): set(np.unique(y[owner == name]).tolist()) for name in dict.fromkeys(owner.tolist())}
    others = {name: set[Any]().union(*(each[other] for other in each if other != name)) for name in each}
    lone = [name for name, mine in each.items() if len(mine) > 1 and not mine & others[name]]
    if not lone or len(each) < 2 or len(names) > FEW:
        return ()
    said = "; ".join(f"{name} has {', '.join(names[c] for c in sorted(each[name]))}" for name in lone[:5])
    note = f"no class in common with any other table: {said}: are they other words for the same?"
    warnings.warn(note, CoterieWarning, stacklevel=5)
    return (note,)


def _files(tables: Tables, site: str | None) -> tuple[str, ...]:
    """Paths, if that is what tables are: one file a site, or one with a column that tells sites apart."""
    if is_path(tables):
        if site is None:
            raise BadInput("one file needs a column that tells sites apart: pass site='hospital'")
        return (str(tables),)
    return tuple(map(str, tables)) if is_list(tables) and len(tables) and all(map(is_path, tables)) else ()


def _of_files(**options: Any) -> tuple[Dataset, list[str]]:
    """Rows of files and whose they are, as the shell reads them."""
    from coterie.data.sources.table import TableFile

    data = TableFile(**{k: v for k, v in options.items() if v is not None}).load()
    if not data.silos:
        raise BadInput("the files do not say whose their rows are: name the column, site='hospital'")
    columns = data.train.columns or {}
    return data, [owner or "" for owner in columns[data.silos]]


def _by_recipe(tables: Tables, path: Path, rules: Mapping[str, Any]) -> tuple[Dataset, list[str]]:
    """Rows of these tables, as a recipe reads them in the place of its own files."""
    from coterie.data.tables.apply_recipe import people_in, rows_of
    from coterie.data.tables.read import read_table
    from coterie.data.tables.recipe_file import read_recipe

    recipe = replace(read_recipe(path), **rules)
    sources = _named(tables, None if isinstance(tables, Mapping) else recipe.site or None)
    people = [recipe.rule(name) for name in recipe.patient]
    found, about, troubles = {}, {rule.name: list[Any]() for rule in people}, list[str]()
    for name, source in sources.items():
        try:
            table = read_table(source, recipe.encoding(name))
            found[name] = rows_of(recipe, table, site=name, with_target=True)
            for rule in people:
                about[rule.name].append(people_in(rule, name, table, found[name]))
        except CoterieError as error:
            troubles += lines_of(error)
    refuse(troubles)
    prepare = TabularPrepare(recipe.columns, recipe.missing, recipe.scale, recipe.absent)
    raw, y = (np.concatenate([getattr(r, part) for r in found.values()]) for part in ("raw", "y"))
    patients = {name: np.concatenate(cells) for name, cells in about.items()}
    data = Dataset(
        name=path.stem,
        task=recipe.task,
        train=Arrays(raw, y, patients),
        features=prepare.features,
        classes=recipe.classes,
        prepare=prepare,
        recipe=recipe,
        together=tuple(about),
        lines=np.array([line for r in found.values() for line in r.lines], dtype=np.int64),
    )
    return data, [o for name, r in found.items() for o in (r.sites or [name] * len(r.raw))]
