"""Who got what: a split in two pictures, as Makni (2022, section 7) shows his.

counts[k, c]     rows of class c that client k trains on
shares[k, c]     counts[k, c] / Σ_c' counts[k, c'], what client k's rows are made of      `shares`
sizes[k]         Σ_c counts[k, c]                                                         `sizes`
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from coterie.runs.record import Record
from coterie.show import figures, inks, views

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELLS = 200  # more have no numbers in them
BARS = 20  # more have no numbers above them
TALL = 6.0  # inches: rows of many clients become thin instead


def draw(record: Record) -> dict[str, Figure]:
    """The picture of shares by file name; none where targets are numbers."""
    found = views.labels(record)
    if found is None:
        return {}
    classes, by_part = found
    return {"shares": shares(record.clients, classes, by_part["train"].T)}


def shares(names: Sequence[str], classes: Sequence[str], counts: np.ndarray) -> Figure:
    """Of each client's rows [client, class], how many in a hundred are of which class."""
    parts = 100 * portions(counts)
    clients, width = parts.shape
    figure, axes = figures.sheet(min(7.5, 2 + 0.4 * width), min(TALL, 1 + 0.24 * clients))
    most = max(float(parts.max(initial=0)), 1.0)
    image = axes.imshow(parts, cmap=figures.ramp(inks.SCALE), vmin=0, vmax=most, aspect="auto")
    if parts.size <= CELLS:
        for (row, column), part in np.ndenumerate(parts):
            ink = "white" if part > 0.6 * most else "#333333"
            axes.text(column, row, f"{part:.0f}", ha="center", va="center", fontsize=6.5, color=ink)
    figures.ticks(axes, classes, "x")
    figures.ticks(axes, names, "y")
    axes.set(xlabel="class")
    figure.colorbar(image, ax=axes, label="% of the client's rows")
    return figure


def sizes(names: Sequence[str], counts: np.ndarray) -> Figure:
    """How many rows each client has, from [client, class]."""
    totals = counts.sum(axis=1)
    figure, axes = figures.sheet(4.5, 2.4)
    bars = axes.bar(np.arange(len(totals)), totals, 0.8, color=inks.SPLITS["train"])
    if len(totals) <= BARS:
        axes.bar_label(bars, [f"{n:,}" for n in totals], fontsize=6.5, padding=1)
        axes.margins(y=0.1)
    figures.ticks(axes, names, "x")
    axes.set(ylabel="rows to train on")
    return figure


def portions(counts: np.ndarray) -> np.ndarray:
    """Each client's counts [client, class] divided by their sum; of a client without rows, zeros."""
    total = counts.sum(axis=1, keepdims=True)
    parts: np.ndarray = np.divide(counts, total, out=np.zeros(counts.shape), where=total > 0)
    return parts
