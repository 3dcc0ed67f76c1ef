"""What hosts have spent, and whether a further visit fits.

For each host charges are kept by requester, whose belief visited: another site, or the coordinator. A model
that lies at the host itself may go to anybody after it was trained, so its visits count for everybody; what
only tells numbers tells them to the coordinator.

    ε(host, requester)   of visits for that requester and for everybody
    ε(host)              of all visits together: all requesters collude

The figure of one requester holds for what that host sent to that requester, and for nothing else: a model
that another requester passes on, or that was mixed from replies to several, has more of the host's rows in
it. The figure with all colluding holds whatever anybody passes on to anybody.

A budget bounds the second figure, and the first one if it says so. A visit that would exceed it does not
happen. Charges on training, validation and test rows are added up, as if each row were in all of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from coterie.core.charge import Charge
from coterie.core.kernel import Kernel, charges_of
from coterie.privacy.accounting import (
    COARSE,
    FINE,
    Charges,
    Spent,
    as_charges,
    check_budget,
    epsilon,
    epsilons,
    merged,
    spent_on,
)

EVERYBODY = None
"""In the place of a requester."""
LEAST = 1 / 64  # of what is spent: how far ahead budgets are looked up
MANY = 4  # accounts above which the record is made on the coarse grid: each takes seconds on the fine one


def cost_of(kernel: Kernel, rows: Mapping[str, int]) -> Charges | None:
    """What one visit costs a host with so many rows of each part; None: there is no bound."""
    found = charges_of(kernel, rows)
    return None if found is None else merged(found)


@dataclass
class Account:
    """What one host has spent, by requester."""

    spent: dict[Hashable, Spent] = field(default_factory=dict)

    def charge(self, requester: Hashable, charges: Iterable[Charge]) -> None:
        self.spent.setdefault(requester, Spent()).update(spent_on(charges))

    def of(self, requester: Hashable) -> Spent:
        """For that requester and for everybody."""
        found = Spent(self.spent.get(EVERYBODY, Spent()))
        if requester is not EVERYBODY:
            found.update(self.spent.get(requester, Spent()))
        return found

    def all(self) -> Spent:
        """With all colluding."""
        found = Spent()
        for some in self.spent.values():
            found.update(some)
        return found


class _Bound:
    """Whether charges stay within an epsilon, answered mostly from what is known already.

    More of anything costs more, so what fits tells of all that is less, and what does not of all that is
    more. What is asked is looked up together with as much again, or a half, a quarter, ...: a run asks as
    often as its visits double, and a few times more at the end of its budget.
    """

    def __init__(self, epsilon: float, delta: float) -> None:
        self.epsilon, self.delta = epsilon, delta
        self.good: list[Spent] = []
        self.bad: list[Spent] = []

    def holds(self, after: Spent) -> bool:
        if any(_within(after, known) for known in self.good):
            return True
        if any(_within(known, after) for known in self.bad):
            return False
        ahead = 1.0
        while ahead >= LEAST:
            if self._looked_up(Spent({c: math.ceil(n * (1 + ahead)) for c, n in after.items()})):
                return True
            if ahead == 1.0 and not self._looked_up(after):
                return False
            ahead /= 2
        return True

    def _looked_up(self, spent: Spent) -> bool:
        if any(_within(known, spent) for known in self.bad):
            return False
        fits = epsilon(as_charges(spent), self.delta, COARSE) <= self.epsilon
        if fits:
            self.good = [known for known in self.good if not _within(known, spent)] + [spent]
        else:
            self.bad = [known for known in self.bad if not _within(spent, known)] + [spent]
        return fits


def _within(less: Spent, more: Spent) -> bool:
    """Whether nothing is more often in the one than in the other."""
    return all(times <= more[charge] for charge, times in less.items())


class Budget:
    """Bounds on what a host spends: with all colluding, and for each requester if that is less."""

    def __init__(self, epsilon: float, delta: float, per_requester: float | None = None) -> None:
        check_budget(epsilon, delta)
        self.epsilon, self.delta, self.per_requester = epsilon, delta, per_requester
        self.all = _Bound(epsilon, delta)
        self.each = None
        if per_requester is not None:
            check_budget(per_requester, delta, "per_requester")
            self.each = _Bound(per_requester, delta)

    def admits(self, account: Account, requester: Hashable, cost: Charges) -> bool:
        """Whether one more visit fits; one for everybody has to fit into what each requester has left."""
        more = spent_on(cost)
        if not self.all.holds(account.all() + more):
            return False
        if self.each is None:
            return True
        whose = account.spent.keys() | {EVERYBODY} if requester is EVERYBODY else {requester}
        return all(self.each.holds(account.of(who) + more) for who in whose)


@dataclass
class Ledger:
    """Accounts of the sites of a run, by their numbers; COORDINATOR, or a number, is a requester.

    out       {site: {requester: since which round it has no budget left for it}}
    outside   {(whose, kernel): how many visits had no bound, and are in no figure}; whose they are is
              "evaluation", a run's own scores, or "method"
    """

    accounts: dict[int, Account] = field(default_factory=dict)
    out: dict[int, dict[Hashable, int]] = field(default_factory=dict)
    outside: Counter[tuple[str, str]] = field(default_factory=Counter)

    def account(self, host: int) -> Account:
        return self.accounts.setdefault(host, Account())

    def refuse(self, host: int, requester: Hashable, round: int) -> None:
        self.out.setdefault(host, {}).setdefault(requester, round)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it, for a checkpoint."""
        spent = [
            [host, requester, asdict(charge)]
            for host, account in sorted(self.accounts.items())
            for requester, some in account.spent.items()
            for charge in as_charges(some)
        ]
        out = [[host, who, round] for host, some in sorted(self.out.items()) for who, round in some.items()]
        outside = [[*whose, times] for whose, times in sorted(self.outside.items())]
        return {"spent": spent, "out": out, "outside": outside}

    @staticmethod
    def of(told: Mapping[str, Any]) -> Ledger:
        outside = {(whose, kernel): times for whose, kernel, times in told["outside"]}
        ledger = Ledger(outside=Counter(outside))
        for host, requester, charge in told["spent"]:
            ledger.account(host).charge(requester, [Charge(**charge)])
        for host, requester, round in told["out"]:
            ledger.refuse(host, requester, round)
        return ledger


