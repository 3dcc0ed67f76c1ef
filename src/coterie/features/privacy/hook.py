"""Where local work has noise, what visits cost rows is added up by a wrapper around the net, and the run's
record says it in the end, in privacy.json (see `statement` in `privacy/spending.py`); None before the run is
over, and where local work has no bound.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from coterie.core.facts import kernel_fact
from coterie.core.held import COORDINATOR, Held
from coterie.core.kernel import Kernel, scores
from coterie.core.method import Method, costs
from coterie.core.net import EVALUATION, Beside, Net, Replies
from coterie.core.seeds import Key
from coterie.kernels.noisy import as_written
from coterie.nets.wrapped import Wrapped
from coterie.privacy.accounting import Charges
from coterie.privacy.spending import EVERYBODY, Budget, Ledger, cost_of, statement
from coterie.runs.hooks import Hook, Run
from coterie.runs.record import Kept, known
from coterie.storage.atomic import write_whole
from coterie.storage.checkpoint import as_tensor, bytes_in, named, taken
from coterie.storage.tensors import damaged

FILE = "privacy.json"
NAME = "private"  # in checkpoints
DELTA = 1e-5


class _Book:
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


class Visit(NamedTuple):
    """What is asked of a net; an edge is one visit."""

    kernel: Kernel
    beliefs: Held
    edges: Tensor
    key: Key
    slot: str
    beside: Beside | None

    def requester(self, edge: int) -> int | None:
        """Who gets what the visit makes: where the belief lies; numbers alone go to the coordinator."""
        guest, host = self.edges[edge].tolist()
        if kernel_fact(self.kernel, "together") or scores(self.kernel):
            return COORDINATOR
        places = {int(part.places[guest]) for part in self.beliefs.parts}
        return next(iter(places)) if len(places) == 1 and host not in places else EVERYBODY

    def identity(self, edge: int) -> str:
        """The same for a visit that is made again of the same contents."""
        guest, host = self.edges[edge].tolist()
        ids = [int(p.ids[guest]) for p in self.beliefs.parts]
        others = {
            name: [int(p.ids[edge if len(held) > 1 else 0]) for p in held.parts]
            for name, held in (self.beside or {}).items()
        }
        what = [repr(self.kernel), self.key.seed, self.key.path, self.slot, guest, host, ids, others]
        return json.dumps(what, default=str)


@dataclass(frozen=True, eq=False)
class Accounted(Wrapped):
    """Adds up what visits cost; nothing is refused."""

    accounts = True
    book: _Book = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "book", _Book())
        most = max((m.train + m.validation + m.test for m in self.net.roster.members), default=1)
        self.book.delta = min(DELTA, 0.1 / max(1, most))  # a tenth of 1/n where that is less

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
        self.charge(Visit(kernel, beliefs, edges, key, slot, beside), replies)
        return replies

    def costs(self, kernel: Kernel, edges: Tensor) -> dict[int, Charges | None]:
        """{host: what one visit costs it}."""
        costs = {}
        for host in torch.unique(edges[:, 1]).tolist():
            m = self.roster.members[host]
            costs[host] = cost_of(kernel, {"train": m.train, "validation": m.validation, "test": m.test})
        return costs

    def charge(self, visit: Visit, replies: Replies) -> None:
        """Who answered has looked at its rows; the same visit again is the same answer, and free."""
        costs, ledger = self.costs(visit.kernel, visit.edges), self.book.ledger
        where = {(g, h): e for e, (g, h) in enumerate(visit.edges.tolist())}
        for guest, host in replies.edges.tolist():
            cost, edge = costs[host], where[guest, host]
            if cost is None:
                whose = "evaluation" if EVALUATION in visit.key.path else "method"
                ledger.outside[whose, as_written(visit.kernel)] += 1
            if cost and (mark := visit.identity(edge)) not in self.book.seen:
                self.book.seen.add(mark)
                ledger.account(host).charge(visit.requester(edge), cost)

    def statement(self) -> dict[str, Any]:
        """What the run's record says of it."""
        book, rows = self.book, self.roster.sizes.tolist()
        return {**statement(book.ledger, self.roster.names, rows, book.delta, book.budget), "scores": "clear"}

    def kept(self, live: Iterable[Held], round: int) -> Mapping[str, Tensor]:
        text = json.dumps(self.book.ledger.to_dict())
        return {**self.net.kept(live, round), **named(NAME, {"ledger": as_tensor(text)})}

    def restore(self, kept: Mapping[str, Tensor], live: Iterable[Held], round: int) -> None:
        mine, others = taken(NAME, kept)
        if "ledger" in mine:
            self.book.ledger = Ledger.of(json.loads(bytes_in(mine["ledger"])))
        self.book.at(-1)
        self.net.restore(others, live, round)


class _PrivacyHook(Hook):
    order = 60

    def around(self, net: Net, method: Method) -> Net:
        return Accounted(net) if costs(method, net.roster) and not net.accounts else net

    def look(self, run: Run) -> None:
        self.statement = run.net.statement()
        run.record.more["privacy"] = partial(known, self.statement)

    def save(self, run: Run) -> None:
        if run.folder and self.statement is not None:
            write_whole(run.folder.path / FILE, json.dumps(self.statement, indent=1) + "\n")


def _read_statement(folder: Path) -> Mapping[str, Any]:
    name = folder / FILE
    try:
        told = json.loads(name.read_bytes())
        if not (isinstance(told, dict) and {"delta", "sites", "budget", "outside", "scores"} <= told.keys()):
            raise ValueError("it lacks something")
    except (ValueError, RecursionError) as error:
        raise damaged(name, str(error)) from None
    return told


HOOK = _PrivacyHook
KEPT = {"privacy": Kept(FILE, _read_statement)}
