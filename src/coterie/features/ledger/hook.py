"""The ledger of a run while it goes on: entries are written after each round, and shown to who signs, with
its own part of the record.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coterie.features.ledger import entries, heads
from coterie.nets.wrapped import innermost
from coterie.runs.folder import read_about
from coterie.runs.hooks import Hook, Run, Turn
from coterie.runs.record import triplets
from coterie.runs.site_view import ViewPublisher
from coterie.storage import chain
from coterie.storage.atomic import sync
from coterie.storage.chain import Broken, Entry


class _LedgerHook(Hook):
    """Of a run's folder; without one, nothing is written."""

    order = 80

    def begin(self, run: Run) -> None:
        self.folder = run.folder.path if run.folder else None
        self.net, self.shows = innermost(run.net), ViewPublisher(run.record)
        self.waiting: dict[str, Any] | None = None
        self.last: Entry | None = None
        if self.folder is None:
            return
        record, bound = run.record, self.net.run_identity()
        self.last = chain.last_of(self.folder)
        if self.last is None:
            about = read_about(self.folder / "run.json")
            self._write(entries.begin(run.experiment.config, about, record.metrics, bound))
        else:  # written once something comes after it
            found = chain.read(self.folder)  # with the ids that it names its run by: None where it names none
            said = [] if isinstance(found, Broken) else [entry.content for entry in found]
            runs = {one.get("run") for one in said if one.get("kind") == "begin" or "run" in one}
            anew = {} if bound.get("run") in runs else bound
            self.waiting = entries.resumed(record.done, record.metrics, anew)

    def written(self, run: Run, turn: Turn) -> None:
        if run.folder and turn.info is not None:
            weights = turn.info.weights.float().numpy()
            self._write(entries.round_of(turn.entry, weights, triplets(turn.moved)))

    def over(self, run: Run) -> None:
        self._end(run)

    def diverged(self, run: Run, why: str) -> None:
        self._end(run, why)

    def _end(self, run: Run, why: str = "") -> None:
        """Sites are shown that the run is over, and why there is no result, if there is none."""
        if run.folder is None:
            return
        self.shows.over, self.shows.diverged = True, why
        told = entries.end(run.done, run.folder.path, why)
        if self.last is None or self.last.content != told:
            self._write(told)
        elif why:
            self._show(run.folder.path)

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
        if not self.net.signs:
            return
        sync(folder / chain.FILE)  # before anybody signs it: a power failure would be a fork
        heads.write(folder / heads.SIGNATURES, self.net.witness(folder, self.shows))


HOOK = _LedgerHook
