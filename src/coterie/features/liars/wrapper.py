"""A net wrapped: some sites lie. For studies of what a method stands.

Liars do something to their rows before they train or answer something else than their reply (`lies.py`),
answer with an old one, or tell wrong losses. All of them lie in the same way, and know what the honest
replied. Several ways are several wrappers: the same clients then lie in all of them, as long as `draw` is the
same. A liar's own model is nobody's concern: it is not scored, so that every figure of a run is of the
honest.

    stale     what it replied the first time, to the same guest
    losses    of its own model on its own rows s times the loss, of others' models a part in s, and an
              accuracy of 1: it wants to be chosen, by a comparison with its loss at home (Ndoye) too
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.client import Samples
from coterie.core.errors import BadInput, Diverged, UnknownName
from coterie.core.facts import ALL, called, kernel_fact, method_fact
from coterie.core.held import Held, Part, together
from coterie.core.kernel import Kernel, makes, scores
from coterie.core.method import Method
from coterie.core.net import EVALUATION, WRAPS, Beside, Net, Replies, edges_among
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.features.liars.lies import LIES, POISONS, REPLY, SENT, SPOILT, Fooled, Lie, Poisoned, stamped
from coterie.nets.in_process import LEFT_OUT, InProcess
from coterie.nets.offers import chosen, clients_in
from coterie.nets.sound import difference, kind_of
from coterie.nets.wrapped import Wrapped, innermost
from coterie.storage.checkpoint import by_name, named, taken

STALE, LOSSES = "stale", "losses"
KINDS = (*POISONS, *LIES, *SPOILT, STALE, LOSSES)
STRENGTH = {"sign-flip": 1.0, "gaussian": 10.0, "alie": 1.5, "ipm": 3.0, "scaling": 10.0, LOSSES: 10.0}
"""Usual ones: those of alie and ipm are byzfl's."""
KNOWING = {"alie", "ipm", "mimic"}
KEPT = "first"


