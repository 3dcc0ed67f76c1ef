"""Data quality for people: a part of a run's report, and a page of its own.

The report counts and says; which rows it is about, and which labels to review, are only on the page of the
check, which is for the sites' own eyes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie.core.errors import BadRun, CoterieError
from coterie.data.quality.check import SEVERITIES, percent
from coterie.data.tables.texts import some
from coterie.show import html, numbers
from coterie.show.blocks import Block, Group, More, Note, Points, Section, Sentence
from coterie.show.blocks import Table as Grid
from coterie.show.parts import Part, Runs
from coterie.show.words import Figure, Saying, from_json, said, semicolons
from coterie.storage.atomic import write_whole

FILE, PAGE = "quality.json", "quality.html"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
FEW = 12  # findings that are shown before the rest is folded away
LINES = 20  # rows that a line of a table names
Table = Mapping[str, Any]
KEYS = {"findings": list, "sites": list, "suspects": list, "worth": list, "notes": list, "about": dict}


def quality_part(runs: Runs) -> list[Block]:
    try:
        table = None if runs.folder is None else read_quality(runs.folder)
    except CoterieError:
        if not runs.served:
            raise
        return []  # on a page, what cannot be read is not there
    return [] if table is None else report_blocks(table)


PARTS = (Part("quality", "quality.title", 200, quality_part, of=FILE),)


def read_quality(folder: Path) -> Table | None:
    """What a check of a run's data found; None if there was none."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        table: Table = json.loads(path.read_bytes())
        if not all(isinstance(table[key], kind) for key, kind in KEYS.items()):
            raise ValueError("a part of it is missing")
        report_blocks(table)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise BadRun(f"{path} is damaged ({error}): delete it, or check the data again") from None
    return table


def write_quality(folder: Path, table: Table) -> None:
    """The record, and its page, for their owner alone: they name rows."""
    write_whole(folder / PAGE, render_quality(table)).chmod(0o600)
    write_whole(folder / FILE, json.dumps(table, indent=1, ensure_ascii=False) + "\n").chmod(0o600)


def headline(table: Table) -> Saying:
    """How many findings of which kind, in one line."""
    counts = Counter(f["severity"] for f in table["findings"])
    each = [(counts[name], said(f"severity.{name}")) for name in SEVERITIES if counts[name]]
    found = semicolons(said("quality.count", n=n, severity=severity) for n, severity in each)
    return said(
        "quality.headline",
        sites=numbers.several(len(table["sites"]), "site"),
        rows=numbers.several(sum(site["rows"] for site in table["sites"]), "row"),
        found=found or said("quality.nothing"),
    )


def report_blocks(table: Table) -> list[Block]:
    """For a report, without rows."""
    return [
        Sentence(said("report.line", said=headline(table)), kind="said"),
        Sentence(said("quality.advice")),
        *_findings_table(table["findings"]),
        Sentence(said("quality.where", page=PAGE)),
        *_worth_table(table["worth"]),
        *_missing_table(table),
        *_notes_list(table["notes"]),
    ]


def render_quality(table: Table) -> str:
    """The check's own page, with rows and labels."""
    about = table["about"]
    wanted = ("data", "split", "seed", "commit", "command")
    told = [f"{key} {about[key]}" for key in wanted if about.get(key) is not None]
    came = [Sentence(headline(table), kind="headline"), Sentence(" · ".join(told), kind="what")]
    head: list[Block] = [Group(came, "outcome")]
    if any(f["lines"] for f in table["findings"]):
        head.append(Note(said("quality.own_eyes")))
    parts = {
        "findings": _findings_table(table["findings"], lines=True),
        "suspects": _suspects_table(table["suspects"]),
        "worth": _worth_table(table["worth"]),
        "missing": _missing_table(table),
        "notes": _notes_list(table["notes"]),
    }
    main = [Section(said(f"quality.part.{name}"), part, name) for name, part in parts.items() if part]
    head.append(Sentence(said("quality.advice")))
    return html.document(said("quality.title"), head, main, policy=POLICY)


def columns(*names: str) -> list[str]:
    return [said(f"quality.column.{name}") for name in names]


def finding_texts(finding: Table) -> tuple[str, str]:
    """What was found, and what to do, in any language if the file has it so."""
    again = finding.get("said") or (None, None)
    return from_json(again[0], finding["says"]), from_json(again[1], finding["remedy"])


def _findings_table(findings: Sequence[Table], lines: bool = False) -> list[Block]:
    """Worst first; all but the first are folded away."""
    if not findings:
        return [Sentence(said("quality.none"))]
    header, rows = columns("site", "column", "found", "sure", "do", *(["rows"] if lines else [])), []
    for f in findings:
        says, remedy = finding_texts(f)
        rows.append([f["site"], f["column"], says, said(f"severity.{f['severity']}"), remedy])
        if lines:
            rows[-1].append(some(list(map(str, f["lines"])), LINES) or numbers.NONE)
    first, rest = (Grid(header, part, kind="wraps") for part in (rows[:FEW], rows[FEW:]))
    return [first, More(said("quality.more", n=len(rest.rows)), [rest])] if rest.rows else [first]


def _suspects_table(suspects: Sequence[Table]) -> list[Block]:
    rows = [
        [s["site"], str(s["line"]), s["given"], s["likely"], Figure(f"{s['chance']:.2f}")] for s in suspects
    ]
    table = Grid(columns("site", "row", "given", "likely", "chance"), rows, kind="figures given")
    labels = More(said("quality.labels", n=len(rows)), [table], open=True)
    return [Sentence(said("quality.review")), labels] if rows else []


def _change(told: Table) -> Saying:
    ends = {key: Figure(f"{told[key]:+.3f}".replace("-", "−")) for key in ("mean", "low", "high")}
    return said("quality.change", **ends)


def worth_cells(worth: Table) -> list[str]:
    """By how much the loss falls, the score rises, and the loss rises when the column is shuffled."""
    score = said("quality.score", change=_change(worth["score"]), measure=worth["measure"])
    return [_change(worth["loss"]), score, _change(worth["permuted"])]


def _worth_table(worths: Sequence[Table]) -> list[Block]:
    rows = []
    for w in worths:
        helps = said("quality.helps" if w["helps"] else "quality.not_told")
        rows.append([w["column"], w["partner"], numbers.whole(w["rows"]), helps, *worth_cells(w)])
    header = [*columns("column", "partner", "its_rows"), "", *columns("loss", "score", "permuted")]
    return [Grid(header, rows, kind="figures given"), Sentence(said("quality.gain"))] if rows else []


def _missing_table(table: Table) -> list[Block]:
    """Shares of missing values by column and site, of columns of which any are."""
    sites = table["sites"]
    shares = dict[str, dict[str, float]]()
    for site in sites:
        for c in site["columns"]:
            shares.setdefault(c["name"], {})[site["site"]] = c["missing"] / max(c["known"] + c["missing"], 1)
    names = [site["site"] for site in sites]
    rows = [
        [name, *(Figure(percent(by[n])) if n in by else numbers.NONE for n in names)]
        for name, by in shares.items()
        if any(by.values())
    ]
    inner = Grid([*columns("missing"), *names], rows)
    return [More(said("quality.missing_by_site"), [inner])] if rows else []


def _notes_list(notes: Sequence[str]) -> list[Block]:
    return [More(said("quality.notes"), [Points([str(note) for note in notes])])] if notes else []
