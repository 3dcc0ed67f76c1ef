"""A net wrapped: before its reply is used in a sum at somebody else's place, a site may withdraw.

Sites see what they are offered (`nets/offers.py`) between `distances` and `mix`, inside of `mix`, so that
methods need no line of their own. In a simulation all sites, or those named, have the limits given here;
sites of a federation have their own, in their policies, and are asked there (`federation/lead/net.py`).

A withdrawal is no failure. The sum is made without who withdrew (`core.net.without`); as that changes the
shares of those who are left, they are asked again until nobody withdraws. A receiver's own reply stays. If
nobody is left in a sum, the receiver goes on with the belief that it sent out, or with its own.

Whom people decided to keep out of a receiver's sums (`judgement/wrapper.py`) is taken out first, without
being asked.

Who is handed a whole model (`deliver`, `share`) gets a share of 1 with no others: a site whose limits rule
that out refuses. What visits a site to be tried there is used in no sum, and is not asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from coterie.core.belief import Weights, everybody, without
from coterie.core.errors import BadInput, Refused, Withdrawn
from coterie.core.held import COORDINATOR, Held, together
from coterie.core.kernel import Kernel, scores
from coterie.core.net import WRAPS, Beside, Replies
from coterie.core.seeds import Key
from coterie.nets.guard import Guard
from coterie.nets.offers import ALONE, Limits, Offer, Sums, chosen
from coterie.nets.wrapped import Wrapped


class _Notes:
    """What a wrapper remembers of a round.

    kept_out (site, receiver): out of a sum or a circle by decision, in the order in which it showed
    sent     {id of a reply: the handle and row that went out}
    sums     {receiver: [site] weights that were planned, and those of who stayed}
    guard    what receivers have got
    """

    def __init__(self) -> None:
        self.withdrawals: list[dict[str, Any]] = []
        self.kept_out: dict[tuple[int, int], None] = {}
        self.sent: dict[int, tuple[Held, int]] = {}
        self.sums: dict[int, tuple[Tensor, Tensor]] = {}
        self.guard = Guard(1.0)

    def count(self, weights: Weights, stays: Tensor, beliefs: Held, at: Tensor, sites: int) -> None:
        by_name = [weights] if isinstance(weights, Tensor) else list(weights.values())
        size = torch.stack([w.detach().double().abs() for w in by_name]).amax(dim=0)
        owners = torch.stack([part.places for part in beliefs.parts]).amax(dim=0) + 1  # 0: the coordinator
        for place in dict.fromkeys(at.tolist()):
            here = at == place
            planned, kept = (
                torch.zeros(1 + sites, dtype=torch.float64).index_add_(0, owners, w[here].sum(dim=0))
                for w in (size, size * stays)
            )
            if place in self.sums:
                planned, kept = planned + self.sums[place][0], kept + self.sums[place][1]
            self.sums[place] = planned, kept

    def over(self, live: Sequence[Held]) -> None:
        ids = {int(id) for held in live for part in held.parts for id in part.ids}
        self.sent.clear()
        for got in self.guard.got.values():
            for name in [n for n in got if int(n.partition("/")[2]) not in ids]:
                del got[name]


def really(weights: Tensor, sums: Mapping[int, tuple[Tensor, Tensor]]) -> Tensor:
    """[receiver, sender] of plans, {receiver: planned and kept weights by site, the coordinator first}."""
    for place, (planned, kept) in sums.items():
        if torch.equal(planned, kept):
            continue
        stayed = torch.ones(1 + weights.shape[1], dtype=torch.float64)
        known = torch.where(planned > 0, kept / planned.clamp(min=1e-300), torch.ones_like(planned))
        stayed[: len(known)] = known
        rows = torch.arange(len(weights)) if place == COORDINATOR else torch.tensor([place])
        before = weights[rows]
        now = before * stayed[1:].to(before.dtype)
        total = now.sum(dim=1, keepdim=True)
        scale = torch.where(total > 0, before.sum(dim=1, keepdim=True) / total.clamp(min=1e-30), total)
        weights = weights.index_copy(0, rows, now * scale)
    return weights


log = logging.getLogger("coterie")

MIXES = "choose a method that mixes models where they are used (pens, weight-erosion, ndoye)"
INSTEAD = f"{MIXES}, or leave one of them out of the run (--wrap without:names=...)"


@WRAPS.register("ownership")
@dataclass(frozen=True, eq=False)
class Ownership(Wrapped):
    """Sites withdraw from sums in which they would count too much, or with too few others."""

    share_at_most: float = 1.0
    """The most that a site's reply may make up of a sum, up to 1, which sets no bound."""
    others_at_least: int = 0
    """How many other sites there must be in a sum, besides the receiver; 0 sets no bound."""
    leverage: float = 1.0
    """How much of its reply a receiver may work out from its sums, up to 1 (see nets/guard.py)."""
    sites: str = ""
    """Who has these limits, by names as in a+b; by default every site."""

    notes: _Notes = field(init=False, repr=False)
    limits: Limits = field(init=False, repr=False)
    whose: frozenset[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = self.net.roster.names
        object.__setattr__(self, "notes", _Notes())
        object.__setattr__(self, "limits", Limits(self.share_at_most, self.others_at_least, self.leverage))
        whose = chosen(names, self.sites) if self.sites else frozenset(range(len(names)))
        object.__setattr__(self, "whose", whose)

    @staticmethod
    def check(
        share_at_most: float = 1.0, others_at_least: int = 0, leverage: float = 1.0, sites: str = ""
    ) -> None:
        if not Limits(share_at_most, others_at_least, leverage):
            raise BadInput(
                "ownership without a bound lets everything pass: write "
                "--wrap ownership:share_at_most=0.5,others_at_least=3"
            )

    @staticmethod
    def ordered(names: Sequence[str], **options: Any) -> None:
        """Refuses an order of wrappers in which nobody would be asked."""
        if "sealed" in names[list(names).index("ownership") :]:
            raise BadInput(
                "ownership comes before sealed, which makes its sums without asking anybody further in: "
                "write --wrap sealed ownership"
            )

    @property
    def asks(self) -> bool:
        return bool(self.limits) or self.net.asks

    @property
    def changes(self) -> bool:
        """Whether any sum may come out otherwise than planned."""
        return self.asks or bool(self.apart)

    def withdrawing(self, offers: Sequence[Offer], circle: bool) -> dict[int, str]:
        found = self.net.withdrawing(offers, circle)
        for i, offer in enumerate(offers):
            why = self.limits.objection(offer.share, offer.others, offer.leverage)
            if why and offer.site in self.whose and i not in found:
                found[i] = why
        return found

    def offer(self, weights: Weights, at: Tensor, of: Held | None = None) -> Tensor:
        stays = everybody(weights)
        if not self.changes and of is not None:
            return stays
        sums, guard = Sums(weights, at, of), self.notes.guard if of is not None else Guard(1.0)
        for receiver, site in sorted(self.apart):
            if sums.withdraw(site, receiver):
                stays &= ~_columns_of(sums, at, site, receiver)
                self.notes.kept_out[site, receiver] = None
        if not self.asks and of is not None:
            return stays
        accepted: set[Offer] = set()
        while offers := [offer for offer in sums.offers(guard) if offer not in accepted]:
            out = self.withdrawing(offers, of is None)
            for i, offer in enumerate(offers):
                if i not in out:
                    accepted.add(offer)
                    continue
                sums.withdraw(offer.site, offer.receiver)
                stays &= ~_columns_of(sums, at, offer.site, offer.receiver)
                names = {"site": self._name(offer.site), "receiver": self._name(offer.receiver)}
                told = {"share": offer.share, "others": offer.others, "leverage": offer.leverage}
                kind = "circle" if of is None else "sum"
                self.notes.withdrawals.append({**names, **told, "why": out[i], "of": kind})
                log.info("%s withdraws from the %s of %s: %s", names["site"], kind, names["receiver"], out[i])
            if not out:
                break
        if of is not None:
            sums.note(guard)
        return stays

    def _name(self, place: int) -> str:
        return "coordinator" if place == COORDINATOR else self.roster.names[place]

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        replies = self.net.visit(kernel, beliefs, edges, key, slot, beside)
        if self.changes and replies.held is not None and not scores(kernel):
            for id, guest in zip(replies.held.parts[0].ids.tolist(), replies.guests.tolist(), strict=True):
                self.notes.sent[id] = beliefs, guest
        return replies

    def mix(self, weights: Weights, beliefs: Held, at: Tensor, in_turn: bool = False) -> Held:
        if not self.changes or len(at) == 0:
            return self.net.mix(weights, beliefs, at, in_turn)
        if in_turn:
            if not isinstance(weights, Tensor):
                raise BadInput("sums in turn take one matrix of weights for all tensors")
            now, whose, each = beliefs, {p: i for i, p in enumerate(beliefs.places.tolist())}, list[Held]()
            for i, place in enumerate(at.tolist()):
                each.append(self.mix(weights[i : i + 1], now, at[i : i + 1]))
                now = now.put(torch.tensor([whose[place]]), each[-1])
            return together(each)
        stays = self.offer(weights, at, beliefs)
        self.notes.count(weights, stays, beliefs, at, len(self.roster.names))
        if bool(stays.all()):
            return self.net.mix(weights, beliefs, at)
        by_name = {"*": weights} if isinstance(weights, Tensor) else dict(weights)
        left = {name: without(w, stays) for name, w in by_name.items()}
        heard = torch.stack([(w != 0).any(dim=1) for w in left.values()]).all(dim=0)
        made: dict[int, Held] = {}
        some = heard.nonzero().flatten()
        if len(some):
            mine = {name: w[some] for name, w in left.items()}
            mixed = self.net.mix(mine.get("*", mine), beliefs, at[some])
            made = {i: mixed.rows(torch.tensor([k])) for k, i in enumerate(some.tolist())}
        planned = torch.stack([w != 0 for w in by_name.values()]).any(dim=0)
        for i in (~heard).nonzero().flatten().tolist():
            made[i] = self._as_it_was(beliefs, planned[i].nonzero().flatten().tolist(), at[i : i + 1])
        return together([made[i] for i in range(len(at))])

    def _as_it_was(self, beliefs: Held, rows: Sequence[int], at: Tensor) -> Held:
        """What a receiver has if nobody is left in its sum: the belief that it sent out, or its own."""
        place = int(at[0])
        for row in rows:
            sent, guest = self.notes.sent.get(int(beliefs.parts[0].ids[row]), (beliefs, row))
            went = sent.only(beliefs.names)
            if {*went.names} == {*beliefs.names} and all(
                int(part.places[guest]) in (place, COORDINATOR) for part in went.parts
            ):
                return self.net.deliver(went, torch.tensor([guest]), at)
        mine = [row for row, p in enumerate(beliefs.parts[0].places.tolist()) if p == place]
        if len(mine) == 1:
            return self.net.deliver(beliefs, torch.tensor(mine), at)
        raise Withdrawn(
            f"all sites withdrew from a sum of {self._name(place)}, which has no model to go on with: "
            "loosen the limits, or choose another method"
        )

    def deliver(self, beliefs: Held, rows: Tensor, at: Tensor) -> Held:
        self._hand_out(beliefs, zip(rows.tolist(), at.tolist(), strict=True))
        return self.net.deliver(beliefs, rows, at)

    def share(self, beliefs: Held, to: Tensor) -> None:
        self._hand_out(beliefs, [(row, place) for row in range(len(beliefs)) for place in to.tolist()])
        self.net.share(beliefs, to)

    def _hand_out(self, beliefs: Held, pairs: Iterable[tuple[int, int]]) -> None:
        why, wanted = self.limits.objection(*ALONE), list(pairs) if self.limits else []
        for part in beliefs.parts if why else ():
            places = part.places.tolist()
            for row, to in wanted:
                if places[row] in self.whose - {to}:
                    raise Refused(
                        f"{self._name(places[row])} would hand its whole model to {self._name(to)}, which "
                        f"its limits rule out ({why}): choose a method that mixes, or leave ownership out"
                    )

    def keep(self, live: Iterable[Held], round: int) -> None:
        self.notes.over(live := list(live))
        self.net.keep(live, round)

    def regroup(self, live: Iterable[Held], round: int) -> None:
        self.notes.over(live := list(live))
        self.notes.withdrawals, self.notes.kept_out, self.notes.sums = [], {}, {}  # begun does not count
        self.net.regroup(live, round)

    def as_mixed(self, weights: Tensor, mixed: bool) -> Tensor:
        """A site that withdrew from sums of a receiver counts there as far as it stayed, and the others make
        up for it.
        """
        if mixed:
            weights = really(weights, self.notes.sums)
        self.notes.sums = {}
        for receiver, site in sorted(self.apart):
            if float(weights[receiver, site]):  # who was to be kept out is in a model: no sum was asked for
                raise Refused(
                    f"the model of {self._name(receiver)} has taken in {self._name(site)}, who is kept out "
                    f"of its circle, by another way than a sum: {INSTEAD}"
                )
        return self.net.as_mixed(weights, mixed)

    def figures(self) -> dict[str, Any]:
        found, self.notes.withdrawals = self.notes.withdrawals, []
        kept, self.notes.kept_out = self.notes.kept_out, {}
        told = self.net.figures()
        if kept:
            told["kept_out"] = [{"site": self._name(s), "receiver": self._name(r)} for s, r in kept]
        return {**told, "withdrawals": [*told.get("withdrawals", ()), *found]} if found else told


def _columns_of(sums: Sums, at: Tensor, site: int, receiver: int) -> Tensor:
    """[receiver, column] where a site is in sums of a receiver."""
    return (at == receiver).unsqueeze(1) & torch.from_numpy(sums.owners == site)
