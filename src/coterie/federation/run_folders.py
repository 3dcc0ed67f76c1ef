"""Folders of runs at a site, each of which belongs to who began it."""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.core.errors import BadData, Refused, shown
from coterie.federation.site_plans import BEGAN
from coterie.storage.atomic import readable_errors

RUN = re.compile(r"[0-9a-f]{32}")
OLD = 30 * 24 * 3600  # seconds
MOST_FOLDERS = 20  # of one lead's runs that were not ended
LEADER = "leader"  # in a run's folder: who began it


def run_of(message: Mapping[str, Any]) -> str:
    """The run that a message names; also the name of a folder."""
    run = message.get("run")
    if not isinstance(run, str) or not RUN.fullmatch(run):
        raise BadData(f"{shown(run)} names no run: is it of another version?")
    return run


def home_of(state: Path, run: str, leader: str) -> Path:
    """The folder of a run, which may be there already if that lead began it."""
    folder = state / "runs" / run
    with readable_errors(folder):
        whose = leader_of(folder)
    if whose not in ("", leader):
        raise Refused(f"this run is led by {shown(whose)}, not by {shown(leader)}")
    return folder


def make_home(folder: Path, leader: str, plan: str) -> None:
    """For a run that has begun, with that plan. Of runs that the same lead never ended the oldest go, or a
    lead could fill the disk with them.
    """
    with readable_errors(folder):
        if not folder.exists():
            forget_unended(folder.parent, leader, MOST_FOLDERS - 1)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, text in ((LEADER, leader), (BEGAN, plan)):
            if not (folder / name).exists():
                (folder / name).write_text(text)


def forget_unended(runs: Path, leader: str, most: int) -> None:
    """So many are left, those that were gone on with last."""
    mine = sorted((f for f in runs.glob("*") if leader_of(f) == leader), key=last_use)
    for folder in mine[: max(0, len(mine) - most)]:
        shutil.rmtree(folder, ignore_errors=True)


def forget_old_runs(state: Path) -> None:
    """Runs that were not ended and that nobody has gone on with for long leave nothing behind for ever."""
    for folder in (state / "runs").glob("*"):
        with contextlib.suppress(OSError):
            if time.time() - last_use(folder) > OLD:
                shutil.rmtree(folder)


def leader_of(folder: Path) -> str:
    """Nobody, where there is no run."""
    path = folder / LEADER
    return path.read_text() if path.exists() else ""


def last_use(folder: Path) -> float:
    """When something was last written there."""
    return max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
