"""Names and cells as people write them: what differs in blanks, case or a byte-order mark is the same."""

from __future__ import annotations

import functools
import math
import re
import unicodedata
from typing import Literal

MANY = 1 << 16  # texts that are remembered: tables say the same over and over
BLANKS = re.compile(r"[\s\ufeff\u200b]+")  # a byte-order mark and a blank of no width among them


@functools.lru_cache(MANY)
def plain(text: str) -> str:
    """For comparing: without blanks around it, single ones within, in one case."""
    return BLANKS.sub(" ", text).strip().casefold()


def trimmed(text: str) -> str:
    """For showing: without blanks around it."""
    return BLANKS.sub(" ", text).strip()


def loose(name: str) -> str:
    """A column's name for finding its like: no accents, and one blank for whatever divides words."""
    decomposed = unicodedata.normalize("NFKD", plain(name))
    letters = "".join(c for c in decomposed if not unicodedata.combining(c))
    return re.sub(r"[\W_]+", " ", letters).strip()


# a cell as it was read: texts of CSV files; numbers where a file or a frame has them as such
Cell = str | float
Decimal = Literal["", ".", ",", "either"]
Thousands = Literal["", ".", ","]
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
WRITTEN = re.compile(r"([+-]?)((?:\d[\d.,' ]*|[.,]\d+))(e[+-]?\d+)?", re.IGNORECASE)
SPACED = re.compile(r"[1-9]\d{0,2}([' ])\d{3}(\1\d{3})*([.,]\d*)?")
GROUPS = {m: re.compile(rf"[1-9]\d{{0,2}}(\{m}\d{{3}})+") for m in ".,"}


def number_of(cell: Cell, decimal: Decimal = "", thousands: Thousands = "") -> float | None:
    """A number as written with that decimal mark ('.' unless told; either of '.' and ','); else None.

    Blanks and apostrophes divide thousands anywhere: 1 234.5. So does the other mark where that is certain:
    1,234.5 and 1,234,567. A single one with three digits behind it, 1,003, could as well be a decimal mark:
    it is a number only where `thousands` says so.
    """
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else None
    return _number_of(cell, decimal or ".", thousands)


@functools.lru_cache(MANY)
def _number_of(text: str, decimal: str, thousands: str) -> float | None:
    body, found = body_of(text), WRITTEN.fullmatch(_ascii_signs(text))
    if body is None or found is None:
        return None
    kinds = [m for m in ".," if m in body]
    mark = max(kinds, key=body.rfind, default="")  # the decimal one, unless it divides thousands
    if len(kinds) == 1 and (body.count(mark) > 1 or (mark == thousands and GROUPS[mark].fullmatch(body))):
        mark = "," if mark == "." else "."
    if kinds and decimal not in (mark, "either"):
        return None
    whole, _, part = body.partition(mark) if mark else (body, "", "")
    divides = "," if mark == "." else "."
    if divides in part or (divides in whole and not GROUPS[divides].fullmatch(whole)):
        return None
    digits = f"{found[1]}{whole.replace(divides, '')}.{part}{found[3] or ''}"
    if not NUMBER.fullmatch(digits):
        return None
    value = float(digits)
    return value if math.isfinite(value) else None


@functools.lru_cache(MANY)
def body_of(text: str) -> str | None:
    """Digits and marks of what may be a number, without blanks and apostrophes between thousands."""
    text = _ascii_signs(text)
    found = WRITTEN.fullmatch(text) if len(text) <= 60 else None
    if found is None or (re.search("[' ]", found[2]) and not SPACED.fullmatch(found[2])):
        return None
    return re.sub("[' ]", "", found[2])


def _ascii_signs(text: str) -> str:
    """Minus signs and apostrophes as keyboards have them."""
    return trimmed(text).replace("\u2212", "-").replace("\u2019", "'")


def same(cell: Cell) -> str:
    """For looking a value up: 1, 1.0 and 1.00 are one number, YES and yes one word."""
    return f"{cell:.15g}" if isinstance(cell, float) else _same(cell)


@functools.lru_cache(MANY)
def _same(cell: str) -> str:
    value = float(text) if NUMBER.fullmatch(text := trimmed(cell)) else math.inf
    return f"{value:.15g}" if math.isfinite(value) else plain(cell)


def cell_text(cell: Cell) -> str:
    """A cell in a message: not longer than a line has room for."""
    text = f"{cell:.15g}" if isinstance(cell, float) else cell
    return repr(text if len(text) <= 40 else f"{text[:37]}...")


def some(words: list[str], most: int = 5) -> str:
    """A list cut short, with how many it left out."""
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")
