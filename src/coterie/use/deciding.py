"""To decide of models that are there: `runs/deciding.py` writes it down, and a threshold takes effect."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coterie.runs.compare import is_comparison
from coterie.runs.deciding import Asked, checked
from coterie.runs.deciding import decide as written_down
from coterie.runs.folder import is_run
from coterie.storage.decided import user
from coterie.use.cut import Cut
from coterie.use.cuts import write_cut
from coterie.use.folders import record_in


def decide(path: Path, client: str, asked: Sequence[Asked], by: str = "") -> list[dict[str, Any]]:
    """As `runs.deciding.decide`; from then on the client's model, in each run of a comparison, says the class
    from the decided probability on.
    """
    checked(path, client, asked)
    cuts = [Cut(told["class"], told["at"]) for kind, told in asked if kind == "threshold"]
    folders = sorted(p for p in path.glob("*/seed-*") if is_run(p)) if is_comparison(path) else [path]
    for folder in folders if cuts else ():
        record_in(folder)  # models of a federation are at their sites
    for folder in folders:
        for cut in cuts:
            write_cut(folder, client, cut, by or user())
    return written_down(path, client, asked, by)