@WRAPS.register("liars")
@dataclass(frozen=True, eq=False)
class Liars(Wrapped):
    """Some sites lie, in one way of many."""

    fraction: float = 0.2
    """Which share of the clients lies; at least one does."""
    kind: str = "sign-flip"
    """How: label-flip, backdoor, sign-flip, gaussian, alie, ipm, mimic, scaling, free-rider, not-a-number,
    nonsense, stale, losses."""
    strength: float = 0.0
    """How much, where a way has a strength; 0 takes its usual one."""
    names: str = ""
    """Who lies, as NAME+NAME, instead of a fraction."""
    spare: str = ""
    """Who never does, as NAME+NAME."""
    draw: int = 0
    """Liars are drawn from the run's seed; another number draws others."""

    notes: _Notes = field(init=False, repr=False)

    studied: ClassVar[bool] = True
    lies: ClassVar[bool] = True

    def __post_init__(self) -> None:
        told = ("fraction", "kind", "strength", "names", "spare", "draw")
        self.check(**{name: getattr(self, name) for name in told})
        object.__setattr__(self, "notes", _Notes())

    @staticmethod
    def check(
        fraction: float = 0.2,
        kind: str = "sign-flip",
        strength: float = 0.0,
        names: str = "",
        spare: str = "",
        draw: int = 0,
    ) -> None:
        if not 0 <= fraction < 1:
            raise BadInput(f"liars={fraction} must be at least 0 and below 1: try 0.2")
        if kind not in KINDS:
            raise UnknownName("kind of liar", kind, KINDS)
        if not 0 <= strength < float("inf"):
            raise BadInput(f"liars: strength={strength} must be at least 0 and finite: try 1, or 0 for usual")
        if strength and kind not in STRENGTH:
            raise BadInput(f"liars: {kind} has no strength; got {strength}: leave it out")
        if both := sorted(set(clients_in(names)) & set(clients_in(spare))):
            raise BadInput(f"liars: {both[0]!r} is in names and in spare: leave it in one of them")

    @staticmethod
    def ordered(wraps: Sequence[str], /, **options: Any) -> None:
        """Refuses an order of wrappers in which lies would come too late."""
        if "sealed" in wraps[: len(wraps) - 1 - list(wraps)[::-1].index("liars")]:
            raise BadInput(
                "liars come after sealed, and lies are told before replies are sealed: write --wrap liars "
                "sealed"
            )

    @staticmethod
    def admit(method: Method, roster: Roster, **options: Any) -> None:
        """Refuses who is not there, and studies that would have nobody to look at."""
        name = called(method)
        if method.reveals().rows:
            raise BadInput(f"{name} has all rows in one place, where nobody replies: leave liars out")
        names, spare = (clients_in(options.get(which, "")) for which in ("names", "spare"))
        for which in ("names", "spare"):
            chosen(roster.names, options.get(which, ""))
        many, kind = len(names) or _count(options.get("fraction", 0.2), len(roster)), options.get("kind")
        free = len(roster) - len(spare)
        if many >= len(roster) or (not names and many > free):
            raise BadInput(
                f"liars: {many} of {len(roster)} clients lie, {len(spare)} are spared, and one has to be "
                "honest: lower the fraction"
            )
        asks = method_fact(method, "requester")
        if asks != ALL and (asks in names or not (names or asks in spare)):
            raise BadInput(
                f"liars: {asks!r} asks for a model, and a liar's is not looked at: write spare={asks}"
            )
        if kind == "backdoor" and roster.task != "classification":
            raise BadInput(
                f"liars: a backdoor calls up a class, and a {roster.task} has none: use label-flip"
            )

    def liars(self, key: Key) -> Tensor:
        """[site] who lies, the same all through a run."""
        roster, spare = self.roster, clients_in(self.spare)
        if self.names:
            return torch.tensor([name in clients_in(self.names) for name in roster.names])
        free = torch.tensor([i for i, name in enumerate(roster.names) if name not in spare])
        draws = torch.randperm(len(free), generator=Key(key.seed, ("liars", self.draw)).torch())
        chosen = free[draws[: _count(self.fraction, len(roster))]]
        return torch.isin(torch.arange(len(roster)), chosen)

    @property
    def how_much(self) -> float:
        return self.strength or STRENGTH.get(self.kind, 1.0)

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        liars = self.liars(key)
        self.notes.names = [name for name, lies in zip(self.roster.names, liars, strict=True) if lies]
        if EVALUATION in key.path:
            edges, beside = edges_among(~liars, beliefs, edges, beside)
            if self.kind == "backdoor":
                self._look_for_trigger(kernel, beliefs, edges, key)
            return self.net.visit(kernel, beliefs, edges, key, slot, beside)
        if self.kind in POISONS and not scores(kernel) and not makes(kernel):
            return self._poisoned(kernel, beliefs, edges, liars[edges[:, 1]], key, slot, beside or {})
        replies = self.net.visit(kernel, beliefs, edges, key, slot, beside)
        if scores(kernel):
            return self._boasted(liars, beliefs, replies) if self.kind == LOSSES else replies
        if makes(kernel) or replies.held is None or self.kind in (*POISONS, LOSSES):
            return replies
        return self._stale(liars, replies) if self.kind == STALE else self._lied(liars, replies, key)

    def _look_for_trigger(self, kernel: Kernel, beliefs: Held, edges: Tensor, key: Key) -> None:
        """Wherever models are scored on test rows one by one; sites elsewhere are not looked at."""
        here, how = innermost(self.net), Poisoned()
        alone = kernel_fact(kernel, "part") == "test" and not kernel_fact(kernel, "together")
        if not alone or not isinstance(here, InProcess) or len(edges) == 0:
            return
        if self.notes.triggered is None:
            level = how.level_at(here.roster)
            tests = [Samples(stamped(c.test.x, how.patch, level), c.test.y) for c in here.clients]
            clients = [replace(c, test=t) for c, t in zip(here.clients, tests, strict=True)]
            self.notes.triggered = replace(here, clients=tuple(clients))
        seen = self.notes.triggered.visit(Fooled(how.target), beliefs, edges, key.at("trigger"))
        self.notes.fooled = float(seen.numbers["fooled"].nanmean())

    def _poisoned(
        self, kernel: Any, beliefs: Held, edges: Tensor, lying: Tensor, key: Key, slot: str, beside: Beside
    ) -> Replies:
        """Liars train on other rows, in a visit of their own."""
        classes = self.roster.outputs if self.roster.task == "classification" else 0
        how: Any = self.kind
        poison = Poisoned(kernel, how, classes=classes, level=Poisoned.level_at(self.roster))
        replies = list[Replies]()
        for some, work in ((~lying, kernel), (lying, poison)):
            index = some.nonzero().flatten()
            looked = {n: b.rows(index) if len(b) == len(edges) > 1 else b for n, b in beside.items()}
            try:
                replies.append(self.net.visit(work, beliefs, edges[index], key, slot, looked or None))
            except Diverged as error:
                if work is kernel:
                    raise
                self._odd(edges[index, 1], error.why)
        return _merged(replies, edges)

    def _lied(self, liars: Tensor, replies: Replies, key: Key) -> Replies:
        """Every liar makes another reply of its own; those that cannot be replies are gone."""
        lying = liars[replies.hosts]
        alone = len(torch.unique(replies.guests)) == len(replies)  # peers, each at home: one crowd
        crowd = torch.zeros_like(replies.guests) if alone or self.kind not in KNOWING else replies.guests
        held, gone = replies.beliefs, list[int]()
        assert replies.origin is not None
        for group in torch.unique(crowd[lying]).tolist():
            here = crowd == group
            mine, honest = (lying & here).nonzero().flatten(), (~lying & here).nonzero().flatten()
            beside = {SENT: replies.origin.rows(replies.guests[mine])}
            for j in honest.tolist() if self.kind in KNOWING else ():
                beside[f"{REPLY}/{j}"] = held.rows(torch.tensor([j]))
                beside[f"{SENT}/{j}"] = replies.origin.rows(replies.guests[j : j + 1])
            edges = torch.stack([torch.arange(len(mine)), replies.hosts[mine]], dim=1)
            lie = Lie(self.kind, self.how_much)
            try:
                made = self.net.visit(lie, held.rows(mine), edges, key.at("lie", group), beside=beside)
            except Diverged as error:
                self._odd(edges[:, 1], error.why)
                gone += mine.tolist()
                continue
            usual, theirs = kind_of(tree.row(held.like, 0)), kind_of(tree.row(made.beliefs.like, 0))
            if theirs != usual:  # all of them made the same nonsense, and it is the others who differ
                self._odd(made.hosts, difference(theirs, usual))
                gone += mine.tolist()
                continue
            held = held.put(mine[made.guests], made.beliefs)
            gone += mine[~torch.isin(torch.arange(len(mine)), made.guests)].tolist()
        stay = [i for i in range(len(replies)) if i not in set(gone)]
        return replace(replies, held=held).only(torch.tensor(stay, dtype=torch.int64))

    def _stale(self, liars: Tensor, replies: Replies) -> Replies:
        held = replies.beliefs
        for i, (guest, host) in enumerate(replies.edges.tolist()):
            if liars[host]:
                own = held.rows(torch.tensor([i]))
                held = held.put(torch.tensor([i]), self.notes.first.setdefault((guest, host, own.names), own))
        return replace(replies, held=held)

    def _odd(self, hosts: Tensor, why: str) -> None:
        self.notes.odd |= {self.roster.names[h]: why for h in hosts.tolist()}

    def _boasted(self, liars: Tensor, beliefs: Held, replies: Replies) -> Replies:
        lying = liars[replies.hosts]
        home = torch.stack([p.places[replies.guests] == replies.hosts for p in beliefs.parts]).any(dim=0)
        told = dict(replies.numbers)
        if "loss" in told:
            factor = torch.where(home, self.how_much, 1 / self.how_much).to(told["loss"])
            told["loss"] = torch.where(lying, told["loss"] * factor, told["loss"])
        if "accuracy" in told:
            told["accuracy"] = told["accuracy"].masked_fill(lying & ~home, 1.0)
        return replace(replies, numbers=told)

    def in_one_place(self, groups: Any) -> Net:
        raise BadInput("rows of all in one place, where nobody replies: leave liars out")

    def keep(self, live: Iterable[Held], round: int) -> None:
        self.net.keep([*live, *self.notes.first.values()], round)

    def regroup(self, live: Iterable[Held], round: int) -> None:
        self.notes.odd.clear()
        self.net.regroup([*live, *self.notes.first.values()], round)

    def kept(self, live: Iterable[Held], round: int) -> Mapping[str, Tensor]:
        """First replies too: ids and what tensors are like, and their numbers where they are here."""
        own = dict(self.net.kept([*live, *self.notes.first.values()], round))
        for number, ((guest, host, _), held) in enumerate(self.notes.first.items()):
            (part,), seen = held.parts, self.net.peek(held) or {}
            like = {n: torch.empty(0, *t.shape[1:], dtype=t.dtype) for n, t in part.tensors.items()}
            here = {"id": torch.tensor([guest, host, int(part.ids[0])]), **named("is", like)}
            here |= named("has", {name: seen[name] for name in part.tensors if name in seen})
            own |= named(KEPT, named(number, here))
        return own

    def restore(self, kept: Mapping[str, Tensor], live: Iterable[Held], round: int) -> None:
        first, others = taken(KEPT, kept)
        for told in by_name(first).values():
            guest, host, id = told.pop("id").tolist()
            parts = by_name(told)
            tensors = {
                name: parts.get("has", {}).get(name, t.new_empty((1, *t.shape[1:]), device="meta"))
                for name, t in parts.get("is", {}).items()
            }
            held = Held((Part(tensors, torch.tensor([id]), torch.tensor([host])),))
            self.notes.first[guest, host, held.names] = held
        self.net.restore(others, [*live, *self.notes.first.values()], round)

    def figures(self) -> dict[str, Any]:
        """Who lied and how, how far a trigger got, and whose lies could not be replies."""
        inner = self.net.figures()
        mine: dict[str, Any] = {"kind": self.kind, "names": self.notes.names}
        if self.kind in STRENGTH:
            mine["strength"] = self.how_much
        fooled, self.notes.fooled = self.notes.fooled, None
        if fooled is not None:
            mine["fooled"] = fooled
        odd, self.notes.odd = {**inner.get(LEFT_OUT, {}), **self.notes.odd}, {}
        told = {**inner, "liars": [*inner.get("liars", ()), mine]}
        return {**told, LEFT_OUT: odd} if odd else told


class _Notes:
    """Who lies, first replies by guest, host and names of tensors, whose lies could not be replies; sites
    with the trigger on their test rows, and the share of these that it turned.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.first: dict[tuple[int, int, tuple[str, ...]], Held] = {}
        self.odd: dict[str, str] = {}
        self.triggered: InProcess | None = None
        self.fooled: float | None = None


def _count(share: float, n: int) -> int:
    """How many of n lie: the nearest to their share, at least one if there are to be any."""
    return max(1, round(share * n)) if share else 0


def _merged(some: list[Replies], edges: Tensor) -> Replies:
    """Replies of several visits, in the order of the edges."""
    some = [r for r in some if len(r)] or some[:1]
    if len(some) == 1:
        return some[0]
    place = {(g, h): e for e, (g, h) in enumerate(edges.tolist())}
    answered = torch.cat([r.edges for r in some])
    order = torch.tensor([place[g, h] for g, h in answered.tolist()]).argsort()
    names = [n for n in some[0].numbers if all(n in r.numbers for r in some)]
    numbers = {n: torch.cat([r.numbers[n] for r in some]) for n in names}
    held = together([r.beliefs for r in some]) if all(r.held is not None for r in some) else None
    return Replies(answered, numbers, held, some[0].origin).only(order)
