"""`coterie.check`: what to look at in tables before anything is trained on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.core import client as core
from coterie.core.checks import (
    CLASSES,
    COLUMN,
    COLUMNS,
    FILE,
    NAME,
    SEED,
    TEXT,
    checked,
    is_list,
    list_of,
    or_none,
)
from coterie.core.errors import BadInput
from coterie.data.clients_from import Tables, rows_from
from coterie.data.intake import TaskChoice
from coterie.data.partition.silos import in_order
from coterie.data.preparation import Column
from coterie.data.quality import checks as all_checks
from coterie.data.quality.checks import CHECKS, Quality, check_names
from coterie.data.quality.ranges import read_ranges
from coterie.data.quality.site_rows import SiteRows, site_rows
from coterie.data.quality.worth import worth
from coterie.features.quality.shown import headline, render_quality
from coterie.report.summary import lines_html
from coterie.runs.about import origin
from coterie.storage.atomic import write_whole
from coterie.storage.paths import given_file

if TYPE_CHECKING:
    import pandas as pd

TARGET = "target"
SHOWN = 5  # findings of a repr


@dataclass(frozen=True, eq=False)
class Checked:
    """What was found. `findings`, `suspects`, `missing` and `worth` are data frames; `notes` say what was not
    looked at, and why.
    """

    quality: Quality

    def __repr__(self) -> str:
        lines = [f"Checked({headline(self.told())})"]
        found = self.quality.findings
        lines += [f"  {f.site}: {f.says}" for f in found[:SHOWN]]
        return "\n".join([*lines, *([f"  and {len(found) - SHOWN} more"] if len(found) > SHOWN else [])])

    def _repr_html_(self) -> str:
        return lines_html("Checked", [headline(self.told()), *repr(self).splitlines()[1:]])

    @property
    def notes(self) -> tuple[str, ...]:
        return self.quality.notes

    @cached_property
    def findings(self) -> pd.DataFrame:
        """Worst first: site, column, kind, severity, rows, share, value, bound, says, remedy, lines."""
        return self._frame("findings", ("site", "column", "kind", "severity", "says"))

    @cached_property
    def suspects(self) -> pd.DataFrame:
        """Labels to review: site, line, given, likely, chance."""
        return self._frame("suspects", ("site", "line", "given", "likely", "chance"))

    @cached_property
    def worth(self) -> pd.DataFrame:
        """What a column that the requester lacks brings its partners, each change with its interval."""
        import pandas as pd

        flat = [
            {k: v for k, v in w.items() if not isinstance(v, dict)}
            | {f"{k}_{part}": x for k, v in w.items() if isinstance(v, dict) for part, x in v.items()}
            for w in self.told()["worth"]
        ]
        return pd.DataFrame(flat, columns=None if flat else ["column", "partner", "helps"])

    @cached_property
    def missing(self) -> pd.DataFrame:
        """The share of missing values, [column, site]."""
        import pandas as pd

        sketches = self.quality.sketches
        shares = {s.site: {c.name: c.missing / max(c.rows, 1) for c in s.columns} for s in sketches}
        return pd.DataFrame(shares)

    def told(self) -> dict[str, Any]:
        """All of it, as quality.json has it."""
        return self.quality.to_dict()

    @checked(path=FILE)
    def report(self, path: str | Path) -> Path:
        """Writes a page that opens offline. It names rows: it is for the sites' own eyes."""
        return write_whole(given_file(str(path), "path"), render_quality(self.told()))

    def _frame(self, name: str, columns: Sequence[str]) -> pd.DataFrame:
        import pandas as pd

        rows = self.told()[name]
        return pd.DataFrame(rows, columns=None if rows else list(columns))


