"""Text of a CSV file, cut into columns all at once, where that is certain to be what `csv` would make of it.

It is where there are no quotation marks, all lines end alike and have as many cells, and no row is blank:
then a cell is what stands between two separators. Of cells that are alike only one becomes a text. For any
other file this gives nothing, and it is read row by row.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from coterie.data.tables.cells import Array, Column, Spellings, first_rows, object_array
from coterie.data.tables.texts import trimmed

BLOCK = 1 << 24  # bytes that are looked at together
ROWS = 1 << 15  # that are looked at together
WORD = 8  # bytes of a cell that are compared at once
WIDE = 4 * WORD  # wider cells are texts, which are seldom alike
LONGEST = 1 << 16  # `csv` refuses cells that are longer than twice that
NEWLINE, QUOTE = 10, b'"'
MASKS = np.array([(1 << (8 * n)) - 1 for n in range(WORD)] + [(1 << 64) - 1], dtype=np.uint64)


class PlainText(NamedTuple):
    """headers as written; columns of all lines below; [row] the line that each stands in."""

    headers: list[str]
    columns: list[Column]
    lines: Array


def plain_text(content: bytes, separator: str) -> PlainText | None:
    """Of UTF-8 text without a mark at its beginning and without NUL."""
    returns = content.count(b"\r")
    if QUOTE in content or len(content) < WORD or (returns and returns != content.count(b"\r\n")):
        return None
    if not content.endswith(b"\n"):
        content, returns = content + (b"\r\n" if returns else b"\n"), returns + (returns > 0)
    found = cells_of_lines(content, cuts_of(content, ord(separator)), returns)
    if found is None:
        return None
    begins, ends, lines = found
    if len(lines) < 2 or max(int((e - b).max()) for b, e in zip(begins, ends, strict=True)) > LONGEST:
        return None
    headers = [content[b:e].decode() for b, e in zip(begins[:, 0].tolist(), ends[:, 0].tolist(), strict=True)]
    with ThreadPoolExecutor(os.cpu_count()) as several:
        columns = list(several.map(partial(column_of, content), begins[:, 1:], ends[:, 1:]))
    blank = np.ones(len(lines) - 1, dtype=bool)
    for column in columns:
        blank &= np.array([not text for text in column.spellings.cells], dtype=bool)[column.codes]
    return None if blank.any() or not all(map(trimmed, headers)) else PlainText(headers, columns, lines[1:])


def cuts_of(content: bytes, separator: int) -> Array:
    """[cut] where separators and ends of lines are."""
    read, small = np.frombuffer(content, np.uint8), np.int32 if len(content) < 2**31 else np.int64
    found = [
        (np.flatnonzero((block == separator) | (block == NEWLINE)) + begin).astype(small)
        for begin in range(0, len(read), BLOCK)
        for block in [read[begin : begin + BLOCK]]
    ]
    return np.concatenate(found)


def cells_of_lines(content: bytes, cuts: Array, returns: int) -> tuple[Array, Array, Array] | None:
    """[cell, row] where cells begin and end, and [row] their lines, of lines that are not empty; None where
    these have not all as many cells, or not all end with a return though some do.
    """
    read = np.frombuffer(content, np.uint8)
    last = np.flatnonzero(read[cuts] == NEWLINE)
    many, line_ends = np.diff(last, prepend=-1), cuts[last]
    if returns and returns != len(last):
        return None
    line_begins = np.append(np.zeros(1, dtype=cuts.dtype), line_ends[:-1] + 1)
    kept = line_ends - line_begins > (1 if returns else 0)
    lines = np.flatnonzero(kept)
    if not len(lines) or many[lines[0]] < 2 or (many[lines] != many[lines[0]]).any():
        return None
    ends = cuts if kept.all() else cuts[np.repeat(kept, many)]
    ends = np.ascontiguousarray(ends.reshape(len(lines), -1).T)
    begins = np.empty_like(ends)
    begins[0], begins[1:] = line_begins[lines], ends[:-1] + 1
    ends[-1] -= 1 if returns else 0
    return begins, ends, lines + 1


def column_of(content: bytes, begins: Array, ends: Array) -> Column:
    """Cells between these places, without blanks around them."""
    import pandas as pd

    widths = ends - begins
    widest = int(widths.max())
    if widest > WIDE:
        pairs = zip(begins.tolist(), ends.tolist(), strict=True)
        return trimmed_column(Column.of([content[b:e].decode() for b, e in pairs]))
    words = np.ndarray((len(content) - WORD + 1,), np.dtype("<u8"), content, strides=(1,))  # from any byte on
    codes = np.zeros(len(begins), dtype=np.int64)
    for at in range(0, widest, WORD):
        part = np.empty(len(begins), dtype=np.uint64)
        for few in (slice(i, i + ROWS) for i in range(0, len(part), ROWS)):
            place = np.minimum(begins[few] + at, len(words) - 1)
            beyond = (
                np.minimum(begins[few] + at - place, WORD - 1) * WORD
            )  # bits, at the very end of the text
            part[few] = (words[place] >> beyond.astype(np.uint64)) & MASKS[np.clip(widths[few] - at, 0, WORD)]
        more, found = pd.factorize(part)
        codes = more if at == 0 else pd.factorize(codes * len(found) + more)[0]
    first = first_rows(codes, int(codes.max()) + 1)
    pairs = zip(begins[first].tolist(), ends[first].tolist(), strict=True)
    texts = object_array([content[b:e].decode() for b, e in pairs])
    return trimmed_column(Column(codes.astype(np.int32), Spellings(texts)))


def trimmed_column(column: Column) -> Column:
    """The same without blanks around cells; what differs in these alone is one spelling."""
    import pandas as pd

    cells = column.spellings.cells
    joined = "\n".join(cells)
    if joined.isascii() and len("".join(joined.split())) == len(joined) - (len(cells) - 1):
        return column
    codes, found = pd.factorize(object_array([trimmed(c) for c in cells]))
    return Column(codes.astype(np.int32)[column.codes], Spellings(object_array(found)))
