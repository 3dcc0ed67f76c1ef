"""The boundary of the Python API: what arguments must be, said once, above the function that takes them.

    @checked(name=NAME, seed=whole(0, 0))
    def from_arrays(X, y, *, name, seed=0): ...

All that is wrong with a call is said at once, a line each. What an argument means for the others (a target
that is no column of the frame) is for the function itself to find.
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import os
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

from coterie.core.errors import Gathered, UnknownName, shown

P = ParamSpec("P")
R = TypeVar("R")

LONGEST = 100  # characters of a client's name: files are called by it


class Kind(NamedTuple):
    """What an argument must be, in words that end with a remedy, and whether a value is."""

    must: str
    fits: Callable[[Any], bool]


def checked(**kinds: Kind) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function whose arguments are of these kinds, or refused with the name of the client it makes."""

    def around(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> R:
            given = signature.bind(*args, **options).arguments
            whose = f"client {given['name']!r}: " if NAME.fits(given.get("name")) else ""
            refuse_wrong(kinds, given, whose)
            return function(*args, **options)

        return call

    return around


def refuse_wrong(kinds: Mapping[str, Kind], given: Mapping[str, Any], whose: str = "") -> None:
    """All that is not of its kind, a line each."""
    wrong = Gathered()
    for name, kind in kinds.items():
        if name in given and not kind.fits(given[name]):
            wrong.add(f"{whose}{name}={shown(given[name])} must be {kind.must}")
    wrong.refuse()


def is_number(value: Any) -> bool:
    """A finite one; true and false are none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= LONGEST and in_one_line(value)


def in_one_line(text: str) -> bool:
    """Without line breaks, control characters, and halves of characters that no file can hold."""
    return not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in text)


def is_list(value: Any) -> bool:
    """Several things in order: no text, which is one thing, and nothing that can be looked at only once."""
    an_array = getattr(value, "ndim", None) == 1 and hasattr(value, "__len__")
    return an_array or (isinstance(value, Sequence) and not isinstance(value, str | bytes))


def is_path(value: Any) -> bool:
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    return isinstance(text, str) and bool(text) and in_one_line(text)


def whole(lowest: int, usual: int) -> Kind:
    return Kind(
        f"a whole number of at least {lowest}: try {usual}", lambda v: is_whole(v) and int(v) >= lowest
    )


def or_none(kind: Kind) -> Kind:
    return Kind(f"{kind.must}, or None", lambda v: v is None or kind.fits(v))


def list_of(what: str, fits: Callable[[Any], bool], example: str) -> Kind:
    return Kind(f"a list of {what}: try {example}", lambda v: is_list(v) and all(map(fits, v)))


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


NAME = Kind(f"a text of 1 to {LONGEST} characters without line breaks: try 'hospital-a'", is_name)
TEXT = Kind("a text", lambda v: isinstance(v, str))
NUMBER = Kind("a finite number", is_number)
SWITCH = Kind("True or False", lambda v: isinstance(v, bool))
SEED = whole(0, 0)
SHARE = Kind("a share of the rows, a number from 0 to below 1: try 0.3", is_number)
FOLDER = Kind("a path to a folder", is_path)
FILE = Kind("a path to a file", is_path)
FUNCTION = Kind("a function", lambda v: callable(v) and not isinstance(v, type))
COLUMN = Kind("the name of a column", lambda v: isinstance(v, str) or is_whole(v))
COLUMNS = list_of("column names", COLUMN.fits, "['patient']")
CLASSES = list_of("classes, each once", _hashable, "['well', 'ill']")


def check_choice(what: str, value: str, choices: Iterable[str]) -> None:
    """Refuses an option's value that is not one of its choices."""
    choices = tuple(choices)
    if value not in choices:
        raise UnknownName(what, value, choices)
