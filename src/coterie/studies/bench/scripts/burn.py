"""Keeps a core busy for so many seconds, or until whoever started it is gone: python burn.py SECONDS"""

from __future__ import annotations

import os
import sys
import time

if __name__ == "__main__":
    parent, end = os.getppid(), time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end and os.getppid() == parent:
        sum(range(10_000))
