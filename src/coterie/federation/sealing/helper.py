"""A helper's process: a server (a or b) or the dealer of sealed runs, as in `features/sealed/parties.py`.

It has no rows and no models. A lead asks it, for one run at a time and by the run's id:

    sit         to be a, b or the dealer, with whom, and how much a sum may give away
    deal        seeds for replies, which go to both servers and to each host           (the dealer)
    products    shares of products of masks, which go to both servers                  (the dealer)
    coin        a number that nobody knew before all replies had come                  (a server)
    project     shares of projections of replies, which go to the other server         (a server)
    judge       whose replies no honest site can have sent                             (a server)
    mix         a share of sums, for a receiver                                        (a server)
    distances   a share of squares of distances                                        (a server)
    over, end   a round is over; the run is

What passes between helpers and sites goes in messages that are encrypted for one receiver. Nothing is written
down: a helper that is started anew has forgotten all, and the round is done again.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from torch import Tensor

import coterie
from coterie.core.errors import BadData, BadRun, CoterieError, Refused, lines_of, shown
from coterie.core.wire import pack, unpack
from coterie.features.sealed.parties import Dealer, Server, Terms, check_projections
from coterie.features.sealed.ring import SEED
from coterie.federation.kits.certificates import Card
from coterie.federation.messages import SCHEMA, Number, printable, read
from coterie.federation.sealing.messages import (
    SIDES,
    UNREADABLE,
    Blind,
    Hex,
    Masked,
    PeerHeader,
    Seeds,
    as_tensor,
    as_words,
    check_parties,
)
from coterie.federation.site.bounds import PEER_SECONDS
from coterie.federation.site.session import SendToPeer
from coterie.federation.site.state_folders import run_of
from coterie.nets.guard import check_leverage
from coterie.nets.site import ERRORS

MOST_SEATS = 8  # runs that are remembered
MOST_WORDS = 2**31
PATIENCE = 20.0
Answer = tuple[dict[str, Any], dict[str, Tensor]]
Tensors = Mapping[str, Tensor]


# what it is asked and sent, by the schema of `federation/messages.py`


_Pairs = list[tuple[str, str]]
_Groups = list[list[tuple[Number, Number]]]


class _Order(Struct, forbid_unknown_fields=True, tag_field="do"):
    run: str = ""
    schema: int = SCHEMA


_BARE = {do: msgspec.defstruct(do, [], bases=(_Order,), tag=do) for do in ("hello", "over", "end")}


class _Sit(_Order, tag="sit", kw_only=True):
    """To be on a side of a run: a or b, the servers, or the dealer."""

    side: str
    parties: dict[str, str]
    sites: list[str]
    leverage: float
    projections: int


class _DealMasks(_Order, tag="deal", kw_only=True):
    hosts: dict[str, str]
    words: int


class _Products(_Order, tag="products", kw_only=True):
    op: str
    pairs: _Pairs
    groups: _Groups


class _Coin(_Order, tag="coin", kw_only=True):
    op: str
    names: list[str]


class _Nonces(Struct, forbid_unknown_fields=True):
    a: Hex
    b: Hex


class _Project(_Order, tag="project", kw_only=True):
    op: str
    names: list[str]
    nonces: _Nonces


class _Judge(_Order, tag="judge", kw_only=True):
    op: str


class _MixShares(_Order, tag="mix", kw_only=True):
    op: str
    names: list[str]
    slices: dict[str, tuple[Number, Number]]
    receiver: str


class _DistanceShares(_Order, tag="distances", kw_only=True):
    op: str
    pairs: _Pairs
    wanted: _Pairs
    groups: _Groups


@dataclass
class _Seat:
    """One run: on which side this helper is, who the others are, and what has come by peer message."""

    leader: str
    side: str
    parties: dict[str, str]  # the helpers' names by side
    sites: frozenset[str]
    server: Server | None = None
    dealer: Dealer | None = None
    blind: bytes = b""
    hosts: dict[str, str] = field(default_factory=dict)  # whose each mask is
    nonces: dict[str, bytes] = field(default_factory=dict)
    came: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)  # what, and for which question
    mine: dict[str, tuple[list[str], np.ndarray]] = field(default_factory=dict)

    def other(self) -> str:
        return self.parties["b" if self.side == "a" else "a"]

    def blind_for(self, question: str) -> bytes:
        """A seed that both servers have for one answer."""
        if len(self.blind) != SEED:
            raise BadRun("the other server has not sent what both need: start the round anew")
        return hmac.new(self.blind, question.encode(), hashlib.sha256).digest()

    def forget(self) -> None:
        for party in (self.server, self.dealer):
            if party is not None:
                party.forget()
        for table in (self.hosts, self.nonces, self.came, self.mine):
            table.clear()


class Helper:
    """`send_to_peer` sends to another party; `card_of` knows who is there; `say` is for people."""

    def __init__(
        self,
        name: str,
        send_to_peer: SendToPeer,
        card_of: Callable[[str], Card | None],
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.name, self.send_to_peer, self.card_of, self.say = name, send_to_peer, card_of, say
        self.seats: dict[str, _Seat] = {}
        self.lock = threading.RLock()

    # what it is asked

    def answer(self, sender: Card, header: Mapping[str, Any], body: bytes) -> bytes:
        try:
            told, tensors = unpack(body)
            name = str(told.get("do"))
            kind, do = _ORDERS.get(name, (None, None))
            if kind is None or do is None:
                raise Refused(f"{shown(told)[:80]} is nothing that a helper can be asked")
            if name != "hello":
                run_of(told)
            return pack(*do(self, sender.name, read(kind, told, "a question"), tensors))
        except CoterieError as error:
            wrong = next((name for name, cls in ERRORS.items() if isinstance(error, cls)), "BadRun")
            text = "; ".join(lines_of(error))
            self.say(f"{sender.name} asks; refused: {printable(text, 400)}")
            return pack({"error": wrong, "text": text}, {})
        except UNREADABLE as error:
            return pack({"error": "BadData", "text": f"a question that does not fit ({error!r:.80})"}, {})

    def _hello(self, leader: str, asked: _Order, tensors: Tensors) -> Answer:
        return {"helper": self.name, "version": coterie.__version__}, {}

    def _sit(self, leader: str, asked: _Sit, tensors: Tensors) -> Answer:
        run, side, parties = asked.run, asked.side, {s: asked.parties[s] for s in SIDES}
        check_parties(parties, self.card_of)
        if side not in SIDES or parties[side] != self.name:
            raise Refused(f"{self.name} is asked to be {shown(side)}, which is {shown(parties.get(side))}'s")
        check_leverage(asked.leverage)
        check_projections(asked.projections)
        with self.lock:
            seat = self.seats.get(run)
            if seat is not None and (seat.leader, seat.side, seat.parties) != (leader, side, parties):
                raise Refused(f"{self.name} has another part in this run: start the run anew")
            if seat is None:
                seat = self.seats[run] = _Seat(leader, side, parties, frozenset(asked.sites))
                if side == "dealer":
                    seat.dealer = Dealer()
                else:
                    seat.server = Server("a" if side == "a" else "b", asked.leverage, asked.projections)
                others = ", ".join(parties.values())
                self.say(f"{leader} begins a sealed run: {self.name} is {side}, with {others}")
                while len(self.seats) > MOST_SEATS:
                    del self.seats[next(iter(self.seats))]
            seat.forget()
            if side == "a":
                seat.blind = secrets.token_bytes(SEED)
        if side == "a":
            self._send(parties["b"], run, "blind", "", {"seed": seat.blind.hex()}, {})
        return {}, {}

    def _deal(self, leader: str, asked: _DealMasks, tensors: Tensors) -> Answer:
        seat, run, hosts = self._seat(leader, asked.run, "dealer"), asked.run, asked.hosts
        if not 0 < asked.words < MOST_WORDS or not set(hosts.values()) <= seat.sites:
            raise Refused("masks for somebody who takes no part, or for no words: start the run anew")
        assert seat.dealer is not None
        with self.lock:
            seeds = seat.dealer.deal(list(hosts), asked.words)
        for side, which in (("a", 0), ("b", 1)):
            told = {"seeds": {n: s[which].hex() for n, s in seeds.items()}, "hosts": hosts}
            self._send(seat.parties[side], run, "seeds", "", told, {})
        for host in dict.fromkeys(hosts.values()):
            mine = {n: [s.hex() for s in seeds[n]] for n, h in hosts.items() if h == host}
            self._send(host, run, "seeds", "", {"seeds": mine}, {})
        return {}, {}

    def _products(self, leader: str, asked: _Products, tensors: Tensors) -> Answer:
        seat = self._seat(leader, asked.run, "dealer")
        assert seat.dealer is not None
        with self.lock:
            shares = seat.dealer.products(asked.pairs, asked.groups)
        for side, share in zip(("a", "b"), shares, strict=True):
            self._send(seat.parties[side], asked.run, "products", asked.op, {}, {"share": as_tensor(share)})
        return {}, {}

    def _coin(self, leader: str, asked: _Coin, tensors: Tensors) -> Answer:
        seat, server = self._serving(leader, asked.run)
        if missing := [n for n in asked.names if n not in server.terms]:
            raise BadRun(f"{len(missing)} replies have not come: start the round anew")
        nonce = seat.nonces[asked.op] = secrets.token_bytes(SEED)
        return {"nonce": nonce.hex()}, {}

    def _project(self, leader: str, asked: _Project, tensors: Tensors) -> Answer:
        seat, server = self._serving(leader, asked.run)
        nonces = [bytes.fromhex(nonce) for nonce in (asked.nonces.a, asked.nonces.b)]
        if seat.nonces.get(asked.op) not in nonces or not all(len(n) == SEED for n in nonces):
            raise Refused("a coin that this helper had no part in: start the round anew")
        with self.lock:
            share = server.project(asked.names, hashlib.sha256(b"".join(nonces)).digest())
            seat.mine[asked.op] = asked.names, share
        self._send(seat.other(), asked.run, "projections", asked.op, {}, {"share": as_tensor(share)})
        return {}, {}

    def _judge(self, leader: str, asked: _Judge, tensors: Tensors) -> Answer:
        seat, server = self._serving(leader, asked.run)
        if asked.op not in seat.mine:
            raise BadData(f"a question about {shown(asked.op)}, of which nothing was asked before")
        names, mine = seat.mine.pop(asked.op)
        with self.lock:
            return {"liars": server.judge(names, mine, self._came(seat, "projections", asked.op))}, {}

    def _mix(self, leader: str, asked: _MixShares, tensors: Tensors) -> Answer:
        seat, server = self._serving(leader, asked.run)
        names, receiver, whole = asked.names, asked.receiver, {n: t.numpy() for n, t in tensors.items()}
        if receiver and receiver not in seat.sites:
            raise Refused(f"a sum for {shown(receiver)}, who takes no part: start the run anew")
        misfits = [w for w in whole.values() if w.ndim != 2 or w.shape[1] != len(names)]
        if whole.keys() != asked.slices.keys() or misfits:
            raise BadData("weights that do not fit the replies: is it of another version?")
        with self.lock:
            share = server.mix(names, whole, asked.slices, receiver or leader, seat.blind_for(asked.op))
        told = {"leverage": server.guard.read()}
        if not receiver:
            return told, {"share": as_tensor(share)}
        self._send(receiver, asked.run, "share", asked.op, {}, {"share": as_tensor(share)})
        return told, {}

    def _distances(self, leader: str, asked: _DistanceShares, tensors: Tensors) -> Answer:
        seat, server = self._serving(leader, asked.run)
        products, pairs, groups = self._came(seat, "products", asked.op), asked.pairs, asked.groups
        if products.shape != (len(pairs), len(groups)):
            raise BadData("the dealer's products are of other replies: start the round anew")
        with self.lock:
            share = server.distances(pairs, asked.wanted, groups, products, seat.blind_for(asked.op))
        return {}, {"share": as_tensor(share)}

    def _over(self, leader: str, asked: _Order, tensors: Tensors) -> Answer:
        with self.lock:
            self._seat(leader, asked.run).forget()
        return {}, {}

    def _end(self, leader: str, asked: _Order, tensors: Tensors) -> Answer:
        with self.lock:
            self._seat(leader, asked.run)
            del self.seats[asked.run]
        self.say(f"the run of {leader} is over")
        return {}, {}

    # what comes from the dealer, the other server, or a site: each may send what is its part

    def take_peer_message(self, sender: Card, header: Mapping[str, Any], body: bytes) -> None:
        try:
            self._take(sender, read(PeerHeader, header, "a peer message"), *unpack(body))
        except UNREADABLE as error:
            raise BadData(
                f"a peer message that does not fit ({error!r:.80}): is it of another version?"
            ) from None

    def _take(self, sender: Card, header: PeerHeader, told: Mapping[str, Any], tensors: Tensors) -> None:
        with self.lock:
            seat, what = self.seats.get(header.run), header.what
            if seat is None or seat.server is None:
                raise BadRun(f"{self.name} has no part in that run: start the round anew")
            by = {"seeds": seat.parties["dealer"], "products": seat.parties["dealer"]}
            by |= {"projections": seat.other(), "blind": seat.parties["a"]}
            if what == "masked":
                reply = read(Masked, told, "a masked reply")
                if sender.role != "site" or seat.hosts.get(reply.name) != sender.name:
                    raise Refused(f"a reply of {shown(sender.name)} under a mask that is not its own")
                terms, words = Terms(reply.bits, reply.room, reply.words), as_words(tensors["words"])
                mark, others = reply.reply[:64], reply.others
                seat.server.take(reply.name, words, terms, sender.name, mark, reply.bound, others)
            elif by.get(what) != sender.name or sender.role != "helper":
                raise Refused(f"{shown(what)} of {shown(sender.name)}, whose part it is not")
            elif what == "seeds":
                seeds = read(Seeds, told, "a peer message of seeds")
                seat.hosts |= seeds.hosts
                seat.server.take_seeds({n: bytes.fromhex(s) for n, s in seeds.seeds.items()})
            elif what == "blind":
                seat.blind = bytes.fromhex(read(Blind, told, "a peer message").seed)
            else:
                seat.came[what, header.op] = as_words(tensors["share"])

    def _send(self, to: str, run: str, what: str, op: str, told: Mapping[str, Any], tensors: Tensors) -> None:
        header = {"run": run, "what": what, "op": op}
        self.send_to_peer(to, header, pack(told, tensors), PEER_SECONDS, PATIENCE)

    # what it has

    def _seat(self, leader: str, run: str, side: str = "") -> _Seat:
        seat = self.seats.get(run)
        if seat is None:
            raise BadRun(f"{self.name} has no part in that run: start the round anew")
        if seat.leader != leader:
            raise Refused(f"this run is led by {seat.leader}, not by {shown(leader)}")
        if side and seat.side != side:
            raise Refused(f"{self.name} is {seat.side} in this run, not {side}")
        return seat

    def _serving(self, leader: str, run: str) -> tuple[_Seat, Server]:
        seat = self._seat(leader, run)
        if seat.server is None:
            raise Refused(f"{self.name} is the dealer in this run, no server")
        return seat, seat.server

    @staticmethod
    def _came(seat: _Seat, what: str, op: str) -> np.ndarray:
        if (what, op) not in seat.came:
            raise BadRun(f"{what} have not come: start the round anew")
        return seat.came.pop((what, op))


_ORDERS: dict[str, tuple[Any, Callable[..., Answer]]] = {
    "hello": (_BARE["hello"], Helper._hello),
    "sit": (_Sit, Helper._sit),
    "deal": (_DealMasks, Helper._deal),
    "products": (_Products, Helper._products),
    "coin": (_Coin, Helper._coin),
    "project": (_Project, Helper._project),
    "judge": (_Judge, Helper._judge),
    "mix": (_MixShares, Helper._mix),
    "distances": (_DistanceShares, Helper._distances),
    "over": (_BARE["over"], Helper._over),
    "end": (_BARE["end"], Helper._end),
}
