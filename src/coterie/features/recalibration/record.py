"""What the models of a run, once in use, do to their probabilities, as a file by client; or why nothing
(`hook.py` works it out).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from coterie.metrics.recalibration import Recalibrated
from coterie.runs.record import Kept
from coterie.storage.atomic import write_whole
from coterie.storage.tensors import damaged

FILE = "recalibration.json"
Each = Mapping[str, Recalibrated]


def write_recalibration(folder: Path, each: Each) -> None:
    table = {name: one.to_dict() for name, one in each.items()}
    write_whole(folder / FILE, json.dumps(table, indent=1) + "\n")


def _read_recalibration(folder: Path) -> Each:
    """By client; nothing in runs of earlier versions, and where nobody uses models."""
    if not (folder / FILE).exists():
        return {}
    try:
        table = json.loads((folder / FILE).read_bytes())
        return {str(name): Recalibrated.read(entry) for name, entry in table.items()}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise damaged(folder / FILE, str(error)) from None


KEPT = {"recalibration": Kept(FILE, _read_recalibration, dict)}
VIEWS: Mapping[str, Callable[..., Any]] = {}
