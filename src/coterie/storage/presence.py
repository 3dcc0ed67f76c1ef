"""Who is connected, as a site sees it: presence.json of its state folder, for its own people.

    {"time": when it changed, "connected": whether the site has a line, "here": [name]}

A site that waits is asked nothing, so that this is all that it knows of the others until the next round.
"""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

from coterie.core.errors import BadRun
from coterie.storage.atomic import replace_shown

FILE, _EARLIER = "presence.json", "here.json"  # earlier versions called it so


class PresenceFile:
    """Keeps the file up to date, by a look now and then: `presence` has `members()`, its `version` counts
    changes, and `known` says whether we are connected ourselves.
    """

    def __init__(self, state: Path, presence: Any) -> None:
        self.path, self.presence = state / FILE, presence
        self.version = -1

    def look(self) -> None:
        if self.presence.version == self.version:
            return
        self.version = self.presence.version
        told = {"connected": self.presence.known, "here": sorted(self.presence.members())}
        with contextlib.suppress(BadRun):  # a full disk ends nothing for want of this
            when = time.strftime("%Y-%m-%dT%H:%M:%S%z")
            replace_shown(self.path, json.dumps({"time": when, **told}) + "\n")


def read_presence(state: Path) -> frozenset[str] | None:
    """Who is connected; nobody, if the site itself is not; None where that is not known."""
    try:
        path = state / (FILE if (state / FILE).exists() else _EARLIER)
        told = json.loads(path.read_bytes())
        return frozenset(map(str, told["here"])) if told["connected"] else frozenset()
    except (OSError, ValueError, LookupError, TypeError):
        return None
