"""Questions on their way, and what is said of those that get no answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from coterie.federation.certificates import Card
from coterie.federation.inbox import AGAIN

QUIET = AGAIN + 20.0  # seconds after which a party that is connected should have said something
LINE = 1e5  # bytes a second that even a slow line carries


@dataclass(frozen=True)
class Missing:
    """Who gave no answer, and why; `lasting` if the same question will get none later either."""

    name: str
    why: Literal["away", "late", "restarted", "refused"]
    text: str
    lasting: bool = False


@dataclass
class Errand:
    """One question on its way."""

    name: str
    kind: str
    number: int
    body: bytes
    card: Card | None = None  # of the receiver, once it has been sent to
    boot: str = ""
    sent: tuple[int, float] | None = None  # by which line of ours, and to which of the receiver's
    replies: list[tuple[dict[str, Any], bytes]] = field(default_factory=list)
    notes: list[tuple[dict[str, Any], bytes]] = field(default_factory=list)  # the last, while it is not read
    heard_at: float = 0.0  # when it was sent, or its receiver last said that it is there
    sent_at: float = 0.0  # when it was first sent
    excuse: str = ""  # why it takes long, as the receiver says
    people_know: bool = False  # that it takes long
    pause_until: float = 0.0  # after a receiver had no room for it
    trouble: str = ""  # why its answer is not taken

    def is_quiet(self, now: float) -> bool:
        """Whether nothing is heard of its receiver for longer than the question takes to get there."""
        return bool(self.sent_at) and now - self.heard_at >= QUIET + len(self.body) / LINE

    def late(self, now: float) -> str:
        """In words, that there is no answer so far."""
        if self.is_quiet(now):
            silence = f"{self.name} is connected but has not answered for {now - self.sent_at:.0f} s"
            return f"{silence}: ask there whether its process hangs"
        return f"{self.name} has not answered in time" + (f": it is {self.excuse}" if self.excuse else "")
