"""Data inside an installed scikit-learn, read from its files: to import it takes longer than a short run."""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path

import numpy as np

from coterie.core.errors import BadData
from coterie.data.intake import Array

NOTE = "the copy that comes with scikit-learn"


def inside(path: str) -> Path:
    """Where a file of scikit-learn is, or would be."""
    spec = importlib.util.find_spec("sklearn")
    folder = spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else ""
    return Path(folder) / path


def read_text(name: str) -> str:
    """One of the files behind scikit-learn's own loaders, unpacked."""
    path = inside(f"datasets/data/{name}")
    try:
        content = path.read_bytes()
        return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
    except (OSError, EOFError, ValueError) as error:
        raise BadData(
            f"scikit-learn's copy of {name} cannot be read ({error}): reinstall scikit-learn"
        ) from None


def read_table(name: str, shape: tuple[int, int], delimiter: str | None = None, skip: int = 0) -> Array:
    """The numbers of such a file [row, column]; another shape than the known one is refused."""
    lines = read_text(name).splitlines()[skip:]
    try:
        table: Array = np.loadtxt(lines, delimiter=delimiter, ndmin=2)
    except ValueError as error:
        raise BadData(f"scikit-learn's copy of {name} is damaged ({error}): reinstall scikit-learn") from None
    if table.shape != shape:
        raise BadData(
            f"scikit-learn's copy of {name} has {table.shape[0]} rows and {table.shape[1]} columns, must "
            f"have {shape[0]} and {shape[1]}: reinstall scikit-learn"
        )
    return table
