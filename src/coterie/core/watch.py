"""Long work that somebody may want to end: whoever computes looks here between two steps.

A learner has one (`learner.watch`), shared by all copies of it. Nobody watches a study on one's own machine,
and a look then costs next to nothing; a site ends work that takes longer than its policy allows, or that
somebody cancels.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar

from coterie.core.errors import Refused

OFTEN = 1.0  # seconds between two looks at what costs something
WATCHED: ContextVar[Watch | None] = ContextVar("watched", default=None)


class Watch:
    """`end(why)` ends what is computed under `limit`; `look` is asked about once a second, and says why work
    is to end, or nothing.
    """

    def __init__(self) -> None:
        self.why = ""
        self.last = self.next = float("inf")
        self.look: Callable[[], str] = lambda: ""
        self.over = ""

    def limit(self, seconds: float, over: str, look: Callable[[], str] = lambda: "") -> None:
        """From now on; `over` is said when the time is."""
        now = time.monotonic()
        self.why, self.over, self.look = "", over, look
        self.last, self.next = now + seconds, now + min(seconds, OFTEN)

    def rest(self) -> None:
        """The work is over."""
        self.why, self.last, self.next = "", float("inf"), float("inf")

    def end(self, why: str) -> None:
        self.why = why or "cancelled"

    def left(self) -> float:
        """Seconds until the time is over; infinite where nobody set one."""
        return max(0.0, self.last - time.monotonic())

    def check(self) -> None:
        """Refuses to go on if work is to end."""
        if self.why:
            raise Refused(self.why)
        if self.next == float("inf") or (now := time.monotonic()) < self.next:
            return
        if now >= self.last:
            raise Refused(self.over)
        self.next = min(self.last, now + OFTEN)
        if why := self.look():
            self.end(why)
            raise Refused(why)


def look() -> None:
    """For what has no learner, as plans are made without one: refuses to go on if the work that this is a
    part of is to end.
    """
    if (watch := WATCHED.get()) is not None:
        watch.check()
