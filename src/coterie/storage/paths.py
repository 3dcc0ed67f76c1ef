"""Paths and files that people give, checked before anything is computed for them."""

from __future__ import annotations

import os
import tomllib
import unicodedata
from pathlib import Path
from typing import Any

from coterie.core.errors import BadInput, shown

LONGEST_NAME, LONGEST_PATH = 255, 4095  # bytes, as most systems have them
DRAFT = 40  # bytes by which the name of a draft beside a file is longer


def given_path(text: str, what: str = "path", longest: int = LONGEST_NAME) -> Path:
    """A path that a file system can hold; `what` says in a refusal whose it is. ~ is one's home."""
    if not text.strip():
        raise BadInput(f"{what} {shown(text)} is empty: give a name")
    odd = next((c for c in text if unicodedata.category(c) in ("Cc", "Cs")), None)
    if odd is not None:
        raise BadInput(f"{what} {shown(text)} has the character {odd!a}: choose a name without it")
    try:
        path = Path(text).expanduser()
    except RuntimeError:  # ~somebody, whom nobody knows
        raise BadInput(f"{what} {shown(text)} begins with nobody's home: write it in full") from None
    names = max((len(os.fsencode(part)) for part in path.parts), default=0)
    if names > longest:
        raise BadInput(f"{what} {shown(text)} has a name of {names} bytes: choose one of at most {longest}")
    if len(os.fsencode(path.absolute())) > LONGEST_PATH - LONGEST_NAME:
        raise BadInput(f"{what} {shown(text)} is too long: choose a place nearer by")
    return path


def given_folder(text: str, what: str = "--out") -> Path:
    """A folder to write into, there or to be made; refused before the work whose result has no place."""
    path = given_path(text, what, LONGEST_NAME - DRAFT)
    nearest = next(place for place in (path, *path.absolute().parents) if os.path.lexists(place))
    if not nearest.is_dir():
        raise BadInput(f"cannot write {what} {shown(text)}: {nearest} is not a folder: choose another place")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise BadInput(f"cannot write {what} {shown(text)}: {nearest} is not yours to write: choose another")
    return path


def given_file(text: str, what: str) -> Path:
    """A file to write, there or to be made."""
    path = given_path(text, what, LONGEST_NAME - DRAFT)
    if path.is_dir():
        raise BadInput(f"{what} {shown(text)} is a folder: name a file in it")
    given_folder(str(path.parent), what)
    return path


def fresh_path(wanted: Path) -> Path:
    """A path that is not there yet: name, name-2, name-3, ..."""
    path, i = wanted, 2
    while path.exists():
        path, i = wanted.with_name(f"{wanted.name}-{i}"), i + 1
    return path


def refuse_overwriting(out: str, *read: str) -> None:
    """A file to write that is one of those to read."""
    if out and Path(out).resolve() in [Path(path).resolve() for path in read]:
        raise BadInput(f"out={out} would overwrite what is read: choose another --out")


def state_folder() -> Path:
    """Where a user's programs keep what is no setting and no data."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "coterie"


def read_given_toml(path: str | Path) -> dict[str, Any]:
    """The file's table; one that cannot be read is refused in a line."""
    try:
        return tomllib.loads(Path(path).read_text("utf-8-sig"))
    except OSError as error:
        raise BadInput(f"cannot read {str(path)!r}: {error.strerror}: check the path") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path} is not valid TOML: {' '.join(str(error).split())[:200]}") from None
