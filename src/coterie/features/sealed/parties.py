"""Two servers and a dealer: sums of replies, and distances between them, that show no reply to anybody.

In the spirit of He, Karimireddy and Jaggi, 2020, "Secure Byzantine-robust machine learning", with correlated
randomness from a dealer (Beaver, 1991) in place of an exchange between the servers:

    dealer T     seeds sA_i, sB_i for each reply;  a_i = PRG(sA_i) + PRG(sB_i) = aA_i + aB_i
    host i       E_i = X_i - a_i, to both servers      X_i = round(x_i 2^bits), see ring.py
    shares       A has E_i + aA_i, B has aB_i: they add up to X_i
    sums         each server adds up its shares by public whole weights
    distances    G_ij = <X_i, X_j> = <E_i, E_j> + <E_i, a_j> + <a_i, E_j> + <a_i, a_j>
                 A: <E_i, E_j> + <E_i, aA_j> + <aA_i, E_j> + C_ij       C_ij: T's share of <a_i, a_j>
                 B:              <E_i, aB_j> + <aB_i, E_j> + C'_ij      and the rest of it
                 d^2_ij = G_ii + G_jj - 2 G_ij
    out          both add and take off the same fresh masks, so that only the sum of their answers says
                 anything

Names: `seeds` s, `masked` E, `share` of X, `products` C. A missing host is left out; what is left is whole.

What it stands on: A, B and T do what they should and no two of them put their notes together ("semi-honest").
Each by itself sees only uniform numbers, lengths, weights, and who takes part; A and B also see the
projections by which they find liars. Masks come from the system's randomness, never from a run's seed, and
none is used twice.

Liars in the ring are replies that no honest host can have sealed, found without seeing them. Adding 2^63 to
some words of a reply leaves every distance as it is and moves a sum by a lot. So both servers, once all
masked replies have come, draw a coin together, from it vectors p with entries 0 (one half), 1 and -1 (one
quarter each), and open z = <p, X> between them. For an honest reply |z| <= |p| |X| <= sqrt(words) times the
length that was agreed on, always; half of the projections of a liar fall on an odd number of its 2^63s, and
stick out. Signs of 1 and -1 alone would find no pair of them. A liar that wants to stay unseen stays within
sqrt(words) times the agreed length. The price: each projection tells both servers one number of each reply.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from coterie.core.errors import BadData, BadInput, Refused
from coterie.features.sealed.ring import LOAD, RING, SEED, Words, combined, encoded, masks
from coterie.nets.guard import Guard, check_leverage

PROJECTIONS = 16


def check_projections(many: int) -> None:
    if not 0 <= many <= 64:
        why = f"must lie between 0 and 64: try {PROJECTIONS}; 0 looks for no liar"
        raise BadInput(f"projections={many} {why}")


def directions(coin: bytes, words: int, number: int) -> Words:
    """The number-th p, in the ring."""
    told = number.to_bytes(8, "big")
    seed = bytes(c ^ t for c, t in zip(coin, told.rjust(len(coin), b"\0"), strict=True))
    letters = masks(seed, -(-words // 8)).view(np.uint8)[:words] & 3
    table = np.array([0, 0, 1, 2**64 - 1], dtype=np.uint64)
    return table[letters]  # type: ignore[no-any-return]


Side = Literal["a", "b"]
Slice = tuple[int, int]  # words from, to
Group = Sequence[Slice]  # whose squares are added up


class Terms(NamedTuple):
    """What all agree on before replies are sealed.

    bits    behind the point
    room    log2 of the length |X| that a reply may have in the ring
    words   of a reply
    """

    bits: int
    room: float
    words: int


class TooLong(BadInput):
    """Replies that the ring cannot hold; `why` by whose they are."""

    def __init__(self, why: Mapping[str, str]) -> None:
        self.why = dict(why)
        whose, said = next(iter(self.why.items()))
        super().__init__(f"the reply of {whose} has {said}: lower sealed:bits, or the learning rate")


def refuse_long(x: np.ndarray, terms: Terms, whose: str) -> None:
    """Before anything is sent: a reply that the ring cannot hold."""
    length, longest = float(np.linalg.norm(x)), 2.0 ** (terms.room - terms.bits)
    if not length <= longest:
        most = f"above the {longest:.4g} that the ring holds at {terms.bits} bits"
        raise TooLong({whose: f"length {length:.4g}, {most}"})


def masked(x: np.ndarray, seeds: tuple[bytes, bytes], terms: Terms) -> Words:
    """E = X - aA - aB, which says nothing without the seeds; x must fit (`refuse_long`)."""
    sealed = encoded(x, terms.bits)
    for seed in seeds:
        sealed -= masks(seed, terms.words)
    return sealed


class Once:
    """Seeds that were used: a second time is refused, as two replies under one mask give their difference."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def use(self, seed: bytes) -> None:
        if len(seed) != SEED:
            raise BadData(f"a seed of {len(seed)} bytes, not of {SEED}: is it of another version?")
        mark = hashlib.sha256(seed).digest()[:16]
        if mark in self._seen:
            raise Refused("a mask would be used twice, which gives replies away: deal anew")
        self._seen.add(mark)


