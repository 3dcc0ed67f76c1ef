"""Names and cells as people write them: what differs in blanks, case or a byte-order mark is the same."""

from __future__ import annotations

import functools
import math
import re
import unicodedata

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
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
GROUPED = {
    ".": re.compile(r"[+-]?[1-9]\d{0,2}([,' ]\d{3})+(\.\d+)?"),  # 0,512 is no thousands
    ",": re.compile(r"[+-]?[1-9]\d{0,2}([.' ]\d{3})+(,\d+)?"),
}


def number_of(cell: Cell, decimal: str = "") -> float | None:
    """A number as written with that decimal mark ('.' unless told), thousands in groups; else None.

    The other mark divides thousands, and only where three digits follow: 1,234.5 is 1234.5, and 1,5 is no
    number but with decimal=','.
    """
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else None
    return _number_of(cell, decimal or ".")


@functools.lru_cache(MANY)
def _number_of(text: str, decimal: str) -> float | None:
    text = trimmed(text)
    if len(text) > 60:
        return None
    if GROUPED[decimal].fullmatch(text):
        text = re.sub("[' ]" if decimal in text else "[,.' ]", "", text)
        text = text.replace("." if decimal == "," else ",", "")
    text = text.replace(",", ".") if decimal == "," and "." not in text else text
    if not NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def same(cell: Cell) -> str:
    """For looking a value up: 1, 1.0 and 1.00 are one number, YES and yes one word."""
    return f"{cell:.15g}" if isinstance(cell, float) else _same(cell)


@functools.lru_cache(MANY)
def _same(cell: str) -> str:
    value = float(text) if NUMBER.fullmatch(text := trimmed(cell)) else math.inf
    return f"{value:.15g}" if math.isfinite(value) else plain(cell)


def shown(cell: Cell) -> str:
    """A cell in a message: not longer than a line has room for."""
    text = f"{cell:.15g}" if isinstance(cell, float) else cell
    return repr(text if len(text) <= 40 else f"{text[:37]}...")


def some(words: list[str], most: int = 5) -> str:
    """A list cut short, with how many it left out."""
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")
