"""Who is late or away in a run that goes on, below its bar."""

from __future__ import annotations

from coterie.core.errors import BadRun
from coterie.features.live.live import read_live
from coterie.features.live.screen import missing
from coterie.show.blocks import Block, Note
from coterie.show.parts import Part, Runs


def _missing_part(runs: Runs) -> list[Block]:
    try:
        line = "" if runs.folder is None else missing(read_live(runs.folder))
    except (BadRun, OSError):  # before it begins, there is nothing to see
        line = ""
    return [Note(line)] if line else []


PARTS = (Part("missing", "", 10, _missing_part, on="bar"),)
