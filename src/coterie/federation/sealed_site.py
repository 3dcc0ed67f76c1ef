"""A site's part in sealed runs: its replies leave masked, and sums come as two shares.

Seeds of masks come from the dealer, shares from both servers, by letter. Nobody is sent a reply that is not
masked by both seeds, and no seed serves twice.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from coterie.core.belief import Belief
from coterie.core.errors import BadData, BadRun, Refused, shown
from coterie.core.wire import pack, unpack
from coterie.federation.certificates import Card
from coterie.federation.helper import SIDES, UNREADABLE, as_tensor, as_words, check_parties
from coterie.sealed.parties import Once, Terms, masked, refuse_long
from coterie.sealed.plan import received, vector
from coterie.sealed.ring import check_bits

MOST_KEPT = 100_000  # seeds, and shares, that have come and nobody has asked for

Send = Callable[[str, dict[str, Any], bytes], None]
Find = Callable[[Any], Belief]


class SealedSite:
    """`parties` are the helpers of a run by side, a, b and the dealer; `bound` is how much of a reply sums
    may give away, and `others` how many others must be in them.
    """

    def __init__(
        self,
        name: str,
        parties: Mapping[str, str],
        card_of: Callable[[str], Card | None],
        bound: float = 1.0,
        others: int = 0,
    ) -> None:
        self.bound, self.others = bound, others
        try:
            self.parties = {side: str(parties[side]) for side in SIDES}
        except UNREADABLE:
            raise Refused(
                f"helpers {shown(parties)} are not three by name: is it of another version?"
            ) from None
        check_parties(self.parties, card_of)
        self.name, self.once, self.secret = name, Once(), secrets.token_bytes(32)
        self.seeds: dict[str, tuple[bytes, bytes]] = {}
        self.shares: dict[tuple[str, str], np.ndarray] = {}

    def take(self, sender: str, header: Mapping[str, Any], body: bytes) -> None:
        """A helper's letter."""
        told, tensors = unpack(body)
        what, op = str(header.get("what")), str(header.get("op", ""))
        try:
            if what == "seeds" and sender == self.parties["dealer"]:
                some = {str(n): (bytes.fromhex(a), bytes.fromhex(b)) for n, (a, b) in told["seeds"].items()}
                self.seeds |= some
            elif what == "share" and sender in (self.parties["a"], self.parties["b"]):
                self.shares[sender, op] = as_words(tensors["share"])
            else:
                raise Refused(f"{shown(what)} of {shown(sender)}, whose part it is not in this run")
        except UNREADABLE:
            raise BadData(f"a letter of {sender} that lacks something: is it of another version?") from None
        if len(self.seeds) + len(self.shares) > MOST_KEPT:
            raise Refused("more has come from helpers than anybody asks for: start the run anew")

    def seal(self, message: Mapping[str, Any], find: Find, send: Send) -> int:
        """Replies leave, masked, for both servers; how many bytes that is."""
        terms = Terms(*(message["terms"][k] for k in ("bits", "room", "words")))
        check_bits(terms.bits)
        floats, size = [str(n) for n in message["floats"]], 0
        for order in message["orders"]:
            name = str(order["name"])
            whole = vector(find(order["row"]), floats)
            x = whole if order["less"] is None else whole - vector(find(order["less"]), floats)
            if len(x) != terms.words or not np.isfinite(x).all():
                raise Refused(f"a reply of {len(x)} words that are not {terms.words}, or not finite")
            refuse_long(x, terms, self.name)
            if name not in self.seeds:
                raise BadRun("the dealer's seeds have not come: start the round anew")
            seeds = self.seeds.pop(name)
            for seed in seeds:
                self.once.use(seed)
            told = {"name": name, "reply": self._called(whole), **terms._asdict()}
            told |= {"bound": self.bound, "others": self.others}
            letter = pack(told, {"words": as_tensor(masked(x, seeds, terms))})
            for side in ("a", "b"):
                send(self.parties[side], {"run": message["run"], "what": "masked"}, letter)
                size += len(letter)
        return size

    def _called(self, x: np.ndarray) -> str:
        """The same for the same content, whatever a lead calls it, so that servers see what they have had."""
        return hashlib.blake2b(np.ascontiguousarray(x).tobytes(), key=self.secret, digest_size=16).hexdigest()

    def unseal(self, message: Mapping[str, Any], factors: Mapping[str, Tensor], find: Find) -> list[Belief]:
        """Sums that this site receives, one for each id."""
        told, op = message["told"], str(message["op"])
        shares = [self.shares.pop((self.parties[side], op), None) for side in ("a", "b")]
        if shares[0] is None or shares[1] is None:
            raise BadRun("a share of a sum has not come: start the round anew")
        made = received(
            told,
            factors,
            shares[0] + shares[1],
            beliefs(find, told["near"]),
            beliefs(find, told["bases"]),
            {n: [b[n] for b in beliefs(find, rows)] for n, rows in told["taken"].items()},
        )
        return [{n: t[i] for n, t in made.items()} for i in range(len(message["new"]))]

    def forget(self) -> None:
        """A round is over."""
        self.seeds.clear()
        self.shares.clear()


def beliefs(find: Find, rows: Sequence[Any]) -> list[Belief]:
    return [find(row) for row in rows]
