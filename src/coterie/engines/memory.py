"""How much memory an engine may use at once, and the C library's allocator, told to keep what it has."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import sys
from functools import lru_cache

from coterie.core.errors import BadInput, shown

UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "": 1}


@lru_cache
def budget_in_bytes(text: str) -> int:
    """Half of what is free when first asked, so that a process does not change its mind; or such as 4G."""
    if text == "half":
        return free_bytes() // 2
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", text.strip().lower())
    if not found or not 0 < float(found[1]) < 2**63:
        raise BadInput(f"memory={shown(text)} must be half or an amount: try 4G")
    return int(float(found[1]) * UNITS[found[2]])


def free_bytes() -> int:
    """Memory that can be had without swapping."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 4 * 10**9


TRIM, MMAP = -1, -3  # names of mallopt's parameters
LARGEST = 2**25  # the largest block that glibc lets one keep: 32 MiB
KEPT = 2**28  # bytes that may lie free before they go back


@functools.cache
def keep_freed_memory() -> bool:
    """Once for the process; whether it could be done.

    What a layer leaves of a few pictures is some megabytes. By default glibc asks the system for such a block
    and gives it back each time, and the system clears every page anew: scoring with PENS's CNN then takes
    nearly twice as long (`benchmarks/allocator.py`). Other libraries and systems are left alone.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(MMAP, LARGEST)) and bool(mallopt(TRIM, KEPT))
