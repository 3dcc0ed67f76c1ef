"""Runs read back from their folders: records, frozen layers, and what clients sent."""

from __future__ import annotations

from pathlib import Path

from coterie.core import belief as tree
from coterie.core.errors import BadRun
from coterie.kernels.posterior import Collected, collected
from coterie.methods.one_shot.fl_swag import State
from coterie.runs.about import origin
from coterie.runs.artifacts import body_of, network_of
from coterie.runs.folder import is_run, read_record, way_on
from coterie.runs.record import Record
from coterie.runs.settings import digest
from coterie.storage import checkpoint

__all__ = [
    "Record",
    "body_of",
    "digest",
    "is_finished",
    "is_run",
    "network_of",
    "origin",
    "read_record",
    "sent",
]


def is_finished(folder: Path) -> bool:
    return is_run(folder) and (folder / "models.safetensors").exists() and read_record(folder).finished


def sent(folder: Path) -> dict[str, Collected]:
    """What each client of a finished run of fl-swag collected and made its Gaussian of, by name."""
    record = read_record(folder)
    if record.settings.method != "fl-swag" or not is_finished(folder):
        raise BadRun(f"{folder} is no finished run of fl-swag: {way_on(folder)}")
    path = folder / "checkpoint.safetensors"
    state: State = checkpoint.load(path, State, digest(record.config)).state
    if state.sent is None or state.senders is None:
        return {}
    if any(t.is_meta for t in state.sent.tensors.values()):
        raise BadRun(f"what clients of {folder} collected is still with them: run it with net=in-process")
    return {
        record.clients[host]: collected(tree.row(state.sent.tensors, i))
        for i, host in enumerate(state.senders.tolist())
    }
