"""The header of a message: few keys, short texts and whole numbers, whoever wrote it; and what is said of it.

to, from      names; "" is the relay itself. From whom is written by the relay, by the sender's certificate
kind          ask, call, letter, answer, refusal, note between parties; watch, members, others with the relay
number        of a question, which its answer repeats
boot, mine    the start of the process that a message is for, and of the one that sends it
id, at, size  of a body that goes in parts
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from coterie.core.errors import shown

MOST_BODY = 2 << 30
PART = 1 << 20  # bytes of a body in one frame
MOST_TEXT = 128
TEXTS, NUMBERS = ("to", "from", "kind", "boot", "mine"), ("number", "id", "at", "size")
BOUND = ("from", "to", "kind", "number", "boot", "mine")  # what a seal binds
PARTS = ("id", "at", "size")


def wrong(header: Mapping[str, Any], size: int) -> str:
    """What is wrong with a frame's header, of a body of `size` bytes; "" if nothing is."""
    for key, value in header.items():
        if key in TEXTS:
            if not isinstance(value, str) or len(value) > MOST_TEXT:
                return f"{key} must be a text of at most {MOST_TEXT} letters"
        elif key in NUMBERS:
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
                return f"{key} must be a whole number"
        else:
            return f"unknown key {shown(key)}"
    if not {"to", "kind"} <= set(header):
        return "it says not for whom it is, or of what kind"
    if header.get("size", size) > MOST_BODY:
        return f"{header['size']} bytes, of at most {MOST_BODY}"
    return ""


def bound(header: Mapping[str, Any]) -> dict[str, Any]:
    return {key: header[key] for key in BOUND if key in header}


def printable(text: Any, most: int = 500) -> str:
    """What another party says, in one line that cannot write over others on a screen."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(text)[:most]).split())


def safely(say: Callable[[str], None]) -> Callable[[str], None]:
    """A screen that nobody reads any more ends no connection."""

    def told(line: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            say(line)

    return told
