"""The figures of makni-2022: the split's two pictures, and accuracy less confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from coterie.data.partition.counts import client_names
from coterie.kernels import calibrate
from coterie.metrics.calibration import Calibration, Tally, taus
from coterie.papers import drawing
from coterie.papers.base import Preset
from coterie.papers.makni_2022.aggregates import FL_SWAG
from coterie.report import splits
from coterie.report.inks import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = {FL_SWAG: "FL-SWAG", "sgld": "SGLD", "psgld": "pSGLD"}
FEW = 10  # samples below which a bin's accuracy says little

Seen = Mapping[str, tuple[Mapping[str, Sequence[float]], np.ndarray]]


def draw(preset: Preset, seen: Seen, names: Mapping[str, str]) -> dict[str, Figure]:
    """Of the first seed; `seen` has tallies by row, and rows [client, class], of each cell."""
    drawn: dict[str, Figure] = {}
    for cell, (_, counts) in seen.items():
        kind, _, data = cell.partition("/")
        if kind == "logistic":
            clients, classes = client_names(len(counts)), [str(c) for c in range(counts.shape[1])]
            drawn[f"split-labels-{data}-{preset}"] = splits.shares(clients, classes, counts)
            drawn[f"split-sizes-{data}-{preset}"] = splits.sizes(clients, counts)
    for data, name in names.items():
        tallies: dict[str, Sequence[float]] = {}
        for kind in ("lenet", "resnet", "sgld", "psgld"):
            tallies |= seen.get(f"{kind}/{data}", ({}, None))[0]
        if tallies:
            drawn[f"calibration-{data}-{preset}"] = calibration(name, tallies)
    return drawn


def unpacked(flat: Sequence[float]) -> Calibration:
    found = calibrate.unpacked({str(i): torch.tensor([v]) for i, v in enumerate(flat)})
    return Calibration(*(Tally(*(part[0] for part in tally)) for tally in found))


def calibration(name: str, tallies: Mapping[str, Sequence[float]]) -> Figure:
    """Accuracy less confidence by confidence, and above a threshold τ."""
    figure, axes = drawing.canvas(7.2, 2.8, 1, 2, sharey=True)
    left, right = axes[0]
    for row, flat in tallies.items():
        found, colour = unpacked(flat), COLOURS[list(LINES).index(row)]
        for ax, tally, x in ((left, found.confidence, found.confidence.mean), (right, found.above, taus())):
            enough = tally.samples >= FEW
            gap = tally.accuracy - tally.mean
            ax.plot(
                x[enough],
                gap[enough],
                color=colour,
                marker="o",
                markersize=3,
                linewidth=1.2,
                label=LINES[row],
            )
    for ax, label in ((left, "confidence"), (right, "threshold τ")):
        ax.axhline(0, color="#5b6673", linewidth=0.8)
        ax.set(xlabel=label, xlim=(0, 1.02))
    left.set(ylabel="accuracy - confidence", title=f"{name}: by confidence")
    right.set(title="of all at least as sure as τ")
    right.legend(frameon=False)
    return figure
