"""Bytes of a CSV file as text, in UTF-8 or what its recipe says, never another guess in silence; and its text
cut into columns all at once, where that is certain to be what `csv` would make of it.

It is where there are no quotation marks, all lines end alike and have as many cells, and no row is blank:
then a cell is what stands between two separators. Of cells that are alike only one becomes a text. For any
other file this gives nothing, and it is read row by row.
"""

from __future__ import annotations

import codecs
import os
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from coterie.core.errors import BadData
from coterie.data.tables.cells import Array, Column, Spellings, first_rows, object_array
from coterie.data.tables.texts import trimmed

BLOCK = 1 << 24  # bytes that are looked at together
ROWS = 1 << 15  # that are looked at together
WORD = 8  # bytes of a cell that are compared at once
WIDE = 4 * WORD  # wider cells are texts, which are seldom alike
LONGEST = 1 << 16  # `csv` refuses cells that are longer than twice that
NEWLINE, QUOTE = 10, b'"'
MASKS = np.array([(1 << (8 * n)) - 1 for n in range(WORD)] + [(1 << 64) - 1], dtype=np.uint64)


class _PlainText(NamedTuple):
    """headers as written; columns of all lines below; [row] the line that each stands in."""

    headers: list[str]
    columns: list[Column]
    lines: Array


def plain_text(content: bytes, separator: str) -> _PlainText | None:
    """Of UTF-8 text without a mark at its beginning and without NUL."""
    returns = content.count(b"\r")
    if QUOTE in content or len(content) < WORD or (returns and returns != content.count(b"\r\n")):
        return None
    if not content.endswith(b"\n"):
        content, returns = content + (b"\r\n" if returns else b"\n"), returns + (returns > 0)
    found = _cells_of_lines(content, _cuts_of(content, ord(separator)), returns)
    if found is None:
        return None
    begins, ends, lines = found
    if len(lines) < 2 or max(int((e - b).max()) for b, e in zip(begins, ends, strict=True)) > LONGEST:
        return None
    headers = [content[b:e].decode() for b, e in zip(begins[:, 0].tolist(), ends[:, 0].tolist(), strict=True)]
    with ThreadPoolExecutor(os.cpu_count()) as several:
        columns = list(several.map(partial(_column_of, content), begins[:, 1:], ends[:, 1:]))
    blank = np.ones(len(lines) - 1, dtype=bool)
    for column in columns:
        blank &= np.array([not text for text in column.spellings.cells], dtype=bool)[column.codes]
    return None if blank.any() or not all(map(trimmed, headers)) else _PlainText(headers, columns, lines[1:])


def _cuts_of(content: bytes, separator: int) -> Array:
    """[cut] where separators and ends of lines are."""
    read, small = np.frombuffer(content, np.uint8), np.int32 if len(content) < 2**31 else np.int64
    found = [
        (np.flatnonzero((block == separator) | (block == NEWLINE)) + begin).astype(small)
        for begin in range(0, len(read), BLOCK)
        for block in [read[begin : begin + BLOCK]]
    ]
    return np.concatenate(found)


def _cells_of_lines(content: bytes, cuts: Array, returns: int) -> tuple[Array, Array, Array] | None:
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


def _column_of(content: bytes, begins: Array, ends: Array) -> Column:
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


USUAL = "utf-8"
WESTERN = "cp1252"  # Windows in Western Europe; Latin-1 is the same but for signs such as € and –
MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
SEPARATORS = ",;\t|"
CONTROL = re.compile("[\x80-\x9f]")  # no text has them: bytes of another encoding, read as Latin-1
SIGNS = "°²³±·–—’‘“”„…€£§×½¼¾«»®\xa0"
BROKEN = re.compile(r"[^\W\d_](?![’·])[^\x00-\x7f\w\s][^\W\d_]")  # M„dchen: a sign within a word


def decoded(name: str, content: bytes, encoding: str | None = None) -> str:
    """`encoding` as a recipe has it: empty for the usual one; None where there is no recipe."""
    told = "" if not encoding or codecs.lookup(encoding).name in (USUAL, "utf-8-sig") else encoding
    taken = MARKS.get(content[:2]) or told or "utf-8-sig"
    if told and taken == told and not content.isascii() and _fits(content, "utf-8-sig"):
        raise BadData(
            f'{name} is UTF-8 text, and its recipe says encoding = "{told}": take that out of the recipe'
        )
    remedy = "save the file as CSV UTF-8"
    if encoding is not None:
        likely = likely_encoding(content)
        remedy += f', or write encoding = "{likely or told or WESTERN}" into the recipe, if it is that'
    try:
        text = content.decode(taken)
    except UnicodeDecodeError as error:
        before, first = content[: error.start], content.partition(b"\n")[0].decode("latin-1")
        column = before.rpartition(b"\n")[2].count(likely_separator(first).encode()) + 1
        line = before.count(b"\n") + 1
        place = f"line {line}, column {column}"
        raise BadData(
            f"{name}, {place}: byte {content[error.start]:#04x} is not "
            f"{taken.removesuffix('-sig').upper()} text: {remedy}"
        ) from None
    if "\0" in text:
        line = text.partition("\0")[0].count("\n") + 1
        raise BadData(f"{name}, line {line}: holds a NUL character, so it is no text: save it as CSV UTF-8")
    if told and (odd := CONTROL.search(text)):
        line = text[: odd.start()].count("\n") + 1
        raise BadData(f"{name}, line {line}: {odd[0]!r} is no letter, so it is not {told} text: {remedy}")
    return text


def _fits(content: bytes, encoding: str) -> bool:
    try:
        content.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def likely_encoding(content: bytes) -> str:
    """The one of Western Europe where a text is no UTF-8 and reads well so; else empty."""
    if content[:2] in MARKS or b"\0" in content or _fits(content, "utf-8-sig") or not _fits(content, WESTERN):
        return ""
    text = content.decode(WESTERN)
    strange = [c for c in text if ord(c) > 127 and not c.isalpha() and c not in SIGNS]
    return "" if strange or BROKEN.search(text) else WESTERN


def first_foreign(content: bytes, encoding: str) -> tuple[int, str]:
    """The line and word of the first letter beyond ASCII: by it a person sees whether letters are right."""
    for number, line in enumerate(content.decode(encoding).splitlines(), 1):
        for word in re.findall(r"[^\s,;|]+", line):
            if not word.isascii():
                return number, word
    return 0, ""


def likely_separator(text: str) -> str:
    """The one that divides the header into the most cells; of two alike the more usual."""
    first = _header_line(text)
    return max(SEPARATORS, key=lambda s: (first.count(s), -SEPARATORS.index(s)))


def _header_line(text: str, look: int = 1 << 12) -> str:
    """The first that is not blank; nothing where all are. As much of the text is looked at as is needed."""
    while True:
        lines = text[:look].splitlines()
        whole = lines if look >= len(text) else lines[:-1]
        if look >= len(text) or any(line.strip() for line in whole):
            return next((line for line in whole if line.strip()), "")
        look *= 16
