"""coterie plan-privacy: by plain numbers, or by what a run will cost its sites, found without training.

Who visits whom, and how often, is played: plain local work is passed over, a model comes back as it went. All
else happens, on the clients' own data, so that methods choose and mix as ever; those that choose by scores
may choose otherwise once models learn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, make_dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from rich.table import Table
from rich.text import Text
from torch import Tensor

from coterie.cli import screen
from coterie.cli.command import Command, Flags, command_with, flag
from coterie.cli.flags import SPENDING, Given, SettingsFlags
from coterie.core import belief as tree
from coterie.core.charge import Charge
from coterie.core.errors import BadInput, Gathered
from coterie.core.facts import kernel_fact
from coterie.core.held import Held, at_coordinator, handles_in, hold
from coterie.core.kernel import Kernel
from coterie.core.net import Beside, Replies
from coterie.core.options import Option
from coterie.core.seeds import Key
from coterie.features.privacy.wrapper import Accounted, Private
from coterie.kernels import SGD
from coterie.kernels.dp import DP
from coterie.nets.counting import Counting
from coterie.nets.wrapped import Wrapped
from coterie.privacy.accounting import (
    COARSE,
    as_charges,
    check_budget,
    check_delta,
    epsilon,
    most_times,
    repeated,
    sigma_for,
)
from coterie.privacy.spending import EVERYBODY, Ledger
from coterie.runs.builder import prepare
from coterie.runs.experiment import Experiment

COMMANDS = {
    "plan-privacy": ("privacy", 5, "say beforehand what epsilon a setting costs, or which noise reaches one"),
}
HELP = """Says beforehand what a setting costs each site (epsilon), and which noise reaches a wanted epsilon.

By plain numbers, or for a method on data: who visits whom is then found out without training.

examples:
  coterie plan-privacy --rows 400 --batch 32 --rounds 30 --requesters 6 --sigma 2
  coterie plan-privacy --rows 400 900 --rounds 30 --epsilon 3
  coterie plan-privacy --data heart-disease --method pens --kernel "dp(sgd)" --rounds 30 --epsilon 3
