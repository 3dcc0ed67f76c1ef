"""What a run will cost its sites, found without training: who visits whom, and how often.

Plain local work is passed over: a model comes back as it went. All else happens, on the clients' own data, so
that methods choose and mix as ever; those that choose by scores may choose otherwise once models learn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from coterie.core import belief as tree
from coterie.core.charge import Charge
from coterie.core.errors import BadInput
from coterie.core.held import Held, at_coordinator, handles_in, hold
from coterie.core.kernel import Kernel
from coterie.core.net import Beside, Replies
from coterie.core.seeds import Key
from coterie.nets.accounted import Accounted
from coterie.nets.counting import Counting
from coterie.nets.private import Private
from coterie.nets.wrapped import Wrapped
from coterie.privacy.ledger import Ledger
from coterie.runs.experiment import Experiment

PASSED_OVER = ("dp", "bounded")  # around plain work, their replies are made as the belief that went out


@dataclass(frozen=True, eq=False)
class Idle(Wrapped):
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
        if not passed_over(kernel) or len(edges) == 0:
            return self.net.visit(kernel, beliefs, edges, key, slot, beside)
        same = hold(tree.rows(beliefs.tensors, edges[:, 0]), edges[:, 1])
        samples = self.roster.sizes[edges[:, 1]].double()
        return Replies(edges, {"samples": samples}, same, beliefs)


def passed_over(kernel: Any) -> bool:
    plain = not hasattr(getattr(kernel, "inner", None), "mark")
    return getattr(kernel, "name", "") in PASSED_OVER and plain


def foreseen(experiment: Experiment) -> Ledger:
    """The ledger of all rounds, without budgets and without a run's own scores."""
    inner: Any = experiment.net
    while isinstance(inner, Counting | Accounted):  # sites here cost no time
        inner = inner.net
    start = hold(experiment.beliefs, at_coordinator(tree.count(experiment.beliefs)))
    if experiment.net.peek(start) is None:
        raise BadInput("sites elsewhere cannot be looked at beforehand: leave --net out, or give --rows")
    private = next((w for w in wrappers(experiment.net) if isinstance(w, Private)), None)
    net: Any = Accounted(Idle(inner))
    if private is not None:  # its scores, not its budget
        net = replace(private, net=Idle(inner), epsilon=1e9, per_requester=0.0)
    method = experiment.method
    state = method.init(start, net)
    net.keep(handles_in(state), 0)
    for r in range(1, experiment.rounds + 1):
        state, _ = method.round(state, net, experiment.key.at_round(r, experiment.rounds))
        net.keep(handles_in(state), r)
    found: Ledger = net.book.ledger
    return found


def wrappers(net: Any) -> Iterable[Any]:
    while net is not None:
        yield net
        net = getattr(net, "net", None)


def with_sigma(charges: Iterable[Charge], sigma: float) -> list[Charge]:
    """The same visits with other noise in local work; charges of scores name no rows, and stay."""
    return [replace(c, sigma=sigma) if c.rows else c for c in charges]
