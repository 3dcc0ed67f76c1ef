"""Who takes part: the plain loop, the lean loop, and every engine by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coterie.bench.lean import Lean
from coterie.bench.plain import Plain
from coterie.bench.workloads import Workload
from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.client import Client
from coterie.core.errors import UnknownName
from coterie.core.held import at_coordinator, handles_in, hold
from coterie.core.learner import Learner
from coterie.core.seeds import Key
from coterie.engines import ENGINES
from coterie.engines.threads import narrow
from coterie.nets import InProcess

Run = Callable[[Key], Beliefs]
"""All rounds of a workload with the random numbers of that key; the beliefs at the end, [model, ...]."""

LOOPS: dict[str, Callable[[Workload, Sequence[Client]], Run]] = {"plain": Plain, "lean": Lean}


class OnEngine:
    """The workload's method on one of our engines; the net is made once, as in a run."""

    def __init__(self, name: str, workload: Workload, clients: Sequence[Client]) -> None:
        module = workload.module()
        self.workload, self.method = workload, workload.method
        self.first = tree.stack([tree.belief_of(module)])
        self.net = InProcess(ENGINES.make(name), Learner(module, "classification"), tuple(clients))
        self.method.check(self.net.roster, self.first, Key(0, rounds=workload.rounds))

    @narrow()
    def __call__(self, key: Key) -> Beliefs:
        rounds = self.workload.rounds
        state = self.method.init(hold(self.first, at_coordinator(1)), self.net)
        for r in range(1, rounds + 1):
            state, _ = self.method.round(state, self.net, key.at_round(r, rounds))
            self.net.keep(handles_in(state), r)
        return self.net.open(self.method.models(state).beliefs)


def prepare(name: str, workload: Workload, clients: Sequence[Client]) -> Run:
    """The contender of that name, ready to run; what it does here is not timed."""
    if name in LOOPS:
        return LOOPS[name](workload, clients)
    if name not in ENGINES:
        raise UnknownName("contender", name, [*LOOPS, *ENGINES])
    return OnEngine(name, workload, clients)


def engines_to_run(asked: Sequence[str]) -> tuple[str, ...]:
    """Those asked for; otherwise all but the reference, unless there is no other."""
    for name in asked:
        ENGINES[name]  # refuses an unknown one, with the nearest right name
    return tuple(asked) or tuple(n for n in ENGINES if n != "loop") or ("loop",)
