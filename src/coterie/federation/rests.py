"""Who is left out of a round for a while, though it may be connected.

A round that is lost with a site is done again without it, even if it is there again: else it could be lost
with it for ever. Whose process breaks several rounds is left out for longer each time, as with a disk that is
full; one that went and came back, or was started anew, is welcome at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

LONGEST = 3  # 8 rounds


class Rests:
    """Of processes, each by its site and what tells it from a later one."""

    def __init__(self) -> None:
        self.broke = Counter[tuple[int, str]]()
        self.until: dict[tuple[int, str], int] = {}
        self.called = 0  # how often all were called back in this round

    def begin(self, sites: Iterable[int], boots: Mapping[int, str], stored: int) -> None:
        """The round after the one that is written down was lost with some sites."""
        for site in sites:
            who = (site, boots.get(site, ""))
            self.broke[who] += 1
            self.until[who] = stored + 2 ** min(self.broke[who] - 1, LONGEST)

    def resting(self, site: int, boot: str) -> bool:
        return (site, boot) in self.until

    def end(self, site: int) -> None:
        """It is not connected."""
        self.until = {who: round for who, round in self.until.items() if who[0] != site}

    def call(self, waited: float) -> None:
        """Too few are there: all are asked back, after 1, 2, 4, ... seconds."""
        if self.until and waited > 2**self.called:
            self.until, self.called = {}, self.called + 1

    def over(self, round: int) -> None:
        """A round is written down."""
        self.until = {who: until for who, until in self.until.items() if until > round}
        self.called = 0
