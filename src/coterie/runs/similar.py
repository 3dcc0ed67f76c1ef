"""What the command and the function `similar` ask of the method of that name: to measure, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coterie.core.errors import BadInput
from coterie.methods.ranking.sketched import SKETCHES

MEASURES = (*SKETCHES, "ndoye")


def options_for(measures: Sequence[str] | None, epsilon: float, delta: float) -> dict[str, Any]:
    """Options of the method; without measures, all that go with the noise."""
    if measures is not None and not measures:
        raise BadInput(f"measures=() measures nothing: name some of {', '.join(MEASURES)}")
    asked = tuple(measures) if measures is not None else (SKETCHES if epsilon else MEASURES)
    by = next((name for name in SKETCHES if name in asked), "size")
    return {"by": by, "also": asked, "train": False, "epsilon": epsilon, "delta": delta}
