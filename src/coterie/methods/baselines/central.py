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
from typing import ClassVar, Literal

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.method import METHODS, first_of, loss_by_reply, true_clusters
from coterie.core.net import settle, to_own
from coterie.core.options import check_options, chosen
from coterie.kernels.sgd import SGD

By = Literal["all", "cluster"]


@dataclass(frozen=True, eq=False)
class State:
    """A belief for each group [group, ...], at the coordinator, and the group of each client [client].

    Until the first round has seen the clusters, there is one group.
    """

    beliefs: Held
    of: Tensor


@METHODS.register("central")
@dataclass(frozen=True)
class Central:
    """All data in one place: a yardstick, not an option for those who cannot share."""

    chooses: ClassVar[Partners] = Partners(shares="model")

    local: Trainer = SGD()
    """The work on a pool in a round."""
    by: By = chosen("all", By)
    """One pool of all data, or one for each true cluster, if the split made such."""

    def __post_init__(self) -> None:
        check_options(self)

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        self.groups(roster)
        return ()

    def groups(self, roster: Roster) -> Tensor:
        """[client] the number of its pool."""
        if self.by == "all":
            return torch.zeros(len(roster), dtype=torch.int64)
        known = true_clusters(roster, "central by cluster")
        numbers = {cluster: g for g, cluster in enumerate(sorted(set(known)))}
        return torch.tensor([numbers[cluster] for cluster in known])

    def init(self, start: Held, net: Net) -> State:
        return State(first_of(start), torch.zeros(len(net.roster), dtype=torch.int64))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        of, sizes = self.groups(net.roster), net.roster.sizes
        n, m = len(of), int(of.max()) + 1
        pool = net.in_one_place([(of == g).nonzero().flatten().tolist() for g in range(m)])
        beliefs = state.beliefs
        if len(beliefs) < m:
            beliefs = beliefs.rows(torch.zeros(m, dtype=torch.int64))
        replies = pool.visit(self.local, beliefs, to_own(m), key)
        shares = _shares_of(sizes, of)
        info = Info(
            weights=shares.expand(n, n) if m == 1 else shares[of],  # one row for thousands costs nothing
            loss=loss_by_reply(replies)[of],
            extras={"samples_moved": int(sizes.sum()) if key.round == 1 else 0},
        )
        return State(settle(pool, beliefs, replies), of), info

    def models(self, state: State) -> Models:
        return Models(state.beliefs, of=state.of, shared=state.beliefs if self.by == "all" else None)

    def reveals(self) -> Reveals:
        return Reveals(numbers=(), rows=True)


def _shares_of(sizes: Tensor, of: Tensor) -> Tensor:
    """[group, client] each client's share of the samples in a pool; it is in pool `of` [client]."""
    groups = torch.arange(int(of.max()) + 1).unsqueeze(1)
    parts = (of == groups) * sizes.double()
    return parts / parts.sum(dim=1, keepdim=True)
