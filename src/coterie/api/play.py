"""A study of one's own: clients in this process, reached by a net's verbs, and rounds one at a time.

Nothing is scored and nothing is written: clients need no test rows, and a short run takes no time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from torch import nn

from coterie.api import checks
from coterie.api.train import parts_of
from coterie.core import belief as tree
from coterie.core.belief import Belief
from coterie.core.checks import checked
from coterie.core.client import Client
from coterie.core.errors import BadInput
from coterie.core.held import at_coordinator, handles_in, hold
from coterie.core.kernel import Trainer
from coterie.core.learner import Learner
from coterie.core.method import Info, Method
from coterie.core.net import Net
from coterie.core.roster import roster_of
from coterie.core.seeds import Key
from coterie.data.build import check_clients
from coterie.engines import ENGINES
from coterie.engines.threads import narrow
from coterie.nets import InProcess
from coterie.runs.builder import refuse_no_parameters
from coterie.sites.setup import check_outputs, precision_of


class Played(NamedTuple):
    """After a round: each client's model by name, and what the method says of the round; None of round 0."""

    round: int
    models: Mapping[str, Belief]
    info: Info | None


def net_of(model: nn.Module, clients: Sequence[Client], engine: str = "auto") -> Net:
    """These clients around this model, in the model's precision. A net is for one run: it remembers."""
    precision = precision_of(tree.belief_of(model))
    sites = tuple(c.cast(precision) for c in clients)
    return InProcess(ENGINES.make(engine), Learner(model, sites[0].task), sites)


@checked(**checks.ROUNDS)
def rounds(
    model: nn.Module,
    clients: Sequence[Client],
    method: str | Method,
    *,
    rounds: int,
    seed: int = 0,
    kernel: str | Trainer | None = None,
    engine: str = "auto",
    **options: Any,
) -> Iterator[Played]:
    """Plays a method from the module's weights; yields how it stands at first and after each round.

    Keywords are those of `train`, and so are the random numbers of a seed.
    """
    _, way = parts_of(kernel, method, options, asked=kernel)
    check_clients(clients, allow_one_class=True, allow_untested=True)
    if any(c.again is not None for c in clients):
        raise BadInput("rounds reads no dataset anew: use train, or clients without every_epoch")
    refuse_no_parameters(model)
    check_outputs(model, roster_of(clients), clients[0].cast(precision_of(tree.belief_of(model))).train.x[:1])
    net, key = net_of(model, clients, engine), Key(seed, rounds=rounds)
    beliefs = tree.stack([tree.belief_of(model)])
    way.check(net.roster, beliefs, key)
    state: Any = way.init(hold(beliefs, at_coordinator(1)), net)
    yield Played(0, _models_of(way, state, net), None)
    for r in range(1, rounds + 1):
        with narrow():
            state, info = way.round(state, net, Key(seed).at_round(r, rounds))
        net.keep(handles_in(state), r)
        yield Played(r, _models_of(way, state, net), info)


def _models_of(method: Method, state: Any, net: Net) -> dict[str, Belief]:
    """The model that stands for each client, of those that have one."""
    models = method.models(state)
    tensors = net.peek(models.beliefs)
    assert tensors is not None  # all of it is in this process
    return {net.roster.names[i]: tree.row(tensors, int(models.of[i])) for i in models.owners.tolist()}