class Dealer:
    """T: draws seeds, and shares of the products of masks. It never sees anything of a reply."""

    def __init__(self) -> None:
        self._dealt: dict[str, tuple[bytes, bytes, int]] = {}

    def deal(self, names: Sequence[str], words: int) -> dict[str, tuple[bytes, bytes]]:
        """New seeds for replies of so many words, by name."""
        for name in names:
            if name in self._dealt:
                raise Refused(f"masks for {name!r} are dealt already: take a new name")
            self._dealt[name] = (secrets.token_bytes(SEED), secrets.token_bytes(SEED), words)
        return {name: self._dealt[name][:2] for name in names}

    def products(
        self, pairs: Sequence[tuple[str, str]], groups: Sequence[Group]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Shares [pair, group] of <a_i, a_j>, for A and for B."""
        known = dict[str, Words]()
        for name in dict.fromkeys(name for pair in pairs for name in pair):
            if name not in self._dealt:
                raise BadInput(f"no masks were dealt for {name!r}: deal first")
            a, b, words = self._dealt[name]
            known[name] = masks(a, words) + masks(b, words)
        each = [[_inner(known[i], known[j], group) for group in groups] for i, j in pairs]
        whole = np.array(each, dtype=np.uint64).reshape(len(pairs), len(groups))
        drawn = np.frombuffer(secrets.token_bytes(8 * whole.size), dtype=np.uint64)
        first = drawn.reshape(whole.shape).copy()
        return first, whole - first

    def forget(self) -> None:
        """A round is over."""
        self._dealt.clear()


@dataclass
class _Sealed:
    """A reply as a server has it: the masked words, its mask, its share; whose it is, what it goes by, and
    how many others must be in a sum with it.
    """

    masked: Words
    mask: Words
    share: Words
    host: str
    reply: str
    others: int = 0


class Server:
    """A or B. Replies go by the names of their masks; `guard` refuses sums that give one away."""

    def __init__(self, side: Side, bound: float, projections: int = PROJECTIONS) -> None:
        self.side, self.guard, self.many = side, Guard(bound), projections
        self.terms: dict[str, Terms] = {}
        self._seeds: dict[str, bytes] = {}
        self._held: dict[str, _Sealed] = {}
        self._passed: set[str] = set()
        self._once = Once()

    def take_seeds(self, seeds: Mapping[str, bytes]) -> None:
        """From the dealer."""
        for name, seed in seeds.items():
            self._once.use(seed)
            self._seeds[name] = seed

    def take(
        self,
        name: str,
        words: Words,
        terms: Terms,
        host: str,
        reply: str,
        bound: float = 1.0,
        others: int = 0,
    ) -> None:
        """A masked reply; `reply` is what its host calls it, the same whenever it is sent, `bound` how much
        of it the host lets sums give away, and `others` how many other hosts it wants in each of them.
        """
        if name not in self._seeds:
            raise BadInput(f"no mask was dealt for {name!r}: deal first")
        if words.shape != (terms.words,):
            raise BadData(f"{name!r} has {words.size} words, not {terms.words}: send it anew")
        mask = masks(self._seeds.pop(name), terms.words)
        share = words + mask if self.side == "a" else mask
        check_leverage(bound)
        called = f"{host}/{reply}"
        self.guard.own[called] = min(bound, self.guard.own.get(called, 1.0))
        self._held[name] = _Sealed(words, mask, share, host, called, others)
        self.terms[name] = terms

    def project(self, names: Sequence[str], coin: bytes) -> np.ndarray:
        """Its shares [reply, projection], for the other server."""
        shares = [self._of(name).share for name in names]
        found = np.zeros((len(shares), self.many), dtype=np.uint64)
        for k in range(self.many):
            drawn = {words: directions(coin, words, k) for words in {len(share) for share in shares}}
            found[:, k] = [np.dot(drawn[len(share)], share) for share in shares]
        return found

    def judge(self, names: Sequence[str], mine: np.ndarray, theirs: np.ndarray) -> list[str]:
        """Who has sent what no honest host can have sent; the others' replies may be used from now on."""
        if mine.shape != theirs.shape or len(mine) != len(names):
            raise BadData("projections of other replies came from the other server: start the round anew")
        sizes, lying = np.abs((mine + theirs).view(np.int64).astype(np.float64)), list[str]()
        for name, line in zip(names, sizes, strict=True):
            room, words = self.terms[name].room, self.terms[name].words
            # what |<p, X>| is at the most: rounding makes X a little longer
            if bool((line > float(words**0.5 * (2.0**room + words**0.5))).any()):
                lying.append(name)
        self._passed |= {*names} - {*lying}
        return lying

    def mix(
        self,
        names: Sequence[str],
        whole: Mapping[str, np.ndarray],
        slices: Mapping[str, Slice],
        receiver: str,
        blind: bytes,
    ) -> Words:
        """Its share [sum, word] of the sums by whole weights [sum, reply], which are given for each slice."""
        rows = [self._fit(name) for name in names]
        room = max(self.terms[name].room for name in names)
        for tensor, weights in whole.items():
            most = float(np.abs(weights).sum(axis=1).max(initial=0)) * 2.0**room
            if most > 2.0**LOAD:
                raise BadInput(
                    f"weights that add up to {most / 2.0**room:.4g} in the ring overflow with replies of up "
                    f"to 2^{room:g}, as 2^{LOAD} is the bound: lower sealed:bits"
                )
            _refuse_few(weights, rows, receiver)
            sums = [{r.reply: float(w) for r, w in zip(rows, line, strict=True) if w} for line in weights]
            self.guard.pass_on(receiver, tensor, sums, {r.reply for r in rows if r.host == receiver})
        words, many = len(rows[0].share), len(next(iter(whole.values())))
        total = np.zeros((many, words), dtype=np.uint64)
        for tensor, weights in whole.items():
            start, end = slices[tensor]
            total[:, start:end] = combined(weights, [r.share[start:end] for r in rows])
        return self._blinded(total, blind)

    def distances(
        self,
        pairs: Sequence[tuple[str, str]],
        wanted: Sequence[tuple[str, str]],
        groups: Sequence[Group],
        products: np.ndarray,
        blind: bytes,
    ) -> Words:
        """Its share [wanted, group] of d^2_ij, or of |X_i|^2 where i = j; `products` [pair, group] are the
        dealer's, and pairs have every wanted one and each reply with itself.
        """
        gram = dict[tuple[str, str], np.ndarray]()
        for (i, j), dealt in zip(pairs, products, strict=True):
            left, right, own = self._fit(i), self._fit(j), list[int]()
            for group in groups:  # <E_i, a_j> + <a_i, E_j> by one's own masks; A also has <E_i, E_j>
                crossed = _inner(left.masked, right.mask, group) + _inner(left.mask, right.masked, group)
                both = _inner(left.masked, right.masked, group) if self.side == "a" else 0
                own.append((crossed + both) % RING)
            gram[i, j] = gram[j, i] = np.array(own, dtype=np.uint64) + np.asarray(dealt, dtype=np.uint64)
        two = np.uint64(2)
        found = [gram[i, i] if i == j else gram[i, i] + gram[j, j] - two * gram[i, j] for i, j in wanted]
        return self._blinded(np.array(found, dtype=np.uint64).reshape(len(wanted), len(groups)), blind)

    def _blinded(self, share: Words, blind: bytes) -> Words:
        """The same masks, added here and taken off there; `blind` is a seed that A and B alone know."""
        self._once.use(blind)
        fresh = masks(blind, share.size).reshape(share.shape)
        return share + fresh if self.side == "a" else share - fresh

    def _of(self, name: str) -> _Sealed:
        if name not in self._held:
            raise BadInput(f"no reply called {name!r} has come: seal it first")
        return self._held[name]

    def _fit(self, name: str) -> _Sealed:
        if self.many and name not in self._passed:
            raise Refused(f"reply {name!r} has not been looked at for overflows: project first")
        return self._of(name)

    def forget(self) -> None:
        """A round is over; what receivers have got is remembered."""
        self._seeds.clear()
        self._held.clear()
        self.terms.clear()
        self._passed.clear()


def _refuse_few(weights: np.ndarray, rows: Sequence[_Sealed], receiver: str) -> None:
    """Sums [sum, reply] with fewer others than a host wants to be among."""
    for line in weights:
        there = [r for r, w in zip(rows, line, strict=True) if w and r.host != receiver]
        many = len({r.host for r in there}) - 1
        for r in there:
            if many < r.others:
                raise Refused(
                    f"a sum for {receiver} with {many} others than {r.host}, whose policy wants {r.others}: "
                    "ask it before, and mix without it"
                )


def _inner(left: Words, right: Words, group: Group) -> int:
    """The inner product over some slices, in the ring."""
    return sum(int(np.dot(left[start:end], right[start:end])) for start, end in group) % RING
