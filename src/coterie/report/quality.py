"""Data quality for people: a part of a run's report, and a page of its own.

The report counts and says; which rows it is about, and which labels to review, are only on the page of the
check, which is for the sites' own eyes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from coterie.core.errors import BadRun
from coterie.data.quality.finding import SEVERITIES, percent
from coterie.data.tables.texts import some
from coterie.report import words
from coterie.report.page_tables import table as grid
from coterie.storage.atomic import write_whole

TITLE = "Data quality"
FILE, PAGE = "quality.json", "quality.html"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
FEW = 12  # findings that are shown before the rest is folded away
LINES = 20  # rows that a line of a table names
ADVICE = "Advice, and no verdict: nothing was changed, and populations that truly differ look different too."
REVIEW = (
    "A model that has not seen these rows finds another label more likely. Most of them are hard cases and "
    "not mistakes: look them up where they come from, and correct none by the model's word."
)
GAIN = (
    "How much lower the loss, and how much higher the score, is at partners with the column than without, "
    "beside columns that the requester records too; and how much the loss rises there when its values are "
    "shuffled. In brackets 95 % intervals. It is the partners' gain, and may be another here."
)
Table = Mapping[str, Any]
KEYS = {"findings": list, "sites": list, "suspects": list, "worth": list, "notes": list, "about": dict}


def read_quality(folder: Path) -> Table | None:
    """What a check of a run's data found; None if there was none."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        table: Table = json.loads(path.read_bytes())
        if not all(isinstance(table[key], kind) for key, kind in KEYS.items()):
            raise ValueError("a part of it is missing")
        report_part(table)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise BadRun(f"{path} is damaged ({error}): delete it, or check the data again") from None
    return table


def write_quality(folder: Path, table: Table) -> None:
    """The record, and its page, for their owner alone: they name rows."""
    write_whole(folder / PAGE, render_quality(table)).chmod(0o600)
    write_whole(folder / FILE, json.dumps(table, indent=1, ensure_ascii=False) + "\n").chmod(0o600)


def headline(table: Table) -> str:
    """How many findings of which kind, in one line."""
    counts = Counter(f["severity"] for f in table["findings"])
    rows = sum(site["rows"] for site in table["sites"])
    where = f"{words.several(len(table['sites']), 'site')}, {words.several(rows, 'row')}"
    listed = [f"{counts[name]} {about}" for name, about in SEVERITIES.items() if counts[name]]
    return f"{where}: {'; '.join(listed) or 'nothing to look at'}"


def quality_part(table: Table | None) -> str:
    """For a run's report, without rows."""
    return "" if table is None else report_part(table)


def report_part(table: Table) -> str:
    said = f"<p class='said'>{escape(headline(table))}.</p><p>{escape(ADVICE)}</p>"
    where = f"<p>Which rows, and which labels to review, is in {PAGE}, beside this page.</p>"
    parts = (
        said,
        findings_table(table["findings"]),
        where,
        worth_table(table["worth"]),
        missing_table(table),
    )
    return "".join((*parts, notes_list(table["notes"])))


def render_quality(table: Table) -> str:
    """The check's own page, with rows and labels."""
    style = files("coterie.report").joinpath("style.css").read_text(encoding="utf-8")
    about = table["about"]
    told = [
        f"{k} {about[k]}" for k in ("data", "split", "seed", "commit", "command") if about.get(k) is not None
    ]
    warning = (
        '<p class="warning">This page names rows of sites. It is for their own eyes: do not pass it on.</p>'
        if any(f["lines"] for f in table["findings"])
        else ""
    )
    sections = {
        "What to look at": findings_table(table["findings"], lines=True),
        "Labels to review": suspects_table(table["suspects"]),
        "What a column would bring": worth_table(table["worth"]),
        "What is missing": missing_table(table),
        "What was not looked at": notes_list(table["notes"]),
    }
    body = "".join(
        f"<section><h2>{escape(name)}</h2>{part}</section>" for name, part in sections.items() if part
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{TITLE}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<header><h1>{TITLE}</h1><div class="outcome"><p class="headline">{escape(headline(table))}</p>
<p class="what">{escape(" · ".join(told))}</p></div>{warning}<p>{escape(ADVICE)}</p></header>
<main>{body}</main>
</body>
</html>
"""


def findings_table(findings: Sequence[Table], lines: bool = False) -> str:
    """Worst first; all but the first are folded away."""
    if not findings:
        return "<p>Nothing was found.</p>"
    header = ["site", "column", "what was found", "how sure", "what to do", *(["rows"] if lines else [])]

    def row(f: Table) -> list[str]:
        cells = [f["site"], f["column"], f["says"], SEVERITIES[f["severity"]], f["remedy"]]
        more = [some(list(map(str, f["lines"])), LINES) if f["lines"] else words.NONE] if lines else []
        return [escape(str(cell)) for cell in (*cells, *more)]

    first = grid(header, map(row, findings[:FEW]), "wraps")
    rest = findings[FEW:]
    if not rest:
        return first
    folded = grid(header, map(row, rest), "wraps")
    return f"{first}<details><summary>{len(rest)} more</summary>{folded}</details>"


def suspects_table(suspects: Sequence[Table]) -> str:
    if not suspects:
        return ""
    rows = (
        [escape(s["site"]), str(s["line"]), escape(s["given"]), escape(s["likely"]), f"{s['chance']:.2f}"]
        for s in suspects
    )
    header = ["site", "row", "label given", "label more likely", "its chance"]
    return f"<p>{escape(REVIEW)}</p><details open><summary>{len(suspects)} labels</summary>" + (
        f"{grid(header, rows, 'figures given')}</details>"
    )


def change(told: Table, digits: int = 3) -> str:
    """A change with its interval."""
    low, high = (f"{told[key]:+.{digits}f}" for key in ("low", "high"))
    return f"{told['mean']:+.{digits}f} ({low} to {high})".replace("-", "−")


def worth_table(worths: Sequence[Table]) -> str:
    if not worths:
        return ""
    rows = (
        [
            escape(w["column"]),
            escape(w["partner"]),
            words.whole(w["rows"]),
            "helps there" if w["helps"] else "not told from none",
            change(w["loss"]),
            f"{change(w['score'])} {escape(w['measure'])}",
            change(w["permuted"]),
        ]
        for w in worths
    )
    header = [
        "column",
        "partner",
        "its rows",
        "",
        "loss falls by",
        "score rises by",
        "shuffled, loss rises by",
    ]
    return f"{grid(header, rows, 'figures given')}<p>{escape(GAIN)}</p>"


def missing_table(table: Table) -> str:
    """Shares of missing values by column and site, of columns of which any are."""
    sites = table["sites"]
    shares = dict[str, dict[str, float]]()
    for site in sites:
        for c in site["columns"]:
            shares.setdefault(c["name"], {})[site["site"]] = c["missing"] / max(c["known"] + c["missing"], 1)
    gaps = {name: by for name, by in shares.items() if any(by.values())}
    if not gaps:
        return ""
    names = [site["site"] for site in sites]
    rows = (
        [escape(name), *(percent(by[n]) if n in by else words.NONE for n in names)]
        for name, by in gaps.items()
    )
    inner = grid(["missing values", *names], rows, "figures")
    return f"<details><summary>Missing values by site</summary>{inner}</details>"


def notes_list(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    items = "".join(f"<li>{escape(str(note))}</li>" for note in notes)
    return f"<details><summary>What was not looked at, and why</summary><ul>{items}</ul></details>"
