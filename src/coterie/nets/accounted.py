"""A net wrapped: what visits cost their hosts is added up; every run whose local work has noise is in one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from coterie.core.held import COORDINATOR, Held
from coterie.core.kernel import Kernel, scores
from coterie.core.net import Beside, Replies
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.kernels.noisy import called
from coterie.nets.wrapped import Wrapped
from coterie.privacy.accounting import Charges
from coterie.privacy.ledger import EVERYBODY, Budget, Ledger, cost_of, statement

EVALUATION = "evaluate"
"""What keys of a run's own scoring have in their path."""
KEPT = "private|ledger"
DELTA = 1e-5


class Book:
    """The ledger of a run, and which visits of this round are in it already."""

    def __init__(self) -> None:
        self.ledger, self.round = Ledger(), -1
        self.seen: set[str] = set()
        self.refused: dict[int, set[Any]] = {}  # in this round
        self.delta: float = DELTA
        self.budget: Budget | None = None

    def at(self, round: int) -> None:
        if round != self.round:
            self.round, self.seen, self.refused = round, set(), {}


@dataclass(frozen=True, eq=False)
class Accounted(Wrapped):
    """Adds up what visits cost; nothing is refused."""

    book: Book = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "book", Book())
        self.book.delta = usual_delta(self.net.roster)

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        self.book.at(key.round)
        replies = self.net.visit(kernel, beliefs, edges, key, slot, beside)
        self._charge(kernel, beliefs, edges, replies, key, slot, beside)
        return replies

    def costs(self, kernel: Kernel, edges: Tensor) -> dict[int, Charges | None]:
        """{host: what one visit costs it}."""
        found = {host: self.roster.members[host] for host in torch.unique(edges[:, 1]).tolist()}
        return {
            host: cost_of(kernel, {"train": m.train, "validation": m.validation, "test": m.test})
            for host, m in found.items()
        }

    def _charge(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        replies: Replies,
        key: Key,
        slot: str,
        beside: Beside | None,
    ) -> None:
        """Who answered has looked at its rows; the same visit again is the same answer, and free."""
        costs, ledger, together = (
            self.costs(kernel, edges),
            self.book.ledger,
            getattr(kernel, "together", False),
        )
        where = {(g, h): e for e, (g, h) in enumerate(edges.tolist())}
        for guest, host in replies.edges.tolist():
            cost = costs[host]
            if cost is None:
                whose = "evaluation" if EVALUATION in key.path else "method"
                ledger.outside[whose, called(kernel)] += 1
            if not cost:
                continue
            mark = identity(kernel, beliefs, where[guest, host], guest, host, key, slot, beside)
            if mark not in self.book.seen:
                self.book.seen.add(mark)
                who = COORDINATOR if together else requester_of(kernel, beliefs, guest, host)
                ledger.account(host).charge(who, cost)

    def statement(self) -> dict[str, Any]:
        """What the run's record says of it."""
        book = self.book
        return statement(
            book.ledger, self.roster.names, self.roster.sizes.tolist(), book.delta, book.budget
        ) | {"scores": "clear"}

    def kept(self, live: Iterable[Held], round: int) -> Mapping[str, Tensor]:
        text = json.dumps(self.book.ledger.told()).encode()
        return {**self.net.kept(live, round), KEPT: torch.tensor(list(text), dtype=torch.uint8)}

    def restore(self, kept: Mapping[str, Tensor], live: Iterable[Held], round: int) -> None:
        others = dict(kept)
        if KEPT in others:
            self.book.ledger = Ledger.of(json.loads(bytes(others.pop(KEPT).tolist())))
        self.book.at(-1)
        self.net.restore(others, live, round)


def usual_delta(roster: Roster) -> float:
    """1e-5, or a tenth of 1/n where that is less."""
    most = max((m.train + m.validation + m.test for m in roster.members), default=1)
    return min(DELTA, 0.1 / max(1, most))


def requester_of(kernel: Kernel, beliefs: Held, guest: int, host: int) -> int | None:
    """Who gets what a visit makes: where the belief lies; numbers alone go to the coordinator."""
    if scores(kernel):
        return COORDINATOR
    places = {int(part.places[guest]) for part in beliefs.parts}
    return next(iter(places)) if len(places) == 1 and host not in places else EVERYBODY


def identity(
    kernel: Kernel,
    beliefs: Held,
    edge: int,
    guest: int,
    host: int,
    key: Key,
    slot: str,
    beside: Beside | None,
) -> str:
    """The same for a visit that is made again of the same contents."""
    ids = [int(p.ids[guest]) for p in beliefs.parts]
    others = {
        name: [int(p.ids[edge if len(held) > 1 else 0]) for p in held.parts]
        for name, held in (beside or {}).items()
    }
    return json.dumps([repr(kernel), key.seed, key.path, slot, guest, host, ids, others], default=str)


def accounted(net: Any) -> Accounted | None:
    """The wrapper that adds up, wherever it is among the wrappers."""
    while net is not None and not isinstance(net, Accounted):
        net = getattr(net, "net", None)
    return net
