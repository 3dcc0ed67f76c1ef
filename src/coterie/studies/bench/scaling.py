"""Cost of a round against the number of clients, and against the samples each of them holds.

FedAvg with the linear model 784-10, one epoch, batch 32. Contenders run one after the other, each with the
process to itself, so that its peak memory is its own.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coterie.core.errors import BadInput
from coterie.show.inks import inks
from coterie.storage.atomic import write_whole
from coterie.studies.bench.measure import Watch, measure
from coterie.studies.bench.table import write_csv
from coterie.studies.bench.workloads import WORKLOADS

CLIENTS = (10, 100, 1000, 10_000)
SAMPLES = (10, 30, 100, 300, 1000)
QUICK_CLIENTS, QUICK_SAMPLES = (2, 4), (5, 10)
AT_SAMPLES, AT_CLIENTS = 50, 100  # what stays fixed while the other one grows
AXES = {"clients": f"clients of {AT_SAMPLES} samples", "samples": f"samples at each of {AT_CLIENTS} clients"}
MARKS = {"circle": "o", "square": "s", "diamond": "D", "triangle-up": "^", "cross": "P", "x": "X"}


@dataclass(frozen=True)
class _Point:
    """One contender at one size: seconds of a round (best, median, the first one), peak megabytes."""

    axis: str
    clients: int
    samples: int
    contender: str
    best: float
    median: float
    first: float
    peak_mb: float

    @property
    def at(self) -> int:
        return self.clients if self.axis == "clients" else self.samples


def sizes(quick: bool) -> Iterator[tuple[str, int, int]]:
    """(axis, clients, samples of each) of every point."""
    for n in QUICK_CLIENTS if quick else CLIENTS:
        yield "clients", n, AT_SAMPLES
    for m in QUICK_SAMPLES if quick else SAMPLES:
        yield "samples", 4 if quick else AT_CLIENTS, m


def scale(
    contenders: Sequence[str], repeats: int, quick: bool, watch: Watch = lambda contender: None
) -> list[_Point]:
    points = []
    for axis, clients, samples in sizes(quick):
        called = f"linear-{clients}x{samples}"
        sizes_of = (samples,) * clients
        workload = replace(WORKLOADS["linear-100"], name=called, about=called, sizes=sizes_of, rounds=1)
        for name in contenders:
            row = measure(workload, [name], repeats, side=256, watch=watch)[0]
            seconds = (row.samples / row.best, row.samples / row.median, row.first_seconds)
            points.append(_Point(axis, clients, samples, name, *seconds, row.peak_mb))
    return points


def write(folder: str | Path, points: Sequence[_Point]) -> list[Path]:
    """scaling.csv, and scaling.svg with matplotlib."""
    table = write_csv(Path(folder) / "scaling.csv", points)
    return [table, write_whole(Path(folder) / "scaling.svg", _figure(points))]


def need_matplotlib() -> Any:
    """Asked before anything is measured."""
    try:
        import matplotlib
    except ImportError:
        raise BadInput("figures need matplotlib: pip install 'coterie[figures]'") from None
    return matplotlib


def _figure(points: Sequence[_Point]) -> bytes:
    """Two panels, logarithmic both ways: median seconds of a round."""
    with need_matplotlib().rc_context({"svg.hashsalt": "coterie", "font.size": 8, "legend.frameon": False}):
        from matplotlib.figure import Figure

        drawing = Figure(figsize=(7, 3), layout="constrained")
        look = inks([p.contender for p in points], "plain")
        for axes, (axis, label) in zip(drawing.subplots(1, 2, sharey=True), AXES.items(), strict=True):
            for name, ink in look.items():
                mine = [p for p in points if p.axis == axis and p.contender == name]
                line = {"color": ink.colour, "linestyle": "--" if ink.dash == "dash" else "-", "label": name}
                style = {**line, "marker": MARKS.get(ink.mark, "o"), "markersize": 4}
                axes.loglog([p.at for p in mine], [p.median for p in mine], **style)
            axes.set(xlabel=label)
            axes.grid(True, color="#dddddd", linewidth=0.5)
        drawing.axes[0].set(ylabel="seconds a round, median")
        drawing.axes[0].legend(fontsize=7)
        content = io.BytesIO()
        drawing.savefig(content, format="svg", metadata={"Date": None})
    return content.getvalue()
