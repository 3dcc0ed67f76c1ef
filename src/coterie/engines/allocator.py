"""The C library's allocator, told to keep what it has.

What a layer leaves of a few pictures is some megabytes. By default glibc asks the system for such a block and
gives it back each time, and the system clears every page anew: scoring with PENS's CNN then takes nearly
twice as long (`benchmarks/allocator.py`). Other libraries and systems are left alone.
"""

from __future__ import annotations

import ctypes
import functools
import sys

TRIM, MMAP = -1, -3  # names of mallopt's parameters
LARGEST = 2**25  # the largest block that glibc lets one keep: 32 MiB
KEPT = 2**28  # bytes that may lie free before they go back


@functools.cache
def keep_freed_memory() -> bool:
    """Once for the process; whether it could be done."""
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(MMAP, LARGEST)) and bool(mallopt(TRIM, KEPT))
