"""What a run has spent, read from its record."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from coterie.runs.budget import REPEATED, estimates_energy, kwh
from coterie.runs.record import Kept, Record


def spent_of(record: Record) -> dict[str, np.ndarray]:
    """Spent up to the end of each round, by kind: [round], from round 0. Kinds that were not counted are left
    out.
    """
    spent, metrics, timings = dict[str, np.ndarray](), record.metrics, record.timings
    if all("spent" in line for line in metrics):
        spent = {kind: np.cumsum([line["spent"][kind] for line in metrics]) for kind in REPEATED}
    elif metrics:  # a run of an earlier version knows of its models
        spent["bytes"] = np.cumsum([int(record.transfers(line)["bytes"]) for line in metrics])
    took = {line["round"]: line for line in timings}
    lines = [took.get(line["round"], {}) for line in metrics]
    if took:
        spent["seconds"] = np.cumsum([line.get("seconds", 0.0) for line in lines])
    if estimates_energy(record.settings) and took and all("cpu_seconds" in line for line in timings):
        cpu = np.cumsum([line.get("cpu_seconds", 0.0) for line in lines])
        spent["kwh"] = kwh(cpu, record.settings.power)
    return spent


KEPT: Mapping[str, Kept] = {}
VIEWS = {"spent": spent_of}
