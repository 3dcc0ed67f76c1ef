"""What happened at a site within a day, in files of its state folder: each line has a time and what it is."""

from __future__ import annotations

import time
from pathlib import Path

from coterie.federation.state_folders import kin_of
from coterie.storage.atomic import readable_errors

A_DAY = 24 * 3600


class Days:
    def __init__(self, state: Path) -> None:
        self.state = state

    def since(self, name: str) -> set[str]:
        """What was written into a file within a day, of these rows under any name: each line has a time and
        what it is about.
        """
        since = time.time() - A_DAY
        paths = [folder / name for folder in (self.state, *kin_of(self.state))]
        lines = [line for path in paths if path.exists() for line in path.read_text().splitlines()]
        return {mark for when, _, mark in (line.partition(" ") for line in lines) if float(when) > since}

    def append(self, name: str, mark: str) -> None:
        with readable_errors(self.state / name), (self.state / name).open("a") as file:
            file.write(f"{time.time():.0f} {mark}\n")
