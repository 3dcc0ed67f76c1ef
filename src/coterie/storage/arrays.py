"""Named arrays as one file, in numpy's own format; reading it runs no code."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

import numpy as np

from coterie.core.errors import BadRun
from coterie.storage.atomic import replace_atomically


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], mode: int = 0o644) -> None:
    def write(draft: Path) -> None:
        with draft.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    replace_atomically(path, write, mode)


def read_arrays(path: Path, names: Sequence[str], optional: Container[str] = ()) -> list[np.ndarray] | None:
    """The arrays of a file, if it is there; those that are optional, which come last, if they are."""
    if not path.exists():
        return None
    try:
        with np.load(path) as file:
            return [file[name] for name in names if name in file or name not in optional]
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError) as error:
        raise damaged(path, str(error)) from None


def damaged(path: Path, why: str) -> BadRun:
    return BadRun(f"{path} is damaged ({why}): delete it to do without")
