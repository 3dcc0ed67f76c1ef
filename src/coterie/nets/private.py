"""A net wrapped: sites keep to a budget of differential privacy.

A visit that would exceed its host's budget does not happen, and the host counts as absent in it. Noise has to
be added before replies are sealed, so `private` is inside of `sealed`: it comes before it in the list.

Local work without a bound is refused before anything is trained. Scores that methods ask for get noise and
are charged. Scores by which a run is evaluated are an experimenter's, and `scores` says what becomes of them:

    clear   they leave as they are, outside of the budget: for a simulation, and said in its record
    noisy   they get noise, and are charged
    none    they do not leave; methods that ask for scores are refused

A simulation draws its noise from the run's seed, which is in its record: whoever has both can take it off
again. A site of its own does not (`federation/budgets.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from coterie.core.errors import BadInput, Gathered, UnknownName
from coterie.core.held import COORDINATOR, Held
from coterie.core.kernel import WORK, Kernel, looks, scores
from coterie.core.method import Method, works
from coterie.core.net import WRAPS, Beside, Net, Replies
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.kernels.around import numbers_of
from coterie.kernels.choice import Choice
from coterie.kernels.natural import STEPS
from coterie.kernels.noisy import NO_BOUND, Noisy, accountable, called
from coterie.kernels.slopes import Slopes
from coterie.kernels.solving import solves
from coterie.nets.accounted import DELTA, EVALUATION, Accounted, identity, requester_of
from coterie.privacy.accounting import COARSE, accountants, check_budget, check_delta, epsilon
from coterie.privacy.ledger import EVERYBODY, Budget, as_charges, cost_of

Scores = Literal["clear", "noisy", "none"]


@WRAPS.register("private")
@dataclass(frozen=True, eq=False)
class Private(Accounted):
    """Sites keep to a budget of differential privacy."""

    epsilon: float = 3.0
    """The most that a site spends, with all who asked colluding."""
    delta: float = DELTA
    """The delta of all figures; below 1 / rows of every site."""
    per_requester: float = 0.0
    """The most that a site spends on what it sends to one requester; 0: no more than all together."""
    scores: Scores = "clear"
    """What becomes of a run's own scores: clear (outside of the budget), noisy (charged) or none."""
    sigma: float = 20.0
    """Noise of scores, in units of what one row can change."""
    bound: float = 4.0
    """Where the loss of one row is cut off before it is scored."""

    def __post_init__(self) -> None:
        super().__post_init__()
        options = {name: getattr(self, name) for name in ("epsilon", "delta", "per_requester", "scores")}
        self.check(**options, sigma=self.sigma, bound=self.bound)
        self.book.delta = self.delta
        self.book.budget = Budget(self.epsilon, self.delta, self.per_requester or None)

    @staticmethod
    def check(
        epsilon: float = 3.0,
        delta: float = DELTA,
        per_requester: float = 0.0,
        scores: str = "clear",
        sigma: float = 20.0,
        bound: float = 4.0,
    ) -> None:
        wrong = Gathered()
        with wrong.one():
            check_budget(epsilon, delta)
        if per_requester:
            with wrong.one():
                check_budget(per_requester, delta, "per_requester")
        if scores not in get_args(Scores):
            wrong.found.append(UnknownName("value for scores of wrapper private,", scores, get_args(Scores)))
        with wrong.one():
            Noisy(bound=bound, sigma=sigma)
        wrong.refuse()

    @staticmethod
    def admit(method: Method, roster: Roster, **options: Any) -> None:
        """Refuses what could not keep to a budget, before anything is trained."""
        accountants()
        wrong, delta = Gathered(), float(options.get("delta", DELTA))
        for member in roster.members:
            with wrong.one():
                check_delta(delta, member.train + member.validation + member.test, repr(member.name))
        local, shows = getattr(method, "local", None) if works(method) else None, method.reveals()
        here = sorted(m.train for m in roster.members if m.train) or [0]  # of those who are there
        if local is not None and cost_of(local, {"train": here[0]}) is None:
            wrong.add(no_bound(local, "bounded" if roster.task == "survival" else "dp"))
        if shows.rows:
            wrong.add(
                "a method that moves rows has no bound: choose another, or leave the wrapper private out"
            )
        if "slope" in shows.numbers:
            wrong.add(no_bound(Slopes()))
        asked = [n for n in shows.numbers if n in ("loss", "accuracy") and n not in numbers_of(local)]
        if asked and options.get("scores") == "none":
            wrong.add(
                f"the method asks for scores ({', '.join(asked)}), and scores=none sends none: take noisy"
            )
        if roster.task == "survival" and (asked or options.get("scores") == "noisy"):
            wrong.add(f"{NO_BOUND}, with a method that asks for none" if asked else NO_BOUND)
        wrong.refuse()
        if local is not None:
            one_visit(local, here[-1], float(options.get("epsilon", 3.0)), delta)

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        self.book.at(key.round)
        clear = EVALUATION in key.path and scores(kernel) and self.scores == "clear"
        dressed = kernel if clear else self.dressed(kernel, edges, key)
        if dressed is None:  # nobody tells anything
            return Replies(edges[:0], {}, None, beliefs)
        if not clear:
            stays = self.fitting(dressed, beliefs, edges, key, slot, beside)
            edges, beside = only(stays, edges, beside)
        replies = self.net.visit(dressed, beliefs, edges, key, slot, beside)
        self._charge(dressed, beliefs, edges, replies, key, slot, beside)
        return replies

    def dressed(self, kernel: Kernel, edges: Tensor, key: Key) -> Any:
        """The kernel itself if it has a bound, a scorer with noise, or None if nothing is to leave."""
        if all(cost is not None for cost in self.costs(kernel, edges).values()):
            return kernel
        if not scores(kernel):
            raise BadInput(no_bound(kernel))
        noisy, evaluates = with_noise(kernel, self.bound, self.sigma), EVALUATION in key.path
        if evaluates and (self.scores == "none" or noisy is None):
            return None
        if self.scores == "none":
            raise BadInput(
                f"the method asks for {called(kernel)}, and scores=none sends none: take scores=noisy"
            )
        if noisy is None:
            raise BadInput(no_bound(kernel))
        return noisy

    def statement(self) -> dict[str, Any]:
        return {
            **super().statement(),
            "scores": self.scores,
            "noise": {"sigma": self.sigma, "bound": self.bound},
        }

    def fitting(
        self, kernel: Kernel, beliefs: Held, edges: Tensor, key: Key, slot: str, beside: Beside | None
    ) -> Tensor:
        """[edge] which visits fit into their hosts' budgets, one after the other; again is free."""
        costs, ledger, budget = self.costs(kernel, edges), self.book.ledger, self.book.budget
        assert budget is not None
        together, stays = bool(getattr(kernel, "together", False)), torch.ones(len(edges), dtype=torch.bool)
        planned: dict[int, Any] = {}
        answers = dict[int, bool]()  # of hosts whose guests are one
        for e, (guest, host) in enumerate(edges.tolist()):
            cost = costs[host]
            paid = identity(kernel, beliefs, e, guest, host, key, slot, beside) in self.book.seen
            if not cost or paid:
                continue
            if together and host in answers:
                stays[e] = answers[host]
                continue
            account = planned.setdefault(host, copied(ledger.account(host)))
            who = COORDINATOR if together else requester_of(kernel, beliefs, guest, host)
            stays[e] = answers[host] = budget.admits(account, who, cost)
            if stays[e]:
                account.charge(who, cost)
            else:
                ledger.refuse(host, who, key.round)
                self.book.refused.setdefault(host, set()).add(who)
        return stays

    def in_one_place(self, groups: Sequence[Sequence[int]]) -> Net:
        raise BadInput(
            "rows that move have no bound: choose another method, or leave the wrapper private out"
        )

    def away(self) -> Mapping[str, str]:
        return {**self.net.away(), **{self.roster.names[h]: self._why(h) for h in sorted(self.book.refused)}}

    def _why(self, host: int) -> str:
        account, who = self.book.ledger.account(host), self.book.refused[host]
        spent = epsilon(as_charges(account.all()), self.delta, COARSE)
        whose = {EVERYBODY: "everybody", COORDINATOR: "the coordinator"}
        names = [whose.get(w, "") or self.roster.names[w] for w in sorted(who, key=str)]
        bound = f" ({self.per_requester:g} for one)" if self.per_requester else ""
        return (
            f"out of budget for {', '.join(names)}: epsilon {spent:.3g} of {self.epsilon:g}{bound} is spent"
        )


