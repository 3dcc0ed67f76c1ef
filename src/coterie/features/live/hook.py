"""A run's own observer: what nets and rounds tell goes into the files of its folder.

What happened goes into events.jsonl, what the run does at this moment into now.json, which is replaced while
the run goes on, for who looks on:

    {"time", "pid": of the process, "since": when that began or went on, "round": r, "of": rounds,
     "doing": training, scoring, mixing, waiting or writing,
     "asked": {site: since when it has not answered}, "here": [site], "away": {site: why}}

Where sites are in this process nobody is asked, and the last three stay empty. A thread writes it, at most
every half second and only if something has changed, so that rounds of a millisecond cost no more.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie.core.errors import BadRun, Diverged, Refused, lines_of
from coterie.core.observer import Doing, What
from coterie.runs.hooks import Hook, Run
from coterie.storage.atomic import replace_shown
from coterie.storage.events import Events, moment

FILE = "now.json"
EVERY = 0.5  # seconds


class Now:
    """That of a run's folder, to change; `close` ends its thread.

    told    what the file is to say, but that times in `asked` are seconds
    """

    def __init__(self, folder: Path, round: int, of: int) -> None:
        self.path = folder / FILE
        self.told: Mapping[str, Any] = {"pid": os.getpid(), "since": moment(), "round": round, "of": of}
        self.told |= {"doing": "training", "asked": {}, "here": [], "away": {}}
        self._written: Mapping[str, Any] | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="coterie-now", daemon=True)
        self._thread.start()

    def set(self, **values: Any) -> None:
        if any(self.told[name] != value for name, value in values.items()):
            self.told = {**self.told, **values}

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _keep(self) -> None:
        self._write()
        while not self._over.wait(EVERY):
            self._write()
        self._write()

    def _write(self) -> None:
        """What is told now, unless that is written already."""
        if self._written is not self.told:
            self._written = told = self.told
            asked = {name: moment(since) for name, since in told["asked"].items()}
            with contextlib.suppress(BadRun):  # a full disk ends a run where something is lost by it
                replace_shown(self.path, json.dumps({"time": moment(), **told, "asked": asked}) + "\n")


def read_now(folder: Path) -> Mapping[str, Any]:
    """What the file says; nothing if there is none, or none that can be read."""
    try:
        told = json.loads((folder / FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


class _Observing:
    """Of a run's folder; without one, nothing is written."""

    def __init__(self, folder: Path | None, rounds: int) -> None:
        self.folder, self.rounds, self.at = folder, rounds, 0
        self._events = None if folder is None else Events(folder)
        self._now: Now | None = None

    def begin(self, after: int | None, played: bool = False) -> None:
        """A run begins, or goes on after a round, None if none was kept; one whose rounds are all played, and
        that is known to be finished, is only looked at.
        """
        if self.folder is None or self._events is None:
            return
        if played and self._events.last == "finished":
            self._events = None
            return
        self.at, self._now = after or 0, Now(self.folder, after or 0, self.rounds)
        if after is None and self._events.last is None:
            self.happened("begun")
        else:
            self.happened("resumed", None, f"after round {after}" if after else "from its beginning")

    def round(self, round: int) -> None:
        """A round begins."""
        self.at = round
        self._set(round=round)

    def happened(self, what: What, who: str | None = None, why: str = "") -> None:
        if self._events is not None:
            self._events.append(self.at, what, who, why)

    @contextlib.contextmanager
    def doing(self, what: Doing) -> Iterator[None]:
        before = "training" if self._now is None else self._now.told["doing"]
        self._set(doing=what)
        try:
            yield
        finally:
            self._set(doing=before)

    def sees(self, here: Sequence[str], away: Mapping[str, str]) -> None:
        self._set(here=list(here), away=dict(away))

    def asked(self, names: Collection[str]) -> None:
        if self._now is not None:
            since, now = self._now.told["asked"], time.time()
            self._now.set(asked={name: since.get(name, now) for name in names})

    def _set(self, **values: object) -> None:
        if self._now is not None:
            self._now.set(**values)

    def close(self) -> None:
        if self._now is not None:
            self._now.close()


@contextlib.contextmanager
def observing(folder: Path | None, rounds: int) -> Iterator[_Observing]:
    """Inside, a run goes on; how it ends is written down."""
    seen = _Observing(folder, rounds)
    try:
        yield seen
    except BaseException as error:
        what, why = _end_of(error)
        with contextlib.suppress(BadRun):  # what ended the run may be why nothing can be written
            seen.happened(what, None, why)
        raise
    finally:
        seen.close()


class _LiveHook(Hook):
    order = 90

    @contextlib.contextmanager
    def inside(self, run: Run) -> Iterator[None]:
        with observing(run.folder.path if run.folder else None, run.experiment.rounds) as self.seen:
            run.observer = self.seen
            yield

    def start(self, run: Run, after: int | None) -> None:
        self.seen.begin(after, run.record.finished)

    def round(self, run: Run, round: int) -> None:
        self.seen.round(round)

    def over(self, run: Run) -> None:
        ended = run.record.ended
        if run.folder:
            self.seen.happened("finished", None, f"the budget of {ended} is spent" if ended else "")


def _end_of(error: BaseException) -> tuple[What, str]:
    """How an error ends a run, and what it says."""
    line = "; ".join(lines_of(error))
    if isinstance(error, KeyboardInterrupt):
        return "stopped", line
    if isinstance(error, Diverged):
        return "diverged", line
    if isinstance(error, Refused):
        return "refused", line
    return "failed", line or type(error).__name__


HOOK = _LiveHook
