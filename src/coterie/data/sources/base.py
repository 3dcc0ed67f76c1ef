"""A source: a named set of data, with the facts a reader asks for and a way to load it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Protocol

from coterie.core.registry import Registry
from coterie.data.dataset import Dataset


class Source(Protocol):
    """A frozen dataclass of options; the class docstring's first line says what it is.

    about      one line: how many rows of what
    citation   whom to cite
    licence    the terms it comes under
    """

    about: ClassVar[str]
    citation: ClassVar[str]
    licence: ClassVar[str]

    def load(self) -> Dataset:
        """The data, fetched first if need be."""
        ...

    def fetch(self) -> list[Path]:
        """The checked files it reads, fetched where missing; none if it comes with an installed package."""
        ...

    def at_hand(self) -> bool:
        """Whether `load` will do without a network."""
        ...


SOURCES: Registry[Source] = Registry("data source")
