"""A run as a folder.

    config.toml             the resolved settings: what to compute
    run.json                versions, commit, machine, command, clients: where and on what
    metrics.jsonl           one line a round, the same each time the run is repeated
    timings.jsonl           one line a round, and one for the whole command at its end; different each time
    events.jsonl            what happens besides: who goes and comes, how it ends; different each time, and
                            nothing is ever dropped from it (see `storage/events.py`)
    now.json                what it does at this moment, replaced while it goes on (`features/live/hook.py`)
    collaboration.jsonl     one line a round: who listened to whom, what passed, and further matrices of the
                            method by name (see `storage/rounds.py`)
    ledger.jsonl            a chain of what happened, one line a round, in which nothing is ever changed
                            (`features/ledger/`); signatures.jsonl has who signed its heads, in a federation
    checkpoint.safetensors  the state after a finished round; checkpoints/ has those of earlier ones, if the
                            run keeps a history
    models.safetensors      every client's model, once the run is over; on other nets than in-process each
                            site has written its own into models/
    calibration.npz         how sure they are and how often right, once the run is over
    outcomes.npz            what came of each test row, probabilities.npz what was said of it, once the run is
                            over, if all clients are in this process (see `artifacts.py`)
    recalibration.json      what models in use do to probabilities, once the run is over, by client
    cuts.json               where clients decided to cut probabilities, if any did (see `use/cut.py`)
    privacy.json            what looking at rows has cost each site, once the run is over, if it has a bound
    energy.json             what a tracker of energy said, if one was asked (see `features/energy/`)
    features.safetensors    the frozen layers, in last-layer mode, once the run is over
    posteriors/NAME.safetensors  what client NAME sent, for `coterie posterior add`, if it sent a posterior
    decisions.jsonl         what people decided of the run (see `storage/decisions.py`)
    report.html             the page

A round is written in this order: timings, matrices, metrics, checkpoint. So after a kill the checkpoint is
never ahead of the rest, and going on from it first drops what came after it. All of it is synced to the disk
once a second at most, and at the end. Should a power failure in between keep a checkpoint and lose lines
before it, the run begins anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import quote

import tomli_w
import torch
from safetensors import SafetensorError
from torch import Tensor

from coterie import features
from coterie.core import belief as tree
from coterie.core.belief import Belief
from coterie.core.clock import CLOCK
from coterie.core.errors import BadRun, shown
from coterie.core.method import Models
from coterie.core.net import Net
from coterie.runs.record import Record
from coterie.runs.settings import digest, read_toml
from coterie.storage import checkpoint, locks
from coterie.storage.atomic import append_line, brought_back, read_lines, readable_errors, sync, write_whole
from coterie.storage.chain import FILE as LEDGER
from coterie.storage.events import read_divergence, refuse_without_result
from coterie.storage.rounds import (
    LINES,
    METRICS,
    PASSED,
    TIMINGS,
    StoredByName,
    StoredMatrices,
    StoredRounds,
    drop_after,
    written,
)
from coterie.storage.tensors import read_tensors, write_tensors

T = TypeVar("T")

POSTERIORS = "posteriors"
CHECKPOINTS = "checkpoints"
MODELS = "models"
EVERY = 1.0  # seconds between syncs, each of which takes as long as a short round


class Folder:
    """An open run folder, locked against a second process; the lock dies with the process."""

    def __init__(self, path: Path, made: Sequence[Path] = ()) -> None:
        self.path, self._made = path, tuple(made)
        self._lock: IO[str] = locks.locked(path)
        self._synced = time.monotonic()
        self._config: Mapping[str, Any] | None = None
        self._digest = ""
        self._kind: type | None = None

    def close(self) -> None:
        self._lock.close()

    @staticmethod
    def create(path: Path, config: Mapping[str, Any], about: Mapping[str, Any]) -> Folder:
        """Makes the folder in one move: it either holds its config or is not there.

        Into a folder that is there already and empty, files are written one by one: it may be the one that
        somebody is in.
        """
        refuse_full(path)
        files = {"config.toml": tomli_w.dumps(dict(config)), "run.json": json.dumps(about, indent=2) + "\n"}
        made = not_there(path)
        try:
            with readable_errors(path):
                if made or not path.is_dir():
                    with whole_folder(path) as draft:
                        for name, text in files.items():
                            (draft / name).write_text(text)
                else:
                    for name, text in files.items():
                        write_whole(path / name, text)
            return Folder(path, made)
        except BaseException:
            empty(path, made)
            raise

    def discard(self) -> None:
        """Removes all that is in the folder, and those folders that were made for it and nobody else uses."""
        self.close()
        empty(self.path, self._made)

    @property
    def rounds(self) -> int:
        return max((entry["round"] for entry in read_lines(self.path / METRICS)), default=0)

    def save(self, state: Any, round: int, config: Mapping[str, Any], kept: Mapping[str, Tensor]) -> None:
        if self._config is not config:  # the same in all rounds
            self._config, self._digest = config, digest(config)
        stamp = checkpoint.Stamp(round, self._digest)
        due = time.monotonic() - self._synced >= EVERY
        if due:
            self.sync()
        path = self.path / "checkpoint.safetensors"
        checkpoint.save(path, state, stamp, kept, durable=due, kind=self._kind)
        if config.get("history") and round and round % int(config["history"]) == 0:
            with readable_errors(self.path):
                (self.path / CHECKPOINTS).mkdir(exist_ok=True)
                shutil.copyfile(path, self.path / CHECKPOINTS / f"{round:05d}.safetensors")

    def sync(self) -> None:
        """Waits until the lines so far are on the disk."""
        for name in (*LINES, LEDGER):
            if (self.path / name).exists():
                sync(self.path / name)
        self._synced = time.monotonic()

    def restore(self, kind: type, config: Mapping[str, Any]) -> checkpoint.Saved | None:
        """What was saved, after dropping what was written beyond it; None before the first. What is saved
        from now on is of this kind.
        """
        self._kind = kind
        path, saved = brought_back(self.path / "checkpoint.safetensors"), None
        if path.exists():
            saved = checkpoint.load(path, kind, digest(config))
            if written(self.path) < saved.stamp.round:
                saved = None
        done = -1 if saved is None else saved.stamp.round
        drop_after(self.path, done)
        with readable_errors(self.path):
            # what a kill left half-written under a temporary name, ours or a library's
            places = ("", f"{POSTERIORS}/")
            for draft in (d for place in places for d in self.path.glob(f"{place}.*")):
                if draft.name != locks.NAME:
                    draft.unlink()
        return saved

    def save_models(self, models: Models, clients: Sequence[str], net: Net) -> None:
        """Those that stand for the clients; the draws of a posterior are not among them.

        Where sites are elsewhere, each writes its own; models.safetensors then says whose files there are.
        """
        used, of = torch.unique(models.of, return_inverse=True)
        header: dict[str, Any] = {"clients": list(clients), "of": of.tolist()}
        mine = models.beliefs.rows(used)
        tensors = net.peek(mine)
        if tensors is None:
            names = [f"{i:05d}.safetensors" for i in range(len(used))]
            (self.path / MODELS).mkdir(exist_ok=True)
            net.save(mine, {i: str((self.path / MODELS / name).absolute()) for i, name in enumerate(names)})
            header["files"] = names
        write_tensors(self.path / "models.safetensors", tensors or {}, header)


def not_there(path: Path) -> list[Path]:
    """The folder and those above it that are still to be made."""
    return [place for place in (path, *path.parents) if not place.exists()]


def empty(path: Path, made: Sequence[Path]) -> None:
    """Removes what is in a folder, and of the folders that were made for it those that nobody else uses."""
    for place in path.glob("*"):
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place, ignore_errors=True)
        else:
            place.unlink(missing_ok=True)
    for place in made:
        with contextlib.suppress(OSError):
            place.rmdir()


def refuse_full(path: Path) -> None:
    """Refuses a folder that holds anything, with the way on if that is a run or a comparison."""
    if path.is_dir() and any(path.iterdir()):
        runs = {"config.toml": "run", "compare.toml": "comparison", "tune.toml": "tuning"}
        kind = next((kind for name, kind in runs.items() if (path / name).exists()), "")
        held = f"holds a {kind}: {way_on(path)} or" if kind else "is not empty:"
        raise BadRun(f"output folder {path} {held} choose another --out")


def way_on(path: Path) -> str:
    """How to go on with what a folder holds: in the shell, unless only Python has its data or its model, or
    somebody else leads the run.
    """
    if is_run(path) and (lead := read_about(path / "run.json").get("lead")):
        return f"it is a site's part of a run, and {lead}, who leads it, can go on with it"
    for name, function in (("config.toml", "train"), ("compare.toml", "compare")):
        if (path / name).exists() and "given" in read_toml(path / name):
            return f"call coterie.{function} again with out={str(path)!r}, resume=True"
    return f"go on with 'coterie resume {shlex.quote(str(path))}'"


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which gets its name once it is full."""
    home = path.absolute()
    with readable_errors(path):
        home.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{home.name}.", dir=home.parent))
        try:
            yield draft
            draft.chmod(0o755)
            draft.replace(home)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def is_run(path: Path) -> bool:
    return (path / "config.toml").exists() and (path / "run.json").exists()


