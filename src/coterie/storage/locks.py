"""One process at a time in a folder: a lock that dies with the process that has it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from coterie.core.errors import BadRun
from coterie.storage.atomic import readable_errors

try:
    import fcntl

    def _lock(file: IO[str]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _look(file: IO[str]) -> None:
        """Fails if somebody has the lock; several may look at once."""
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)

except ImportError:  # Windows
    import msvcrt

    def _lock(file: IO[str]) -> None:
        file.seek(0)  # a lock begins where the file stands, which is the end of what an earlier process wrote
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]

    _look = _lock


NAME = ".lock"
TRIES, PAUSE = 5, 0.02  # seconds: who only looks has a lock for a moment


@contextlib.contextmanager
def for_owner_alone() -> Iterator[None]:
    """Inside, what is written is for its owner alone."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def locked(folder: Path, pause: float = PAUSE) -> IO[str]:
    """The folder's lock; closing it gives it back. It is tried again after a pause, in seconds."""
    with readable_errors(folder):
        file = (folder / NAME).open("a+")
    for left in reversed(range(TRIES)):
        try:
            _lock(file)
            break
        except OSError:
            if left:
                time.sleep(pause)
                continue
            file.close()
            why = f"output folder {folder} is in use by another process"
            raise BadRun(f"{why}: wait for it or choose another --out") from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def held(folder: Path) -> int | None:
    """The number of the process that has the folder's lock, 0 if it cannot be told; None if nobody has."""
    try:
        with (folder / NAME).open() as file:
            try:
                _look(file)
                return None
            except OSError:
                with contextlib.suppress(OSError, ValueError):
                    return int(file.read())
                return 0
    except OSError:  # nobody was ever here, or it is not ours to look
        return None
