"""What can go wrong, as one drawn tree.

CoterieError                 one line for the person at the keyboard; the shell exits with 2
├── BadInput                 a value out of bounds: names the value, the bound and the remedy
│   └── UnknownName          a name nobody registered: names the nearest right one
├── BadData                  data that cannot be learned from, or a file that is not what it should be
├── BadRun                   a run folder that is in use, foreign, damaged or cannot be written
├── Diverged                 a loss or a weight that is no longer a number
└── Refused                  something that a site, or the net, does not allow
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CoterieError(Exception):
    """A mistake or a mishap that its message explains in one line."""


class BadInput(CoterieError):
    """A value out of its bounds."""


class UnknownName(BadInput):
    """A name that is not in the list of known ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(sorted(known))
        near = difflib.get_close_matches(name.lower(), self.known, n=1, cutoff=0.5)
        listed = f"known are {', '.join(self.known)}" if self.known else "none is known"
        hint = f"did you mean {near[0]}?" if near else listed
        super().__init__(f"unknown {kind} {name!r}: {hint}")


class BadData(CoterieError):
    """Data that cannot be used as it is."""


class BadRun(CoterieError):
    """A run folder that cannot be used as it is."""


class Diverged(CoterieError):
    """Training left the finite numbers."""


class Refused(CoterieError):
    """What a site, or the net around it, does not allow."""
