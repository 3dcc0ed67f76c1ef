"""Results on paper: Markdown and CSV, with all that is needed to repeat them."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

import pandas as pd

from coterie.core.errors import BadRun
from coterie.metrics.summary import Interval
from coterie.show import figures
from coterie.storage.atomic import write_whole
from coterie.studies import drawing
from coterie.studies.base import Asked, Paper, Preset, Scale
from coterie.studies.claims import Claim, R

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPLITS = (
    "The interval is over splits of the same rows, corrected for the rows they share (Nadeau and Bengio, "
    "2003): it covers which rows were trained and tested on, and how models were trained."
)
SAME_TESTS = (
    "The interval is Student's t over seeds that share test rows: it covers how training rows were dealt and "
    "models trained, not other test rows."
)
JUDGED = (
    "A claim is put as numbers above zero, one a seed, and judged by the 95 % interval of their mean over "
    "seeds: it holds or fails where the interval lies wholly on one side, and is undecided else, as always "
    "with one seed."
)
CLAIMS_NOTE = f"{JUDGED} {SAME_TESTS}"


def commands(paper: Paper, preset: Preset, scale: Scale, seeds: Mapping[str, int]) -> str:
    """What gives these cells, each with so many seeds: one command for all that have the same number."""
    size = f" --scale {scale}" if len(paper.scales) > 1 else ""
    lines = []
    for number in sorted(set(seeds.values())):
        cells = [cell for cell, n in seeds.items() if n == number]
        known = paper.cells(scale)
        chosen = "" if cells == list(known) else f" --cells {','.join(shortest(cells, known))}"
        lines.append(f"coterie reproduce {paper.name}{chosen} --preset {preset}{size} --seeds {number}")
    return "\n".join(["```sh", *lines, "```"])


def shortest(cells: Sequence[str], known: Sequence[str]) -> list[str]:
    """Cells as `--cells` takes them: B for all of B/."""
    words = []
    for cell in cells:
        kind = [c for c in known if c.partition("/")[0] == cell.partition("/")[0]]
        words.append(cell.partition("/")[0] if set(kind) <= set(cells) else cell)
    return list(dict.fromkeys(words))


def again(name: str, cell: str, preset: Preset, scale: Scale, seed: int) -> str:
    """The command that gives one run's line of a table."""
    return f"coterie reproduce {name} --cells {cell} --preset {preset} --scale {scale} --seeds {seed + 1}"


def joined(*parts: str) -> str:
    """A page of these parts."""
    return "\n\n".join(parts) + "\n"


def run_facts(runs: Collection[tuple[int, Any]], more: str = "") -> str:
    """How many runs of which seeds, given as (seed, run), and whence they come."""
    seeds = ", ".join(map(str, sorted({seed for seed, _ in runs})))
    return facts(f"seeds: {seeds}; {len(runs)} runs{more}", (run.origin for _, run in runs))


def facts(text: str, origins: Iterable[Mapping[str, Any]]) -> str:
    """A list of facts: these, then the commits and versions behind a page, each once."""
    return "\n".join([f"- {text}", *origin_lines(origins)])


def origin_lines(origins: Iterable[Mapping[str, Any]]) -> list[str]:
    origins = list(origins)
    commits = sorted({str(o["commit"] or "unknown") for o in origins})
    versions = sorted({", ".join(f"{k} {v}" for k, v in o["versions"].items()) for o in origins})
    changed = " (+: with changes that were not committed)" if any(c.endswith("+") for c in commits) else ""
    return [f"- commit: {', '.join(commits)}{changed}", f"- versions: {'; '.join(versions)}"]


def table(header: Sequence[str], rows: Iterable[Sequence[object]], right: str = "---:") -> str:
    """A Markdown table; the first column is text, the others are set to the right."""
    lines = [header, ["---", *[right] * (len(header) - 1)], *rows]
    cells = ((str(value).replace("|", "\\|") for value in line) for line in lines)
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


def prose_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table of words."""
    return table(header, rows, right="---")


def plus_minus(found: Interval, digits: int = 1, factor: float = 100) -> str:
    """A mean with half its interval, in percent or points; without one, the mean alone."""
    if math.isnan(found.mean):
        return "–"
    mean = f"{factor * found.mean:.{digits}f}"
    return mean if math.isnan(found.half) else f"{mean} ± {factor * found.half:.{digits}f}"


def claims_table(claims: Sequence[Claim[R]], results: Mapping[Preset, R]) -> str:
    """Each claim, and its verdict under each preset."""
    rows = []
    for claim in claims:
        verdicts = [claim.check(found) for found in results.values()]
        rows.append([claim.text, claim.place, *(f"**{v.word}** ({v.why})" for v in verdicts)])
    return prose_table(["claim", "where", *results], rows)


def verdicts(text: str) -> list[list[str]]:
    """The claims tables of a page again, short: [claim, a word for each preset], headers included."""
    found, inside = list[list[str]](), False
    for line in text.splitlines():
        cells = [c.strip().replace("\\|", "|") for c in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells[:2] == ["claim", "where"]:
            inside = True
            found.append(["claim", *cells[2:]])
        elif inside and cells and not set(cells[0]) <= {"-"}:
            found.append([cells[0], *(cell.partition("**")[2].partition("**")[0] for cell in cells[2:])])
        inside = inside and bool(cells)
    return found


def run_rows(
    name: str,
    preset: Preset,
    scale: Scale,
    cells: Mapping[str, Mapping[int, Any]],
    figures: Callable[[Any], dict[str, object]],
) -> list[dict[str, object]]:
    """One line for each run of a preset: its cell and seed, its figures, and how to have it again."""
    return [
        {"scale": scale, "cell": cell, "seed": seed, **figures(run), "commit": run.origin["commit"]}
        | {"command": again(name, cell, preset, scale, seed)}
        for cell, by in cells.items()
        for seed, run in by.items()
    ]


@dataclass(frozen=True)
class Report(Generic[R]):
    """What a paper's module `report` has as REPORT. `read` gives all results below OUT, of which `page` makes
    the text, `rows` the lines of the CSV and `draw` the figures by name.
    """

    read: Callable[[Asked, Any], R]
    page: Callable[[Paper, Asked, R], str]
    rows: Callable[[Asked, R], list[dict[str, Any]]]
    draw: Callable[[Asked, R], dict[str, Figure]]


def write(paper: Paper, asked: Asked) -> list[Path]:
    """results.md, results.csv and, if they are wanted and can be drawn, the figures."""
    report: Report[Any] = importlib.import_module(f"{type(paper).__module__}.report").REPORT
    results = report.read(asked, paper)
    if not results:
        raise BadRun(f"{asked.out} has {paper.nothing.format(paper.name)}: run some cells first")
    written = [write_whole(asked.out / "results.md", report.page(paper, asked, results))]
    lines: str = pd.DataFrame(report.rows(asked, results)).to_csv(index=False, lineterminator="\n")
    written.append(write_whole(asked.out / "results.csv", lines))
    if asked.figures != "none" and drawing.at_hand():
        written += figures.write(asked.out / "figures", lambda: report.draw(asked, results), asked.figures)
    return written
