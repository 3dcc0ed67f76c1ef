"""What people decided, one line each, in decisions.jsonl of a folder; lines are added and never changed.

    {"time": "2026-03-01T09:30:00+01:00", "by": "ann", "client": "north", "kind": "partner", ...}

The feature `judgement` says which kinds there are; a site of a federation reads its own answers here as well.
"""

from __future__ import annotations

import getpass
import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from coterie.core.errors import BadRun
from coterie.storage.atomic import append_line, sync
from coterie.storage.versioned import Schema

FILE = "decisions.jsonl"
LINES = Schema(1, "read it with the version of Coterie that wrote it")
ALWAYS = ("time", "by", "client", "kind")  # that every line has, as texts


def read_decisions(folder: Path) -> list[dict[str, Any]]:
    """All lines of a folder, the oldest first. Half of what was decided is worse than a refusal, so that a
    file with a line that cannot be read is refused.
    """
    path = folder / FILE
    try:
        texts = path.read_bytes().splitlines() if path.exists() else []
    except OSError as error:
        raise BadRun(f"cannot read {path}: {error.strerror}: check the path") from None
    lines = []
    for i, text in enumerate(texts, 1):
        try:
            line = json.loads(text)
            whole = isinstance(line, dict) and all(isinstance(line.get(key), str) for key in ALWAYS)
            when = instant(line) if whole else None
        except (ValueError, RecursionError):
            when = None
        if when is None:
            raise BadRun(f"line {i} of {path} is damaged: mend or delete it")
        lines.append(dict(line))
    for line in lines:
        LINES.check(line, path)
    return lines


def instant(line: Mapping[str, Any]) -> datetime:
    """When it was decided: clocks are set back once a year, so that texts do not tell what came first."""
    return datetime.fromisoformat(line["time"]).astimezone()


def add(folder: Path, client: str, kind: str, told: Mapping[str, Any], by: str = "") -> dict[str, Any]:
    """Writes one down, with the time and who decided it; back comes the line."""
    read_decisions(folder)  # nothing is added to a damaged file
    line = {"time": now(), "by": by or user(), "client": client, "kind": kind, **told}
    append_line(folder / FILE, line)
    sync(folder / FILE)
    return line


def now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


def user() -> str:
    """Who is logged in, if the system knows."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"
