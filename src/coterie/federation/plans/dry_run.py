"""What a run will ask of its sites, found by playing it: kernels with their options, how many models they
see, by which orders models move and to whom.

Sites elsewhere have rows that nobody here may see. So a method's first rounds and its last are played on rows
drawn at random, with the run's wrappers and its own scoring; a visit takes a few steps alone, or none. What
is asked does not depend on what rows say, but for options that kernels name themselves (`varies`): it is what
the run will ask. Nothing is written by hand, so that a method of somebody's own has a plan too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Beliefs, Weights
from coterie.core.client import Client, Samples
from coterie.core.errors import Diverged
from coterie.core.facts import called, kernel_fact, method_fact
from coterie.core.held import COORDINATOR, Held, at_coordinator, handles_in, hold
from coterie.core.kernel import Kernel, Part, Plan, kernel_to_dict, makes, scores
from coterie.core.learner import Learner
from coterie.core.method import Method, asked, only_for
from coterie.core.net import Beside, Distances, Net, Replies
from coterie.core.options import table_of
from coterie.core.roster import Member, Roster
from coterie.core.seeds import Key
from coterie.engines.loop import Loop
from coterie.federation.plans.plan import PlannedVisit, identity_of
from coterie.kernels import Calibrate
from coterie.kernels.local import LocalWork
from coterie.nets import Counting, Ground
from coterie.nets.counting import row_bytes
from coterie.nets.ground import wrappers
from coterie.nets.in_process import InProcess, rows_heard
from coterie.runs.about import positive_class
from coterie.runs.experiment import Experiment
from coterie.runs.hooks import around, hooks
from coterie.runs.scoring import evaluate, score_models
from coterie.runs.settings import Settings
from coterie.storage.chain import canonical, finite

_ROWS = {"train": 64, "validation": 16, "test": 16}  # of each part, at most, that are drawn
_LARGE = 2**20  # bytes of a model from which plain local work is passed over: its replies are made as it
_MARKS = 3  # steps with a mark that a visit takes
_FIRST, _LAST = 3, 2  # rounds that are played
_IN_THE_CLEAR = {"give mix", "letter mix", "give distances", "letter distances", "mix", "distances"}


@dataclass(eq=False)
class _Asked:
    """What sites were asked for.

    kernels   as data without what varies, by their spelling, in the order of first use
    guests    the most models in one visit to a site
    a_round   the most models in visits of one round to a site
    dealt     by which options a kernel has chosen rows, by round
    moves     orders as a plan has them: "give mix"
    bytes     the most of models that came to a place at once
    """

    kernels: dict[str, dict[str, Any]] = field(default_factory=dict)
    guests: Counter[str] = field(default_factory=Counter)
    a_round: Counter[str] = field(default_factory=Counter)
    dealt: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    moves: set[str] = field(default_factory=set)
    bytes: int = 0
    now: Counter[tuple[str, int]] = field(default_factory=Counter)  # (kernel, site), in this round
    load: Counter[int] = field(default_factory=Counter)  # {place: bytes}, by this order

    def visit(self, kernel: Kernel, hosts: Sequence[int], round: int) -> None:
        mark, chosen, _ = identity_of(canonical(kernel_to_dict(kernel)))
        self.kernels.setdefault(mark, json.loads(mark))
        self.dealt.setdefault(mark, {}).setdefault(round, set()).add(chosen)
        for host, models in Counter(hosts).items():
            self.guests[mark] = max(self.guests[mark], models)
            self.now[mark, host] += models
            self.a_round[mark] = max(self.a_round[mark], self.now[mark, host])

    def bring(self, held: Held, rows: Iterable[int], to: int, why: str) -> None:
        """Rows come to a place: a site gives them to who leads the run, or sends them to another."""
        some = set(rows)
        places = {int(part.places[row]) for row in some for part in held.parts} - {COORDINATOR, to}
        if places:
            self.moves.add(f"give {why}" if to == COORDINATOR else f"letter {why}")
        self.load[to] += len(some) * sum(row_bytes(held.tensors).values())
        self.bytes = max(self.bytes, self.load[to])

    def at(self, verb: str, places: Iterable[int]) -> None:
        """Sites make something of what they have; all that this takes was brought."""
        self.load.clear()
        if any(place != COORDINATOR for place in places):
            self.moves.add(verb)

    def dealings(self, mark: str, rounds: int) -> int:
        """In how many ways a kernel chooses rows in a run: each round in its own, if any two differ."""
        each, all_in_all = self.dealt[mark], set[str]().union(*self.dealt[mark].values())
        most = max(map(len, each.values()))
        return most if most == len(all_in_all) else most * (rounds + 1)


@dataclass(frozen=True, eq=False)
class _RecordingNet(InProcess):
    """Sites with rows that were drawn, and what they are asked for."""

    orders: _Asked = field(default_factory=_Asked)

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        if self.host is None and len(edges):
            self.orders.visit(kernel, edges[:, 1].tolist(), key.round)
            for e, (guest, host) in enumerate(edges.tolist()):
                self.orders.bring(beliefs, [guest], host, "visit")
                for held in (beside or {}).values():
                    self.orders.bring(held, [e if len(held) > 1 else 0], host, "visit")
            self.orders.at("visit", ())
        if scores(kernel) or makes(kernel):
            return super().visit(kernel, beliefs, edges, key, slot, beside)
        plain = isinstance(kernel, LocalWork) and kernel_fact(kernel, "mark") is None
        for rate in () if plain and sum(row_bytes(beliefs.tensors).values()) > _LARGE else (1.0, 0.0):
            try:
                return super().visit(_FewSteps(kernel, rate), beliefs, edges, key, slot, beside)
            except Diverged:  # on rows that say nothing; what stays as it is does so less
                continue
        return self._moved(beliefs, edges)

    def _moved(self, beliefs: Held, edges: Tensor) -> Replies:
        """Replies without any work: each has come a little way, no two of them as far."""
        samples = self.roster.sizes[edges[:, 1]].double()
        far = 1 + torch.linspace(0.001, 0.01, len(edges))
        moved = {
            name: t * far.to(t.dtype).reshape(-1, *[1] * (t.dim() - 1)) if t.is_floating_point() else t
            for name, t in tree.rows(beliefs.tensors, edges[:, 0]).items()
        }
        hosts = edges[:, 1] if self.host is None else torch.full((len(edges),), self.host)
        numbers = {"loss": torch.ones_like(samples), "samples": samples}
        return Replies(edges, numbers, hold(moved, hosts), beliefs)

    def mix(self, weights: Weights, beliefs: Held, at: Tensor, in_turn: bool = False) -> Held:
        by_name = {"*": weights} if isinstance(weights, Tensor) else weights
        for i, place in enumerate(at.tolist()):
            heard = rows_heard({name: w[i : i + 1] for name, w in by_name.items()})
            self.orders.bring(beliefs, heard, place, "mix")
        self.orders.at("mix", at.tolist())
        return super().mix(weights, beliefs, at, in_turn)

    def deliver(self, beliefs: Held, rows: Tensor, at: Tensor) -> Held:
        for row, place in zip(rows.tolist(), at.tolist(), strict=True):
            self.orders.bring(beliefs, [row], place, "copy")
        self.orders.at("copy", at.tolist())
        return super().deliver(beliefs, rows, at)

    def share(self, beliefs: Held, to: Tensor) -> None:
        for place in to.tolist():
            self.orders.bring(beliefs, range(len(beliefs)), place, "copy")
        self.orders.at("take", to.tolist())

    def distances(
        self, replies: Replies, to: Tensor, at: int, importance: Mapping[str, float] | None = None
    ) -> Distances:
        assert replies.origin is not None
        self.orders.bring(replies.beliefs, range(len(replies)), at, "distances")
        self.orders.bring(replies.origin, replies.guests.tolist(), at, "distances")
        self.orders.at("distances", [at])
        return super().distances(replies, to, at, importance)

    def open(self, beliefs: Held) -> Beliefs:
        self.orders.bring(beliefs, range(len(beliefs)), COORDINATOR, "open")
        self.orders.at("open", ())
        return super().open(beliefs)

    def in_one_place(self, groups: Sequence[Sequence[int]]) -> InProcess:
        self.orders.at("rows", range(1))
        return super().in_one_place(groups)

    def keep(self, live: Iterable[Held], round: int) -> None:
        self.orders.now.clear()
        super().keep(live, round)

    def peek(self, beliefs: Held) -> None:
        """As with sites elsewhere."""
        return

    def finish(self, beliefs: Held, of: Mapping[int, int], facts: Mapping[int, Mapping[str, Any]]) -> None:
        for site, row in of.items():
            self.orders.bring(beliefs, [row], site, "visit")
        self.orders.at("finish", ())


class _FewSteps:
    """Local work of which the first step is taken, and the first few with a mark, at a part of the rate."""

    def __init__(self, kernel: Any, rate: float) -> None:
        self.kernel, self.rate = kernel, rate

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kernel, name)

    def plan(self, samples: int, key: Key) -> Plan:
        entire: Plan = self.kernel.plan(samples, key)
        steps = torch.zeros(1, dtype=torch.int64)
        if entire.marks is not None:
            steps = torch.unique(torch.cat([steps, entire.marks.nonzero().flatten()[:_MARKS]]))
        steps = steps[: len(entire)]
        marks = None if entire.marks is None else entire.marks[steps]
        return Plan(entire.rows[steps], entire.rates[steps] * self.rate, entire.seed, marks)


def plan_by_playing(method: Method, beliefs: Beliefs, ground: Ground, settings: Settings) -> dict[str, Any]:
    """A plan's share of the method: what the net adds is the net's to say (`lead/connector.py`)."""
    orders, rounds = _orders_of(method, beliefs, ground, settings), settings.rounds
    sealed = ground.sealed and all(t.is_floating_point() for t in beliefs.values())
    visits = tuple(
        PlannedVisit(kernel, orders.guests[mark], orders.a_round[mark], orders.dealings(mark, rounds))
        for mark, kernel in orders.kernels.items()
    )
    return {
        "method": called(method),
        "options": finite(table_of(method)),
        "wraps": settings.wrap,
        "visits": visits,
        "orders": tuple(sorted(orders.moves - (_IN_THE_CLEAR if sealed else set()))),
        "bytes": orders.bytes,
    }


def _orders_of(method: Method, beliefs: Beliefs, ground: Ground, settings: Settings) -> _Asked:
    """What sites will be asked for in a run of these; where some are still to come, before and after that."""
    orders, roster = _Asked(), ground.roster
    most = max((m.train, m.validation, m.test) for m in roster.members)  # of sites that are still to come
    there = replace(roster, members=tuple(m if m.train else Member(m.name, *most) for m in roster.members))
    folds = int(method_fact(method, "folds"))  # each has a row at least
    clients = [_random_client(m, there, Key(0).at("plan", i), folds) for i, m in enumerate(there.members)]
    learner = Learner(ground.model, there.task)
    for roster in dict.fromkeys((there, ground.roster)):
        where = (ground.device, ground.memory, roster)
        net: Net = _RecordingNet(Loop(), learner, tuple(clients), *where, orders=orders)
        for wrapper, options in wrappers(settings.wrap):
            if not wrapper.unasked:
                net = wrapper(net=net, **{**options, **wrapper.unbounded})
        net = around(net, method)
        key = Key(settings.seed)
        about = {"positive": positive_class(ground.roster)}  # of which of two classes figures are
        _play(Experiment(settings, about, ground.model, beliefs, method, Counting(net), key, own=ground.own))
    return orders


def _play(run: Experiment) -> None:
    """First rounds, last rounds and the end, each with its scores."""
    method, net, rounds = run.method, run.net, run.rounds
    who = asked(method, net.roster.names)
    state = method.init(hold(run.beliefs, at_coordinator(tree.count(run.beliefs))), net)
    for r in sorted({*range(min(rounds, _FIRST) + 1), *range(max(1, rounds - _LAST + 1), rounds + 1)}):
        if r:
            state, _ = method.round(state, net, run.key.at_round(r, rounds))
        models = only_for(method.models(state), who)
        evaluate(run, models, r)
        net.keep(handles_in(state), r)
    for hook in hooks():
        hook.asks(run, models, rounds)
    if not net.accounts:  # where a model may have diverged (`runs/scoring.py`)
        score_models(run, Calibrate("train"), models, rounds)
    net.finish(models.beliefs, {i: int(models.of[i]) for i in models.owners.tolist()}, {})


def _random_client(member: Member, roster: Roster, key: Key, least: int = 0) -> Client:
    """A client with rows that say nothing, as many of each part as the site has, but not very many."""
    generator = key.torch()

    def some(part: Part) -> Samples:
        many = min(getattr(member, part), max(least, _ROWS[part]))
        x = torch.randn(many, *roster.shape, generator=generator)
        y = torch.arange(many) % roster.outputs
        if roster.task == "regression":
            y = torch.randn(many, generator=generator)
        if roster.task == "survival":
            y = (1.0 + torch.arange(many)) * (1 - 2 * (torch.arange(many) % 2))
        return Samples(x, y)

    train, validation, test = some("train"), some("validation"), some("test")
    censored = roster.task == "survival"
    return Client(member.name, train, test, validation, roster.features, roster.classes, censored=censored)
