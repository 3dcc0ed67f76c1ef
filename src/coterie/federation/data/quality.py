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
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.core.checks import Kind
from coterie.core.errors import BadData, BadInput, CoterieError, Refused, Several, lines_of, shown
from coterie.data.kinds import KINDS, of_models
from coterie.data.quality.check import SEVERITIES, Finding
from coterie.data.quality.checks import CHECKS, Home, Quality, at_home, check_names, together
from coterie.data.quality.ranges import shipped
from coterie.data.quality.site_rows import AT, STEPS, ColumnSketch, Sketch, rounded, site_rows
from coterie.data.tables.names import conversion, unit_of
from coterie.data.tables.texts import plain
from coterie.federation.data.messages import (
    COUNT,
    MOST_COLUMNS,
    NAME,
    TABLE,
    TEXT,
    fields,
    is_list,
    is_number,
    list_of,
    one_of,
)
from coterie.federation.data.site_data import FEWEST as FEWEST_VALUES
from coterie.federation.data.site_data import SiteData
from coterie.federation.lead.sites import gathered, lines_of_kit
from coterie.federation.messages import AGAIN
from coterie.show.words import Saying, Share, said
from coterie.storage.atomic import write_whole

if TYPE_CHECKING:
    from coterie.federation.lead.connector import Federation
    from coterie.federation.lead.sites import Lines

log = logging.getLogger("coterie")

FILE = "quality.json"
FEWEST = FEWEST_VALUES * STEPS  # known values, so that some lie between any two quantiles
_MOST_FOUND = 100_000
_HERE = tuple(name for name, check in CHECKS.items() if check.at_home is not None)
_TOLD = {
    "rows": COUNT,
    "columns": list_of("columns", TABLE.fits, MOST_COLUMNS),
    "found": list_of("findings", TABLE.fits, _MOST_FOUND),
}
COLUMN = {
    "name": NAME,
    "kind": one_of(of_models()),
    "unit": TEXT,
    "known": COUNT,
    "missing": COUNT,
    "quantiles": Kind(
        f"{len(AT)} finite numbers in order, or none",
        lambda v: is_list(v, is_number, len(AT)) and len(v) in (0, len(AT)) and list(v) == sorted(v),
    ),
}
FOUND = {"column": TEXT, "kind": one_of(_HERE), "severity": one_of(tuple(SEVERITIES)), "rows": COUNT}


# at a site


def check_at_site(holding: SiteData, asked: Any, state: Path) -> tuple[dict[str, Any], Path]:
    """What a site tells, and the file in which it keeps all of it."""
    if not is_list(asked, lambda v: isinstance(v, str), len(CHECKS)):
        raise Refused(f"checks {shown(asked)} are no list of names: {AGAIN}")
    names = check_names(asked)
    try:
        rows = sum(map(len, holding.data.pools))
        (mine,) = site_rows(holding.data, np.zeros(rows, dtype=np.int64), [holding.name])
    except BadInput as error:
        raise Refused(str(error)) from None
    home = at_home(mine, shipped(), names, fewest=FEWEST)
    whole = together([home], shipped(), names=names)
    where = write_whole(state / FILE, json.dumps(whole.to_dict(), indent=1, ensure_ascii=False) + "\n")
    where.chmod(0o600)
    sketch = home.sketch.to_dict()  # counts and quantiles alone
    found = [{key: getattr(f, key) for key in FOUND} for f in home.findings]
    return {"rows": sketch["rows"], "columns": sketch["columns"], "found": found}, where


# at the lead


def home_of(message: Any, site: str) -> Home:
    """As `check_at_site` tells it, of a stranger: every field is checked."""
    whose = f"what site {shown(site)} says of a check of its data"
    whole = fields(message, _TOLD, whose)
    rows, columns = whole["rows"], list[ColumnSketch]()
    for i, entry in enumerate(whole["columns"], 1):
        c = ColumnSketch(**fields(entry, COLUMN, f"{whose}, column {i}"))
        if c.rows != rows or (c.quantiles and c.known < FEWEST):
            raise BadData(f"{whose}, column {shown(c.name)}: {c.known} known values of {rows} rows cannot be")
        columns.append(c)
    names = [plain(c.name) for c in columns]
    if len(set(names)) < len(names):
        raise BadData(f"{whose}: a column is there twice: {AGAIN}")
    found = [fields(entry, FOUND, f"{whose}, finding {i}") for i, entry in enumerate(whole["found"], 1)]
    for f in found:
        if f["rows"] > rows or (f["column"] and plain(f["column"]) not in names):
            line = f"{whose}: {f['rows']} rows of column {shown(f['column'])} cannot be"
            raise BadData(f"{line}: {AGAIN}")
    findings = tuple(_counted_finding(site, rows, **f) for f in found)
    return Home(Sketch(site, rows, tuple(columns)), findings)


