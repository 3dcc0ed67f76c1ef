"""A site's part in sealed runs: its replies leave masked, and sums come as two shares.

Seeds of masks come from the dealer, shares from both servers, by peer message. Nobody is sent a reply that is
not masked by both seeds, and no seed serves twice.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from coterie.core.belief import Belief
from coterie.core.errors import BadData, BadRun, Refused, shown
from coterie.core.wire import pack, unpack
from coterie.features.sealed.parties import Once, Terms, masked, refuse_long
from coterie.features.sealed.plan import received, vector
from coterie.features.sealed.ring import check_bits
from coterie.federation.kits.certificates import Card
from coterie.federation.messages import read
from coterie.federation.policy.keys import Policy
from coterie.federation.sealing.messages import (
    SIDES,
    UNREADABLE,
    PeerHeader,
    SiteSeeds,
    as_tensor,
    as_words,
    check_parties,
)
from coterie.nets.offers import Limits

NO_LIMITS = Limits()
NEARLY_ALONE = 0.9  # leverage, at most, of a sealed reply that who leads must not see
MOST_KEPT = 100_000  # seeds, and shares, that have come and nobody has asked for

Send = Callable[[str, dict[str, Any], bytes], None]
Find = Callable[[Any], Belief]


class SealedSite:
    """`parties` are the helpers of a run by side, a, b and the dealer; `limits` say how much of a reply sums
    may give away, and how many others must be in them.
    """

    def __init__(
        self,
        name: str,
        parties: Mapping[str, str],
        card_of: Callable[[str], Card | None],
        limits: Limits = NO_LIMITS,
    ) -> None:
        self.bound, self.others = limits.leverage, limits.others_at_least
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

    @staticmethod
    def limits_under(policy: Policy) -> Limits:
        """A site whose models are not for who leads is not alone in a sum, nor nearly so."""
        own = policy.limits
        if policy.to_coordinator:
            return own
        others, most = max(1, own.others_at_least), min(own.leverage, NEARLY_ALONE)
        return replace(own, others_at_least=others, leverage=most)

    def take(self, sender: str, header: Mapping[str, Any], body: bytes) -> None:
        """A helper's peer message."""
        (told, tensors), head = unpack(body), read(PeerHeader, header, "a peer message")
        if head.what == "seeds" and sender == self.parties["dealer"]:
            seeds = read(SiteSeeds, told, f"a peer message of {sender}").seeds
            self.seeds |= {n: (bytes.fromhex(a), bytes.fromhex(b)) for n, (a, b) in seeds.items()}
        elif head.what == "share" and sender in (self.parties["a"], self.parties["b"]):
            if "share" not in tensors:
                raise BadData(f"a peer message of {sender} without a share: is it of another version?")
            self.shares[sender, head.op] = as_words(tensors["share"])
        else:
            raise Refused(f"{shown(head.what)} of {shown(sender)}, whose part it is not in this run")
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
            # the same for the same content, whatever a lead calls it, so that servers see what they have had
            mark = hashlib.blake2b(np.ascontiguousarray(whole).tobytes(), key=self.secret, digest_size=16)
            told = {"name": name, "reply": mark.hexdigest(), **terms._asdict()}
            told |= {"bound": self.bound, "others": self.others}
            letter = pack(told, {"words": as_tensor(masked(x, seeds, terms))})
            for side in ("a", "b"):
                send(self.parties[side], {"run": message["run"], "what": "masked"}, letter)
                size += len(letter)
        return size

    def unseal(self, message: Mapping[str, Any], factors: Mapping[str, Tensor], find: Find) -> list[Belief]:
        """Sums that this site receives, one for each id."""
        told, op = message["told"], str(message["op"])
        shares = [self.shares.pop((self.parties[side], op), None) for side in ("a", "b")]
        if shares[0] is None or shares[1] is None:
            raise BadRun("a share of a sum has not come: start the round anew")
        near, bases = list(map(find, told["near"])), list(map(find, told["bases"]))
        taken = {n: [find(row)[n] for row in rows] for n, rows in told["taken"].items()}
        made = received(told, factors, shares[0] + shares[1], near, bases, taken)
        return [{n: t[i] for n, t in made.items()} for i in range(len(message["new"]))]

    def forget(self) -> None:
        """A round is over."""
        self.seeds.clear()
        self.shares.clear()
