"""One HTML file that shows runs and opens anywhere, offline: styles, scripts and data are all inside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from coterie.core.errors import BadInput
from coterie.report import (
    contributions,
    costs,
    energy,
    followed,
    glossary,
    leaks,
    little,
    page_figures,
    page_tables,
    privacy,
    sealed,
    similarity,
    sweeps,
    tables,
    views,
    words,
)
from coterie.report.audit import TITLE as AUDITED
from coterie.report.audit import audit_part
from coterie.report.inks import Ink, inks
from coterie.report.learnable import first_sentence
from coterie.report.nothing import worse_lines
from coterie.report.quality import TITLE as QUALITY
from coterie.report.quality import quality_part
from coterie.runs.record import Record
from coterie.storage.atomic import write_whole

PLOTLY = "plotly-cartesian.min.js"  # of the npm package plotly.js-cartesian-dist-min 4.1.1, as published
# the browser is told to load nothing from elsewhere, whatever a name or a library might ask for
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


@dataclass(frozen=True)
class Section:
    """Runs on the same clients under one heading: a single run, or methods by seeds.

    `spent` tells the seconds by part of the command that made them, when the page has come to its cost;
    `audit` what attacks on the run found, if it was audited; `quality` what a check of its data found.
    `failed` has a line for each run of the section that has no result.
    """

    title: str
    records: Sequence[Record]
    spent: Callable[[], Mapping[str, float] | None] = lambda: None
    audit: Callable[[], Mapping[str, Any] | None] = lambda: None
    quality: Callable[[], Mapping[str, Any] | None] = lambda: None
    failed: Sequence[str] = ()


def write_report(path: str | Path, sections: Sequence[Section], title: str = "Coterie report") -> Path:
    """Writes the page; returns its path."""
    return write_whole(Path(path), render_page(sections, title))


def render_page(sections: Sequence[Section], title: str = "Coterie report") -> str:
    """The page as text."""
    if not sections:
        raise BadInput("nothing to report: give at least one section")
    outcomes, body = parts(sections)
    return document(title, outcomes, body, str(sections[0].records[0].about.get("coterie", "")))


def parts(sections: Sequence[Section]) -> tuple[str, str]:
    """What came of each section, and its parts, as HTML; a page that is served shows the same."""
    by_section = [views.groups(s.records) for s in sections]
    alone = next((b for b in map(views.baseline, by_section) if b is not None), None)
    colours = inks([label for by_label in by_section for label in by_label], alone)
    several = len(sections) > 1
    outcomes = "".join(_outcome(s, i, several) for i, s in enumerate(sections))
    body = "".join(
        _section(s, by_label, colours, i, several)
        for i, (s, by_label) in enumerate(zip(sections, by_section, strict=True))
    )
    return outcomes, body


def document(title: str, header: str, main: str, version: str) -> str:
    """A page from the HTML of its head and its parts, with styles and scripts inside."""
    words = glossary_part(header + main)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{resource("style.css")}</style>
</head>
<body>
<header><h1>{escape(title)}</h1>{header}</header>
<noscript><p class="warning">The figures need JavaScript; the tables do without.</p></noscript>
<main>{main}{words}</main>
<footer>Made by Coterie {escape(version)}</footer>
<script>{resource(PLOTLY)}</script>
<script>{resource("page.js")}</script>
</body>
</html>
"""


def glossary_part(body: str) -> str:
    """The words that are linked from this HTML."""
    terms = glossary.part(body)
    return f'<section id="glossary"><h2>Words</h2>{terms}</section>' if terms else ""


def _outcome(section: Section, i: int, several: bool) -> str:
    name = f'<a href="#s{i}">{escape(section.title)}</a>' if several else escape(section.title)
    kind = f"<h2>{name}</h2>" if section.title else ""
    warnings = [*section.failed, *worse_lines(views.groups(section.records))]
    failed = "".join(f'<p class="warning">{escape(line)}.</p>' for line in warnings)
    leaning = f'<p class="warning">{escape(said)}</p>' if (said := leaks.line(section.records)) else ""
    return (
        f'<div class="outcome">{kind}<p class="headline">{escape(first_sentence(section.records))}</p>'
        f'<p class="headline">{escape(words.headline(section.records))}</p>'
        f'<p class="what">{page_tables.what(section.records)}</p>{failed}{leaning}</div>'
    )


