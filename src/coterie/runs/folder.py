"""A run as a folder.

    config.toml             the resolved settings: what to compute
    run.json                versions, commit, machine, command, clients: where and on what
    metrics.jsonl           one line a round, the same each time the run is repeated
    timings.jsonl           one line a round, different each time
    collaboration/00001.npz who listened to whom in round 1
    checkpoint.safetensors  the state after a finished round
    models.safetensors      every client's model, once the run is over
    report.html             the page

A round is written in this order: timings, matrix, metrics, checkpoint. So the checkpoint is never ahead of
the rest, and going on from it first drops what came after it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import tomli_w
from torch import Tensor

from coterie.core.errors import BadRun
from coterie.core.method import Models
from coterie.runs import checkpoint
from coterie.runs.files import (
    append_line,
    keep_lines,
    read_lines,
    readable_errors,
    replace_atomically,
)
from coterie.runs.record import Record
from coterie.runs.settings import digest, read_toml

LOCK = ".lock"


class Folder:
    """An open run folder, locked against a second process; the lock dies with the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[str] = _locked(path)

    def close(self) -> None:
        self._lock.close()

    @staticmethod
    def create(path: Path, config: Mapping[str, Any], about: Mapping[str, Any]) -> Folder:
        """Makes the folder in one move: it either holds its config or is not there."""
        if path.is_dir() and any(path.iterdir()):
            held = "holds a run" if is_run(path) else "is not empty"
            go_on = f"go on with 'coterie resume {path}' or " if is_run(path) else ""
            raise BadRun(f"output folder {path} {held}: {go_on}choose another --out")
        home = path.absolute()  # "." cannot be renamed over
        with readable_errors(path):
            home.parent.mkdir(parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(prefix=f".{home.name}.", dir=home.parent))
            try:
                (draft / "config.toml").write_text(tomli_w.dumps(dict(config)))
                (draft / "run.json").write_text(json.dumps(about, indent=2) + "\n")
                (draft / "collaboration").mkdir()
                draft.chmod(0o755)
                draft.replace(home)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
        return Folder(path)

    def write_round(
        self, line: Mapping[str, Any], timing: Mapping[str, Any], weights: np.ndarray | None
    ) -> None:
        append_line(self.path / "timings.jsonl", dict(timing))
        if weights is not None:
            matrix = self.path / "collaboration" / f"{line['round']:05d}.npz"
            replace_atomically(matrix, _savez(weights))
        append_line(self.path / "metrics.jsonl", dict(line))

    def save(self, state: Any, round: int, config: Mapping[str, Any]) -> None:
        checkpoint.save(self.path / "checkpoint.safetensors", state, checkpoint.Stamp(round, digest(config)))

    def restore(self, kind: type, config: Mapping[str, Any]) -> tuple[Any, int] | None:
        """The saved state and its round, after dropping what was written beyond it; None before the first."""
        path, done, state = self.path / "checkpoint.safetensors", -1, None
        if path.exists():
            state, stamp = checkpoint.load(path, kind, digest(config))
            done = stamp.round
        for name in ("metrics.jsonl", "timings.jsonl"):
            keep_lines(self.path / name, lambda entry: entry["round"] <= done)
        with readable_errors(self.path):
            for matrix in (self.path / "collaboration").glob("[0-9]*.npz"):
                if int(matrix.stem) > done:
                    matrix.unlink()
            # what a kill left half-written under a temporary name, ours or a library's
            for draft in (*self.path.glob(".*"), *self.path.glob("collaboration/.*")):
                if draft.name != LOCK:
                    draft.unlink()
        return None if state is None else (state, done)

    def save_models(self, models: Models, clients: list[str]) -> None:
        header = {"clients": clients, "of": models.of.tolist()}
        checkpoint.write_tensors(self.path / "models.safetensors", dict(models.beliefs), header)


class StoredMatrices(Mapping[int, np.ndarray]):
    """Who listened to whom, read from the folder when asked for: for many clients all would not fit."""

    def __init__(self, path: Path) -> None:
        self._path = path / "collaboration"

    def __getitem__(self, round: int) -> np.ndarray:
        try:
            with np.load(self._path / f"{round:05d}.npz") as file:
                return np.asarray(file["weights"])
        except FileNotFoundError:
            raise KeyError(round) from None

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(int(m.stem) for m in self._path.glob("[0-9]*.npz")))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def is_run(path: Path) -> bool:
    return (path / "config.toml").exists() and (path / "run.json").exists()


def read_record(path: Path, label: str | None = None) -> Record:
    """What a run, finished or not, says of itself so far."""
    if not is_run(path):
        raise BadRun(f"{path} is not a run folder: it has no config.toml and run.json")
    config = read_toml(path / "config.toml")
    for key in ("method", "rounds"):
        if key not in config:
            raise BadRun(f"{path / 'config.toml'} has no {key}: start this run anew")
    try:
        about = json.loads((path / "run.json").read_text())
    except json.JSONDecodeError as error:
        raise BadRun(f"{path / 'run.json'} is damaged ({error}): start this run anew") from None
    return Record(
        label=label or config["method"],
        config=config,
        about=about,
        metrics=read_lines(path / "metrics.jsonl"),
        timings=read_lines(path / "timings.jsonl"),
        weights=StoredMatrices(path),
    )


def read_models(path: Path) -> dict[str, dict[str, Tensor]]:
    """Each client's belief, from a finished run."""
    file_path = path / "models.safetensors"
    if not file_path.exists():
        raise BadRun(f"{path} has no models yet: finish it with 'coterie resume {path}'")
    tensors, header = checkpoint.read_tensors(file_path)
    owners = zip(header["clients"], header["of"], strict=True)
    return {client: {n: t[row] for n, t in tensors.items()} for client, row in owners}


def _savez(weights: np.ndarray) -> Callable[[Path], None]:
    def write(draft: Path) -> None:
        with draft.open("wb") as file:
            np.savez_compressed(file, weights=weights.astype(np.float32))

    return write


def _locked(path: Path) -> IO[str]:
    with readable_errors(path):
        lock = (path / LOCK).open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise BadRun(
            f"output folder {path} is in use by another process: wait for it or choose another --out"
        ) from None
    lock.write(str(os.getpid()))
    lock.flush()
    return lock
