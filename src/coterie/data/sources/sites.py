"""Rows that are not here: the sites of a federation hold them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from coterie.core.errors import BadInput
from coterie.data.dataset import Dataset
from coterie.data.sources.base import SOURCES


@SOURCES.register("sites")
@dataclass(frozen=True)
class Sites:
    """What the sites of a federation hold; their rows stay with them."""

    about: ClassVar[str] = "what the sites of a federation hold: --net federation"
    citation: ClassVar[str] = ""
    licence: ClassVar[str] = "theirs"

    def load(self) -> Dataset:
        raise BadInput(
            "data 'sites' is held by sites of a federation: add --net federation, or name other data"
        )

    def fetch(self) -> list[Path]:
        """Nothing comes here."""
        return []

    def at_hand(self) -> bool:
        return True
