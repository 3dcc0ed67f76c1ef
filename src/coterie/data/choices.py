"""Options that are one of a few words."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.core.errors import UnknownName


def check_choice(what: str, value: str, choices: Iterable[str]) -> None:
    """Refuses an option's value that is not one of its choices."""
    choices = tuple(choices)
    if value not in choices:
        raise UnknownName(what, value, choices)
