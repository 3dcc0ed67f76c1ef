"""A net wrapped: sites keep to a budget of differential privacy.

A visit that would exceed its host's budget does not happen, and the host counts as absent in it. Noise has to
be added before replies are sealed, so `private` is inside of `sealed`: it comes before it in the list.

Local work without a bound is refused before anything is trained. Scores that methods ask for get noise and
are charged. Scores by which a run is evaluated are an experimenter's, and `scores` says what becomes of them:

    clear   they leave as they are, outside of the budget: for a simulation, and said in its record
    noisy   they get noise, and are charged
    none    they do not leave; methods that ask for scores are refused

A simulation draws its noise from the run's seed, which is in its record: whoever has both can take it off
again. A site of its own does not (`federation/site/budget.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, cast, get_args

import torch
from torch import Tensor

from coterie.core.errors import BadInput, Gathered, UnknownName
from coterie.core.facts import kernel_fact, method_fact
from coterie.core.held import COORDINATOR, Held
from coterie.core.kernel import WORK, Kernel, looks, scores
from coterie.core.method import Method
from coterie.core.net import EVALUATION, WRAPS, Beside, Net, Replies
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.kernels.around import numbers_of
from coterie.kernels.choice import Choice
from coterie.kernels.natural import STEPS
from coterie.kernels.noisy import NO_BOUND, Noisy, accountable, as_written
from coterie.kernels.slopes import Slopes
from coterie.kernels.solving import solves
from coterie.nets.wrapped import Scores, Wrapped
from coterie.privacy.accounting import (
    COARSE,
    Charges,
    accountants,
    as_charges,
    check_budget,
    check_delta,
    epsilon,
)
from coterie.privacy.spending import EVERYBODY, Account, Budget, Ledger, cost_of, statement
from coterie.storage.checkpoint import as_tensor, bytes_in, named, taken

NAME = "private"  # in checkpoints
DELTA = 1e-5


class _Book:
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


class _Visit(NamedTuple):
    """What is asked of a net; an edge is one visit."""

    kernel: Kernel
    beliefs: Held
    edges: Tensor
    key: Key
    slot: str
    beside: Beside | None

    def requester(self, edge: int) -> int | None:
        """Who gets what the visit makes: where the belief lies; numbers alone go to the coordinator."""
        guest, host = self.edges[edge].tolist()
        if kernel_fact(self.kernel, "together") or scores(self.kernel):
            return COORDINATOR
        places = {int(part.places[guest]) for part in self.beliefs.parts}
        return next(iter(places)) if len(places) == 1 and host not in places else EVERYBODY

    def identity(self, edge: int) -> str:
        """The same for a visit that is made again of the same contents."""
        guest, host = self.edges[edge].tolist()
        ids = [int(p.ids[guest]) for p in self.beliefs.parts]
        others = {
            name: [int(p.ids[edge if len(held) > 1 else 0]) for p in held.parts]
            for name, held in (self.beside or {}).items()
        }
        what = [repr(self.kernel), self.key.seed, self.key.path, self.slot, guest, host, ids, others]
        return json.dumps(what, default=str)


@dataclass(frozen=True, eq=False)
class Accounted(Wrapped):
    """Adds up what visits cost; nothing is refused."""

    accounts = True
    book: _Book = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "book", _Book())
        most = max((m.train + m.validation + m.test for m in self.net.roster.members), default=1)
        self.book.delta = min(DELTA, 0.1 / max(1, most))  # a tenth of 1/n where that is less

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
        self.charge(_Visit(kernel, beliefs, edges, key, slot, beside), replies)
        return replies

    def costs(self, kernel: Kernel, edges: Tensor) -> dict[int, Charges | None]:
        """{host: what one visit costs it}."""
        costs = {}
        for host in torch.unique(edges[:, 1]).tolist():
            m = self.roster.members[host]
            costs[host] = cost_of(kernel, {"train": m.train, "validation": m.validation, "test": m.test})
        return costs

    def charge(self, visit: _Visit, replies: Replies) -> None:
        """Who answered has looked at its rows; the same visit again is the same answer, and free."""
        costs, ledger = self.costs(visit.kernel, visit.edges), self.book.ledger
        where = {(g, h): e for e, (g, h) in enumerate(visit.edges.tolist())}
        for guest, host in replies.edges.tolist():
            cost, edge = costs[host], where[guest, host]
            if cost is None:
                whose = "evaluation" if EVALUATION in visit.key.path else "method"
                ledger.outside[whose, as_written(visit.kernel)] += 1
            if cost and (mark := visit.identity(edge)) not in self.book.seen:
                self.book.seen.add(mark)
                ledger.account(host).charge(visit.requester(edge), cost)

    def statement(self) -> dict[str, Any]:
        """What the run's record says of it."""
        book, rows = self.book, self.roster.sizes.tolist()
        return {**statement(book.ledger, self.roster.names, rows, book.delta, book.budget), "scores": "clear"}

    def kept(self, live: Iterable[Held], round: int) -> Mapping[str, Tensor]:
        text = json.dumps(self.book.ledger.to_dict())
        return {**self.net.kept(live, round), **named(NAME, {"ledger": as_tensor(text)})}

    def restore(self, kept: Mapping[str, Tensor], live: Iterable[Held], round: int) -> None:
        mine, others = taken(NAME, kept)
        if "ledger" in mine:
            self.book.ledger = Ledger.of(json.loads(bytes_in(mine["ledger"])))
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
        self.check(self.epsilon, self.delta, self.per_requester, self.scores, self.sigma, self.bound)
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
    def ordered(names: Sequence[str], **options: Any) -> None:
        if "sealed" in names[: list(names).index("private")]:
            raise BadInput(
                "private comes after sealed, and noise has to be added before replies are sealed: "
                "write --wrap private sealed"
            )
        if list(names).count("private") > 1:
            raise BadInput("wrapper private is there twice, and a site has one budget: leave one out")

    @staticmethod
    def scores_leave(**options: Any) -> Scores:
        return cast(Scores, options.get("scores", "clear"))

    unbounded: ClassVar[Mapping[str, Any]] = {"epsilon": 1e9, "per_requester": 0.0}

    @staticmethod
    def admit(method: Method, roster: Roster, **options: Any) -> None:
        """Refuses what could not keep to a budget, before anything is trained."""
        accountants()
        wrong, delta = Gathered(), float(options.get("delta", DELTA))
        for member in roster.members:
            with wrong.one():
                check_delta(delta, member.train + member.validation + member.test, repr(member.name))
        local, shows = (
            method_fact(method, "local") if method_fact(method, "works") else None,
            method.reveals(),
        )
        here = sorted(m.train for m in roster.members if m.train) or [0]  # of those who are there
        if local is not None and cost_of(local, {"train": here[0]}) is None:
            wrong.add(_no_bound(local, "bounded" if roster.task == "survival" else "dp"))
        if shows.rows:
            wrong.add(
                "a method that moves rows has no bound: choose another, or leave the wrapper private out"
            )
        if "slope" in shows.numbers:
            wrong.add(_no_bound(Slopes()))
        asked = [n for n in shows.numbers if n in ("loss", "accuracy") and n not in numbers_of(local)]
        if asked and options.get("scores") == "none":
            wrong.add(
                f"the method asks for scores ({', '.join(asked)}), and scores=none sends none: take noisy"
            )
        if roster.task == "survival" and (asked or options.get("scores") == "noisy"):
            wrong.add(f"{NO_BOUND}, with a method that asks for none" if asked else NO_BOUND)
        wrong.refuse()
        # not even one visit may fit where it is cheapest, at the site of the most rows
        least = 0.0 if local is None else epsilon(cost_of(local, {"train": here[-1]}) or (), delta, COARSE)
        if least > (budget := float(options.get("epsilon", 3.0))):
            raise BadInput(
                f"one visit costs epsilon {least:.3g} at the least, above the budget of {budget:g}: raise "
                "sigma (coterie plan-privacy says how far), or take fewer steps"
            )

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
            stays = self.fitting(_Visit(dressed, beliefs, edges, key, slot, beside))
            if not bool(stays.all()):
                index, n = stays.nonzero().flatten(), len(edges)
                beside = {name: b.rows(index) if len(b) == n > 1 else b for name, b in (beside or {}).items()}
                edges = edges[index]
        replies = self.net.visit(dressed, beliefs, edges, key, slot, beside)
        self.charge(_Visit(dressed, beliefs, edges, key, slot, beside), replies)
        return replies

    def dressed(self, kernel: Kernel, edges: Tensor, key: Key) -> Any:
        """The kernel itself if it has a bound, a scorer with noise, or None if nothing is to leave."""
        if all(cost is not None for cost in self.costs(kernel, edges).values()):
            return kernel
        if not scores(kernel):
            raise BadInput(_no_bound(kernel))
        noisy, evaluates = _with_noise(kernel, self.bound, self.sigma), EVALUATION in key.path
        if evaluates and (self.scores == "none" or noisy is None):
            return None
        if self.scores == "none":
            raise BadInput(
                f"the method asks for {as_written(kernel)}, and scores=none sends none: take scores=noisy"
            )
        if noisy is None:
            raise BadInput(_no_bound(kernel))
        return noisy

    def statement(self) -> dict[str, Any]:
        noise = {"sigma": self.sigma, "bound": self.bound}
        return {**super().statement(), "scores": self.scores, "noise": noise}

    def fitting(self, visit: _Visit) -> Tensor:
        """[edge] which visits fit into their hosts' budgets, one after the other; again is free."""
        costs, book, budget = self.costs(visit.kernel, visit.edges), self.book, self.book.budget
        assert budget is not None
        together = bool(kernel_fact(visit.kernel, "together"))
        stays = torch.ones(len(visit.edges), dtype=torch.bool)
        planned, answers = dict[int, Account](), dict[int, bool]()  # answers of hosts whose guests are one
        for e, host in enumerate(visit.edges[:, 1].tolist()):
            cost = costs[host]
            if not cost or visit.identity(e) in book.seen:
                continue
            if together and host in answers:
                stays[e] = answers[host]
                continue
            if host not in planned:
                spent = book.ledger.account(host).spent
                planned[host] = Account({who: some.copy() for who, some in spent.items()})
            who = visit.requester(e)
            stays[e] = answers[host] = budget.admits(planned[host], who, cost)
            if stays[e]:
                planned[host].charge(who, cost)
            else:
                book.ledger.refuse(host, who, visit.key.round)
                book.refused.setdefault(host, set()).add(who)
        return stays

    def in_one_place(self, groups: Sequence[Sequence[int]]) -> Net:
        raise BadInput(
            "rows that move have no bound: choose another method, or leave the wrapper private out"
        )

    def away(self) -> Mapping[str, str]:
        whys, whose = dict(self.net.away()), {EVERYBODY: "everybody", COORDINATOR: "the coordinator"}
        bound = f"{self.epsilon:g}" + (f" ({self.per_requester:g} for one)" if self.per_requester else "")
        for host in sorted(self.book.refused):
            spent = epsilon(as_charges(self.book.ledger.account(host).all()), self.delta, COARSE)
            asked = sorted(self.book.refused[host], key=str)
            names = ", ".join(whose.get(who, "") or self.roster.names[who] for who in asked)
            why = f"out of budget for {names}: epsilon {spent:.3g} of {bound} is spent"
            whys[self.roster.names[host]] = why
        return whys


def _with_noise(kernel: Any, bound: float, sigma: float) -> Any:
    """A scorer with noise in its figures; None if they have no bound."""
    if isinstance(kernel, Choice):
        inner = _with_noise(kernel.inner, bound, sigma)
        return None if inner is None else replace(kernel, inner=inner)
    return Noisy(kernel, bound, sigma) if accountable(kernel) else None


def _no_bound(kernel: Any, remedy: str = "dp") -> str:
    """Why a kernel is refused, and what to do."""
    name, work = as_written(kernel), kernel
    while not (kernel_fact(work, "name") in WORK or kernel_fact(work, "inner") is None):
        work = work.inner
    if looks(kernel):
        return f"{name} gives no bound: set the method's epsilon (--similar.epsilon 3)"
    if kernel_fact(kernel, "name") == "slopes":
        return f"{name} gives no bound: take --influence.estimate exact, or leave the wrapper private out"
    if kernel_fact(work, "name") in WORK:
        inside = STEPS if solves(work) else work.name
        return f'{name} gives no bound: take --kernel "{remedy}({inside})"'
    return f"{name} gives no bound: choose another method, or leave the wrapper private out"
