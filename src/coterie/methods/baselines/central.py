"""The pooled baseline: many clients' data in one place, w_g ← LocalWork(w_g) on ∪_{k∈g} D_k.

The groups g are one of all clients, or the true clusters of a synthetic split, each with its own model. Data
moves, so this is a yardstick and no option for clients who cannot share: what would be reached if one could
see everything, or everything of one's own kind? A round is one visit to each pool; its epoch has as many
steps as its clients' epochs together.

Karlsson and Onoszko, 2021, table 3.6: `by` all is CentralNonIID, `by` cluster CentralIIDHalfData. Deviation:
the thesis trains the latter for the cluster of unturned pictures only, here every cluster has its model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.errors import UnknownName
from coterie.core.kernel import Trainer
from coterie.core.method import METHODS, Facts, Info, Models, true_clusters
from coterie.core.net import Net, to_own
from coterie.core.seeds import Key
from coterie.kernels.sgd import SGD

By = Literal["all", "cluster"]


@dataclass(frozen=True, eq=False)
class State:
    """A belief for each group [group, ...], the group of each client [client], and optimisers' states.

    Until the first round has seen the clusters, there is one group.
    """

    beliefs: Beliefs
    of: Tensor
    memory: Beliefs | None = None


@METHODS.register("central")
@dataclass(frozen=True)
class Central:
    """All data in one place: a yardstick, not an option for those who cannot share."""

    local: Trainer = SGD()
    """The work on a pool in a round."""
    by: By = "all"
    """One pool of all data, or one for each true cluster, if the split made such."""

    def __post_init__(self) -> None:
        if self.by not in get_args(By):
            raise UnknownName("by", str(self.by), get_args(By))

    def check(self, names: Sequence[str], rounds: int) -> None:
        """Works for any number of clients and rounds."""

    def look(self, clients: Sequence[Facts], key: Key) -> list[str]:
        self.groups([c.name for c in clients], [c.cluster for c in clients])
        return []

    def groups(self, names: Sequence[str], clusters: Sequence[int | None]) -> Tensor:
        """[client] the number of its pool."""
        if self.by == "all":
            return torch.zeros(len(names), dtype=torch.int64)
        known = true_clusters(names, clusters, "central by cluster")
        numbers = {cluster: g for g, cluster in enumerate(sorted(set(known)))}
        return torch.tensor([numbers[cluster] for cluster in known])

    def init(self, beliefs: Beliefs, clients: int) -> State:
        return State(tree.rows(beliefs, torch.tensor([0])), torch.zeros(clients, dtype=torch.int64))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        of = self.groups(net.names, net.clusters)
        n, m = len(of), int(of.max()) + 1
        pool = net.pool([(of == g).nonzero().flatten().tolist() for g in range(m)])
        beliefs, shares = tree.repeat(state.beliefs, m), shares_of(net.sizes, of)
        replies = pool.visit(self.local, beliefs, to_own(m), key, state.memory)
        nothing = torch.zeros(n, dtype=torch.int64)
        info = Info(
            weights=shares.expand(n, n) if m == 1 else shares[of],  # one row for thousands costs nothing
            sent=nothing,
            received=nothing,
            loss=replies.numbers["loss"][of],
            extras={"samples_moved": int(net.sizes.sum()) if key.round == 1 else 0},
        )
        return State(pool.settle(beliefs, replies), of, replies.memory), info

    def models(self, state: State, clients: int) -> Models:
        return Models(state.beliefs, of=state.of, shared=0 if self.by == "all" else None)


def shares_of(sizes: Tensor, of: Tensor) -> Tensor:
    """[group, client] each client's share of the samples in a pool; it is in pool `of` [client]."""
    groups = torch.arange(int(of.max()) + 1).unsqueeze(1)
    parts = (of == groups) * sizes.double()
    return parts / parts.sum(dim=1, keepdim=True)
