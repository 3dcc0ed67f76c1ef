"""The end of a JSON-lines file that another process writes, without reading all of it.

A line counts when its end is there. One that a kill cut short does not, nor what comes after one that is no
table.
"""

from __future__ import annotations

import os
from pathlib import Path

from coterie.storage.atomic import Entry, tables_in

BLOCK = 1 << 14  # bytes that are looked at first
MARK = 64  # bytes before a place by which it is known again


def last_lines(path: Path, most: int) -> list[Entry]:
    """The last lines, at most so many; none if there is no file."""
    try:
        with path.open("rb") as file:
            size, block = file.seek(0, 2), BLOCK
            while True:
                start = max(0, size - block)
                file.seek(start)
                data = file.read(size - start)
                whole = data[: data.rfind(b"\n") + 1].splitlines()
                if start == 0 or len(whole) > most:  # the first may be the end of a longer one
                    return tables_in(whole[-most:])
                block *= 4
    except OSError:
        return []


class Tail:
    """What is new in a file since it was last looked at."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._place, self._mark, self._inode = 0, b"", 0

    def lines(self) -> tuple[bool, list[Entry]]:
        """Whether what was read before counts no more, as a resumed run drops lines; and new whole lines,
        from the beginning of the file in that case.
        """
        try:
            with self.path.open("rb") as file:
                inode = os.fstat(file.fileno()).st_ino
                same, self._inode = inode == self._inode or not self._place, inode
                file.seek(self._place - len(self._mark))
                reset = not same or file.read(len(self._mark)) != self._mark  # another file, or other lines
                if reset:
                    self._place, self._mark = 0, b""
                file.seek(self._place)
                data = file.read()
        except OSError:  # it is not there, or not any more
            reset = self._place > 0
            self._place, self._mark, self._inode = 0, b"", 0
            return reset, []
        whole = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)
        entries = tables_in(whole)
        read = b"".join(whole[: len(entries)])
        self._place += len(read)
        self._mark = (self._mark + read)[-MARK:]
        return reset, entries
