"""Data quality over a federation: sites look at home, and tell counts and quantiles.

What leaves a site: of each column its name, kind and unit, how many values are known and how many are
missing, and, of a column of numbers with 60 known values and more, its quantiles at 5, 10, ..., 95 %, rounded
to four digits; of each finding its kind, its column and how many rows it is about. Which rows, which values
and which labels stays in quality.json in the site's own folder.

What crosses is told twice alike: as long as rows stay the same, so does the answer, and asking often tells no
more than asking once. What rows of several sites would show (the same row at two sites, columns out of step)
is not looked for.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from coterie.core.checks import Kind
from coterie.core.errors import BadData, BadInput, CoterieError, Refused, Several, lines_of, shown
from coterie.data.preparation import Kind as ColumnKind
from coterie.data.quality.checks import (
    AT_HOME,
    CHECKS,
    WITH_ROWS,
    Home,
    Quality,
    at_home,
    check_names,
    together,
)
from coterie.data.quality.finding import SEVERITIES, Finding, percent
from coterie.data.quality.ranges import shipped
from coterie.data.quality.rows import site_rows
from coterie.data.quality.sketch import AT, STEPS, ColumnSketch, Sketch, rounded
from coterie.data.tables.texts import plain
from coterie.data.tables.units import conversion, unit_of
from coterie.federation.rows import FEWEST as FEWEST_VALUES
from coterie.federation.rows import Holding
from coterie.federation.sites import gathered, lines_of_kit
from coterie.federation.told import (
    COUNT,
    MOST_COLUMNS,
    NAME,
    OTHER_VERSION,
    TABLE,
    TEXT,
    fields,
    is_list,
    is_number,
    list_of,
    one_of,
)
from coterie.storage.atomic import write_whole

if TYPE_CHECKING:
    from coterie.federation.connector import Federation
    from coterie.federation.sites import Lines

log = logging.getLogger("coterie")

FILE = "quality.json"
FEWEST = FEWEST_VALUES * STEPS  # known values, so that some lie between any two quantiles
MOST_FOUND = 100_000
HERE = tuple(name for name in CHECKS if name in AT_HOME or name == "labels")
QUANTILES = Kind(
    f"{len(AT)} finite numbers in order, or none",
    lambda v: is_list(v, is_number, len(AT)) and len(v) in (0, len(AT)) and list(v) == sorted(v),
)
TOLD = {
    "rows": COUNT,
    "columns": list_of("columns", TABLE.fits, MOST_COLUMNS),
    "found": list_of("findings", TABLE.fits, MOST_FOUND),
}
COLUMN = {
    "name": NAME,
    "kind": one_of(get_args(ColumnKind)),
    "unit": TEXT,
    "known": COUNT,
    "missing": COUNT,
    "quantiles": QUANTILES,
}
FOUND = {
    "column": TEXT,
    "kind": one_of(HERE),
    "severity": one_of(tuple(SEVERITIES)),
    "rows": COUNT,
}


# at a site


def answer(holding: Holding, asked: Any, state: Path) -> tuple[dict[str, Any], Path]:
    """What a site tells, and the file in which it keeps all of it."""
    if not is_list(asked, lambda v: isinstance(v, str), len(CHECKS)):
        raise Refused(f"checks {shown(asked)} are no list of names: {OTHER_VERSION}")
    names = check_names(asked)
    try:
        rows = sum(map(len, holding.data.pools))
        (mine,) = site_rows(holding.data, np.zeros(rows, dtype=np.int64), [holding.name])
    except BadInput as error:
        raise Refused(str(error)) from None
    home = at_home(mine, shipped(), names, fewest=FEWEST)
    whole = together([home], shipped(), names=names)
    where = write_whole(state / FILE, json.dumps(whole.told(), indent=1, ensure_ascii=False) + "\n")
    where.chmod(0o600)
    return told(home), where


def told(home: Home) -> dict[str, Any]:
    """Counts and quantiles alone."""
    sketch = home.sketch.told()
    found = [{key: getattr(f, key) for key in FOUND} for f in home.findings]
    return {"rows": sketch["rows"], "columns": sketch["columns"], "found": found}


# at the lead


def home_of(said: Any, site: str) -> Home:
    """As `told` makes it, of a stranger: every field is checked."""
    whose = f"what site {shown(site)} says of a check of its data"
    whole = fields(said, TOLD, whose)
    rows, columns = whole["rows"], list[ColumnSketch]()
    for i, entry in enumerate(whole["columns"], 1):
        c = ColumnSketch(**fields(entry, COLUMN, f"{whose}, column {i}"))
        if c.rows != rows or (c.quantiles and c.known < FEWEST):
            raise BadData(f"{whose}, column {shown(c.name)}: {c.known} known values of {rows} rows cannot be")
        columns.append(c)
    names = [plain(c.name) for c in columns]
    if len(set(names)) < len(names):
        raise BadData(f"{whose}: a column is there twice: {OTHER_VERSION}")
    found = [fields(entry, FOUND, f"{whose}, finding {i}") for i, entry in enumerate(whole["found"], 1)]
    for f in found:
        if f["rows"] > rows or (f["column"] and plain(f["column"]) not in names):
            raise BadData(
                f"{whose}: {f['rows']} rows of column {shown(f['column'])} cannot be: {OTHER_VERSION}"
            )
    findings = tuple(counted(site, rows, **f) for f in found)
    return Home(Sketch(site, rows, tuple(columns)), findings)


def counted(site: str, many: int, column: str, kind: str, severity: Any, rows: int) -> Finding:
    """A finding of which only the number of rows is known here."""
    share = rows / max(many, 1)
    about = f"{column}: {CHECKS[kind]}" if column else CHECKS[kind]
    says = f"{about}: {rows} of {many} rows ({percent(share)}), found at the site"
    remedy = f"ask the site, whose {FILE} says which"
    return Finding(site, column, kind, severity, rows, share, f"{rows} rows", "", says, remedy)


def in_common(homes: Sequence[Home]) -> tuple[list[Home], list[str]]:
    """Columns called and measured as at the first site that has them, so that quantiles can be compared; what
    was converted, or cannot be, is said.
    """
    first, made, notes = dict[str, ColumnSketch](), list[Home](), list[str]()
    for home in homes:
        columns = list[ColumnSketch]()
        for c in home.sketch.columns:
            usual = first.setdefault(plain(c.name), c)
            columns.append(replace(c, name=usual.name, unit=usual.unit, quantiles=()))
            by = conversion(usual.name, c.unit, usual.unit) if c.unit and usual.unit else None
            where = f"{home.sketch.site}: {c.name} is in {unit_of(c.unit) or 'no unit'}"
            if unit_of(c.unit) == unit_of(usual.unit):
                columns[-1] = replace(columns[-1], quantiles=c.quantiles)
            elif by is None:
                notes.append(f"{where}, elsewhere in {usual.unit or 'none'}: it is not compared")
            else:
                columns[-1] = replace(columns[-1], quantiles=tuple(rounded(by(q)) for q in c.quantiles))
                notes.append(f"{where}, and was converted to {usual.unit} to compare it")
        spelled = {c.name: d.name for c, d in zip(home.sketch.columns, columns, strict=True)}
        findings = tuple(replace(f, column=spelled.get(f.column, f.column)) for f in home.findings)
        made.append(Home(replace(home.sketch, columns=tuple(columns)), findings))
    return made, notes


def ask_sites(net: Federation, names: Sequence[str]) -> Quality:
    """All sites that are there, or that are named; who refuses is said and left out."""
    lines = lines_of_kit(str(net.folder()), log.warning)
    return asked(lines, net, names)


def asked(lines: Lines, net: Federation, names: Sequence[str]) -> Quality:
    there = gathered(lines, net.sites, net.least, net.wait, log.warning)
    answers, failed = lines.ask(
        {site: {"do": "check", "checks": list(names)} for site in sorted(there)}, net.deadline, net.patience
    )
    refused: dict[str, CoterieError] = dict(failed)
    homes = list[Home]()
    for site, said in answers.items():
        try:
            homes.append(home_of(said, site))
        except BadData as error:
            refused[site] = error
    lost = [f"site {site}: {'; '.join(lines_of(error))}" for site, error in refused.items()]
    if not homes:
        raise Several([*lost, "no site tells what a check of its data finds: nothing to show"])
    alike, notes = in_common(homes)
    left = [name for name in WITH_ROWS if name in names]
    if left:
        notes.append(f"all: between sites {' and '.join(left)} cannot be looked for, as rows stay at theirs")
    few = [
        f"{home.sketch.site}: {c.name} has {c.known} known values, too few to tell quantiles (below {FEWEST})"
        for home in alike
        for c in home.sketch.columns
        if c.kind == "number" and 0 < c.known < FEWEST
    ]
    found = together(alike, shipped(), names=names)
    return replace(found, notes=(*lost, *found.notes, *notes, *few))
