"""Who is connected, as a site sees it: here.json of its state folder, for its own people.

    {"time": when it changed, "connected": whether the site has a line, "here": [name]}

A site that waits is asked nothing, so that this is all that it knows of the others until the next round.
"""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.core.errors import BadRun
from coterie.storage.atomic import replace_shown

if TYPE_CHECKING:
    from coterie.federation.presence import Presence

FILE = "here.json"


class Here:
    """Keeps the file up to date, by a look now and then."""

    def __init__(self, state: Path, presence: Presence) -> None:
        self.path, self.presence = state / FILE, presence
        self.version = -1

    def look(self) -> None:
        if self.presence.version == self.version:
            return
        self.version = self.presence.version
        told = {"connected": self.presence.known, "here": sorted(self.presence.members())}
        with contextlib.suppress(BadRun):  # a full disk ends nothing for want of this
            replace_shown(
                self.path, json.dumps({"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **told}) + "\n"
            )


def read_here(state: Path) -> frozenset[str] | None:
    """Who is connected; nobody, if the site itself is not; None where that is not known."""
    try:
        told = json.loads((state / FILE).read_bytes())
        return frozenset(map(str, told["here"])) if told["connected"] else frozenset()
    except (OSError, ValueError, LookupError, TypeError):
        return None
