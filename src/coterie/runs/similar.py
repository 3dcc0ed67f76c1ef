"""What the command and the function `similar` ask of the method of that name: to measure, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coterie.core.errors import BadData, BadInput
from coterie.methods.ranking.sketched import SKETCHES
from coterie.runs.alike import similarity_of
from coterie.runs.record import Record

MEASURES = (*SKETCHES, "ndoye")


def options_for(measures: Sequence[str] | None, epsilon: float, delta: float) -> dict[str, Any]:
    """Options of the method; without measures, all that go with the noise."""
    if measures is not None and not measures:
        raise BadInput(f"measures=() measures nothing: name some of {', '.join(MEASURES)}")
    asked = tuple(measures) if measures is not None else (SKETCHES if epsilon else MEASURES)
    by = next((name for name in SKETCHES if name in asked), "size")
    return {"by": by, "also": asked, "train": False, "epsilon": epsilon, "delta": delta}


def refuse_unknown(record: Record) -> None:
    """A look that compares nobody with anybody is none, though their sizes are known."""
    found = similarity_of(record)
    if found is None or not any(np.isfinite(m).any() for m in found.measures.values()):
        away = record.metrics[-1].get("away") or {}
        said = "; ".join(f"{name}: {text}" for name, text in away.items())
        why = said or "fewer than two answered, or had enough rows of any class"
        raise BadData(f"no two sites could be compared ({why}): ask for less, or when they are there")
