"""A method: a pair of pure functions, `init` and `round`, on a frozen dataclass of its options.

State is carried on, Info is for looking. State is a frozen dataclass of tensors, trees of tensors and
plain values, so that a checkpoint can hold it without knowing the method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from coterie.core.belief import Beliefs
from coterie.core.client import Client, Task
from coterie.core.errors import BadData, BadInput, UnknownName
from coterie.core.net import Net
from coterie.core.registry import Registry
from coterie.core.seeds import Key


@dataclass(frozen=True, eq=False)
class Info:
    """What happened in a round, for people.

    weights     [receiver, sender] who listened to whom, how much; rows add up to 1, or to 0 for a client
                that was not reached
    sent        [client] models it sent
    received    [client] models it received
    loss        [client] mean training loss of its visit, NaN for a client that did not train
    extras      further figures by name, anything JSON can hold
    matrices    further matrices [receiver, sender] by name ("alpha"), NaN where there is nothing to say;
                one named CIRCLE has 1 for whom the receiver takes for its own kind so far, else 0, and is
                held against true clusters as the weights are
    """

    weights: Tensor
    sent: Tensor
    received: Tensor
    loss: Tensor
    extras: Mapping[str, Any] = field(default_factory=dict)
    matrices: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Models:
    """Which belief is whose: client i uses row `of[i]`; `shared` is the row of a common one, if any.

    crowd     [client, member] rows whose predictions client i averages, if it has more than one model: the
              draws of a posterior, an ensemble. Row `of[i]` is then what stands for them where one must
    shares    [client, member] what each counts in that average, adding up to 1; None: all alike
    """

    beliefs: Beliefs
    of: Tensor
    shared: int | None = None
    crowd: Tensor | None = None
    shares: Tensor | None = None


class Facts(NamedTuple):
    """What is known of a client before anything runs: never its data."""

    name: str
    task: Task
    train: int
    validation: int
    cluster: int | None


class Method(Protocol):
    """`check` refuses options that cannot work for these clients and rounds, before anything runs.

    A method may also have `look(clients: Sequence[Facts], key: Key) -> Sequence[str]`, which refuses what
    these clients lack (`survey` calls it) and returns what is worth saying of them, for the run's record.
    One whose clients send posteriors has `posteriors(state, names)`: by name, the Gaussian and the buffers.
    """

    def check(self, names: Sequence[str], rounds: int) -> None: ...

    def init(self, beliefs: Beliefs, clients: int) -> Any:
        """The first state, from one initial belief or one for each client: [1 or client, ...]."""
        ...

    def round(self, state: Any, net: Net, key: Key) -> tuple[Any, Info]: ...

    def models(self, state: Any, clients: int) -> Models: ...


METHODS: Registry[Method] = Registry("method")
ALL = "all"
CIRCLE = "circle"


def survey(method: Method, clients: Sequence[Client], key: Key) -> list[str]:
    """What a method says of these clients before round 1, if anything; or its refusal, of options too."""
    method.check([c.name for c in clients], key.rounds)
    look = getattr(method, "look", None)
    facts = [Facts(c.name, c.task, len(c.train), len(c.validation), c.cluster) for c in clients]
    return list(look(facts, key)) if look else []


def true_clusters(names: Sequence[str], clusters: Sequence[int | None], method: str) -> list[int]:
    """The clusters of a synthetic split, for yardsticks that may know them; a refusal if there are none."""
    for name, cluster in zip(names, clusters, strict=True):
        if cluster is None:
            raise BadData(
                f"client {name!r} has no cluster, which {method} needs: use a split that makes clusters"
            )
    return [cluster for cluster in clusters if cluster is not None]


def check_validation(clients: Sequence[Facts], needed_by: str, otherwise: str) -> None:
    for client in clients:
        if not client.validation:
            raise BadInput(
                f"client {client.name!r} has no validation samples, which {needed_by} needs: "
                f"hold some out (validation=0.2), or {otherwise}"
            )


def scatter(values: Tensor, hosts: Tensor, n: int, empty: float = float("nan")) -> Tensor:
    """Figures of the replies laid out by client: [client], `empty` where nobody answered."""
    out = torch.full((n,), empty, dtype=torch.float64)
    return out.index_copy_(0, hosts, values.double())


def asking(requester: str, names: Sequence[str]) -> Tensor:
    """The numbers of the clients that ask for a model: the one of that name, or everybody for `all`."""
    if requester == ALL:
        return torch.arange(len(names))
    if requester not in names:
        raise UnknownName("requester", requester, [ALL, *names])
    return torch.tensor([list(names).index(requester)])