def one_visit(local: Any, rows: int, budget: float, delta: float) -> None:
    """Refuses work of which not even one visit fits where it is cheapest, at the site of the most rows."""
    least = epsilon(cost_of(local, {"train": rows}) or (), delta, COARSE)
    if least > budget:
        raise BadInput(
            f"one visit costs epsilon {least:.3g} at the least, above the budget of {budget:g}: raise sigma "
            "(coterie plan-privacy says how far), or take fewer steps"
        )


def only(stays: Tensor, edges: Tensor, beside: Beside | None) -> tuple[Tensor, Beside | None]:
    """The edges that stay, and what is beside them."""
    if bool(stays.all()):
        return edges, beside
    index = stays.nonzero().flatten()
    some = {name: b.rows(index) if len(b) == len(edges) > 1 else b for name, b in (beside or {}).items()}
    return edges[index], some


def copied(account: Any) -> Any:
    return replace(account, spent={who: some.copy() for who, some in account.spent.items()})


def with_noise(kernel: Any, bound: float, sigma: float) -> Any:
    """A scorer with noise in its figures; None if they have no bound."""
    if isinstance(kernel, Choice):
        inner = with_noise(kernel.inner, bound, sigma)
        return None if inner is None else replace(kernel, inner=inner)
    return Noisy(kernel, bound, sigma) if accountable(kernel) else None


def no_bound(kernel: Any, remedy: str = "dp") -> str:
    """Why a kernel is refused, and what to do."""
    name, work = called(kernel), kernel
    while not (getattr(work, "name", None) in WORK or getattr(work, "inner", None) is None):
        work = work.inner
    if looks(kernel):
        return f"{name} gives no bound: set the method's epsilon (--similar.epsilon 3)"
    if getattr(kernel, "name", "") == "slopes":
        return f"{name} gives no bound: take --influence.estimate exact, or leave the wrapper private out"
    if getattr(work, "name", None) in WORK:
        inside = STEPS if solves(work) else work.name
        return f'{name} gives no bound: take --kernel "{remedy}({inside})"'
    return f"{name} gives no bound: choose another method, or leave the wrapper private out"
