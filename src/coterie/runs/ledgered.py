"""The ledger of a run while it goes on: entries are written after each round, and shown to who signs, with
its own part of the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.core.method import Info
from coterie.ledger import chain, entries, heads
from coterie.ledger.chain import Broken, Entry
from coterie.nets.counting import Traffic
from coterie.nets.wrapped import innermost
from coterie.runs.experiment import Experiment
from coterie.runs.folder import read_about
from coterie.runs.record import Record, triplets
from coterie.runs.showing import Showing
from coterie.storage.atomic import sync


class Ledger:
    """Of a run's folder; without one, nothing is written."""

    def __init__(self, folder: Path | None, experiment: Experiment, record: Record) -> None:
        self.folder, self.net, self.shows = folder, innermost(experiment.net), Showing(record)
        self.waiting: dict[str, Any] | None = None
        self.last: Entry | None = None
        if folder is None:
            return
        bound: dict[str, str] = getattr(self.net, "bound", dict)()
        self.last = chain.last_of(folder)
        if self.last is None:
            about = read_about(folder / "run.json")
            self._write(entries.begin(experiment.config, about, record.metrics, bound))
        else:  # written once something comes after it
            anew = {} if bound.get("run") in runs_in(folder) else bound
            self.waiting = entries.resumed(record.done, record.metrics, anew)

    def round(self, line: Mapping[str, Any], info: Info, moved: Traffic) -> None:
        if self.folder is not None:
            self._write(entries.round_of(line, info.weights.float().numpy(), triplets(moved)))

    def end(self, rounds: int) -> None:
        if self.folder is None:
            return
        told, self.shows.over = entries.end(rounds, self.folder), True
        if self.last is None or self.last.content != told:
            self._write(told)

    def diverged(self, rounds: int, why: str) -> None:
        """The run ends without a result, and sites are shown why."""
        if self.folder is None:
            return
        self.shows.over, self.shows.diverged = True, why
        told = entries.end(rounds, self.folder, why)
        if self.last is None or self.last.content != told:
            self._write(told)
        else:
            self._show(self.folder)

    def _write(self, content: dict[str, Any]) -> None:
        if self.folder is None:
            return
        for some in (self.waiting, content):
            if some is not None:
                self.last = chain.after(self.last, some)
                chain.append(self.folder, self.last)
        self.waiting = None
        self._show(self.folder)

    def _show(self, folder: Path) -> None:
        """Sites elsewhere sign the new head, each from the one on that it has signed last, and are shown what
        is new of theirs.
        """
        witness = getattr(self.net, "witness", None)
        if witness is not None:
            sync(folder / chain.FILE)  # before anybody signs it: a power failure would be a fork
            heads.write(folder / heads.SIGNATURES, witness(folder, self.shows))


def runs_in(folder: Path) -> set[Any]:
    """The ids that a ledger names its run by: None where it names none, in a simulation."""
    found = chain.read(folder)
    contents = [] if isinstance(found, Broken) else [entry.content for entry in found]
    return {content.get("run") for content in contents if content.get("kind") == "begin" or "run" in content}