def read_record(path: Path, label: str | None = None, stored: StoredRounds | None = None) -> Record:
    """What a run, finished or not, says of itself so far; `stored` are its matrices, if somebody has them."""
    if not is_run(path):
        raise BadRun(f"{path} is not a run folder: it has no config.toml and run.json")
    config = read_toml(path / "config.toml")
    for key in ("method", "rounds"):
        if key not in config:
            raise BadRun(f"{path / 'config.toml'} has no {key}: start this run anew")
    for key, kind in (("method", str), ("rounds", int), ("seed", int)):
        if not isinstance(config.get(key, kind()), kind):
            raise BadRun(
                f"{path / 'config.toml'}: {key} = {shown(config[key])} is damaged: start this run anew"
            )
    about, lines = read_about(path / "run.json"), read_lines(path / METRICS)
    stored = stored or StoredRounds(path)
    if any(not {"round", "scores"} <= set(line) for line in lines):
        raise BadRun(f"{path / METRICS} is damaged: start this run anew")
    if (lines and "sent_bytes" not in lines[0]) or (path / "collaboration").exists():
        raise BadRun(f"{path} was written by an earlier version: run it anew")
    return Record(
        label=label or config["method"],
        config=config,
        about=about,
        metrics=lines,
        timings=[t for t in read_lines(path / TIMINGS) if "round" in t],
        weights=StoredMatrices(stored),
        passed=StoredMatrices(stored, PASSED),
        matrices=StoredByName(stored),
        models=partial(_models, path),
        diverged=partial(read_divergence, path),
        more={name: partial(kept.of, path) for name, kept in features.entries("KEPT").items()},
    )


