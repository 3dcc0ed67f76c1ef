"""How often models follow a trigger: the sites of this process again, with the trigger on their test rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from coterie.core.client import Samples
from coterie.core.held import Held
from coterie.core.kernel import Kernel
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.kernels.poisoned import Fooled, Poisoned, stamped
from coterie.nets.in_process import InProcess

LEVEL = {True: 1.0, False: 3.0}  # in pictures, whose values end at 1, and in scaled columns


def level_of(roster: Roster) -> float:
    """What the trigger sets values to."""
    return LEVEL[len(roster.shape) > 1]


class Trigger:
    """Looks wherever models are scored on test rows one by one; sites elsewhere are not looked at."""

    def __init__(self, here: Any) -> None:
        self.here = here
        self.stamped: InProcess | None = None
        self.fooled: float | None = None

    def look(self, kernel: Kernel, beliefs: Held, edges: Tensor, key: Key) -> None:
        alone = getattr(kernel, "part", "") == "test" and not getattr(kernel, "together", False)
        if not alone or not isinstance(self.here, InProcess) or len(edges) == 0:
            return
        how = Poisoned()
        if self.stamped is None:
            level = level_of(self.here.roster)
            tests = [Samples(stamped(c.test.x, how.patch, level), c.test.y) for c in self.here.clients]
            clients = [replace(c, test=t) for c, t in zip(self.here.clients, tests, strict=True)]
            self.stamped = replace(self.here, clients=tuple(clients))
        seen = self.stamped.visit(Fooled(how.target), beliefs, edges, key.at("trigger"))
        self.fooled = float(seen.numbers["fooled"].nanmean())

    def read(self) -> float | None:
        """The share of rows that it turned, since it was last asked."""
        found, self.fooled = self.fooled, None
        return found
