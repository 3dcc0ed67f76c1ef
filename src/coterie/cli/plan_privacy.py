"""coterie plan-privacy"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass, replace
from typing import Annotated, Literal, NamedTuple

import torch
from rich.table import Table
from rich.text import Text
from tyro.conf import arg

from coterie.cli import screen
from coterie.cli.command import Command, Flags, command_with
from coterie.cli.flags import SPENDING, Given, SettingsFlags
from coterie.core.charge import Charge
from coterie.core.errors import BadInput, Gathered
from coterie.core.options import Option
from coterie.kernels import SGD
from coterie.kernels.dp import DP
from coterie.privacy.accounting import (
    COARSE,
    check_budget,
    check_delta,
    epsilon,
    most_times,
    repeated,
    sigma_for,
)
from coterie.privacy.ledger import EVERYBODY, as_charges
from coterie.runs.experiment import prepare
from coterie.runs.foresee import foreseen, with_sigma

HELP = """Says beforehand what a setting costs each site (epsilon), and which noise reaches a wanted epsilon.

By plain numbers, or for a method on data: who visits whom is then found out without training.

examples:
  coterie plan-privacy --rows 400 --batch 32 --rounds 30 --requesters 6 --sigma 2
  coterie plan-privacy --rows 400 900 --rounds 30 --epsilon 3
  coterie plan-privacy --data heart-disease --method pens --kernel "dp(sgd)" --rounds 30 --epsilon 3
"""

EPSILON = Option("epsilon", float | None, None, "Say which sigma reaches this one, with all colluding.")
DELTA = Option("delta", float, 1e-5, "The delta of all figures; below 1 / rows.")


@dataclass(frozen=True)
class Numbers:
    rows: Annotated[tuple[int, ...], arg(help="Training rows of a site, or of several.")] = ()
    batch: Annotated[int, arg(help="Rows of a batch, expected.")] = 32
    epochs: Annotated[int, arg(help="Passes over the rows in a visit.")] = 1
    steps: Annotated[int, arg(help="Steps of a visit, instead of epochs.")] = 0
    rounds: Annotated[int, arg(help="Rounds; each requester's model visits in each of them.")] = 30
    requesters: Annotated[int, arg(help="Whose models visit a site.")] = 1
    sigma: Annotated[float, arg(help="Noise over the bound on one row, in each step.")] = 1.0
    cap: Annotated[int, arg(help="Rows of a batch at most; 0: as dp has it.")] = 0
    sampling: Annotated[Literal["poisson", "epochs"], arg(help="How rows come into batches.")] = "poisson"
    delta: Annotated[float, arg(help=DELTA.help)] = 1e-5
    epsilon: Annotated[float | None, arg(help=EPSILON.help)] = None


class Plan(NamedTuple):
    """What one site is asked: its charges in all, and those of the requester who gets most."""

    name: str
    rows: int
    all: tuple[Charge, ...]
    one: tuple[Charge, ...]


@command_with(Flags(Numbers, "plan-privacy", HELP))
def by_numbers(asked: Numbers) -> None:
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
    for i, rows in enumerate(asked.rows):
        one = repeated(work.charges(rows), asked.rounds)
        name = "site" if len(asked.rows) == 1 else f"site {i + 1}"
        plans.append(Plan(name, rows, repeated(one, asked.requesters), one))
    show(plans, asked.delta, asked.epsilon, asked.sigma)
    if asked.epsilon is not None:
        for plan in plans:
            visit = repeated(work.charges(plan.rows), asked.requesters)
            times = most_times((), visit, asked.epsilon, asked.delta, most=100_000)
            some = f"{times} rounds" if times < 100_000 else "100,000 rounds and more"
            screen.out.print(f"{plan.name}: with sigma {asked.sigma:g}, {some} fit into {asked.epsilon:g}.")


@command_with(SettingsFlags("plan-privacy", HELP, [DELTA, EPSILON], without=SPENDING))
def by_method(given: Given) -> None:
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
        plans.append(Plan(member.name, member.train, as_charges(account.all()), most))
    show(plans, delta, wanted, getattr(local, "sigma", math.nan))


def either_way(words: Sequence[str]) -> int:
    numbers = any(w == "--rows" or w.startswith("--rows=") for w in words) or {"-h", "--help"} & set(words)
    return (by_numbers if numbers else by_method)(words)


plan_privacy = Command(
    either_way,
    lambda: make_dataclass("Both", [], bases=(Numbers, by_method.flags()), frozen=True),
)


def show(plans: Sequence[Plan], delta: float, wanted: float | None, sigma: float) -> None:
    """The table: a line for each site."""
    titles = ["site", "rows", "steps", f"epsilon at delta {delta:g}, all colluding", "most for one requester"]
    if wanted is not None:
        titles.append(f"sigma for {wanted:g}")
    table = Table(box=None, header_style="bold", pad_edge=False)
    for i, title in enumerate(titles):
        table.add_column(Text(title), justify="right" if i else "left")
    for plan in plans:
        both = [epsilon(some, delta, COARSE) for some in (plan.all, plan.one)]
        cells = [plan.name, f"{plan.rows:,}", f"{sum(c.times for c in plan.all):,}", *map(figure, both)]
        if wanted is not None:
            cells.append(needed(plan, wanted, delta))
        table.add_row(*map(Text, cells))
    screen.out.print(table)
    said = (
        f"With sigma {sigma:g}. All colluding: whatever anybody passes on. One requester: only what it gets"
    )
    screen.out.print(f"{said} from that site itself.", style="dim")


def needed(plan: Plan, wanted: float, delta: float) -> str:
    """The noise that keeps a site within an epsilon, if there is any."""
    try:
        return f"{sigma_for(wanted, delta, lambda s: with_sigma(plan.all, s)):g}"
    except BadInput:
        return "none"


def figure(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}" if math.isfinite(value) else "no bound"