def _section(
    section: Section, by_label: views.Groups, colours: Mapping[str, Ink], i: int, several: bool
) -> str:
    records = section.records
    first = next(iter(by_label.values()))[0]
    warnings = "".join(f'<p class="warning">Unfinished: {escape(t)}.</p>' for t in tables.unfinished(records))
    warnings += page_tables.part(records)
    warnings += "".join(f"<p>{escape(text)}.</p>" for text in costs.ended(records))
    summary = f'<div class="box" tabindex="0">{tables.summary_html(records, colours)}</div>'
    summary += f"<p>{glossary.linked(tables.legend(records, trust=False))}</p>"
    summary += f"<p>{escape(said)}</p>" if (said := little.line(records)) else ""

    def at(name: str) -> str:
        return f"s{i}-{name}-plot"

    settings = page_figures.more("Settings", page_tables.settings(by_label))
    shown = [
        ("summary", "Summary", warnings + summary),
        ("rounds", "Round by round", page_figures.rounds_part(by_label, colours, at("rounds"))),
        ("costs", costs.TITLE, costs.part(by_label, colours, at("costs"))),
        ("sweep", "Against the value of an option", sweeps.part(by_label, colours, at("sweep"))),
        ("clients", "Client by client", page_figures.clients_part(by_label, colours, at("clients"))),
        ("followed", "What each was advised to follow", followed.part(by_label)),
        ("calibration", "Calibration", page_figures.calibration_part(by_label, colours, at("calibration"))),
        ("similarity", similarity.TITLE, similarity.part(by_label, colours, at("similarity"))),
        ("matrix", "Who listens to whom", page_figures.matrix_part(by_label, at("matrix"))),
        ("collected", "Who collected from whom", page_figures.collected_part(by_label, at("collected"))),
        ("layers", "Layer by layer", page_figures.layers_part(by_label, at("layers"))),
        (
            "measures",
            "Neighbours, and distance to the average model",
            page_figures.measures_part(by_label, colours, at("measures")),
        ),
        ("traces", "One client, round by round", page_figures.traces_part(by_label, colours, at("traces"))),
        (
            "features",
            "How much each feature counts",
            page_figures.features_part(by_label, colours, at("features")),
        ),
        ("contributions", "Who gave what", contributions.part(by_label, colours, at("contributions"))),
        ("sealed", "Sealed", sealed.part(by_label, colours)),
        ("privacy", "Privacy budget", privacy.part(by_label, colours, at("privacy"))),
        ("audit", AUDITED, audit_part(section.audit())),
        ("data", "Who has which data", page_figures.data_part(first, records, f"s{i}")),
        ("quality", QUALITY, quality_part(section.quality())),
        ("cost", "Cost", _cost(section, by_label, colours)),
        ("notes", "What happened to the data", page_tables.notes(records)),
        ("repeat", "How to repeat it", page_tables.repeat(records) + settings),
    ]
    shown = [part for part in shown if part[2]]
    links = " ".join(f'<a href="#s{i}-{key}">{escape(name)}</a>' for key, name, _ in shown)
    level = "h3" if several else "h2"
    inner = "".join(
        f'<section id="s{i}-{key}"><{level}>{escape(name)}</{level}>{content}</section>'
        for key, name, content in shown
    )
    heading = f"<h2>{escape(section.title)}</h2>" if several else ""
    return f'<article id="s{i}">{heading}<nav aria-label="Parts">{links}</nav>{inner}</article>'


def _cost(section: Section, by_label: views.Groups, colours: Mapping[str, Ink]) -> str:
    """What passed and how long it took, the energy of that, and where the command's time went."""
    made = page_figures.cost_part(by_label, colours) + energy.part(by_label, colours)
    return made + page_tables.spent(section.spent())


def resource(name: str) -> str:
    """A file of this package."""
    return files("coterie.report").joinpath(name).read_text(encoding="utf-8")
