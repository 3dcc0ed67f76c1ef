"""How many rounds a budget affords a method that has to know their number beforehand.

One that does something else in its last rounds must not be cut off before them. Its rounds are played without
training: models come back as they went, steps and bytes are counted as ever. The longest plan is searched
whose last round begins before the budget is spent, by halving: if R rounds can be afforded, fewer can. What
the last round does is not played: a round that has begun is not cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.errors import BadInput
from coterie.core.held import Held, Part, at_coordinator, handles_in, hold
from coterie.core.kernel import Kernel, makes, scores
from coterie.core.method import Method, paced
from coterie.core.net import Beside, Net, Replies
from coterie.core.seeds import Key
from coterie.nets import Counting, Ground, wrapped
from coterie.nets.ground import Simulated
from coterie.nets.wrapped import Wrapped
from coterie.runs.budget import REPEATED, Meter, bytes_of, read_budget, row_bytes


@dataclass(frozen=True, eq=False)
class Untrained(Wrapped):
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
        came = beliefs.rows(edges[:, 0])
        same = Held(tuple(copied(part, edges[:, 1]) for part in came.parts))
        sizes = self.net.roster.sizes.double()
        numbers = {"loss": torch.zeros(len(edges)).double(), "samples": sizes[edges[:, 1]]}
        return Replies(edges, numbers, same, beliefs)

    def in_one_place(self, groups: Sequence[Sequence[int]]) -> Net:
        return Untrained(self.net.in_one_place(groups))


def copied(part: Part, at: Tensor) -> Part:
    """The same tensors as new rows at these places."""
    (made,) = hold(part.tensors, at).parts
    return made


def refuse_unforeseen(method: Method, config: Mapping[str, Any], elsewhere: bool) -> None:
    """Refuses a budget where a method has to know how many rounds it affords, and nobody can say."""
    budget, why = read_budget(config.get("budget", ())), paced(method)
    name = called(method)
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


def called(method: Method) -> str:
    return str(getattr(method, "name", type(method).__name__))


def affordable(
    method: Method, beliefs: tree.Beliefs, ground: Ground, config: Mapping[str, Any]
) -> tuple[int, list[str]]:
    """The rounds that a budget affords, at most those of the config, and what to say of it."""
    refuse_unforeseen(method, config, ground.met is not None)
    budget, most, seed = read_budget(config.get("budget", ())), int(config["rounds"]), int(config["seed"])
    if not budget or not paced(method):
        return most, []
    wraps = tuple(config.get("wrap", ()))

    def lasts(plan: int) -> bool:
        return begins_its_last(method, beliefs, ground, wraps, seed, budget, plan)

    if lasts(most):
        return most, []
    rounds, beyond = 1, most
    while beyond - rounds > 1:
        plan = (rounds + beyond) // 2
        rounds, beyond = (plan, beyond) if lasts(plan) else (rounds, plan)
    told = ", ".join(str(spec) for spec in config["budget"])
    try:
        method.check(ground.roster, beliefs, Key(seed, rounds=rounds))
    except BadInput as error:
        raise BadInput(f"{told} affords {rounds} of {most} rounds of {called(method)}: {error}") from None
    said = f"{called(method)} is planned for {rounds} of {most} rounds, what {told} affords"
    return rounds, [f"{said}: it {paced(method)}"]


def begins_its_last(
    method: Method,
    beliefs: tree.Beliefs,
    ground: Ground,
    wraps: tuple[str, ...],
    seed: int,
    budget: Mapping[str, float],
    rounds: int,
) -> bool:
    """Whether something of the budget is left when the last round of a plan of so many begins."""
    net = Counting(wrapped(Untrained(Simulated().connect(ground)), wraps))
    meter, a_row = Meter(budget), row_bytes(ground.roster, beliefs)

    def spend() -> None:
        moved = net.book.read()
        meter.add(steps=int(moved.steps.sum()), bytes=bytes_of(moved, net.sealed_bytes, a_row))
        net.figures()

    try:
        state = method.init(hold(beliefs, at_coordinator(tree.count(beliefs))), net)
        net.keep(handles_in(state), 0)
        spend()
        for r in range(1, rounds):
            state, _ = method.round(state, net, Key(seed).at_round(r, rounds))
            net.keep(handles_in(state), r)
            spend()
            if meter.over():
                return False
    finally:
        net.close()
    return True
