"""A run's own observer: what nets and rounds tell goes into the files of its folder."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from coterie.core.errors import BadRun
from coterie.core.observer import Doing, What
from coterie.runs.now import Now
from coterie.storage.events import Events, end_of


class Observing:
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
def observing(folder: Path | None, rounds: int) -> Iterator[Observing]:
    """Inside, a run goes on; how it ends is written down."""
    seen = Observing(folder, rounds)
    try:
        yield seen
    except BaseException as error:
        what, why = end_of(error)
        with contextlib.suppress(BadRun):  # what ended the run may be why nothing can be written
            seen.happened(what, None, why)
        raise
    finally:
        seen.close()
