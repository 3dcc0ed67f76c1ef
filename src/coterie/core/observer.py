"""Who looks on while a run goes on: what happens to it, whom it waits for, what it is doing.

Nets and the loop over rounds tell an observer; nobody's numbers depend on whether there is one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol

What = Literal[
    "begun",
    "resumed",
    "waiting",
    "round-again",
    "left-out",
    "back",
    "joins",
    "no-part",
    "withdrew",
    "unsigned",
    "unseen",
    "no-model",
    "finished",
    "stopped",
    "refused",
    "diverged",
    "failed",
]
WORDS: Mapping[What, str] = {
    "begun": "the run begins",
    "resumed": "the run goes on",
    "waiting": "waiting for sites",
    "round-again": "the round is done again, as {who} went",
    "left-out": "{who} is left out",
    "back": "{who} is back",
    "joins": "{who} joins",
    "no-part": "{who} takes no part",
    "withdrew": "{who} withdraws",
    "unsigned": "{who} does not sign the ledger",
    "unseen": "{who} does not keep its part of the record",
    "no-model": "{who} has not got its model",
    "finished": "the run is finished",
    "stopped": "the run was stopped",
    "refused": "the run was refused",
    "diverged": "the run diverged",
    "failed": "the run failed",
}
"""What may happen."""


def said(what: What, who: str | None = None, why: str = "") -> str:
    """As people read it."""
    words = WORDS[what].format(who=who)
    return f"{words}: {why}" if why else words


ENDS: tuple[What, ...] = ("finished", "stopped", "refused", "diverged", "failed")
"""What is the last that happens to a run, unless it is resumed."""
Doing = Literal["training", "scoring", "mixing", "waiting", "writing"]


class Observer(Protocol):
    """Told in the middle of the work: it must not take long. As it is, it looks away."""

    def happened(self, what: What, who: str | None = None, why: str = "") -> None:
        """Something that people should know of, to a site or to the run."""
        return

    def doing(self, what: Doing) -> AbstractContextManager[None]:
        """Inside, the run does this."""
        return nullcontext()

    def sees(self, here: Sequence[str], away: Mapping[str, str]) -> None:
        """Who is there, and who is not and why."""
        return

    def asked(self, names: Collection[str]) -> None:
        """Who was asked something and has not answered yet; told again when somebody has."""
        return


class _Nobody(Observer):
    """Looks away."""


NOBODY = _Nobody()