@checked(
    target=or_none(COLUMN),
    event=or_none(COLUMN),
    site=or_none(COLUMN),
    recipe=or_none(FILE),
    classes=or_none(CLASSES),
    task=TEXT,
    leave_out=COLUMNS,
    ranges=or_none(FILE),
    checks=list_of("checks", TEXT.fits, "['units']"),
    requester=or_none(NAME),
    seed=SEED,
)
def check(
    tables: Tables = None,
    *,
    target: str | None = None,
    event: str | None = None,
    site: str | None = None,
    recipe: str | Path | None = None,
    classes: Sequence[Any] | None = None,
    task: TaskChoice = "auto",
    leave_out: Sequence[str] = (),
    ranges: str | Path | None = None,
    checks: Sequence[str] = tuple(CHECKS),
    requester: str | None = None,
    seed: int = 0,
) -> Checked:
    """What to look at in the tables of several sites: values that cannot be, other units, copies, gaps, sites
    that differ, columns out of step, labels to review. Nothing is changed or refused for it.

    check({"north": frame, "south": other}, target="ill")
    check({"north": (X, y), "south": (X2, y2)})
    check(recipe="hospitals.toml", requester="north")

    tables       as `clients_from` takes them; or {name: (X, y)}; or clients of `Client.from_arrays`
    ranges       a TOML file with bounds of your own, beside Coterie's
    checks       which to do; all unless told
    requester    a site that asks what the columns it lacks bring those that record them
    seed         for what is drawn: folds, shuffles
    """
    names, bounds = check_names(checks), read_ranges(ranges)
    given: dict[str, Any] = {"target": target, "event": event, "site": site, "recipe": recipe}
    given["classes"] = classes
    if is_list(tables) and len(tables) and all(isinstance(c, core.Client) for c in tables):
        told = [name for name, value in given.items() if value is not None]
        if told:
            raise BadInput(f"{told[0]} beside clients, which have that already: leave it out")
        sites = _of_clients(list(tables))
    else:
        if isinstance(tables, Mapping) and any(isinstance(t, tuple) for t in tables.values()):
            if named := target or event:
                raise BadInput(f"column {named!r} beside pairs (X, y), which have it already: leave it out")
            tables, given = _framed(tables), {**given, "target": TARGET}
        data, owner = rows_from(
            tables, missing="median" if recipe is None else None, task=task, leave_out=leave_out, **given
        )
        places = sorted(set(owner) - {""}, key=in_order)
        sites = site_rows(data, np.array([places.index(o) if o else -1 for o in owner]), places)
    brings, said = worth(sites, requester, seed) if requester is not None else ([], [])
    found = all_checks.checked(sites, bounds, names, seed)
    about = {"seed": seed, "checks": list(names), "requester": requester, **origin()}
    return Checked(replace(found, worth=tuple(brings), notes=(*found.notes, *said), about=about))


def _framed(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Pairs (X, y) as tables whose columns are called as in X, or by their numbers."""
    import pandas as pd

    made = {}
    for name, pair in tables.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise BadInput(f"tables of {name!r} must be a pair (X, y), as those of the others: give both")
        x, y = pair
        frame = x.copy() if isinstance(x, pd.DataFrame) else pd.DataFrame(np.asarray(x))
        if len(frame) != len(y):
            raise BadInput(f"{name!r} has {len(frame)} rows in X and {len(y)} in y: give as many")
        frame.columns = [c if isinstance(c, str) else f"x{c}" for c in frame.columns]
        if TARGET in frame.columns:
            raise BadInput(f"X of {name!r} has a column {TARGET!r}: rename it, or give a table and target=")
        made[name] = frame.assign(**{TARGET: np.asarray(y)})
    return made


def _of_clients(clients: Sequence[core.Client]) -> list[SiteRows]:
    """Rows of clients made from arrays, in the order training, validation, test."""
    ready = [c.name for c in clients if c.preparation is not None]
    if ready:
        raise BadInput(f"client {ready[0]!r} has its rows scaled and filled already: give the tables instead")
    names = [c.features or tuple(f"x{i}" for i in range(c.train.x.shape[1])) for c in clients]
    if any(c.train.x.ndim != 2 for c in clients) or len(set(names)) > 1:
        raise BadInput("check looks at tables, all with the same columns: give clients of such")
    columns, made = tuple(map(Column, names[0])), []
    for c in clients:
        parts = (c.train, c.validation, c.test)
        raw = np.concatenate([p.x.numpy().astype(np.float64) for p in parts])
        y = np.concatenate([p.y.numpy() for p in parts])
        made.append(SiteRows(c.name, columns, raw, y, np.arange(1, len(y) + 1), c.task, c.classes))
    return made
