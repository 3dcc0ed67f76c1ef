"""What a site is told before its reply is used in sums at somebody else's place, and what it may refuse.

Of sums that receiver r is about to get, with weights w [sum, row], for a site i that has rows in them:

    share_i      the most that its rows make up of a sum       max_s  Σ_{rows of i} |w_s| / Σ_{rows} |w_s|
    others_i     the fewest other sites in a sum with it       min_s  |sites in s, without i and r|
    leverage_i   how much of its reply r can work out from all the sums that it gets  (`nets/guard.py`)

Dilution of this kind is what Grimberg (2020, sections 4.3 and 4.4) asks for: a contributor checks, before a
round counts, that its contribution is diluted enough, and withdraws otherwise. What lies at the coordinator
is nobody's reply: it has part in a sum, and is not one of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote, unquote

import numpy as np
from torch import Tensor

from coterie.core.belief import Weights
from coterie.core.errors import Gathered, UnknownName
from coterie.core.held import COORDINATOR, Held
from coterie.nets.guard import NEGLIGIBLE, Guard, Sum


class Offer(NamedTuple):
    """One site's part in the sums that one receiver is about to get, or in the circle that it publishes.

    contents   ids of the site's replies in them; none of a circle
    """

    site: int
    receiver: int
    share: float
    others: int
    leverage: float
    contents: tuple[int, ...] = ()


@dataclass(frozen=True)
class Limits:
    """What a site wants to be sure of before its reply is used."""

    share_at_most: float = 1.0
    others_at_least: int = 0
    leverage: float = 1.0

    def __post_init__(self) -> None:
        wrong = Gathered()
        for name in ("share_at_most", "leverage"):
            if not 0 < (value := getattr(self, name)) <= 1:
                wrong.add(f"{name}={value:g} must lie above 0 and up to 1, which sets no bound: try 0.5")
        if (value := self.others_at_least) < 0:
            wrong.add(f"others_at_least={value} must be at least 0, which sets no bound: try 3")
        wrong.refuse()

    def __bool__(self) -> bool:
        """Whether there is any bound at all."""
        return self != Limits()

    def objection(self, share: float, others: int, leverage: float) -> str:
        """What is wrong with an offer, all at once; nothing if it may be."""
        lines = []
        if share > self.share_at_most + NEGLIGIBLE:
            lines.append(f"share {share:.3g} above {self.share_at_most:g}")
        if others < self.others_at_least:
            lines.append(f"{others} others, below {self.others_at_least}")
        if leverage > self.leverage + NEGLIGIBLE:
            lines.append(f"leverage {leverage:.3g} above {self.leverage:g}")
        return ", ".join(lines)


ALONE = (1.0, 0, 1.0)  # the figures of a reply that is handed out by itself


class Sums:
    """Sums that are about to be made: weights [receiver, column] for tensors that have them in common, whose
    each column is, and what each holds.
    """

    def __init__(self, weights: Weights, at: Tensor, of: Held | None) -> None:
        by_name = {"*": weights} if isinstance(weights, Tensor) else dict(weights)
        named: dict[int, list[str]] = {}
        for name, matrix in by_name.items():
            named.setdefault(id(matrix), []).append(name)
        self.weights = {",".join(n): by_name[n[0]].detach().double().numpy().copy() for n in named.values()}
        if of is not None and isinstance(weights, Tensor):
            self.weights = {",".join(of.names): next(iter(self.weights.values()))}
        columns = next(iter(self.weights.values())).shape[1]
        self.at = at.numpy()
        # [row] the site where it lies, or one of its parts does; the coordinator, -1, where none does
        places = None if of is None else np.stack([part.places.numpy() for part in of.parts])
        self.owners: np.ndarray = np.arange(columns) if places is None else places.max(axis=0)
        self.contents = None if of is None else np.stack([p.ids.numpy() for p in of.parts], axis=1)

    def withdraw(self, site: int, receiver: int) -> bool:
        """A site's columns are out of all sums of a receiver; whether it was in any."""
        cells, found = np.ix_(self.at == receiver, self.owners == site), False
        for matrix in self.weights.values():
            found |= bool(matrix[cells].any())
            matrix[cells] = 0.0
        return found

    def offers(self, guard: Guard) -> list[Offer]:
        """For each receiver and each other site in its sums."""
        return [offer for place in dict.fromkeys(self.at.tolist()) for offer in self._at(place, guard)]

    def _at(self, place: int, guard: Guard) -> Iterable[Offer]:
        here = self.at == place
        sites, whose = np.unique(self.owners, return_inverse=True)
        foreign = (sites != place) & (sites != COORDINATOR)
        share, others = np.zeros(len(sites)), np.full(len(sites), len(sites))
        lever = np.zeros(len(sites))
        for name, matrix in self.weights.items():
            if not matrix[here].any():
                continue
            parts = np.zeros((int(here.sum()), len(sites)))
            np.add.at(parts.T, whose, np.abs(matrix[here]).T)
            there = (parts > 0) & foreign
            beside = there.sum(axis=1, keepdims=True) - 1
            total = parts.sum(axis=1, keepdims=True)
            share = np.maximum(share, np.divide(parts, total, out=np.zeros_like(parts), where=there).max(0))
            others = np.minimum(others, np.where(there, beside, len(sites)).min(0))
            found = guard.look(str(place), name, self._told(matrix[here]), self._own(place))
            levers = dict(zip(*found, strict=True))
            np.maximum.at(lever, whose, [levers.get(called, 0.0) for called in self._called()])
        for i in np.flatnonzero(foreign & (share > 0)):
            mine = self.owners == sites[i]
            ids = () if self.contents is None else tuple(np.unique(self.contents[mine]).tolist())
            yield Offer(int(sites[i]), place, float(share[i]), int(others[i]), float(lever[i]), ids)

    def note(self, guard: Guard) -> None:
        """Receivers get these sums, and know them from now on."""
        for place in dict.fromkeys(self.at.tolist()):
            for name, matrix in self.weights.items():
                if sums := self._told(matrix[self.at == place]):
                    guard.pass_on(str(place), name, sums, self._own(place))

    def _called(self) -> list[str]:
        if self.contents is None:
            return [f"{site}/" for site in self.owners.tolist()]
        return [f"{site}/{id}" for site, id in zip(self.owners.tolist(), self.contents[:, 0], strict=True)]

    def _told(self, rows: np.ndarray) -> list[Sum]:
        names = self._called()
        return [{names[j]: float(row[j]) for j in np.flatnonzero(row)} for row in rows if row.any()]

    def _own(self, place: int) -> set[str]:
        known = (self.owners == place) | (self.owners == COORDINATOR)
        return {name for name, so in zip(self._called(), known, strict=True) if so}


def clients_in(told: str) -> list[str]:
    """Names of clients written a+b; a comma or + in one is written as in an address of the web (%2C, %2B)."""
    return [unquote(name.strip()) for name in told.split("+")] if told else []


def chosen(names: Sequence[str], told: str) -> frozenset[int]:
    """The numbers of these clients."""
    for name in clients_in(told):
        if name not in names:
            raise UnknownName("client", name, names)
    return frozenset(list(names).index(name) for name in clients_in(told))


def written(names: Sequence[str]) -> str:
    """The inverse of `listed`; digits alone would be read as a number."""
    return "+".join(f"%{ord(n[0]):02X}{n[1:]}" if n.isdecimal() else quote(n, safe=" ") for n in names)
