"""Files with a schema: which version is written, which are read, and what to do about any other.

A file of JSON has its number under `schema`, a file of tensors in its header; a line of a file of lines may
have one. A file without a number was written before there were any, and is of version 1. So is a line without
one, unless a file beside it says otherwise for all that lies there, as `site.json` does for a site's state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.core.errors import BadRun, shown
from coterie.storage.atomic import Entry, read_lines

KEY = "schema"


@dataclass(frozen=True)
class Schema:
    """Of one kind of file: the version that is written, the oldest that is read, and what helps where a file
    has another.
    """

    version: int
    remedy: str
    oldest: int = 1

    def headed(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """A table with its number."""
        return {KEY: self.version, **table}

    def check(self, table: Mapping[str, Any], path: Path) -> None:
        """Refuses a file whose table, or one of whose lines, has another version's number."""
        found = table.get(KEY, 1)
        if type(found) is not int or not self.oldest <= found <= self.version:
            reads = f"{self.oldest} to {self.version}" if self.oldest < self.version else f"{self.version}"
            why = f"{path} has schema {shown(found)}, this version of Coterie reads {reads}"
            raise BadRun(f"{why}: {self.remedy}")

    def lines(self, path: Path) -> list[Entry]:
        """The whole lines of a file, as `read_lines`."""
        entries = read_lines(path)
        for entry in entries:
            self.check(entry, path)
        return entries