def kept_files() -> tuple[str, ...]:
    """What features write into a run's folder."""
    return tuple(kept.file for kept in features.entries("KEPT").values())


def read_about(path: Path) -> dict[str, Any]:
    try:
        about: dict[str, Any] = json.loads(path.read_bytes())
        missing = [key for key in ("clients", "task", "notes") if key not in about]
    except (ValueError, RecursionError, TypeError) as error:
        raise BadRun(f"{path} is damaged ({error}): start this run anew") from None
    if not isinstance(about, dict) or missing:
        raise BadRun(f"{path} is damaged (it lacks {', '.join(missing)}): start this run anew")
    return about


def read_models(path: Path) -> dict[str, Belief]:
    file = path / "models.safetensors"
    if not file.exists():
        refuse_without_result(path)
        raise BadRun(f"{path} has no models yet: {way_on(path)}")
    try:
        tensors, header = read_tensors(file)
        owners = list(zip(header["clients"], header["of"], strict=True))
        if "files" in header:
            each = {i: path / MODELS / name for i, name in enumerate(header["files"])}
            each = {i: name for i, name in each.items() if name.exists()}  # others are at their sites
            read = {i: read_tensors(name)[0] for i, name in each.items()}
            return {client: read[row] for client, row in owners if row in read}
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise BadRun(f"{file} is damaged ({error}): delete it and make it again: {way_on(path)}") from None
    return {client: tree.row(tensors, row) for client, row in owners}


def file_name(client: str) -> str:
    """A client's name as that of a file, of any letters and any length."""
    quoted = quote(client, safe=" ")
    if len(quoted) <= 200:
        return quoted
    return f"{quoted[:180]}-{hashlib.sha256(client.encode()).hexdigest()[:12]}"


def _models(path: Path) -> Mapping[str, Belief]:
    return read_models(path) if (path / "models.safetensors").exists() else {}


Spent = dict[str, float]


def write_cost(path: Path) -> None:
    append_line(path / TIMINGS, {"whole": CLOCK.read()})


def read_cost(path: Path) -> Spent | None:
    """Seconds by part of the last command that ended; None before, and for runs from Python."""
    lines = [line["whole"] for line in read_lines(path / TIMINGS) if "whole" in line]
    return lines[-1] if lines else None
