"""A run again, without a client that withdrew, from the last round before it joined whose state was kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.runs.folder import CHECKPOINTS
from coterie.runs.record import Record
from coterie.runs.settings import digest
from coterie.storage.atomic import read_lines, write_whole
from coterie.storage.rounds import LINES, METRICS
from coterie.storage.tensors import read_tensors, write_tensors


def kept_before(path: Path, record: Record, round: int) -> int:
    """The last round before this one whose state the folder has; 0 if there is none, or if sites that are
    elsewhere have theirs.
    """
    if record.config.get("net", "in-process") != "in-process":
        return 0
    found = [int(file.stem) for file in (path / CHECKPOINTS).glob("*.safetensors") if file.stem.isdecimal()]
    return max((r for r in found if r < round), default=0)


def begun(new: Path, old: Path, round: int, config: Mapping[str, Any], client: int) -> None:
    """What a new folder has, to go on after a round of another: its lines up to there, in which the client
    has no figures, and its state.
    """
    for name in LINES:
        lines = [entry for entry in read_lines(old / name) if entry.get("round", round + 1) <= round]
        if name == METRICS:
            lines = [without(entry, client) for entry in lines]
        write_whole(new / name, "".join(json.dumps(entry) + "\n" for entry in lines))
    tensors, header = read_tensors(old / CHECKPOINTS / f"{round:05d}.safetensors")
    stamp = {**header["stamp"], "round": round, "config": digest(config)}  # of the schema that it has
    write_tensors(new / "checkpoint.safetensors", tensors, {**header, "stamp": stamp})


def without(line: Mapping[str, Any], client: int) -> dict[str, Any]:
    """A line of metrics.jsonl in which a client has neither scores nor a loss."""

    def blank(values: list[Any]) -> list[Any]:
        return [None if i == client else v for i, v in enumerate(values)]

    scores = line["scores"] and {
        name: {metric: blank(values) for metric, values in figures.items()}
        for name, figures in line["scores"].items()
    }
    measures = {name: blank(values) for name, values in line.get("measures", {}).items()}
    told = {**line, "scores": scores, "train_loss": blank(line["train_loss"])}
    return {**told, "measures": measures} if "measures" in line else told
