"""A net wrapped: what visits cost their hosts is added up, and hosts keep to a budget.

`Accounted` only adds up: every run whose local work has noise is in one. `private` simulates sites with
budgets: a visit that would exceed its host's does not happen, and the host counts as absent in it. Noise has
to be added before replies are sealed, so `private` is inside of `sealed`: it comes before it in the list.

Local work without a bound is refused before anything is trained. Scores that methods ask for get noise and
are charged. Scores by which a run is evaluated are an experimenter's, and `scores` says what becomes of them:

    clear   they leave as they are, outside of the budget: for a simulation, and said in its record
    noisy   they get noise, and are charged
    none    they do not leave; methods that ask for scores are refused

A simulation draws its noise from the run's seed, which is in its record: whoever has both can take it off
again. A site of its own does not (`federation/budgets.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from coterie.core.errors import BadInput, Gathered, UnknownName
from coterie.core.held import COORDINATOR, Held
from coterie.core.kernel import WORK, Kernel, scores
from coterie.core.method import Method
from coterie.core.net import WRAPS, Beside, Net, Replies
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.kernels.around import numbers_of
from coterie.kernels.choice import Choice
from coterie.kernels.noisy import Noisy, accountable, called
from coterie.nets.wrapped import Wrapped
from coterie.privacy.accounting import COARSE, Charges, accountants, check_budget, check_delta, epsilon
from coterie.privacy.ledger import EVERYBODY, Budget, Ledger, as_charges, cost_of, statement

Scores = Literal["clear", "noisy", "none"]
EVALUATION = "evaluate"
"""What keys of a run's own scoring have in their path."""
KEPT = "private|ledger"
DELTA = 1e-5


class Book:
    """The ledger of a run, and which visits of this round are in it already."""

    def __init__(self) -> None:
        self.ledger, self.round = Ledger(), -1
        self.seen: set[str] = set()
        self.refused: dict[int, set[Any]] = {}  # in this round
        self.delta: float = DELTA
        self.budget: Budget | None = None

    def at(self, round: int) -> None:
        if round != self.round:
            self.round, self.seen, self.refused = round, set(), {}


@dataclass(frozen=True, eq=False)
class Accounted(Wrapped):
    """Adds up what visits cost; nothing is refused."""

    book: Book = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "book", Book())
        self.book.delta = usual_delta(self.net.roster)

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
        replies = self.net.visit(kernel, beliefs, edges, key, slot, beside)
        self._charge(kernel, beliefs, edges, replies, key, slot, beside)
        return replies

    def _costs(self, kernel: Kernel) -> list[Charges | None]:
        """[site] what one visit costs."""
        found = [{"train": m.train, "validation": m.validation, "test": m.test} for m in self.roster.members]
        return [cost_of(kernel, rows) for rows in found]

    def _charge(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        replies: Replies,
        key: Key,
        slot: str,
        beside: Beside | None,
    ) -> None:
        """Who answered has looked at its rows; the same visit again is the same answer, and free."""
        costs, ledger, together = self._costs(kernel), self.book.ledger, getattr(kernel, "together", False)
        where = {(g, h): e for e, (g, h) in enumerate(edges.tolist())}
        for guest, host in replies.edges.tolist():
            cost = costs[host]
            if cost is None:
                whose = "evaluation" if EVALUATION in key.path else "method"
                ledger.outside[whose, called(kernel)] += 1
            if not cost:
                continue
            mark = identity(kernel, beliefs, where[guest, host], guest, host, key, slot, beside)
            if mark not in self.book.seen:
                self.book.seen.add(mark)
                who = COORDINATOR if together else requester_of(kernel, beliefs, guest, host)
                ledger.account(host).charge(who, cost)

    def statement(self) -> dict[str, Any]:
        """What the run's record says of it."""
        book = self.book
        return statement(
            book.ledger, self.roster.names, self.roster.sizes.tolist(), book.delta, book.budget
        ) | {"scores": "clear"}

    def kept(self, live: Iterable[Held], round: int) -> Mapping[str, Tensor]:
        text = json.dumps(self.book.ledger.told()).encode()
        return {**self.net.kept(live, round), KEPT: torch.tensor(list(text), dtype=torch.uint8)}

    def restore(self, kept: Mapping[str, Tensor], live: Iterable[Held], round: int) -> None:
        others = dict(kept)
        if KEPT in others:
            self.book.ledger = Ledger.of(json.loads(bytes(others.pop(KEPT).tolist())))
        self.book.at(-1)
        self.net.restore(others, live, round)


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
        local, shows = getattr(method, "local", None), method.reveals()
        if local is not None and cost_of(local, {"train": int(roster.sizes.min())}) is None:
            wrong.add(no_bound(local))
        if shows.rows:
            wrong.add(
                "a method that moves rows has no bound: choose another, or leave the wrapper private out"
            )
        asked = [n for n in shows.numbers if n in ("loss", "accuracy") and n not in numbers_of(local)]
        if asked and options.get("scores") == "none":
            wrong.add(
                f"the method asks for scores ({', '.join(asked)}), and scores=none sends none: take noisy"
            )
        wrong.refuse()
        if local is not None:
            one_visit(local, roster, float(options.get("epsilon", 3.0)), delta)

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
        dressed = kernel if clear else self.dressed(kernel, key)
        if dressed is None:  # nobody tells anything
            return Replies(edges[:0], {}, None, beliefs)
        if not clear:
            stays = self.fitting(dressed, beliefs, edges, key.round)
            edges, beside = only(stays, edges, beside)
        replies = self.net.visit(dressed, beliefs, edges, key, slot, beside)
        self._charge(dressed, beliefs, edges, replies, key, slot, beside)
        return replies

    def dressed(self, kernel: Kernel, key: Key) -> Any:
        """The kernel itself if it has a bound, a scorer with noise, or None if nothing is to leave."""
        if all(cost is not None for cost in self._costs(kernel)):
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

    def fitting(self, kernel: Kernel, beliefs: Held, edges: Tensor, round: int) -> Tensor:
        """[edge] which visits fit into their hosts' budgets, one after the other."""
        costs, ledger, budget = self._costs(kernel), self.book.ledger, self.book.budget
        assert budget is not None
        together, stays = bool(getattr(kernel, "together", False)), torch.ones(len(edges), dtype=torch.bool)
        planned: dict[int, Any] = {}
        answers = dict[int, bool]()  # of hosts whose guests are one
        for e, (guest, host) in enumerate(edges.tolist()):
            cost = costs[host]
            if not cost:
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
                ledger.refuse(host, who, round)
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


