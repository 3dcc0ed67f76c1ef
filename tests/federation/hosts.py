"""Hosts, wires, small disks and wrong clocks for tests; what this machine cannot do is skipped.

The hosts themselves are those of `coterie federation demo` and `rehearse`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from coterie.federation.demo import hosts as places
from coterie.federation.demo.hosts import tool
from coterie.federation.demo.left import left_behind, look
from coterie.federation.demo.running import AtEnd, NotSeen, Process, Running, below, processes

__all__ = [
    "AtEnd",
    "Here",
    "Hosts",
    "NotSeen",
    "Process",
    "Running",
    "below",
    "clock_off",
    "left_behind",
    "look",
    "processes",
    "small_disk",
    "tool",
]
FAKETIME = ("/usr/lib/*/faketime", "/usr/lib*/faketime", "/usr/local/lib/faketime")


class Skips:
    def cannot(self, why: str) -> NoReturn:
        pytest.skip(why)


class Here(Skips, places.Here):
    """Every host is this machine."""


class Hosts(Skips, places.Hosts):
    """Every host is a network namespace."""


@contextlib.contextmanager
def small_disk(mb: int, folder: Path) -> Iterator[Path]:
    """A disk with room for so many megabytes, in a new folder within that one."""
    place = Path(folder) / f"disk-{secrets.token_hex(3)}"
    place.mkdir()
    quoted = shlex.quote(str(place))
    at_end = AtEnd([f"umount -l {quoted}", f"rmdir {quoted}"])
    try:
        mount = shutil.which("mount")
        words = [str(mount), "-t", "tmpfs", "-o", f"size={mb}m,mode=700", "tmpfs", str(place)]
        if why := tool(words) if mount else "there is no mount command":
            pytest.skip(f"no small disk on this machine: {why}")
        yield place
    finally:
        at_end.now()


def clock_off(seconds: float) -> dict[str, str]:
    """What to add to a process's environment so that its clock is that much ahead, or behind if negative.

    Only what the wall clock says changes: waiting and time-outs are as long as ever.
    """
    named = os.environ.get("FAKETIME_LIBRARY", "")
    folders = [f for pattern in FAKETIME for f in Path("/").glob(pattern[1:])]
    found = [p for p in (Path(named), *(f / "libfaketimeMT.so.1" for f in folders)) if p.is_file()]
    if not found:
        pytest.skip("no clock can be set off: install faketime, or name its library in FAKETIME_LIBRARY")
    # both spellings of the last one are in use
    still = {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}
    return {"LD_PRELOAD": str(found[0]), "FAKETIME": f"{seconds:+f}", "FAKETIME_NO_CACHE": "1", **still}
