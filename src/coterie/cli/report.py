"""coterie report"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from coterie import features
from coterie.cli import screen
from coterie.cli.command import Flags, command_with, flag, word
from coterie.cli.run import title
from coterie.core.errors import BadRun
from coterie.report.page import write_report
from coterie.report.paper_figures import write_figures
from coterie.report.tables import latex_table, write_csv
from coterie.runs.compare import diverged_in, is_comparison, read_records
from coterie.runs.folder import is_run, read_cost, way_on
from coterie.show.parts import Runs as Section
from coterie.show.words import speaking
from coterie.storage.atomic import write_whole
from coterie.storage.paths import given_file, given_path

COMMANDS = {"report": ("after", 30, "write the page, CSV or figures of a run or a comparison again")}
HELP = """Writes the page of a run, comparison or advice, finished or not; tables as CSV; figures for a paper.

examples:
  coterie report runs/compare-titanic-age-strict
  coterie report runs/compare-titanic-age-strict --csv --figures svg
  coterie report runs/compare-titanic-age-strict --latex table.tex
"""


@dataclass(frozen=True)
class _Report:
    path: str = word("The folder of a run, a comparison, or several of them.")
    csv: bool = flag(False, "Also write history, summary, clients, collaboration, costs and matrices as CSV.")
    latex: str = flag("", "Also write the summary as a LaTeX table (booktabs) to this file.")
    figures: Literal["none", "png", "svg"] = flag("none", "Also write the figures, for a paper.")
    language: Literal["en", "fr", "de"] = flag("en", "The language of all of them.")


@command_with(Flags(_Report, "report", HELP))
def report(asked: _Report) -> int:
    path, latex = given_path(asked.path), given_file(asked.latex, "--latex") if asked.latex else None
    with speaking(asked.language):
        for other in features.brought("resume"):
            if other.report is not None and (path / other.FILE).exists():
                return int(other.report(path, latex))
        return _write_all(path, latex, asked)


def _write_all(path: Path, latex: Path | None, asked: _Report) -> int:
    sections = read_sections(path)
    screen.say_sections(sections, write_report(path / "report.html", sections))
    for place, section in zip(places(path), sections, strict=True):
        if asked.csv:
            for file in write_csv(place, section.records):
                print(f"table: {file}")
        if asked.figures != "none":
            for file in write_figures(place / "figures", section.records, asked.figures):
                print(f"figure: {file}")
    if latex is not None:
        text = "\n".join(latex_table(section.records, section.title) for section in sections)
        print(f"table: {write_whole(latex, text)}")
    return 0


def places(path: Path) -> list[Path]:
    """The folder itself, or the runs and comparisons right below it."""
    if is_comparison(path) or is_run(path):
        return [path]
    below = sorted(p for p in path.glob("*") if is_comparison(p) or is_run(p)) if path.is_dir() else []
    if not below:
        raise BadRun(f"{path} holds no run and no comparison: check the path")
    return below


def read_sections(path: Path) -> list[Section]:
    sections = []
    for place in places(path):
        records = read_records(place)
        if not records[0].metrics:
            raise BadRun(f"{place} has no finished round yet: {way_on(place)}")
        spent, failed = partial(read_cost, place), diverged_in(place)
        sections.append(Section(title(records[0]), records, place, spent, failed))
    return sections