def one_visit(local: Any, roster: Roster, budget: float, delta: float) -> None:
    """Refuses work of which not even one visit fits at any site; the most rows make it cheapest."""
    least = epsilon(cost_of(local, {"train": int(roster.sizes.max())}) or (), delta, COARSE)
    if least > budget:
        raise BadInput(
            f"one visit costs epsilon {least:.3g} at the least, above the budget of {budget:g}: raise sigma "
            "(coterie plan-privacy says how far), or take fewer steps"
        )


def usual_delta(roster: Roster) -> float:
    """1e-5, or a tenth of 1/n where that is less."""
    most = max((m.train + m.validation + m.test for m in roster.members), default=1)
    return min(DELTA, 0.1 / max(1, most))


def requester_of(kernel: Kernel, beliefs: Held, guest: int, host: int) -> int | None:
    """Who gets what a visit makes: where the belief lies; numbers alone go to the coordinator."""
    if scores(kernel):
        return COORDINATOR
    places = {int(part.places[guest]) for part in beliefs.parts}
    return next(iter(places)) if len(places) == 1 and host not in places else EVERYBODY


def identity(
    kernel: Kernel,
    beliefs: Held,
    edge: int,
    guest: int,
    host: int,
    key: Key,
    slot: str,
    beside: Beside | None,
) -> str:
    """The same for a visit that is made again of the same contents."""
    ids = [int(p.ids[guest]) for p in beliefs.parts]
    others = {
        name: [int(p.ids[edge if len(held) > 1 else 0]) for p in held.parts]
        for name, held in (beside or {}).items()
    }
    return json.dumps([repr(kernel), key.seed, key.path, slot, guest, host, ids, others], default=str)


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


def no_bound(kernel: Any) -> str:
    """Why a kernel is refused, and what to do."""
    name, work = called(kernel), kernel
    while not (getattr(work, "name", None) in WORK or getattr(work, "inner", None) is None):
        work = work.inner
    if getattr(kernel, "name", "") == "slopes":
        return f"{name} gives no bound: take --influence.estimate exact, or leave the wrapper private out"
    if getattr(work, "name", None) in WORK:
        return f'{name} gives no bound: take --kernel "dp({work.name})"'
    return f"{name} gives no bound: choose another method, or leave the wrapper private out"


def accounted(net: Any) -> Accounted | None:
    """The wrapper that adds up, wherever it is among the wrappers."""
    while net is not None and not isinstance(net, Accounted):
        net = getattr(net, "net", None)
    return net
