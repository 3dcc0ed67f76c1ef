"""The few verbs with which a method reaches its clients.

Axes are [receiver, sender, ...] throughout. An edge (guest, host) sends the guest-th belief to the
host-th client. A method sees replies only through these verbs, so the same method runs on a plain loop,
on a batched engine, over a network, or on sealed replies, where `mix` and `distances` work and `open`
refuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from coterie.core.belief import Beliefs, Weights
from coterie.core.kernel import Scorer, Trainer
from coterie.core.seeds import Key


@dataclass(frozen=True, eq=False)
class Replies:
    """What came back from a visit, in the order of the edges that answered (a client may be gone).

    edges     [reply, 2] the (guest, host) pairs that answered
    numbers   public figures by name, [reply] each: loss, samples, accuracy, ...
    memory    what the hosts keep for their next visit, [host, ...]; None if the kernel keeps nothing
    sealed    the replied beliefs; only a net looks inside
    """

    edges: Tensor
    numbers: Mapping[str, Tensor]
    memory: Beliefs | None = None
    sealed: Any = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.edges)

    @property
    def guests(self) -> Tensor:
        return self.edges[:, 0]

    @property
    def hosts(self) -> Tensor:
        return self.edges[:, 1]


class Net(Protocol):
    """Clients behind verbs. `sizes` [client] are the numbers of training samples, which are public."""

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def sizes(self) -> Tensor: ...

    @property
    def clusters(self) -> Sequence[int | None]:
        """[client] the group a synthetic split put each in, if any: for oracles and for measuring only."""
        ...

    def visit(
        self,
        kernel: Trainer | Scorer,
        beliefs: Beliefs,
        edges: Tensor,
        key: Key,
        memory: Beliefs | None = None,
    ) -> Replies:
        """Sends beliefs along edges; replies come with the edges that answered."""
        ...

    def mix(self, weights: Weights, replies: Replies) -> Beliefs:
        """Weighted sums of replies: weights [receiver, reply], or one such matrix for each layer."""
        ...

    def settle(self, beliefs: Beliefs, replies: Replies) -> Beliefs:
        """Replies come home: each takes the place of the belief that went out; the others stay."""
        ...

    def distances(
        self, replies: Replies, to: Replies | Beliefs, importance: Mapping[str, float] | None = None
    ) -> Tensor:
        """Norms of differences in the trained parameters: [reply, to]."""
        ...

    def open(self, replies: Replies) -> Beliefs:
        """The replied beliefs in the clear: [reply, ...]."""
        ...

    def pool(self, groups: Sequence[Sequence[int]]) -> Net:
        """A net in which each group of clients is one client. Data moves: for baselines only."""
        ...


def edges_of(pairs: Sequence[tuple[int, int]]) -> Tensor:
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)


def to_own(n: int) -> Tensor:
    """Edges on which every belief visits its own client."""
    return torch.arange(n).unsqueeze(1).expand(n, 2)


def from_server(hosts: Tensor) -> Tensor:
    """Edges on which one belief, number 0, visits each host."""
    return torch.stack([torch.zeros_like(hosts), hosts], dim=1)
