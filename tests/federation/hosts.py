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
from coterie.federation.demo.running import (
    AtEnd,
    NotSeen,
    Process,
    Running,
    below,
    left_behind,
    look,
    processes,
)

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

    def close(self, seconds: float = 3.0) -> None:
        super().close(seconds)
        for process in self.running:
            for file in Path("/dev/shm").glob(f"*faketime_s*_{process.pid}"):
                file.unlink(missing_ok=True)  # of a killed process with a clock that was off


class Here(Skips, places.Here):
    """Every host is this machine."""

    def lose(self, host, percent):
        self.cut(host)

    def slow(self, host, rate):
        self.cut(host)


class Hosts(Skips, places.Hosts):
    """Every host is a network namespace."""

    def lose(self, host, percent):
        """So many of a hundred packets to it, and as many from it, are dropped by chance; 0 ends that."""
        wire = ["tc", "-n", self.wires]
        tool([*wire, "qdisc", "del", "dev", self._cable(host), "clsact"])
        if percent <= 0:
            return
        # a program of the kernel's packet filter: draw a number, drop the packet (2) if it is small; more
        # kernels have this than have netem
        small = min(round(percent / 100 * 2**32), 2**32 - 1)
        program = f"4,32 0 0 {2**32 - 0x1000 + 56},53 1 0 {small},6 0 0 2,6 0 0 {2**32 - 1}"
        why = tool([*wire, "qdisc", "add", "dev", self._cable(host), "clsact"])
        for way in ("ingress", "egress"):
            words = [*wire, "filter", "add", "dev", self._cable(host), way, "bpf", "da", "bytecode", program]
            why = why or tool(words)
        if why:
            self.cannot(f"this kernel cannot drop packets by chance: {why}")

    def slow(self, host, rate):
        """Its cable takes no more than that, say "1mbit", each way; "" ends that."""
        for space, device in ((self.wires, self._cable(host)), (self.spaces[host], "eth0")):
            words = ["tc", "-n", space, "qdisc"]
            if not rate:
                tool([*words, "del", "dev", device, "root"])
                continue
            limit = ["tbf", "rate", rate, "burst", "32kb", "latency", "400ms"]
            if why := tool([*words, "replace", "dev", device, "root", *limit]):
                self.cannot(f"this kernel cannot slow a cable down: {why}")


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