def statement(
    ledger: Ledger, names: Sequence[str], rows: Sequence[int], delta: float, budget: Budget | None = None
) -> dict[str, Any]:
    """What a run's record says: for each site its epsilon with all colluding, and by partner.

    `everybody` is what each partner has that is not named under `by`.
    """
    accounts = [ledger.accounts.get(i, Account()) for i in range(len(names))]
    kinds = {as_charges(s) for a in accounts for s in (a.all(), *(a.of(who) for who in a.spent))}
    grid = FINE if len(kinds) <= MANY else COARSE

    def called(who: Any) -> str:
        return "everybody" if who is EVERYBODY else "coordinator" if who < 0 else names[who]

    def figure(spent: Spent) -> float | None:
        return _finite(epsilon(as_charges(spent), delta, grid))

    sites = []
    for i, account in enumerate(accounts):
        by_charge = [(who, charge) for who, some in account.spent.items() for charge in as_charges(some)]
        units = epsilons(as_charges(account.all()), delta, grid)
        entry = {
            "name": names[i],
            "rows": int(rows[i]),
            "epsilon": figure(account.all()),
            "units": {unit: _finite(e) for unit, e in units.items()},
            "everybody": figure(account.of(EVERYBODY)),
            "by": {called(who): figure(account.of(who)) for who in account.spent if who is not EVERYBODY},
            "charges": [{"for": called(who), **asdict(charge)} for who, charge in by_charge],
        }
        if i in ledger.out:
            entry["out"] = {called(who): since for who, since in ledger.out[i].items()}
        sites.append(entry)
    bounds = None if budget is None else {"epsilon": budget.epsilon, "per_requester": budget.per_requester}
    outside: dict[str, dict[str, int]] = {"evaluation": {}, "method": {}}
    for (whose, kernel), times in sorted(ledger.outside.items()):
        outside[whose][kernel] = times
    return {"delta": delta, "grid": grid, "budget": bounds, "sites": sites, "outside": outside}


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None
