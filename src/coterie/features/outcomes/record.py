"""What came of each test row in the end, and what was said of it (`hook.py`), in a run's folder.

outcomes        None before the run is over, where clients are not in this process, and for more than 32,768
                rows
probabilities   what was said of each test row, and its label; None where there are no outcomes, no classes,
                and for more than 2**20 numbers
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from coterie.metrics.bootstrap import Outcomes
from coterie.runs.artifacts import PROBABILITIES, read_probabilities
from coterie.runs.record import Kept
from coterie.storage.tensors import damaged, read_arrays, write_arrays

FILE = "outcomes.npz"


def write_outcomes(folder: Path, outcomes: Outcomes) -> None:
    write_arrays(folder / FILE, outcomes._asdict())


def _read_outcomes(folder: Path) -> Outcomes | None:
    arrays = read_arrays(folder / FILE, Outcomes._fields)
    if arrays is None:
        return None
    found = Outcomes(*arrays)
    if found.sizes.ndim != 1 or found.values.shape != (found.sizes.sum(),):
        raise damaged(folder / FILE, "sizes do not add up")
    return found


KEPT = {"outcomes": Kept(FILE, _read_outcomes), "probabilities": Kept(PROBABILITIES, read_probabilities)}
VIEWS: Mapping[str, Callable[..., Any]] = {}
