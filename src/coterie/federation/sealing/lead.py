"""The lead's side of sealed runs over a federation: it conducts hosts and helpers, and sees no reply.

What `features/sealed/here.py` does with objects goes here by questions to helpers (`helper.py`) and orders to
sites (`site/session.py`); masks, masked replies and shares go between them in peer messages. A helper that
goes, or is started anew, makes the round be done again once it is back.
"""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from coterie.core.errors import BadInput, BadRun, CoterieError, Gone, Refused
from coterie.core.held import COORDINATOR, Held, hold
from coterie.core.net import Distances
from coterie.core.wire import pack, unpack
from coterie.features.sealed.plan import Look, Sent, Sum, keys_of, layout_of, measured, received, wanted_pairs
from coterie.features.sealed.ring import room_for_distances
from coterie.federation.lead.sites import TICK
from coterie.federation.messages import SCHEMA, printable
from coterie.federation.sealing.messages import SIDES, as_words, check_parties
from coterie.federation.transport.post import Missing
from coterie.nets.courier import Message, Silence
from coterie.nets.site import ERRORS

if TYPE_CHECKING:
    from coterie.federation.lead.net import Federated

log = logging.getLogger("coterie")

TRIES = 3  # rounds in a row that a helper may spoil


class Sealing:
    """Conducts. `options` are the wrapper's: leverage, bits, projections, and the helpers' names."""

    def __init__(self, net: Federated, options: Any) -> None:
        self.net, self.options, self.bits = net, options, int(options.bits)
        self.lines = net.met.lines
        self.parties = self._chosen()
        net.begin = {**net.begin, "helpers": self.parties}
        self.seated: tuple[Any, ...] = ()
        self.sealed = Sent()
        self.mark, self.numbers = secrets.token_hex(4), itertools.count()
        self.count, self.bytes, self.leverage, self.failures = 0, 0, 0.0, 0

    # who helps

    def _chosen(self) -> dict[str, str]:
        """The helpers that were named, or the first three by name that are connected."""
        o, members = self.options, self.lines.post.members()
        there = sorted(name for name, m in members.items() if m.card.role == "helper")
        named = [o.a, o.b, o.dealer] if o.a else there[:3]
        if len(named) < len(SIDES):
            have = ", ".join(there) or "none"
            raise BadInput(
                f"sealed needs three helpers, two servers and a dealer; connected: {have}: start them with "
                "coterie helper KIT (kits: coterie federation invite DIR NAME --role helper)"
            )
        parties = dict(zip(SIDES, named, strict=True))
        try:
            check_parties(parties, lambda name: members[name].card if name in members else None)
        except CoterieError as error:
            raise BadInput(str(error)) from None
        marks = {side: members[name].where for side, name in parties.items()}
        for one, other in itertools.combinations(SIDES, 2):
            if marks[one] and marks[one] == marks[other]:
                log.warning(
                    "helpers %s and %s are on one host: whoever runs it can see every reply; run them apart",
                    parties[one],
                    parties[other],
                )
        return parties

    def _ready(self) -> None:
        """All three sit, in the processes that they are now; a helper that is away is waited for."""
        wait, begun = self.net.bounds.wait, time.monotonic()
        while True:
            members = self.lines.post.members()
            away = [name for name in self.parties.values() if name not in members]
            if not away:
                break
            if time.monotonic() - begun > wait:
                raise BadRun(
                    f"helper {', '.join(away)} is not there: start it again, then go on with coterie resume"
                )
            time.sleep(TICK)
        seated = (self.run, *(members[name].boot for name in self.parties.values()))
        if seated == self.seated:
            return
        told = {"parties": self.parties, "sites": self.net.roster.names}
        told |= {"leverage": self.options.leverage, "projections": self.options.projections}
        for side in ("dealer", "b", "a"):  # a writes to b when it sits down
            self._ask({side: ({"do": "sit", "side": side, **told}, {})})
        self.seated = seated
        self.sealed.clear()

    @property
    def run(self) -> str:
        return self.net.post.transport.run

    def _ask(self, messages: Mapping[str, Message]) -> dict[str, Message]:
        """Helpers, by side; one that is lost makes the round be done again, a refusal is ours."""
        bounds, packed = self.net.bounds, dict[str, bytes]()
        for side, (message, tensors) in messages.items():
            packed[self.parties[side]] = pack({**message, "run": self.run, "schema": SCHEMA}, tensors)
        self.bytes += sum(map(len, packed.values()))
        ask, answers = self.lines.post.ask, dict[str, Message]()
        found = ask(packed, bounds.deadline, bounds.patience, waits=self.net.waits)
        for side in messages:
            name, data = self.parties[side], found[self.parties[side]]
            if isinstance(data, Missing):
                raise self._lost(name, data.text)
            answer, tensors = unpack(data)
            self.bytes += len(data)
            if "error" in answer:
                text, kind = printable(answer.get("text", ""), 2000), ERRORS.get(str(answer["error"]), BadRun)
                if kind is BadRun:
                    raise self._lost(name, text)
                raise kind(f"helper {name}: {text}" if kind is not Refused else text)
            answers[side] = answer, tensors
        return answers

    def _ask_servers(
        self, told: dict[str, Any], tensors: Mapping[str, Tensor] | None = None
    ) -> dict[str, Message]:
        return self._ask(dict.fromkeys(("a", "b"), (told, dict(tensors or {}))))

    def _lost(self, name: str, why: str) -> CoterieError:
        self.seated, self.failures = (), self.failures + 1
        if self.failures >= TRIES:
            return BadRun(f"helper {name} fails again and again ({why}): mend it, then coterie resume")
        self.net.post.broken = True
        return Gone({name: why})

    # replies are sealed

    def seal(
        self,
        held: Held,
        rows: Sequence[int],
        bases: Mapping[int, Any],
        floats: Sequence[str],
        room: float,
        to: str | None = None,
    ) -> list[str]:
        """Hosts mask some rows and send them to both servers, once in a round; the names of their masks. They
        are told for whose sum it is (`to`); for distances it is nobody's.
        """
        self._ready()
        (part,) = held.parts
        places, layout = part.places.tolist(), layout_of(held.like, floats)
        words = max(end for _, end in layout.values())
        keys = keys_of(held, rows, bases, floats)
        names = {row: self.sealed.find(keys[row], room) for row in rows}
        called = {row: self._op() for row, name in names.items() if name is None}
        if called:
            hosts = {name: self.net.roster.names[places[row]] for row, name in called.items()}
            self._ask({"dealer": ({"do": "deal", "hosts": hosts, "words": words}, {})})
            self._order(held, called, bases, floats, {"bits": self.bits, "room": room, "words": words}, to)
            self.count += len(called)
            self.bytes += len(called) * 2 * 8 * words
            if self.options.projections:
                self._judge(list(called.values()), {name: places[row] for row, name in called.items()})
            for row, name in called.items():
                self.sealed.note(keys[row], name, room)
        self.failures = 0
        return [name or called[row] for row, name in names.items()]

    def _order(
        self,
        held: Held,
        called: Mapping[int, str],
        bases: Mapping[int, Any],
        floats: Sequence[str],
        terms: Mapping[str, Any],
        to: str | None,
    ) -> None:
        post, bounds, places = self.net.post, self.net.bounds, held.parts[0].places.tolist()
        wanted: dict[int, list[tuple[Held, list[int]]]] = {}
        orders: dict[int, list[dict[str, Any]]] = {}
        for row, name in called.items():
            base, some = bases[row], held.only(floats)
            order = {"name": name, "row": post.row(some, row), "less": None}
            wanted.setdefault(places[row], [])
            if base is not None:
                out = base.held.only(floats)
                order["less"] = post.row(out, base.row)
                wanted[places[row]].append((out, [base.row]))
            orders.setdefault(places[row], []).append(order)
        along = self.net.bring(wanted, why="visit")
        last = {"deadline": bounds.deadline / 4, "patience": bounds.patience}
        told = {"do": "seal", "terms": dict(terms), "floats": list(floats), "to": to, **last}
        post.ask({site: ({**told, "orders": some}, along[site]) for site, some in orders.items()})

    def _judge(self, names: Sequence[str], places: Mapping[str, int]) -> None:
        """Both servers look for replies that no honest site can have sent; they take no part any more."""
        op = self._op()
        coins = self._ask_servers({"do": "coin", "names": names, "op": op})
        nonces = {side: answer["nonce"] for side, (answer, _) in coins.items()}
        self._ask_servers({"do": "project", "names": names, "op": op, "nonces": nonces})
        judged = self._ask_servers({"do": "judge", "op": op}).values()
        liars = {places[name] for answer, _ in judged for name in answer["liars"] if name in places}
        why = "its sealed reply is none that an honest site can have sent"
        self.net.post.need({site: Silence(why, lasting=True) for site in liars})

    def _op(self) -> str:
        return f"{self.mark}-{next(self.numbers)}"

    # verbs

    def mix(self, plan: Sum, held: Held, place: int) -> Held:
        with self.net.observer.doing("mixing"):
            return self._mixed(plan, held, place)

    def _mixed(self, plan: Sum, held: Held, place: int) -> Held:
        if place not in (COORDINATOR, *self.net.here()):
            raise BadInput(
                f"a method sums others' models at {self.net.roster.names[place]}, which is away: leave out "
                "who did not answer"
            )
        to = "" if place == COORDINATOR else self.net.roster.names[place]
        names, op = self.seal(held, plan.far, plan.bases, plan.floats, plan.room, to), self._op()
        slices = {n: list(s) for n, s in plan.layout(held).items()}
        told = {"do": "mix", "op": op, "names": names, "slices": slices, "receiver": to}
        answers = self._ask_servers(told, {n: torch.from_numpy(w) for n, w in plan.whole.items()})
        self.leverage = max([self.leverage, *(float(a["leverage"]) for a, _ in answers.values())])
        like = {n: t.new_empty((plan.receivers, *t.shape[1:]), device="meta") for n, t in held.like.items()}
        mixed = hold(like, torch.full((plan.receivers,), place))
        self._received(plan, held, place, op, answers, mixed)
        return mixed

    def _received(
        self, plan: Sum, held: Held, place: int, op: str, answers: Mapping[str, Message], mixed: Held
    ) -> None:
        """The receiver adds both shares up, and what it knows itself."""
        post, new = self.net.post, mixed.parts[0].ids.tolist()
        floats, others = held.only(plan.floats), [n for n in held.names if n not in plan.floats]
        bases = [(b.held.only(plan.floats), b.row) for b in plan.bases.values() if b is not None]
        taken = {n: plan.heaviest(n) for n in others}
        wanted = [(floats, plan.near), *((b, [row]) for b, row in bases)]
        wanted += [(held.only([n]), rows) for n, rows in taken.items()]
        brought = self.net.bring({place: wanted})[place]
        told = {
            **plan.receiver_dict(held.like, self.bits),
            "near": [post.row(floats, row) for row in plan.near],
            "bases": [post.row(b, row) for b, row in bases],
            "taken": {n: [post.row(held.only([n]), row) for row in rows] for n, rows in taken.items()},
        }
        if place != COORDINATOR:
            message = {"do": "unseal", "op": op, "told": told, "new": new}
            factors = {f"factor/{n}": t for n, t in plan.factors().items()}
            self.bytes += 2 * 8 * len(new) * sum(held.like[n][0].numel() for n in plan.floats)
            post.ask({place: (message, {**factors, **brought})}, counted={place: brought})
            return
        words = sum(as_words(tensors["share"]) for _, tensors in answers.values())
        near, own = list(map(post.belief, told["near"])), list(map(post.belief, told["bases"]))
        kept = {n: [post.belief(row)[n] for row in rows] for n, rows in told["taken"].items()}
        made = received(told, plan.factors(), words, near, own, kept)  # type: ignore[arg-type]
        for i, id in enumerate(new):
            post.store[id] = {n: t[i] for n, t in made.items()}

    def distances(self, look: Look, held: Held, to: Sequence[int]) -> Distances:
        rows = list(look.bases)
        names, op = self.seal(held, rows, look.bases, look.floats, room_for_distances()), self._op()
        pairs, wanted = wanted_pairs(names, to)
        told = {"op": op, "pairs": pairs, "groups": look.groups}
        self._ask({"dealer": ({"do": "products", **told}, {})})
        answers = self._ask_servers({"do": "distances", "wanted": wanted, **told})
        words = as_words(answers["a"][1]["share"]) + as_words(answers["b"][1]["share"])
        return measured(words, look.counts, to, len(rows), self.bits)

    # the end of a round

    def forget(self) -> None:
        """A round is over, or done again."""
        if not self.sealed or not self.seated:
            self.sealed.clear()
            return
        self.sealed.clear()
        over: Message = ({"do": "over"}, {})
        try:
            self._ask(dict.fromkeys(SIDES, over))
        except Gone:  # it is waited for when something is to be sealed
            self.net.post.broken = False

    def end(self) -> None:
        """The run is over."""
        if self.seated:
            over: Message = ({"do": "end"}, {})
            try:
                self._ask(dict.fromkeys(SIDES, over))
            except CoterieError as error:
                log.info("a helper did not hear that the run is over: %s", error)
            self.seated = ()

    def read(self) -> dict[str, Any]:
        """As `Chamber.read`."""
        found = {"replies": self.count, "bytes": self.bytes, "leverage": self.leverage}
        self.count, self.bytes, self.leverage = 0, 0, 0.0
        return found
