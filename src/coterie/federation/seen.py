"""What a site is shown of a run while it goes on, kept as a run's folder: STATE/shown/RUN.

    config.toml, run.json    the settings, and what the run is about; who leads it, whose part this is, a
                             mark of the rows that it has here, when it began
    metrics.jsonl, timings.jsonl, collaboration.jsonl    a line a round, with nothing for other sites
    calibration.npz, privacy.json    once the run is over; model.json says where its model is, from STATE

All of it comes from who leads the run, and is checked before a byte is written (`parts.py`). Rounds that are
done again replace what was there. While the site is in the run it has the folder's lock, by which others know
that the run goes on.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from coterie.core.errors import Refused, shown
from coterie.federation.parts import Part, Seat, matrices_of, part_of
from coterie.storage import locks
from coterie.storage.arrays import write_arrays
from coterie.storage.atomic import readable_errors, write_whole
from coterie.storage.events import Events
from coterie.storage.rounds import LINES, drop_after, write_round, written

FOLDER = "shown"
KEPT = 50  # runs
MOST_BYTES = 64 << 20  # of a run's lines


class Seen:
    """The shown runs of a site; of one, the last round is remembered."""

    def __init__(self, state: Path, most_rounds: int) -> None:
        self.state, self.most_rounds = state, most_rounds
        self._at, self._last = ("", ""), -1  # a run and who leads it
        self._lock: IO[str] | None = None
        self._locked = ""

    def folder(self, run: str) -> Path:
        return self.state / FOLDER / run

    def take(self, seat: Seat, told: Any) -> int | None:
        """Keeps what is new; the last round that is here then, -1 for none, None without the settings."""
        part = part_of(told, seat, self.most_rounds)
        with readable_errors(self.folder(seat.run)):
            return self._keep(seat, part)

    def model(self, run: str, where: str) -> None:
        """The run's model for this site lies there; below the site's folder, told from there."""
        place = Path(where)
        with contextlib.suppress(ValueError):
            place = place.relative_to(self.state)
        if (self.folder(run) / "run.json").exists():
            _write_json(self.folder(run) / "model.json", {"model": place.as_posix()})

    def let_go(self) -> None:
        """The site is in no run any more, or in another."""
        if self._lock is not None:
            self._lock.close()
        self._lock, self._locked = None, ""

    def _keep(self, seat: Seat, part: Part) -> int | None:
        folder = self.folder(seat.run)
        if part.config is not None:
            self._begin(seat, part.config, part.about)
        if not (folder / "run.json").exists():
            return None
        last, self._at = self._found(seat), ("", "")  # until all is written
        if self._locked != seat.run:
            self.let_go()
            self._lock, self._locked = locks.locked(folder), seat.run
        new = part.rounds
        if new and new[0].line["round"] <= last:
            last = new[0].line["round"] - 1
            drop_after(folder, last)
        for one in new if new and new[0].line["round"] == last + 1 else ():
            if sum((folder / name).stat().st_size for name in LINES if (folder / name).exists()) > MOST_BYTES:
                raise Refused(f"more than {MOST_BYTES >> 20} MB of one run's record: no more is kept of it")
            write_round(folder, one.line, one.timing, *matrices_of(one.heard, seat))
            last += 1
        if part.calibration is not None:
            write_arrays(folder / "calibration.npz", part.calibration)
        if part.privacy is not None:
            _write_json(folder / "privacy.json", part.privacy)
        if part.diverged:
            Events(folder).append(last, "diverged", None, part.diverged)
        elif new and (events := Events(folder)).last == "diverged":
            events.append(last, "resumed")
        self._at, self._last = (seat.run, seat.leader), last
        return last

    def _begin(self, seat: Seat, config: str, about: Mapping[str, Any]) -> None:
        """Writes the settings; anew for a run that is there, which began when it began."""
        folder, before = self.folder(seat.run), dict[str, Any]()
        if (folder / "run.json").exists():
            before = self._before(seat)
        else:
            folder.parent.mkdir(mode=0o700, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            forget_old(folder.parent)
        note = f"{seat.name}'s part of a run that {seat.leader} leads: figures of other sites are not in it"
        times = before.get("times", {"started": time.strftime("%Y-%m-%dT%H:%M:%S%z")})
        mine = {"lead": seat.leader, "site": seat.name, "rows": seat.rows, "notes": [note], "times": times}
        write_whole(folder / "config.toml", config)
        _write_json(folder / "run.json", {**about, **mine})

    def _before(self, seat: Seat) -> dict[str, Any]:
        """What run.json says; a run belongs to who began it."""
        told: dict[str, Any] = json.loads((self.folder(seat.run) / "run.json").read_bytes())
        if told.get("lead") != seat.leader:
            raise Refused(f"this run was led by {shown(told.get('lead'))}, not by {shown(seat.leader)}")
        return told

    def _found(self, seat: Seat) -> int:
        """The last round that is here; what a kill left after it goes."""
        if (seat.run, seat.leader) == self._at:
            return self._last
        self._before(seat)
        last = written(self.folder(seat.run))
        drop_after(self.folder(seat.run), last)
        return last


def forget_old(folder: Path) -> None:
    """Of the runs that were shown, those heard of last stay."""
    runs = [path for path in folder.iterdir() if path.is_dir()]
    for path in sorted(runs, key=last_heard)[:-KEPT]:
        shutil.rmtree(path, ignore_errors=True)


def last_heard(folder: Path) -> float:
    return max(path.stat().st_mtime for path in (folder, *folder.iterdir()))


def _write_json(path: Path, told: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(told, indent=2) + "\n")
