"""Where a class of two is said: from a probability on that somebody decided, in place of one half.

Who must not miss an illness says it from 0.35 on, and has more false alarms for it. What a cut costs and
gains on test rows is in `metrics/operating.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coterie.core.checks import is_number
from coterie.core.errors import BadInput, shown


@dataclass(frozen=True)
class Cut:
    """The class `of` is said where its probability is at least `at`, the other class otherwise.

    by, decided   who decided it and when, as 2026-11-17T10:00:00+0000; empty where nobody wrote it down
    """

    of: str
    at: float
    by: str = ""
    decided: str = ""

    def __post_init__(self) -> None:
        if not is_number(self.at) or not 0 < self.at < 1:
            raise BadInput(f"cut {self} must lie above 0 and below 1: try 0.35")
        object.__setattr__(self, "at", float(self.at))  # as a file holds it

    def __str__(self) -> str:
        return f"{self.of}={self.at}"

    @staticmethod
    def read(text: str) -> Cut:
        """As people write it, CLASS=0.35; there may be such a sign in the name of a class."""
        of, _, at = text.rpartition("=")
        with contextlib.suppress(ValueError):
            if of:
                return Cut(of, float(at))
        raise BadInput(f"cut {shown(text)} is no class with a probability: try ill=0.35")

    def check(self, client: str, classes: Sequence[str]) -> None:
        """Refuses a model that it is not for."""
        if len(classes) != 2:
            many = len(classes) or "no"
            raise BadInput(f"cut {self} is for two classes, and {client!r} has {many}: leave it out")
        if self.of not in classes:
            raise BadInput(
                f"cut {self}, but the classes of {client!r} are {' and '.join(classes)}: name one of these"
            )

    def said(self, p: np.ndarray, classes: Sequence[str]) -> np.ndarray:
        """[row] the number of the class that is said, of probabilities [row, class]."""
        own = classes.index(self.of)
        return np.where(p[:, own] >= self.at, own, 1 - own)

    def words(self, classes: Sequence[str]) -> str:
        """What it does and where it comes from, for a person."""
        other = classes[1 - classes.index(self.of)]
        told = f"{self.of!r} is said where its probability is at least {self.at}, else {other!r}"
        who = " ".join(w for w in (f"by {self.by}" * bool(self.by), self.decided) if w)
        return f"{told}; decided {who}" if who else told