"""

COLLUDING = (
    "All colluding: whatever anybody passes on. One requester: only what it gets from that site itself."
)
EPSILON = Option("epsilon", float | None, None, "Say which sigma reaches this one, with all colluding.")
DELTA = Option("delta", float, 1e-5, "The delta of all figures; below 1 / rows.")


@dataclass(frozen=True)
class _Numbers:
    rows: tuple[int, ...] = flag((), "Training rows of a site, or of several.")
    batch: int = flag(32, "Rows of a batch, expected.")
    epochs: int = flag(1, "Passes over the rows in a visit.")
    steps: int = flag(0, "Steps of a visit, instead of epochs.")
    rounds: int = flag(30, "Rounds; each requester's model visits in each of them.")
    requesters: int = flag(1, "Whose models visit a site.")
    sigma: float = flag(1.0, "Noise over the bound on one row, in each step.")
    cap: int = flag(0, "Rows of a batch at most; 0: as dp has it.")
    sampling: Literal["poisson", "epochs"] = flag("poisson", "How rows come into batches.")
    delta: float = flag(1e-5, DELTA.help)
    epsilon: float | None = flag(None, EPSILON.help)


class _Plan(NamedTuple):
    """What one site is asked: its charges in all, and those of the requester who gets most."""

    name: str
    rows: int
    all: tuple[Charge, ...]
    one: tuple[Charge, ...]


@command_with(Flags(_Numbers, "plan-privacy", HELP))
def _by_numbers(asked: _Numbers) -> None:
    """A setting in plain numbers."""
    wrong = Gathered()
    for name, least in (("batch", 1), ("epochs", 1), ("steps", 0), ("rounds", 1), ("requesters", 1)):
        if getattr(asked, name) < least:
            wrong.add(f"{name}={getattr(asked, name)} must be at least {least}: try {least}")
    with wrong.one():
        check_budget(1.0 if asked.epsilon is None else asked.epsilon, asked.delta)
    if not asked.rows:
        wrong.add("--rows needs a number: give the training rows of a site")
    for rows in asked.rows:
        if rows < asked.batch:
            wrong.add(f"rows={rows} are fewer than a batch of {asked.batch}: lower --batch, or leave it out")
        with wrong.one():
            check_delta(asked.delta, rows)
    work = None
    with wrong.one():
        inner = SGD(batch=asked.batch, epochs=asked.epochs, steps=asked.steps)
        work = DP(inner, sigma=asked.sigma, sampling=asked.sampling, cap=asked.cap)
    wrong.refuse()
    assert work is not None
    plans = []
    for i, rows in enumerate(asked.rows, start=1):
        one = repeated(work.charges(rows), asked.rounds)
        name = "site" if len(asked.rows) == 1 else f"site {i}"
        plans.append(_Plan(name, rows, repeated(one, asked.requesters), one))
    _show(plans, asked.delta, asked.epsilon, asked.sigma)
    if asked.epsilon is not None:
        for plan in plans:
            visit = repeated(work.charges(plan.rows), asked.requesters)
            times = most_times((), visit, asked.epsilon, asked.delta, most=100_000)
            some = f"{times} rounds" if times < 100_000 else "100,000 rounds and more"
            screen.out.print(f"{plan.name}: with sigma {asked.sigma:g}, {some} fit into {asked.epsilon:g}.")


@command_with(SettingsFlags("plan-privacy", HELP, [DELTA, EPSILON], without=SPENDING))
def _by_method(given: Given) -> None:
    """A method on data."""
    settings, extra, _ = given
    wrong, wanted, delta = Gathered(), extra["epsilon"], extra["delta"]
    with wrong.one():
        check_budget(1.0 if wanted is None else wanted, delta)
    wrong.refuse()
    experiment = prepare(replace(settings, net="in-process"), None)
    roster, local = experiment.roster, getattr(experiment.method, "local", None)
    for member in roster.members:
        with wrong.one():
            check_delta(delta, member.train + member.validation + member.test, repr(member.name))
    if getattr(local, "charges", None) is None:
        work = settings.with_work().kernel
        wrong.add(f'{work} gives no bound: take --kernel "dp(sgd)"')
    wrong.refuse()
    with torch.no_grad():
        ledger = foreseen(experiment)
    plans = []
    for i, member in enumerate(roster.members):
        account = ledger.account(i)
        ones = [as_charges(account.of(who)) for who in {EVERYBODY, *account.spent}]
        most = max(ones, key=lambda some: epsilon(some, delta, COARSE), default=())
        plans.append(_Plan(member.name, member.train, as_charges(account.all()), most))
    _show(plans, delta, wanted, getattr(local, "sigma", math.nan))


def _either_way(words: Sequence[str]) -> int:
    numbers = any(w == "--rows" or w.startswith("--rows=") for w in words) or {"-h", "--help"} & set(words)
    return (_by_numbers if numbers else _by_method)(words)


plan_privacy = Command(
    _either_way,
    lambda: make_dataclass("Both", [], bases=(_by_numbers.flags(), _by_method.flags()), frozen=True),
)


def _show(plans: Sequence[_Plan], delta: float, wanted: float | None, sigma: float) -> None:
    """The table: a line for each site."""
    titles = ["site", "rows", "steps", f"epsilon at delta {delta:g}, all colluding", "most for one requester"]
    if wanted is not None:
        titles.append(f"sigma for {wanted:g}")
    table = Table(box=None, header_style="bold", pad_edge=False)
    for i, title in enumerate(titles):
        table.add_column(Text(title), justify="right" if i else "left")
    for plan in plans:
        both = [epsilon(some, delta, COARSE) for some in (plan.all, plan.one)]
        cells = [plan.name, f"{plan.rows:,}", f"{sum(c.times for c in plan.all):,}"]
        cells += [f"{e:.3g}" if e < 100 else f"{e:,.0f}" if math.isfinite(e) else "no bound" for e in both]
        if wanted is not None:  # the noise that keeps a site within an epsilon, if there is any
            try:
                cells.append(f"{sigma_for(wanted, delta, partial(_with_sigma, plan.all)):g}")
            except BadInput:
                cells.append("none")
        table.add_row(*map(Text, cells))
    screen.out.print(table)
    screen.out.print(f"With sigma {sigma:g}. {COLLUDING}", style="dim")


PASSED_OVER = ("dp", "bounded")  # around plain work, their replies are made as the belief that went out


@dataclass(frozen=True, eq=False)
class _Idle(Wrapped):
    """Local work with noise does nothing."""

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        plain = kernel_fact(kernel_fact(kernel, "inner"), "mark") is None
        if not (plain and kernel_fact(kernel, "name") in PASSED_OVER) or len(edges) == 0:
            return self.net.visit(kernel, beliefs, edges, key, slot, beside)
        same = hold(tree.rows(beliefs.tensors, edges[:, 0]), edges[:, 1])
        samples = self.roster.sizes[edges[:, 1]].double()
        return Replies(edges, {"samples": samples}, same, beliefs)


def foreseen(experiment: Experiment) -> Ledger:
    """The ledger of all rounds, without budgets and without a run's own scores."""
    inner: Any = experiment.net
    while isinstance(inner, Counting | Accounted):  # sites here cost no time
        inner = inner.net
    private: Any = experiment.net
    while not (private is None or isinstance(private, Private)):
        private = getattr(private, "net", None)
    start = hold(experiment.beliefs, at_coordinator(tree.count(experiment.beliefs)))
    if experiment.net.peek(start) is None:
        raise BadInput("sites elsewhere cannot be looked at beforehand: leave --net out, or give --rows")
    net: Any = Accounted(_Idle(inner))
    if private is not None:  # its scores, not its budget
        net = replace(private, net=_Idle(inner), epsilon=1e9, per_requester=0.0)
    method = experiment.method
    state = method.init(start, net)
    net.keep(handles_in(state), 0)
    for r in range(1, experiment.rounds + 1):
        state, _ = method.round(state, net, experiment.key.at_round(r, experiment.rounds))
        net.keep(handles_in(state), r)
    found: Ledger = net.book.ledger
    return found


def _with_sigma(charges: Iterable[Charge], sigma: float) -> list[Charge]:
    """The same visits with other noise in local work; charges of scores name no rows, and stay."""
    return [replace(c, sigma=sigma) if c.rows else c for c in charges]
