"""What a run does at this moment, for who looks on: now.json, which is replaced while the run goes on.

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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.core.errors import BadRun
from coterie.storage.atomic import replace_shown
from coterie.storage.events import moment

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
