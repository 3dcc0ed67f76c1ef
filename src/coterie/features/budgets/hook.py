"""What a run may spend: `--budget steps=20000 bytes=50M`. The first that is reached ends it.

    steps      gradient steps of all clients together, in every visit of every round
    bytes      of models, rows, numbers and sealed shares that passed, both ways; not for a run's own scoring
    seconds    of training on the clock; no two runs take the same
    kwh        CPU seconds of training x watts of a busy core, an estimate

A round is never cut: no round begins once a budget is spent, and the last may go beyond it. The first round
always runs, whatever it costs. `rounds` stays the most that there are.

Watts are those that a processor is made to draw, by core (`energy/energy.toml`). Memory, cooling and whatever
else runs on the machine are not in it; `energy/record.py` looks further, at cooling, the network and CO2e.

A method that does something else in its last rounds must not be cut off before them: how many rounds a budget
affords it is found beforehand. Its rounds are played without training: models come back as they went, steps
and bytes are counted as ever. The longest plan is searched whose last round begins before the budget is
spent, by halving: if R rounds can be afforded, fewer can. What the last round does is not played: a round
that has begun is not cut.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.errors import BadInput
from coterie.core.facts import called
from coterie.core.held import Held, at_coordinator, handles_in, hold
from coterie.core.kernel import Kernel, makes, scores
from coterie.core.method import Method, paced
from coterie.core.net import Beside, Net, Replies
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.nets import Counting, Ground, wrapped
from coterie.nets.counting import Traffic
from coterie.nets.ground import Simulated
from coterie.nets.wrapped import Wrapped
from coterie.runs.budget import REPEATED, estimates_energy, kwh, read_budget
from coterie.runs.hooks import Hook, Run, Turn, Wanted
from coterie.runs.record import Record
from coterie.runs.settings import Settings

NUMBER = 8  # bytes of a single value such as a loss


@dataclass
class _Meter:
    """What a run has spent so far, by kind, and what it may."""

    budget: Mapping[str, float]
    spent: dict[str, float] = field(default_factory=dict)

    def add(self, **more: float) -> None:
        for kind, value in more.items():
            self.spent[kind] = self.spent.get(kind, 0.0) + value

    def over(self) -> str:
        """The first kind whose budget is spent; nothing while all have something left."""
        return next((kind for kind, most in self.budget.items() if self.spent.get(kind, 0.0) >= most), "")


def _counted(moved: Traffic, sealed: int, roster: Roster, beliefs: Beliefs) -> dict[str, int]:
    """Steps, and all bytes that passed: a client's row as its inputs and its target, in the precision of the
    model; `sealed` are those of shares.
    """
    wide = next((t.element_size() for t in beliefs.values() if t.is_floating_point()), 4)
    rows = wide * (math.prod(roster.shape) + 1) * int(moved.rows.sum())
    passed = int(moved.bytes.sum()) + NUMBER * int(moved.numbers.sum()) + rows + sealed
    return {"steps": int(moved.steps.sum()), "bytes": passed}


class _BudgetHook(Hook):
    """A round's line says what it spent:

    spent    gradient steps, and bytes of all that passed: models, rows, numbers, sealed shares
    ended    (the loop's) the kind of budget that ended the run with this round, if one did
    """

    order = 20
    meets = ("budget",)

    def refuse(self, wanted: Wanted) -> None:
        check_budget(wanted.settings)
        _refuse_unforeseen(wanted.method, wanted.settings, wanted.elsewhere)

    def plan(
        self, method: Method, beliefs: Beliefs, ground: Ground, settings: Settings
    ) -> tuple[int, list[str]] | None:
        """The rounds that a budget affords, at most those of the settings, and what to say of it."""
        _refuse_unforeseen(method, settings, ground.met is not None)
        most, name, why = settings.rounds, called(method), paced(method)
        if not settings.budget or not why or _begins_its_last(method, beliefs, ground, settings, most):
            return most, []
        rounds, beyond = 1, most
        while beyond - rounds > 1:
            middle = (rounds + beyond) // 2
            lasts = _begins_its_last(method, beliefs, ground, settings, middle)
            rounds, beyond = (middle, beyond) if lasts else (rounds, middle)
        budget = ", ".join(settings.budget)
        try:
            method.check(ground.roster, beliefs, Key(settings.seed, rounds=rounds))
        except BadInput as error:
            raise BadInput(f"{budget} affords {rounds} of {most} rounds of {name}: {error}") from None
        return rounds, [f"{name} is planned for {rounds} of {most} rounds, what {budget} affords: it {why}"]

    def begin(self, run: Run) -> None:
        """Of a run that was cut off, with what it has spent before."""
        spent = {kind: float(sums[-1]) for kind, sums in _spent_of(run.record).items() if len(sums)}
        self.meter = _Meter(read_budget(run.experiment.settings.budget), spent)

    def trained(self, run: Run, turn: Turn) -> str:
        seconds, cpu = run.times.spent()
        energy = kwh(cpu, run.experiment.settings.power)
        self.meter.add(**self._spent(run, turn), seconds=seconds, kwh=energy)
        return self.meter.over()

    def tell(self, run: Run, turn: Turn) -> Mapping[str, Any]:
        return {"spent": self._spent(run, turn)}

    def _spent(self, run: Run, turn: Turn) -> dict[str, int]:
        return _counted(turn.moved, turn.sealed, run.experiment.roster, run.experiment.beliefs)


def _spent_of(record: Record) -> dict[str, np.ndarray]:
    """Spent up to the end of each round, by kind: [round], from round 0. Kinds that were not counted are left
    out.
    """
    spent, metrics, timings = dict[str, np.ndarray](), record.metrics, record.timings
    if all("spent" in line for line in metrics):
        spent = {kind: np.cumsum([line["spent"][kind] for line in metrics]) for kind in REPEATED}
    elif metrics:  # a run of an earlier version knows of its models
        spent["bytes"] = np.cumsum([int(record.transfers(line)["bytes"]) for line in metrics])
    took = {line["round"]: line for line in timings}
    lines = [took.get(line["round"], {}) for line in metrics]
    if took:
        spent["seconds"] = np.cumsum([line.get("seconds", 0.0) for line in lines])
    if estimates_energy(record.settings) and took and all("cpu_seconds" in line for line in timings):
        cpu = np.cumsum([line.get("cpu_seconds", 0.0) for line in lines])
        spent["kwh"] = kwh(cpu, record.settings.power)
    return spent


HOOK = _BudgetHook
VIEWS = {"spent": _spent_of}


def check_budget(settings: Settings) -> None:
    """Refuses a budget in what cannot be known."""
    if "kwh" in read_budget(settings.budget) and not estimates_energy(settings):
        raise BadInput(
            f"budget kwh with net {settings.net} on {settings.device}: only CPU seconds of "
            "this process are counted: use net in-process on the cpu, or a budget in steps"
        )


def _refuse_unforeseen(method: Method, settings: Settings, elsewhere: bool) -> None:
    """Refuses a budget where a method has to know how many rounds it affords, and nobody can say."""
    budget, why, name = read_budget(settings.budget), paced(method), called(method)
    for kind in budget if why else ():
        if kind not in REPEATED:
            raise BadInput(
                f"{name} {why}, and nobody can say beforehand after which round {kind}={budget[kind]:g} is "
                f"spent: give the budget in {' or '.join(REPEATED)}, or leave {name} out"
            )
    if budget and why and elsewhere:
        raise BadInput(
            f"{name} {why}, and its rounds cannot be played beforehand with sites elsewhere: leave the "
            "budget out and give rounds that can be afforded"
        )


@dataclass(frozen=True, eq=False)
class _Untrained(Wrapped):
    """Local work does nothing, at sites and where rows are in one place; all else happens."""

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        if scores(kernel) or makes(kernel) or len(edges) == 0:
            return self.net.visit(kernel, beliefs, edges, key, slot, beside)
        parts = [hold(part.tensors, edges[:, 1]).parts[0] for part in beliefs.rows(edges[:, 0]).parts]
        samples = self.net.roster.sizes.double()[edges[:, 1]]
        numbers = {"loss": torch.zeros(len(edges)).double(), "samples": samples}
        return Replies(edges, numbers, Held(tuple(parts)), beliefs)

    def in_one_place(self, groups: Sequence[Sequence[int]]) -> Net:
        return _Untrained(self.net.in_one_place(groups))


def _begins_its_last(
    method: Method, beliefs: Beliefs, ground: Ground, settings: Settings, rounds: int
) -> bool:
    """Whether something of the budget is left when the last round of a plan of so many begins."""
    net = Counting(wrapped(_Untrained(Simulated().connect(ground)), settings.wrap))
    meter, key = _Meter(read_budget(settings.budget)), Key(settings.seed)

    def spend() -> None:
        meter.add(**_counted(net.book.read(), net.sealed_bytes, ground.roster, beliefs))
        net.figures()

    try:
        state = method.init(hold(beliefs, at_coordinator(tree.count(beliefs))), net)
        net.keep(handles_in(state), 0)
        spend()
        for r in range(1, rounds):
            state, _ = method.round(state, net, key.at_round(r, rounds))
            net.keep(handles_in(state), r)
            spend()
            if meter.over():
                return False
    finally:
        net.close()
    return True
