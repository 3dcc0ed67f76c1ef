"""What a run says of one client's model: for a model card, here or where the model is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from coterie.runs.record import Record

OWN, POINT = "own/test", "point/test"


def facts_of(record: Record, client: str) -> dict[str, Any]:
    """What the card tells, as JSON holds it."""
    number, about, config = record.clients.index(client), record.about, record.config
    member = about["clients"][number]
    scored = list(record.evaluated())
    scores = scored[-1]["scores"] if scored else {}
    which = POINT if POINT in scores else OWN
    return {
        "method": record.config["method"],
        "data": str(config.get("data", "")),
        "split": str(config.get("split", "")),
        "rounds": record.done,
        "seed": config.get("seed"),
        "clients": len(record.clients),
        "rows": {part: member[part] for part in ("train", "validation", "test")},
        "labels": None if member["labels"] is None else [list(part) for part in member["labels"]],
        "notes": [str(note) for note in member["notes"]],
        "leaks": [dict(leak) for leak in about.get("leaks") or () if leak["site"] in ("", client)],
        "circle": circle_of(record, number),
        "scores": {m: known(record.final(m, which)[number]) for m in scores.get(which, {})},
        "of": which,
        "calibrate": str(config.get("calibrate", "auto")),
        "calibration": [] if which == POINT else bins_of(record, number),
        "parameters": about.get("parameters"),
        "versions": {"coterie": about.get("coterie"), **about.get("versions", {})},
    }


def circle_of(record: Record, number: int) -> dict[str, list[float]]:
    """{client: its weight in the last round, and the mean over all}, the heaviest first; 0 is left out."""
    rounds = sorted(record.weights)
    if not rounds:
        return {}
    rows = np.stack([np.asarray(record.weights[r], dtype=float)[number] for r in rounds])
    last, mean = rows[-1], rows.mean(axis=0)
    order = sorted(np.flatnonzero(mean), key=lambda j: (-last[j], -mean[j], j))
    return {record.clients[j]: [float(last[j]), float(mean[j])] for j in order}


def bins_of(record: Record, number: int) -> list[list[float]]:
    """[low, high, samples, mean confidence, right] of each bin with any test row."""
    found = record.calibration()
    if found is None:
        return []
    tally, bins = found.confidence, found.confidence.samples.shape[-1]
    return [
        [b / bins, (b + 1) / bins, *(float(t[number, b]) for t in (tally.samples, tally.mean, tally.right))]
        for b in range(bins)
        if tally.samples[number, b] > 0
    ]


def known(value: float) -> float | None:
    return value if math.isfinite(value) else None
