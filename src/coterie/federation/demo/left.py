"""What was there before and after: `look`, and `left_behind` tells what somebody forgot."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.federation.demo.running import MARK, Process, below, processes


@dataclass(frozen=True)
class Seen:
    """What was there at one moment, each thing by what it is, with how to call it."""

    folders: tuple[Path, ...]
    things: Mapping[tuple[Any, ...], str]


def look(*folders: Path) -> Seen:
    """Processes of this process and their listening ports, its namespaces, and files in these folders.

    What other people run on the same machine is not looked at.
    """
    if _mark() not in os.environ.get(MARK, ""):  # from now on, a process that leaves its parent is known
        os.environ[MARK] = os.environ.get(MARK, "") + _mark()
    things: dict[tuple[Any, ...], str] = {}
    for process in [p for p in processes().values() if p.pid == os.getpid()] + _ours():
        if process.pid != os.getpid():
            things["process", process.pid, process.started] = f"process {process.pid}: {process.command}"
        for port in _ports(process.pid):
            text = f"port {port} of process {process.pid}: {process.command}"
            things["port", process.pid, process.started, port] = text
    for space in Path("/run/netns").glob(f"cot-{os.getpid()}-*"):
        things["namespace", space.name] = f"namespace {space.name}"
    for folder in folders:
        for path in Path(folder).rglob("*"):
            if path.is_symlink() or not path.is_dir():
                things["file", path] = f"file {path}"
    return Seen(folders, things)


def left_behind(before: Seen, seconds: float = 2.0) -> list[str]:
    """What is there now and was not before; what is just going has so many seconds for it."""
    until = time.monotonic() + seconds
    while True:
        now = look(*before.folders)
        left = [text for key, text in now.things.items() if key not in before.things]
        if not left or time.monotonic() > until:
            return sorted(left)
        time.sleep(0.02)


def _ours() -> list[Process]:
    """What descends from here, and what says in its environment that it once did."""
    children = below(os.getpid())
    known = {os.getpid(), *(p.pid for p in children)}
    return children + [p for p in processes().values() if p.pid not in known and _mark() in _marks(p.pid)]


def _mark() -> str:
    return f"/{os.getpid()}-"


def _marks(pid: int) -> str:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
        return next((word for word in words if word.startswith(f"{MARK}=")), "")
    return ""


def _ports(pid: int) -> set[int]:
    """TCP ports that a process listens on, in whatever namespace it is."""
    ports: set[int] = set()
    with contextlib.suppress(OSError):  # it has ended since
        links = set()
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                links.add(os.readlink(fd))
        for table in ("tcp", "tcp6"):
            for row in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = row.split()
                if fields[3] == "0A" and f"socket:[{fields[9]}]" in links:
                    ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports
