"""A folder of trials, each a run on what a fold leaves to train on, judged by the fold: what is asked, where
and on what they began. The same question goes on in it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from coterie.core import belief as tree
from coterie.core.errors import BadRun
from coterie.core.held import at_coordinator, hold
from coterie.runs.experiment import Experiment
from coterie.runs.loop import first_state, same_threads
from coterie.runs.record import Record
from coterie.runs.scoring import evaluate
from coterie.runs.settings import read_toml
from coterie.storage.atomic import read_lines, write_whole


def measured_by(experiment: Experiment) -> list[str]:
    """The figures that models of these clients have, from a look at the first ones; it closes the net."""
    start = hold(experiment.beliefs, at_coordinator(tree.count(experiment.beliefs)))
    try:
        known = evaluate(experiment, experiment.method.models(first_state(experiment, start)), 0)
    finally:
        experiment.net.close()
    return list(known["own/test"]) if known else []


def begin(path: Path, file: str, table: Mapping[str, Any], what: str, free: str = "") -> None:
    """Writes what is asked, or finds the same again; only the entry `free` may differ."""
    if path.is_dir() and any(path.iterdir()):
        if not (path / file).exists():
            raise BadRun(f"output folder {path} is not empty: choose another --out")
        if read_toml(path / file) | ({free: table[free]} if free else {}) != table:
            raise BadRun(
                f"{path} holds another {what}: go on with 'coterie resume {shlex.quote(str(path))}' or "
                "choose another --out"
            )
    write_whole(path / file, tomli_w.dumps(dict(table)))


def same_data(path: Path, about: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where and on what it began: kept from the first call, and its data compared with ours."""
    for past in read_lines(path / "run.json"):
        if past.get("fingerprint") != about["fingerprint"]:
            raise BadRun(f"{path}: the data or the first model differ from those it began with: start anew")
        same_threads(Record("", {}, past))
        return past
    write_whole(path / "run.json", json.dumps(about) + "\n")
    return about
