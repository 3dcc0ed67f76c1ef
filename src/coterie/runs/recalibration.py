"""What the models of a run, once in use, do to their probabilities, as a file by client; or why nothing
(`recalibrating.py` works it out).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from coterie.metrics.recalibration import Recalibrated
from coterie.storage.arrays import damaged
from coterie.storage.atomic import write_whole

FILE = "recalibration.json"
Each = Mapping[str, Recalibrated]
Asked = Literal["auto", "none", "validation", "folds"]


def write_recalibration(folder: Path, each: Each) -> None:
    table = {name: one.told() for name, one in each.items()}
    write_whole(folder / FILE, json.dumps(table, indent=1) + "\n")


def read_recalibration(folder: Path) -> Each:
    """By client; nothing in runs of earlier versions, and where nobody uses models."""
    if not (folder / FILE).exists():
        return {}
    try:
        table = json.loads((folder / FILE).read_bytes())
        return {str(name): Recalibrated.read(entry) for name, entry in table.items()}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise damaged(folder / FILE, str(error)) from None
