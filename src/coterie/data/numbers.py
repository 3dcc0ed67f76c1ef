"""A CSV file of nothing but numbers, one column for each input; a header line is optional."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd

from coterie.core.errors import BadData
from coterie.data.intake import Array


def read_numbers(path: Path, columns: int) -> Array:
    """[row, column] in float32; the first cell that is no finite number is named. Rows count from 1.

    The first line is a header if none of its cells is a number. Blank lines at the end do not count.
    """
    try:
        text = path.read_text("utf-8-sig").rstrip()
        first = next(csv.reader(io.StringIO(text)), [])
        header = not any(is_number(cell) for cell in first)
        frame = pd.read_csv(
            io.StringIO(text), header=None, skiprows=int(header), skip_blank_lines=False, low_memory=False
        )
    except OSError as error:
        raise BadData(f"cannot read {path}: {error.strerror or error}: check the path") from None
    except pd.errors.EmptyDataError:
        raise BadData(f"{path} has no rows of numbers: add some") from None
    except (ValueError, csv.Error) as error:  # those of pandas and of decoding are among them
        said = " ".join(str(error).rpartition("C error: ")[2].split())
        raise BadData(f"{path} is not a CSV file of numbers ({said}): give each row the same cells") from None
    for width in (len(first), frame.shape[1]):
        if width != columns:
            raise BadData(f"{path} has {width} columns, the model takes {columns}: give one for each input")
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite to us
        values = np.column_stack([as_numbers(frame[c]) for c in frame.columns]).astype(np.float32)
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = map(int, bad[0])
        cell, where = frame.iat[row, column], repr(first[column]) if header else column + 1
        said = "is missing or NaN" if pd.isna(cell) else f"holds {str(cell)!r}"
        raise BadData(
            f"{path}: row {row + 1}, column {where} {said}, must be a finite number: fill or correct it"
        )
    return values


def as_numbers(column: pd.Series) -> Array:
    """A column as floats; NaN where a cell is no number, true and false among these."""
    plain = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    return np.asarray(pd.to_numeric(column if plain else column.astype(str), errors="coerce"), np.float64)


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
