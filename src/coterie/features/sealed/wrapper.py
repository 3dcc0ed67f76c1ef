"""A net wrapped: replies are sealed, so that sums and distances show no reply to anybody.

The protocol is in `parties.py`. In one process all its parties are here, each an object that is handed
only what it would be sent; over a federation the two servers and the dealer are processes of their own
(`coterie helper`), and the net itself seals (`federation/sealing/`).

What is sealed is a reply, less the belief that went out where the receiver knows that one: it has it itself,
or the coordinator has. What a receiver's own place, or the coordinator, holds is added in the clear, as they
know it. Whole numbers (batch norm's counters) are not averaged but taken from one sender, and are not sealed.

A reply that is too long for the ring cannot be sealed: its client is left out of the round, which is done
again without it, and is named. In a federation that is for the site to say.

Models that a method sends to sites to be tried there are seen there, by the nature of the thing: they are
counted as `shown`, or refused with `strict`. Handing single models out (deliver, share, open) is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from coterie.core.belief import Beliefs, Weights
from coterie.core.errors import BadInput, Gone, Refused
from coterie.core.facts import called
from coterie.core.held import COORDINATOR, Held, hold, together
from coterie.core.kernel import Kernel, scores
from coterie.core.method import Method
from coterie.core.net import WRAPS, Beside, Distances, Net, Replies, edges_among
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.nets.in_process import LEFT_OUT
from coterie.nets.wrapped import Wrapped, innermost
from coterie.storage.checkpoint import named, taken

KEPT = "sealed"


class _Base(NamedTuple):
    """What went out, to which a reply is an answer."""

    held: Held
    row: int


@WRAPS.register("sealed")
@dataclass(frozen=True, eq=False)
class Sealed(Wrapped):
    """Two servers sum replies up and measure them, and neither sees one."""

    leverage: float = 0.75
    """How much of a single reply the sums that somebody gets may give away, up to 1 (see nets/guard.py)."""
    bits: int = 26
    """Bits behind the point: more are finer, fewer hold longer replies; 26 is about what float32 has."""
    projections: int = 16
    """Numbers of each reply that the servers see, to find who lies in the ring; 0 looks for nobody."""
    strict: bool = False
    """Refuse methods that show single models to sites which try them, instead of counting them."""
    a: str = ""
    """The first server's name, in a federation; by default the first helper's."""
    b: str = ""
    """The second server's."""
    dealer: str = ""
    """The dealer's."""

    chamber: Any = field(init=False, repr=False)
    notes: _Notes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        options = ("leverage", "bits", "projections", "strict", "a", "b", "dealer")
        self.check(**{name: getattr(self, name) for name in options})
        object.__setattr__(self, "notes", _Notes())
        object.__setattr__(self, "chamber", self._begun())

    always_seals: ClassVar[bool] = True
    seals: ClassVar[bool] = True
    unasked: ClassVar[bool] = True

    def _begun(self) -> Any:
        """Who seals: the net itself, if it has parties for it; else parties in this process."""
        net = innermost(self.net)
        if (conductor := net.sealing(self)) is not None:
            return conductor
        if not hasattr(net, "learner") or net.peek(hold({"x": torch.zeros(1, 1)}, torch.zeros(1))) is None:
            raise BadInput(
                "sites in processes of their own have no helpers to seal for: take --net in-process for a "
                "simulation, or --net federation"
            )
        from coterie.features.sealed.here import Chamber

        if self.a or self.b or self.dealer:
            raise BadInput("sealed: helpers have names in a federation alone: leave a, b and dealer out")
        return Chamber(net.roster.names, self.leverage, self.bits, self.projections)

    @staticmethod
    def check(
        leverage: float = 0.75,
        bits: int = 26,
        projections: int = 16,
        strict: bool = False,
        a: str = "",
        b: str = "",
        dealer: str = "",
    ) -> None:
        try:
            from coterie.features.sealed.parties import check_projections
            from coterie.features.sealed.ring import check_bits
            from coterie.nets.guard import check_leverage
        except ModuleNotFoundError as error:
            raise BadInput(f"sealed needs {error.name}: pip install 'coterie[privacy]'") from None
        check_leverage(leverage)
        check_bits(bits)
        check_projections(projections)
        named = [name for name in (a, b, dealer) if name]
        if named and len(named) < 3:
            raise BadInput("sealed: name all three of a, b and dealer, or none of them")
        if len(set(named)) < len(named):
            raise BadInput(
                f"sealed: a={a}, b={b}, dealer={dealer} are not three parties, and two that are one see "
                "every reply: name three"
            )

    @staticmethod
    def admit(method: Method, roster: Roster, **options: Any) -> None:
        """Refuses a method that cannot work sealed, before anything runs."""
        reveals, name = method.reveals(), called(method)
        why = "moves rows" if reveals.rows else "looks at single models (open)" if reveals.opened else ""
        if why:
            raise BadInput(
                f"{name} {why}, which --wrap sealed rules out: choose another method, or leave it out"
            )

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        if self.notes.long and not scores(kernel):
            there = torch.tensor([name not in self.notes.long for name in self.roster.names])
            edges, beside = edges_among(there, beliefs, edges, beside)
        self._show(beliefs, edges.tolist(), "visit")
        for held in (beside or {}).values():
            hosts = enumerate(edges[:, 1].tolist())
            self._show(held, [(i if len(held) > 1 else 0, host) for i, host in hosts], "visit")
        replies = self.net.visit(kernel, beliefs, edges, key, slot, beside)
        if replies.held is None or scores(kernel):
            return replies
        for i, guest in enumerate(replies.guests.tolist()):
            id = int(replies.held.parts[0].ids[i])
            self.notes.replies.add(id)
            if len(beliefs.parts) == 1:
                self.notes.bases[id] = _Base(beliefs, guest)
        return replies

    def _show(self, held: Held, pairs: Sequence[Sequence[int]], verb: str) -> None:
        """Rows of a handle go to places, (row, place) each, in the clear: replies are shown there."""
        for part in held.parts:
            ids, places = part.ids.tolist(), part.places.tolist()
            for row, to in pairs:
                if places[row] == to or ids[row] not in self.notes.replies:
                    continue
                if self.strict or verb != "visit":
                    names = {**dict(enumerate(self.roster.names)), COORDINATOR: "the coordinator"}
                    raise Refused(
                        f"{verb}: the reply of {names[places[row]]} would be seen by {names[to]}, which "
                        "--wrap sealed rules out: choose a method that only mixes and measures"
                        + ("" if self.strict else ", or leave the wrapper out")
                    )
                self.notes.shown.add((ids[row], to))

    def deliver(self, beliefs: Held, rows: Tensor, at: Tensor) -> Held:
        self._show(beliefs, list(zip(rows.tolist(), at.tolist(), strict=True)), "deliver")
        copies = self.net.deliver(beliefs, rows, at)
        for part in beliefs.parts:
            for row, id in zip(rows.tolist(), copies.parts[0].ids.tolist(), strict=True):
                if int(part.ids[row]) in self.notes.replies:
                    self.notes.replies.add(id)
        return copies

    def share(self, beliefs: Held, to: Tensor) -> None:
        self._show(beliefs, [(row, place) for row in range(len(beliefs)) for place in to.tolist()], "share")
        self.net.share(beliefs, to)

    def open(self, beliefs: Held) -> Beliefs:
        self._show(beliefs, [(row, COORDINATOR) for row in range(len(beliefs))], "open")
        return self.net.open(beliefs)

    def in_one_place(self, groups: Sequence[Sequence[int]]) -> Net:
        raise Refused("rows of sites in one place, which --wrap sealed rules out: leave the wrapper out")

    def mix(self, weights: Weights, beliefs: Held, at: Tensor, in_turn: bool = False) -> Held:
        if in_turn:
            if not isinstance(weights, Tensor):
                raise BadInput("sums in turn take one matrix of weights for all tensors")
            now, whose, each = beliefs, {p: i for i, p in enumerate(beliefs.places.tolist())}, list[Held]()
            for i, place in enumerate(at.tolist()):
                each.append(self._mixed_at(place, weights[i : i + 1], now))
                now = now.put(torch.tensor([whose[place]]), each[-1])
            return together(each)
        made: dict[int, Held] = {}
        for place in dict.fromkeys(at.tolist()):
            here = (at == place).nonzero().flatten()
            if isinstance(weights, Tensor):
                mine: Weights = weights[here]
            else:
                mine = {n: w[here] for n, w in weights.items()}
            found = self._mixed_at(place, mine, beliefs)
            made |= {int(i): found.rows(torch.tensor([k])) for k, i in enumerate(here)}
        return together([made[i] for i in range(len(at))])

    def _mixed_at(self, place: int, weights: Weights, beliefs: Held) -> Held:
        """The sums of one place."""
        by_name = {n: weights if isinstance(weights, Tensor) else weights[n] for n in beliefs.names}
        heard = torch.stack([w != 0 for w in by_name.values()]).any(dim=0).any(dim=0).tolist()
        rows = {(row, p) for part in beliefs.parts for row, p in enumerate(part.places.tolist())}
        far = {row for row, p in rows if heard[row] and p not in (place, COORDINATOR)}
        many = len(next(iter(by_name.values())))
        if not far:
            return self.net.mix(weights, beliefs, torch.full((many,), place))
        if len(beliefs.parts) > 1:
            raise Refused("sums of beliefs in several parts cannot be sealed: mix one part at a time")
        from coterie.features.sealed.plan import Sum

        plan = Sum.of(self, place, by_name, beliefs, sorted(far), [r for r, h in enumerate(heard) if h])
        mixed: Held = self._sealed(lambda: self.chamber.mix(plan, beliefs, place))
        return mixed

    def base_of(self, id: int, place: int) -> _Base | None:
        """What a reply is sealed less of for a receiver: what went out, if that one knows it."""
        base = self.notes.bases.get(id)
        known = base is not None and int(base.held.parts[0].places[base.row]) in (place, COORDINATOR)
        return base if known else None

    def distances(
        self, replies: Replies, to: Tensor, at: int, importance: Mapping[str, float] | None = None
    ) -> Distances:
        held = replies.beliefs
        bases = [self.base_of(int(id), at) for id in held.parts[0].ids]
        guests = {None if b is None else (int(b.held.parts[0].ids[b.row])) for b in bases}
        if len(guests) > 1 or guests == {None}:
            raise Refused(
                "distances between answers to different beliefs cannot be sealed: measure the replies of one "
                "belief that went out"
            )
        from coterie.features.sealed.plan import Look

        look = Look.of(self, at, held, innermost(self.net).learner.trainable, importance or {})
        found: Distances = self._sealed(lambda: self.chamber.distances(look, held, to.tolist()))
        return found

    def _sealed(self, work: Callable[[], Any]) -> Any:
        """Something with sealed replies; who cannot seal its own has no part in the round."""
        try:
            return work()
        except BadInput as error:
            why: Mapping[str, str] = getattr(error, "why", {})  # of replies that are too long
            self.notes.long |= why
            if not why or len(self.notes.long) == len(self.roster):
                raise
            raise Gone(why) from None

    # the end of a round

    def keep(self, live: Iterable[Held], round: int) -> None:
        self.net.keep(live := list(live), round)
        self._over(live)

    def regroup(self, live: Iterable[Held], round: int) -> None:
        self.net.regroup(live := list(live), round)
        self._over(live)

    def _over(self, live: Sequence[Held]) -> None:
        ids = {int(id) for held in live for part in held.parts for id in part.ids}
        self.notes.replies &= ids
        self.notes.bases.clear()
        self.chamber.forget()

    def kept(self, live: Iterable[Held], round: int) -> Mapping[str, Tensor]:
        replies = torch.tensor(sorted(self.notes.replies), dtype=torch.int64)
        return {**self.net.kept(live, round), **named(KEPT, {"replies": replies})}

    def restore(self, kept: Mapping[str, Tensor], live: Iterable[Held], round: int) -> None:
        """What was a reply still is one: a run that goes on shows no more than one that was not cut off."""
        mine, others = taken(KEPT, kept)
        self.notes.replies = {int(id) for id in mine.get("replies", ())}
        self.net.restore(others, live, round)

    @property
    def sealed_bytes(self) -> int:
        return int(self.chamber.bytes)

    def figures(self) -> dict[str, Any]:
        """What was sealed since it was last asked, and who could not seal its reply."""
        found, self.notes.shown = len(self.notes.shown), set()
        inner, (long, self.notes.long) = self.net.figures(), (self.notes.long, {})
        told = {**inner, "sealed": {**self.chamber.read(), "shown": found}}
        return told | ({LEFT_OUT: {**inner.get(LEFT_OUT, {}), **long}} if long else {})


class _Notes:
    """Which contents are replies, what they are answers to, which were shown to whom; whose were too long."""

    def __init__(self) -> None:
        self.replies: set[int] = set()
        self.bases: dict[int, _Base] = {}
        self.shown: set[tuple[int, int]] = set()
        self.long: dict[str, str] = {}
