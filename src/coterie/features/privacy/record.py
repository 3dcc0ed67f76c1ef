"""What looking at rows has cost (see `statement` in `privacy/spending.py`), in privacy.json of a run; None
before the run is over, and where local work has no bound.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from coterie.runs.record import Kept
from coterie.storage.atomic import write_whole
from coterie.storage.tensors import damaged

FILE = "privacy.json"


def write_statement(folder: Path, statement: Mapping[str, Any]) -> None:
    write_whole(folder / FILE, json.dumps(statement, indent=1) + "\n")


def _read_statement(folder: Path) -> Mapping[str, Any] | None:
    name = folder / FILE
    if not name.exists():
        return None
    try:
        told = json.loads(name.read_bytes())
        whole = isinstance(told, dict) and {"delta", "sites", "budget", "outside", "scores"} <= told.keys()
    except (ValueError, RecursionError) as error:
        raise damaged(name, str(error)) from None
    if not whole:
        raise damaged(name, "it lacks something")
    return dict(told)


KEPT = {"privacy": Kept(FILE, _read_statement)}
VIEWS: Mapping[str, Callable[..., Any]] = {}
