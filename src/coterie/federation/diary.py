"""Who asked what of a site, and what came of it: asked.jsonl."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from coterie.federation.says import asked

ASKED = "asked.jsonl"
LARGEST = 64 << 20  # bytes of it, before a new one is begun
LONGEST = 8_000  # letters of an outcome


class Diary:
    def __init__(self, state: Path, say: Callable[[str], None]) -> None:
        self.state, self.say = state, say
        self.mute = False  # whether people know that nothing can be written down

    def write(self, leader: str, message: Mapping[str, Any], outcome: str, does: str = "") -> None:
        """`does` is what a visit did, in words."""
        entry: dict[str, Any] = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "by": leader}
        run = message.get("run")
        entry |= {"run": None if run is None else str(run)[:64], "asked": asked(message)}
        entry["outcome"] = outcome if len(outcome) <= LONGEST else f"{outcome[:LONGEST]} ..."
        entry |= {"does": does} if does else {}
        try:
            path = self.state / ASKED
            if path.exists() and path.stat().st_size > LARGEST:
                path.replace(path.with_suffix(".old.jsonl"))
            with path.open("a") as file:
                file.write(json.dumps(entry) + "\n")
            self.mute = False
        except OSError as error:  # a full disk must not end the process
            if not self.mute:
                self.say(f"{ASKED} cannot be written: {error.strerror}: free space")
            self.mute = True
