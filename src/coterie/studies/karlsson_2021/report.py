"""Tables 4.1 to 4.3 beside ours, claims and figures 4.1 to 4.3 of karlsson-2021, from runs done or under way.

A run that is not finished counts with its last scored round, which its line names. Two methods are compared,
seed by seed, in the last round that both have a score of, or, if both are finished, in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.api.folders import Record, is_run, read_record
from coterie.metrics.summary import Interval, interval, mean_over_clients
from coterie.show.figures import ramp
from coterie.show.inks import COLOURS
from coterie.studies import drawing, pages
from coterie.studies.base import Asked, Paper, Preset, Scale, by_preset, read_runs
from coterie.studies.karlsson_2021 import INITS, MAIN, ONE, SETTINGS, cell_of
from coterie.studies.karlsson_2021.claims import (
    CLAIMS,
    LABELS,
    TABLE_41,
    TABLE_42,
    TABLE_43,
    Cells,
    Run,
    Seeds,
    main_of,
    settings_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _read(asked: Asked, paper: Paper) -> dict[Preset, Cells]:
    """Every run below OUT at this scale that has a scored round, by preset."""
    step1 = SETTINGS[asked.scale].step1

    def run_of(path: Path, cell: str) -> Run | None:
        if not is_run(path):
            return None
        record, taken = read_record(path), cell_of(cell, asked.scale)
        scored, values = record.curve("accuracy")
        if not scored or not scored[-1]:
            return None  # nothing but the models before training
        end: Mapping[str, Any] = {}
        if taken.method == "pens":
            end = {m["round"]: m.get("measures", {}) for m in record.metrics}.get(step1, {})
        chosen, known = taken.method not in ONE and not taken.iid, "circle_precision" in end
        return Run(
            accuracy=dict(zip(scored, values.mean(axis=1).tolist(), strict=True)),
            cost=_requests(record, scored[-1]),
            finished=record.finished,
            precision=mean_over_clients(end["circle_precision"]) if known else None,
            recall=mean_over_clients(end["circle_recall"]) if known else None,
            collected=record.collected() if chosen else None,
            origin=record.about,
        )

    return by_preset(lambda preset: read_runs(asked, preset, paper.cells(asked.scale), run_of))


def _requests(record: Record, last: int) -> float:
    """Models sent and received by the average client until a round, tried or averaged with.

    A model counts as often as it is asked for, though it moves once in a round.
    """
    total = 0
    for m in record.metrics[1:]:
        if m["round"] <= last:
            total += sum(m["extras"]["neighbours"]) + m["extras"].get("repeated_requests", 0)
    for metric in ("accuracy", "loss"):
        for r, scores in record.matrices.get(metric, {}).items():
            own = np.eye(len(scores), dtype=bool)
            total += int((np.isfinite(scores) & ~own).sum()) if r <= last else 0
    return 2 * total / len(record.clients)


def _page(paper: Paper, asked: Asked, results: Mapping[Preset, Cells]) -> str:
    runs = [run for cells in results.values() for by in cells.values() for run in by.items()]
    cut = sum(not run.finished for _, run in runs)
    parts = [
        f"# {paper.name}, scale {asked.scale}",
        f"{paper.citation}. What the presets and scales are: `coterie.studies.karlsson_2021`.",
        pages.run_facts(runs, f", {cut} of them not finished"),
    ]
    if asked.scale != "full":
        parts.append(
            "Fewer clients, pictures and rounds: orders can be compared with the thesis, figures not."
        )
    parts.append(
        "Test accuracy in %, the mean over clients; ± is half of the 95 % interval over seeds that "
        "share test rows. *Models* are "
        "those that the average client has sent and received, as the thesis counts them: every time that one "
        "is asked for. *Round* is the one that figures are of: before the last, where a run is not finished."
    )
    for preset, cells in results.items():
        seeds_of = {cell: 1 + max(by) for cell, by in cells.items()}
        parts += [f"## {preset}", pages.commands(paper, preset, asked.scale, seeds_of)]
        for title, header, lines in _tables(cells, asked.scale):
            if lines:
                parts += [f"### {title}", pages.table(header, lines)]
    parts += ["## Claims", pages.CLAIMS_NOTE, pages.claims_table(CLAIMS, results)]
    return pages.joined(*parts)


Lines = list[list[object]]


def _tables(cells: Cells, scale: Scale) -> Iterable[tuple[str, list[str], Lines]]:
    """Title, header and lines of each table."""
    full, given = scale == "full", SETTINGS[scale]
    header = ["method", "seeds", "round", "accuracy", "models"]
    theirs = ["thesis", "models there"] if full else []
    lines: Lines = []
    for method, thesis in TABLE_41.items():
        if by := cells.get(f"iid-{given.main}/{method}"):
            named = LABELS[method] if method != "central-half" else "central"
            lines.append([named, *_figures(by), *([thesis, "–"] if full else [])])
    yield f"Table 4.1: IID data, {given.main} clients", [*header, *theirs], lines
    for n in given.sizes:
        for init in reversed(INITS):
            lines = []
            for method in (*ONE[:-1], *MAIN, ONE[-1]):
                where = "common" if method in ONE else init  # one client's first model is the same in both
                if by := cells.get(f"{where}-{n}/{method}"):
                    known = TABLE_42[method] if full and n == given.main else {}
                    said = [known.get(init, "–"), known.get(f"{init}, models", "–")]
                    lines.append([LABELS[method], *_figures(by), *(said if full else [])])
            title = "Table 4.2" if n == given.main else "Figure 4.3"
            yield f"{title}: {n} clients, {init} initialisation", [*header, *theirs], lines
    lines = []
    for group in settings_of(cells):
        runs = [r for r in cells.get(f"{group}/pens", {}).values() if r.precision is not None]
        if runs:
            found = [interval([r.precision or 0.0 for r in runs]), interval([r.recall or 0.0 for r in runs])]
            there = TABLE_43[group].values() if full else []
            lines.append([group, len(runs), *map(pages.plus_minus, found), *there])
    head = ["clients and initialisation", "seeds", "precision", "recall"]
    head += ["thesis: precision", "recall"] if full else []
    yield "Table 4.3: PENS's neighbours after step 1, in %", head, lines
    lines = []
    for cell, by in cells.items():
        if cell.partition("/")[0] in given.varied:
            times = " times the usual" if cell.startswith("rate") else ""
            lines.append([f"{cell.replace('/', ' ')}{times}", *_figures(by)])
    head = ["option", "seeds", "round", "accuracy", "models"]
    yield "Figure 4.1: random on IID data, one option changed", head, lines


def _figures(by: Seeds) -> list[object]:
    """Seeds, round, accuracy and models of a line."""
    last = sorted({run.last for run in by.values()})
    accuracy = interval([run.accuracy[run.last] for run in by.values()])
    cost = interval([run.cost for run in by.values()])
    rounds = str(last[0]) if len(last) == 1 else f"{last[0]} to {last[-1]}"
    return [len(by), rounds, pages.plus_minus(accuracy), pages.plus_minus(cost, 0, 1)]


def _rows(asked: Asked, results: Mapping[Preset, Cells]) -> list[dict[str, object]]:
    """One line for each run."""

    def figures_of(run: Run) -> dict[str, object]:
        shown = {"round": run.last, "finished": run.finished, "accuracy": run.accuracy[run.last]}
        return {**shown, "models": run.cost, "precision": run.precision, "recall": run.recall}

    return [
        {"preset": preset, **line}
        for preset, cells in results.items()
        for line in pages.run_rows("karlsson-2021", preset, asked.scale, cells, figures_of)
    ]


def _draw(asked: Asked, results: Mapping[Preset, Cells]) -> dict[str, Figure]:
    pictures = {"4-1": _options_changed, "4-2": _who_collected, "4-3": _by_clients}
    drawn = {}
    for preset, cells in results.items():
        for number, picture in pictures.items():
            if (figure := picture(cells, asked.scale)) is not None:
                drawn[f"figure-{number}-{preset}-{asked.scale}"] = figure
    return drawn


def _options_changed(cells: Cells, scale: Scale) -> Figure | None:
    """Figure 4.1: accuracy by the value of one option, the others being the usual."""
    given = SETTINGS[scale]
    usual = {"selected": given.sizes[given.main].others, "epochs": given.epochs, "rate": 1.0}
    base = cells.get(f"iid-{given.main}/random", {})
    figure, axes = drawing.canvas(7, 2.4, 1, len(given.varied), sharey=True)
    drawn = False
    for ax, (option, values) in zip(axes[0], given.varied.items(), strict=True):
        found = {v: cells.get(f"{option}/{v:g}", {}) for v in values} | {usual[option]: base}
        points = [(v, _final(by)) for v, by in sorted(found.items()) if by]
        drawn |= len(points) > 1
        _bars(ax, [v for v, _ in points], [p for _, p in points], COLOURS[0], "random")
        ax.set(xlabel="rate / usual rate" if option == "rate" else option, xscale="log")
    axes[0][0].set_ylabel("test accuracy, %")
    return figure if drawn else None


def _who_collected(cells: Cells, scale: Scale) -> Figure | None:
    """Figure 4.2: how often the receiver (row) averaged with the sender's model; clusters in blocks."""
    group = main_of(cells, "independent") or next(iter(settings_of(cells)), "")
    found = {}
    for method in MAIN:
        kept = [r.collected for r in cells.get(f"{group}/{method}", {}).values() if r.collected is not None]
        if kept:
            found[method] = np.mean(kept, axis=0)
    if not found:
        return None
    columns = min(4, len(found))
    lines = -(-len(found) // columns)
    figure, axes = drawing.canvas(1.9 * columns, 2.1 * lines, lines, columns)
    for ax in axes.flat[len(found) :]:
        ax.set_visible(False)
    for ax, (method, counts) in zip(axes.flat, found.items(), strict=False):
        ax.imshow(counts / max(counts.max(), 1), cmap=ramp(("#ffffff", COLOURS[0])), vmin=0, vmax=1)
        half = len(counts) / 2 - 0.5
        ax.axhline(half, color="#555555", linewidth=0.5)
        ax.axvline(half, color="#555555", linewidth=0.5)
        ax.set_title(LABELS[method], fontsize=7)
        ax.set(xticks=[], yticks=[])
    axes[0][0].set(xlabel="sender", ylabel="receiver")
    figure.suptitle(f"{group}, {scale}: who collected whose model", fontsize=8)
    return figure


def _by_clients(cells: Cells, scale: Scale) -> Figure | None:
    """Figure 4.3: accuracy by number of clients, for each initialisation."""
    numbers = list(SETTINGS[scale].sizes)
    figure, axes = drawing.canvas(6, 2.6, 1, 2, sharey=True)
    drawn = False
    for ax, init in zip(axes[0], INITS, strict=True):
        for i, method in enumerate(("oracle", "pens", "random")):
            points = {n: cells.get(f"{init}-{n}/{method}", {}) for n in numbers}
            known = {n: _final(by) for n, by in points.items() if by}
            drawn |= bool(known)
            shift = [n * (0.96 + 0.04 * i) for n in known]
            _bars(ax, shift, list(known.values()), COLOURS[i], LABELS[method])
        ax.set(title=f"{init} initialisation", xlabel="clients", xscale="log")
        ax.set_xticks(numbers, [str(n) for n in numbers])
        ax.minorticks_off()
    axes[0][0].set_ylabel("test accuracy, %")
    axes[0][0].legend(fontsize=7)
    return figure if drawn else None


def _final(by: Seeds) -> Interval:
    return interval([100 * run.accuracy[run.last] for run in by.values()])


def _bars(ax: Any, x: Sequence[float], found: Sequence[Interval], colour: str, label: str) -> None:
    """Means with their intervals; none where there is one seed."""
    half = [0.0 if np.isnan(f.half) else f.half for f in found]
    look = {"color": colour, "label": label, "marker": "o", "markersize": 3, "linewidth": 1, "capsize": 2}
    ax.errorbar(x, [f.mean for f in found], half, **look)


REPORT = pages.Report(_read, _page, _rows, _draw)
