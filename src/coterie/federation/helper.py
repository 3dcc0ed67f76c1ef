"""A helper's process: a server (a or b) or the dealer of sealed runs, by the protocol of `sealed/parties.py`.

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

What passes between helpers and sites goes in letters that are sealed for one receiver. Nothing is written
down: a helper that is started anew has forgotten all, and the round is done again.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

import coterie
from coterie.core.errors import BadData, BadRun, CoterieError, Refused, lines_of, shown
from coterie.core.wire import pack, unpack
from coterie.federation.certificates import Card
from coterie.federation.headers import printable
from coterie.federation.named import LETTER
from coterie.federation.run_folders import run_of
from coterie.federation.session import Letters
from coterie.nets.site import ERRORS
from coterie.sealed.guard import check_leverage
from coterie.sealed.parties import Dealer, Server, Terms
from coterie.sealed.projections import check_projections
from coterie.sealed.ring import SEED, Words

SIDES = ("a", "b", "dealer")
MOST_SEATS = 8  # runs that are remembered
MOST_WORDS = 2**31
PATIENCE = 20.0
Answer = tuple[dict[str, Any], dict[str, Tensor]]
UNREADABLE = (AttributeError, KeyError, IndexError, OverflowError, RecursionError, TypeError, ValueError)


@dataclass
class Seat:
    """One run: on which side this helper is, who the others are, and what has come by letter."""

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
        self.hosts.clear()
        self.nonces.clear()
        self.came.clear()
        self.mine.clear()


class Helper:
    """`letters` sends to another party; `card_of` knows who is there; `say` is for people."""

    def __init__(
        self,
        name: str,
        letters: Letters,
        card_of: Callable[[str], Card | None],
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.name, self.letters, self.card_of, self.say = name, letters, card_of, say
        self.seats: dict[str, Seat] = {}
        self.lock = threading.RLock()

    # what it is asked

    def answer(self, sender: Card, header: Mapping[str, Any], body: bytes) -> bytes:
        try:
            message, tensors = unpack(body)
            do = getattr(self, f"do_{message.get('do')}", None) if isinstance(message, dict) else None
            if do is None:
                raise Refused(f"{shown(message)[:80]} is nothing that a helper can be asked")
            return pack(*do(sender.name, message, tensors))
        except CoterieError as error:
            kind = next((name for name, cls in ERRORS.items() if isinstance(error, cls)), "BadRun")
            text = "; ".join(lines_of(error))
            self.say(f"{sender.name} asks; refused: {printable(text, 400)}")
            return pack({"error": kind, "text": text}, {})
        except UNREADABLE as error:
            return pack({"error": "BadData", "text": f"a question that lacks something ({error!r:.80})"}, {})

    def do_hello(self, leader: str, message: dict[str, Any], tensors: Mapping[str, Tensor]) -> Answer:
        return {"helper": self.name, "version": coterie.__version__}, {}

    def do_sit(self, leader: str, message: dict[str, Any], tensors: Mapping[str, Tensor]) -> Answer:
        run, side = run_of(message), str(message["side"])
        parties = {s: str(message["parties"][s]) for s in SIDES}
        check_parties(parties, self.card_of)
        if side not in SIDES or parties[side] != self.name:
            raise Refused(f"{self.name} is asked to be {shown(side)}, which is {shown(parties.get(side))}'s")
        bound, many = float(message["leverage"]), int(message["projections"])
        check_leverage(bound)
        check_projections(many)
        with self.lock:
            seat = self.seats.get(run)
            if seat is not None and (seat.leader, seat.side, seat.parties) != (leader, side, parties):
                raise Refused(f"{self.name} has another part in this run: start the run anew")
            if seat is None:
                seat = Seat(leader, side, parties, frozenset(map(str, message["sites"])))
                if side == "dealer":
                    seat.dealer = Dealer()
                else:
                    seat.server = Server("a" if side == "a" else "b", bound, many)
                self.seats[run] = seat
                self.say(
                    f"{leader} begins a sealed run: {self.name} is {side}, with {', '.join(parties.values())}"
                )
                while len(self.seats) > MOST_SEATS:
                    del self.seats[next(iter(self.seats))]
            seat.forget()
            if side == "a":
                seat.blind = secrets.token_bytes(SEED)
        if side == "a":
            self._send(parties["b"], run, "blind", "", {"seed": seat.blind.hex()}, {})
        return {}, {}

    def do_deal(self, leader: str, message: dict[str, Any], tensors: Mapping[str, Tensor]) -> Answer:
        seat, run = self._seat(leader, message, "dealer"), str(message["run"])
        hosts, words = {str(n): str(h) for n, h in message["hosts"].items()}, int(message["words"])
        if not 0 < words < MOST_WORDS or not set(hosts.values()) <= seat.sites:
            raise Refused("masks for somebody who takes no part, or for no words: start the run anew")
        assert seat.dealer is not None
        with self.lock:
            seeds = seat.dealer.deal(list(hosts), words)
        for side, which in (("a", 0), ("b", 1)):
            told = {"seeds": {n: s[which].hex() for n, s in seeds.items()}, "hosts": hosts}
            self._send(seat.parties[side], run, "seeds", "", told, {})
        for host in dict.fromkeys(hosts.values()):
            mine = {n: [s.hex() for s in seeds[n]] for n, h in hosts.items() if h == host}
            self._send(host, run, "seeds", "", {"seeds": mine}, {})
        return {}, {}

    def do_products(self, leader: str, message: dict[str, Any], tensors: Mapping[str, Tensor]) -> Answer:
        seat, run = self._seat(leader, message, "dealer"), str(message["run"])
        assert seat.dealer is not None
        with self.lock:
            shares = seat.dealer.products(pairs_in(message["pairs"]), groups_in(message["groups"]))
        for side, share in zip(("a", "b"), shares, strict=True):
            self._send(
                seat.parties[side], run, "products", str(message["op"]), {}, {"share": as_tensor(share)}
            )
        return {}, {}

    def do_coin(self, leader: str, message: dict[str, Any], tensors: Mapping[str, Tensor]) -> Answer:
        seat, server = self._serving(leader, message)
        if missing := [n for n in message["names"] if n not in server.terms]:
            raise BadRun(f"{len(missing)} replies have not come: start the round anew")
        nonce = seat.nonces[str(message["op"])] = secrets.token_bytes(SEED)
        return {"nonce": nonce.hex()}, {}

    def do_project(self, leader: str, message: dict[str, Any], tensors: Mapping[str, Tensor]) -> Answer:
        seat, server = self._serving(leader, message)
        op, names = str(message["op"]), [str(n) for n in message["names"]]
        nonces = [bytes.fromhex(str(message["nonces"][side])) for side in ("a", "b")]
        if seat.nonces.get(op) not in nonces or not all(len(n) == SEED for n in nonces):
            raise Refused("a coin that this helper had no part in: start the round anew")
        with self.lock:
            share = server.project(names, hashlib.sha256(b"".join(nonces)).digest())
            seat.mine[op] = names, share
        self._send(seat.other(), str(message["run"]), "projections", op, {}, {"share": as_tensor(share)})
        return {}, {}

    def do_judge(self, leader: str, message: dict[str, Any], tensors: Mapping[str, Tensor]) -> Answer:
        seat, server = self._serving(leader, message)
        op = str(message["op"])
        names, mine = seat.mine.pop(op)
        with self.lock:
            return {"liars": server.judge(names, mine, self._came(seat, "projections", op))}, {}

    def do_mix(self, leader: str, message: dict[str, Any], tensors: Mapping[str, Tensor]) -> Answer:
        seat, server = self._serving(leader, message)
        op, receiver = str(message["op"]), str(message["receiver"])
        if receiver and receiver not in seat.sites:
            raise Refused(f"a sum for {shown(receiver)}, who takes no part: start the run anew")
        slices = {str(n): (int(s), int(e)) for n, (s, e) in message["slices"].items()}
        whole = {n: t.numpy() for n, t in tensors.items()}
        names = [str(n) for n in message["names"]]
        if whole.keys() != slices.keys() or any(
            w.ndim != 2 or w.shape[1] != len(names) for w in whole.values()
        ):
            raise BadData("weights that do not fit the replies: is it of another version?")
        with self.lock:
            share = server.mix(names, whole, slices, receiver or leader, seat.blind_for(op))
        told = {"leverage": server.guard.read()}
        if not receiver:
            return told, {"share": as_tensor(share)}
        self._send(receiver, str(message["run"]), "share", op, {}, {"share": as_tensor(share)})
        return told, {}

    def do_distances(self, leader: str, message: dict[str, Any], tensors: Mapping[str, Tensor]) -> Answer:
        seat, server = self._serving(leader, message)
        op = str(message["op"])
        products = self._came(seat, "products", op)
        pairs, groups = pairs_in(message["pairs"]), groups_in(message["groups"])
        if products.shape != (len(pairs), len(groups)):
            raise BadData("the dealer's products are of other replies: start the round anew")
        with self.lock:
            share = server.distances(pairs, pairs_in(message["wanted"]), groups, products, seat.blind_for(op))
        return {}, {"share": as_tensor(share)}

    def do_over(self, leader: str, message: dict[str, Any], tensors: Mapping[str, Tensor]) -> Answer:
        with self.lock:
            self._seat(leader, message).forget()
        return {}, {}

    def do_end(self, leader: str, message: dict[str, Any], tensors: Mapping[str, Tensor]) -> Answer:
        with self.lock:
            self._seat(leader, message)
            del self.seats[str(message["run"])]
        self.say(f"the run of {leader} is over")
        return {}, {}

    # letters

    def take_letter(self, sender: Card, header: Mapping[str, Any], body: bytes) -> None:
        """From the dealer, the other server, or a site; each may send what is its part."""
        try:
            self._take(sender, header, body)
        except UNREADABLE as error:
            raise BadData(
                f"a letter that lacks something ({error!r:.80}): is it of another version?"
            ) from None

    def _take(self, sender: Card, header: Mapping[str, Any], body: bytes) -> None:
        with self.lock:
            seat = self.seats.get(str(header.get("run")))
            if seat is None or seat.server is None:
                raise BadRun(f"{self.name} has no part in that run: start the round anew")
            what, op, (told, tensors) = str(header["what"]), str(header.get("op", "")), unpack(body)
            by = {"seeds": seat.parties["dealer"], "products": seat.parties["dealer"]}
            by |= {"projections": seat.other(), "blind": seat.parties["a"]}
            if what == "masked":
                self._masked(seat, seat.server, sender, told, tensors)
            elif by.get(what) != sender.name or sender.role != "helper":
                raise Refused(f"{shown(what)} of {shown(sender.name)}, whose part it is not")
            elif what == "seeds":
                seat.hosts |= {str(n): str(h) for n, h in told["hosts"].items()}
                seat.server.take_seeds({str(n): bytes.fromhex(s) for n, s in told["seeds"].items()})
            elif what == "blind":
                seat.blind = bytes.fromhex(str(told["seed"]))
            else:
                seat.came[what, op] = as_words(tensors["share"])

    def _masked(
        self, seat: Seat, server: Server, sender: Card, told: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> None:
        name = str(told["name"])
        if sender.role != "site" or seat.hosts.get(name) != sender.name:
            raise Refused(f"a reply of {shown(sender.name)} under a mask that is not its own")
        terms = Terms(int(told["bits"]), float(told["room"]), int(told["words"]))
        server.take(
            name,
            as_words(tensors["words"]),
            terms,
            sender.name,
            str(told["reply"])[:64],
            float(told["bound"]),
            int(told.get("others", 0)),
        )

    def _send(
        self,
        to: str,
        run: str,
        what: str,
        op: str,
        told: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
    ) -> None:
        self.letters(to, {"run": run, "what": what, "op": op}, pack(told, tensors), LETTER, PATIENCE)

    # what it has

    def _seat(self, leader: str, message: Mapping[str, Any], side: str = "") -> Seat:
        seat = self.seats.get(run_of(message))
        if seat is None:
            raise BadRun(f"{self.name} has no part in that run: start the round anew")
        if seat.leader != leader:
            raise Refused(f"this run is led by {seat.leader}, not by {shown(leader)}")
        if side and seat.side != side:
            raise Refused(f"{self.name} is {seat.side} in this run, not {side}")
        return seat

    def _serving(self, leader: str, message: Mapping[str, Any]) -> tuple[Seat, Server]:
        seat = self._seat(leader, message)
        if seat.server is None:
            raise Refused(f"{self.name} is the dealer in this run, no server")
        return seat, seat.server

    @staticmethod
    def _came(seat: Seat, what: str, op: str) -> np.ndarray:
        if (what, op) not in seat.came:
            raise BadRun(f"{what} have not come: start the round anew")
        return seat.came.pop((what, op))


def check_parties(parties: Mapping[str, str], card_of: Callable[[str], Card | None]) -> None:
    """Three helpers, each with a key of its own: two that are one would see every reply."""
    if len(set(parties.values())) < len(SIDES):
        raise Refused(
            f"{', '.join(parties.values())} are not three parties: two that are one see every reply"
        )
    keys: dict[Any, str] = {}
    for name in parties.values():
        card = card_of(name)
        if card is None:
            raise BadRun(f"helper {shown(name)} is not connected: start it with coterie helper")
        if card.role != "helper":
            raise Refused(f"{shown(name)} is a {card.role}, no helper: invite one with --role helper")
        point = card.public_key.public_numbers()
        if point in keys:
            raise Refused(
                f"{keys[point]} and {name} have one key, and together they see every reply: make new kits"
            )
        keys[point] = name


def pairs_in(told: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    return [(str(i), str(j)) for i, j in told]


def groups_in(told: Sequence[Sequence[Sequence[int]]]) -> list[list[tuple[int, int]]]:
    return [[(int(start), int(end)) for start, end in group] for group in told]


def as_tensor(words: Words) -> Tensor:
    """Ring elements as a wire takes them."""
    return torch.from_numpy(np.ascontiguousarray(words).view(np.int64))


def as_words(tensor: Tensor) -> Words:
    if tensor.dtype != torch.int64:
        raise BadData("words of another kind: is it of another version?")
    return tensor.contiguous().numpy().view(np.uint64)