def _counted_finding(site: str, many: int, column: str, kind: str, severity: Any, rows: int) -> Finding:
    """A finding of which only the number of rows is known here."""
    share = rows / max(many, 1)
    about = CHECKS[kind].about
    about = said("check.counted_column", column=column, about=about) if column else about
    says = said("check.counted", about=about, many=rows, rows=many, share=Share(share))
    remedy = said("check.counted_remedy", file=FILE)
    return Finding(site, column, kind, severity, rows, share, f"{rows} rows", "", says, remedy)


def in_common(homes: Sequence[Home]) -> tuple[list[Home], list[Saying]]:
    """Columns called and measured as at the first site that has them, so that quantiles can be compared; what
    was converted, or cannot be, is said.
    """
    first, made, notes = dict[str, ColumnSketch](), list[Home](), list[Saying]()
    for home in homes:
        columns = list[ColumnSketch]()
        for c in home.sketch.columns:
            usual = first.setdefault(plain(c.name), c)
            columns.append(replace(c, name=usual.name, unit=usual.unit, quantiles=()))
            by = conversion(usual.name, c.unit, usual.unit) if c.unit and usual.unit else None
            units: dict[str, Any] = {"column": c.name, "unit": unit_of(c.unit) or said("check.no_unit")}
            if unit_of(c.unit) == unit_of(usual.unit):
                columns[-1] = replace(columns[-1], quantiles=c.quantiles)
            elif by is None:
                text = said("check.other_unit", **units, usual=usual.unit or said("check.none"))
                notes.append(said("check.note", where=home.sketch.site, text=text))
            else:
                columns[-1] = replace(columns[-1], quantiles=tuple(rounded(by(q)) for q in c.quantiles))
                text = said("check.converted", **units, usual=usual.unit)
                notes.append(said("check.note", where=home.sketch.site, text=text))
        spelled = {c.name: d.name for c, d in zip(home.sketch.columns, columns, strict=True)}
        findings = tuple(replace(f, column=spelled.get(f.column, f.column)) for f in home.findings)
        made.append(Home(replace(home.sketch, columns=tuple(columns)), findings))
    return made, notes


def ask_sites(net: Federation, names: Sequence[str], lines: Lines | None = None) -> Quality:
    """All sites that are there, or that are named; who refuses is said and left out."""
    lines = lines or lines_of_kit(str(net.folder()), log.warning)
    there = gathered(lines, net.sites, net.least, net.wait, log.warning)
    orders = {site: {"do": "check", "checks": list(names)} for site in sorted(there)}
    answers, failed = lines.ask(orders, net.deadline, net.patience)
    refused, homes = dict[str, CoterieError](failed), list[Home]()
    for site, answer in answers.items():
        try:
            homes.append(home_of(answer, site))
        except BadData as error:
            refused[site] = error
    lost = [f"site {site}: {'; '.join(lines_of(error))}" for site, error in refused.items()]
    if not homes:
        raise Several([*lost, "no site tells what a check of its data finds: nothing to show"])
    alike, notes = in_common(homes)
    left = [name for name, check in CHECKS.items() if name in names and check.with_rows is not None]
    if left:
        notes.append(said("check.left", checks=reduce(lambda a, b: said("list.and", names=a, last=b), left)))
    for home in alike:
        for c in home.sketch.columns:
            if KINDS[c.kind].scaled and 0 < c.known < FEWEST:
                text = said("check.few_known", column=c.name, known=c.known, fewest=FEWEST)
                notes.append(said("check.note", where=home.sketch.site, text=text))
    found = together(alike, shipped(), names=names)
    return replace(found, notes=(*lost, *found.notes, *notes))
