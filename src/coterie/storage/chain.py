"""A chain of entries, each bound to all before it: what was written cannot be changed without a trace.

    h_i = SHA-256(canonical {index: i, previous: h_{i-1}, content: c_i}),    h_{-1} = 64 zeros

An entry is one line of JSON: content, hash, index, previous, with keys in order and no spaces, so that no
byte of it can change unseen. h of the last entry is the head: it stands for the whole chain. Whoever can
write the file can write a whole new chain, so that a chain proves something to those alone who have kept an
earlier head (Haber and Stornetta, 1991; Schneier and Kelsey, 1999).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.core.errors import BadRun, Refused
from coterie.storage.atomic import readable_errors

FILE = "ledger.jsonl"
FIRST = "0" * 64
KEYS = ("content", "hash", "index", "previous")


@dataclass(frozen=True)
class Entry:
    index: int
    previous: str
    content: Mapping[str, Any]
    hash: str

    @property
    def line(self) -> str:
        return canonical(vars(self))


@dataclass(frozen=True)
class Broken:
    """The first entry with which something is wrong, and what."""

    index: int
    what: str


def canonical(value: Any) -> str:
    """The only spelling of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def finite(value: Any) -> Any:
    """A value as JSON holds it everywhere: what is no finite number becomes null."""
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def sha256(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def hash_of(index: int, previous: str, content: Mapping[str, Any]) -> str:
    """h_i"""
    return sha256(f'{{"content":{canonical(content)},"index":{index},"previous":{json.dumps(previous)}}}')


def after(last: Entry | None, content: Mapping[str, Any]) -> Entry:
    """The entry that says this, after another."""
    index, previous = (0, FIRST) if last is None else (last.index + 1, last.hash)
    try:
        return Entry(index, previous, content, hash_of(index, previous, content))
    except ValueError:  # it has numbers that are none
        plain = finite(content)
        return Entry(index, previous, plain, hash_of(index, previous, plain))


def entry_of(line: str | bytes) -> Entry:
    """An entry as a line has it, letter by letter; a ValueError says what is wrong with it."""
    text = line.decode() if isinstance(line, bytes) else line
    try:
        told = json.loads(text)
    except RecursionError:
        raise ValueError("it is no entry") from None
    if not isinstance(told, dict) or sorted(told) != list(KEYS) or not isinstance(told["content"], dict):
        raise ValueError("it is no entry")
    entry = Entry(told["index"], told["previous"], told["content"], told["hash"])
    if type(entry.index) is not int or not isinstance(entry.hash, str) or not isinstance(entry.previous, str):
        raise ValueError("it is no entry")
    if entry.line != text:
        raise ValueError("it is not spelled as it was written")
    return entry


def checked(lines: Iterable[str | bytes], last: Entry | None = None, first: int = 0) -> list[Entry] | Broken:
    """The entries of lines that follow `last`, or begin with number `first`; or the first that is broken."""
    found: list[Entry] = []
    for index, line in enumerate(lines, first if last is None else last.index + 1):
        try:
            entry = entry_of(line)
        except (ValueError, TypeError) as error:
            said = str(error) if str(error).startswith("it is") else "it cannot be read"
            return Broken(index, f"it was changed: {said}")
        if entry.hash != hash_of(entry.index, entry.previous, entry.content):
            return Broken(index, "it was changed: its hash is not that of what it says")
        if entry.index != index:
            what = f"entry {entry.index} is in its place: entries are missing, doubled or moved"
            return Broken(index, what)
        before = last.hash if last is not None else FIRST if index == 0 else None
        if before is not None and entry.previous != before:
            return Broken(index, f"it does not follow entry {index - 1}: one of the two was written anew")
        found.append(entry)
        last = entry
    return found


def read(folder: Path) -> list[Entry] | Broken:
    """The chain in a run's folder; an empty one where there is no file."""
    path = folder / FILE
    data = path.read_bytes() if path.exists() else b""
    *lines, rest = data.split(b"\n")
    found = checked(lines)
    if rest and not isinstance(found, Broken):
        return Broken(len(lines), "its line is cut short")
    return found


def append(folder: Path, entry: Entry) -> None:
    """One line, in one piece."""
    path = folder / FILE
    with readable_errors(path), path.open("ab", buffering=0) as file:
        file.write(entry.line.encode() + b"\n")


def last_of(folder: Path) -> Entry | None:
    """The last whole entry, to go on from; what a kill cut short after it is dropped: nobody signed it."""
    path = folder / FILE
    if not path.exists():
        return None
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if whole != data:
        with readable_errors(path), path.open("r+b") as file:
            file.truncate(len(whole))
    lines = whole.splitlines()
    try:
        return entry_of(lines[-1]) if lines else None
    except (ValueError, TypeError):
        raise BadRun(
            f"the last line of {path} is no entry of a ledger: coterie ledger verify {folder} says more; "
            "move it away to begin another"
        ) from None


@dataclass(frozen=True)
class Head:
    """What somebody keeps of a chain."""

    index: int
    hash: str


def continued(kept: Head | None, first: int, lines: Sequence[str]) -> Entry:
    """The last of some entries, numbered from `first`, that continue a chain whose head was kept; else
    Refused: a fork, a cut, or entries that do not follow each other.
    """
    due = 0 if kept is None else kept.index + 1
    if not 0 <= first <= due:
        raise Refused(f"entries from {first} on, where {due} is due: what is between them was not shown")
    found = checked(lines, None, first)
    if isinstance(found, Broken):
        raise Refused(f"entry {found.index} of the ledger: {found.what}")
    if not found or (kept is not None and found[-1].index < kept.index):
        raise Refused(f"the ledger ends before entry {due - 1}, which was signed here: it was cut off")
    if kept is not None:
        by_index = {entry.index: entry for entry in found}
        mine, following = by_index.get(kept.index), by_index.get(due)
        if (mine and mine.hash != kept.hash) or (following and following.previous != kept.hash):
            as_signed = f"entry {kept.index} as it was signed here"
            raise Refused(f"the ledger does not continue {as_signed}: it was forked")
    return found[-1]
