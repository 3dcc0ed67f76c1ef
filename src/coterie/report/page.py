"""One HTML file that shows runs and opens anywhere, offline: styles, scripts and data are all inside.

It is made of parts (`show/parts.py`): the ones below, and those that features bring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from coterie.core.errors import BadInput
from coterie.report import clients, outcome, summary
from coterie.report.about import cost_part, notes_part, repeat_part, time_part, what
from coterie.report.clients import clients_part, holdings_part
from coterie.report.close_ups import features_part, traces_part
from coterie.report.curves import measures_part, rounds_part, sweep_part
from coterie.report.learnable import first_sentence, worse_lines
from coterie.report.matrices import collected_part, layers_part, matrix_part
from coterie.show import html, parts, views
from coterie.show.blocks import Block, Group, Note, Section, Sentence
from coterie.show.inks import inks
from coterie.show.parts import Part, Runs
from coterie.show.words import said
from coterie.storage.atomic import write_whole


def _summary_part(runs: Runs) -> list[Block]:
    records = runs.records
    made: list[Block] = [Note(said("report.unfinished", text=text)) for text in summary.unfinished(records)]
    if "lead" in (about := records[0].about):  # a site's part of a run
        made.append(Sentence(said("what.part", me=str(about.get("site")), lead=str(about["lead"]))))
    made += parts.blocks("summary", runs)
    made.append(runs.table(*summary.cells(records, without=("brier", "ece"))))
    made.append(Sentence(summary.legend(records, trust=False)))
    return made + ([Sentence(line)] if (line := clients.small_samples_line(records)) else [])


OWN = (
    Part("summary", "summary.title", 10, _summary_part),
    Part("rounds", "rounds.title", 20, rounds_part),
    Part("sweep", "sweep.title", 40, sweep_part),
    Part("clients", "clients.title", 50, clients_part),
    Part("matrix", "matrix.title", 90, matrix_part),
    Part("collected", "collected.title", 100, collected_part),
    Part("layers", "layers.title", 110, layers_part),
    Part("measures", "measures.title", 120, measures_part),
    Part("traces", "traces.title", 130, traces_part),
    Part("features", "features.title", 140, features_part),
    Part("data", "holdings.title", 190, holdings_part),
    Part("cost", "cost.title", 210, cost_part),
    Part("time", "cost.time", 219, time_part, within="cost"),
    Part("notes", "notes.title", 220, notes_part),
    Part("repeat", "repeat.title", 230, repeat_part),
)


def write_report(path: str | Path, sections: Sequence[Runs], title: str = "") -> Path:
    """Writes the page; returns its path."""
    return write_whole(Path(path), render_page(sections, title))


def render_page(sections: Sequence[Runs], title: str = "") -> str:
    """The page as text, in the language that is spoken."""
    if not sections:
        raise BadInput("nothing to report: give at least one section")
    head, main = report_blocks(sections)
    version = str(sections[0].records[0].about.get("coterie", ""))
    return html.document(title or said("report.title"), head, main, version)


def report_blocks(sections: Sequence[Runs]) -> tuple[list[Block], list[Block]]:
    """What came of each section, and its parts; a page that is served shows the same."""
    alone = next((b for s in sections if (b := views.baseline(s.by_label)) is not None), None)
    colours = inks([label for s in sections for label in s.by_label], alone)
    several = len(sections) > 1
    wanted = parts.brought("report", OWN)
    head, main = list[Block](), list[Block]()
    for runs in (replace(s, colours=colours, key=f"s{i}") for i, s in enumerate(sections)):
        records, came = runs.records, list[Block]()
        if runs.title:
            came.append(Section(runs.title, (), runs.key if several else "", "outcome"))
        came += [Sentence(first(records), kind="headline") for first in (first_sentence, outcome.headline)]
        came.append(Sentence(what(records), kind="what"))
        warnings = [*runs.failed, *worse_lines(runs.by_label)]
        came += [Note(said("report.line", said=line)) for line in warnings]
        came += [Note(line)] if (line := clients.leaks_line(records)) else []
        head.append(Group(came, "outcome"))
        inner = parts.sections(wanted, runs)
        main.append(Section(runs.title if several else "", inner, runs.key, "article"))
    return head, main
