"""Writing so that a kill at any moment leaves either the old file or the new one.

What a process has written outlives a kill. It outlives a power failure once it is synced, which takes as long
as a short round: whoever writes much and often chooses when.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from coterie.core.errors import BadRun

Entry = dict[str, Any]
"""A line of a JSON-lines file."""


@contextlib.contextmanager
def readable_errors(path: Path) -> Iterator[None]:
    """A disk that refuses becomes one line."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise BadRun(f"cannot write {path}: {why}: free space or choose another place") from None


def replace_atomically(path: Path, write: Callable[[Path], Any], mode: int = 0o644) -> None:
    """Calls `write` on a temporary name in the same folder, syncs it and renames it."""
    with readable_errors(path):
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        draft = Path(name)
        try:
            write(draft)
            draft.chmod(mode)
            _sync(draft)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def replace_shown(path: Path, content: str) -> None:
    """The same without syncing, for what is only to be seen while a process lives, and is never missed: a
    power failure may leave nothing of it.
    """
    draft = path.with_name(f".{path.name}.shown")
    with readable_errors(path):
        draft.write_text(content)
        draft.replace(path)


def replace_quickly(path: Path, write: Callable[[Path], Any]) -> None:
    """The same without waiting for the disk, for a file that one process alone writes, and often.

    The old one steps aside first, as file systems sync what is renamed over another; a kill in between leaves
    it there, where `brought_back` finds it.
    """
    draft, aside = (path.with_name(f".{path.name}.{end}") for end in ("draft", "aside"))
    with readable_errors(path):
        write(draft)
        if path.exists():
            path.rename(aside)
        draft.rename(path)
        aside.unlink(missing_ok=True)


def brought_back(path: Path) -> Path:
    """The file, back in its place if a kill left it aside."""
    aside = path.with_name(f".{path.name}.aside")
    if aside.exists() and not path.exists():
        aside.rename(path)
    return path


def write_whole(path: Path, content: str | bytes) -> Path:
    """Writes a file that readers see complete or not at all; folders on the way are made."""
    data = content.encode() if isinstance(content, str) else content
    with readable_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    replace_atomically(path, lambda draft: draft.write_bytes(data))
    return path


def append_line(path: Path, entry: Mapping[str, Any]) -> None:
    """One JSON line, in one piece: a kill does not lose it."""
    with readable_errors(path), path.open("ab", buffering=0) as file:
        file.write(json.dumps(entry).encode() + b"\n")


def sync(path: Path) -> None:
    """Waits until a file is on the disk: from then on a power failure does not lose it."""
    with readable_errors(path):
        _sync(path)


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def read_lines(path: Path) -> list[Entry]:
    """The whole lines of a JSON-lines file, each a table; those from one that is cut short do not count."""
    return tables_in(path.read_bytes().splitlines()) if path.exists() else []


def tables_in(lines: Iterable[bytes]) -> list[Entry]:
    """What lines of JSON say, up to the first that is no table."""
    entries = []
    for text in lines:
        try:
            entry = json.loads(text)
        except (ValueError, RecursionError):
            break
        if not isinstance(entry, dict):
            break
        entries.append(entry)
    return entries


def keep_lines(path: Path, keep: Callable[[Entry], bool]) -> None:
    """Drops the lines that do not count any more, and a last one cut short; folders on the way are made."""
    with readable_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    kept = "".join(json.dumps(e) + "\n" for e in read_lines(path) if keep(e))
    if path.exists() and path.read_bytes() != kept.encode():
        write_whole(path, kept)
