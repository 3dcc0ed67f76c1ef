"""A net wrapped: some clients do not answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.belief import Beliefs, Weights
from coterie.core.errors import BadInput
from coterie.core.kernel import Scorer, Trainer
from coterie.core.net import Net, Replies
from coterie.core.seeds import Key


@dataclass(frozen=True, eq=False)
class Absent:
    """Each client is gone for a whole round with probability `chance`, drawn from the round's key."""

    net: Net
    chance: float

    def __post_init__(self) -> None:
        if not 0 <= self.chance <= 1:
            raise BadInput(f"absent={self.chance} must lie between 0 and 1: try 0.1")

    @property
    def names(self) -> Sequence[str]:
        return self.net.names

    @property
    def sizes(self) -> Tensor:
        return self.net.sizes

    @property
    def clusters(self) -> Sequence[int | None]:
        return self.net.clusters

    def present(self, key: Key) -> Tensor:
        """[client] who answers in this round, the same for every visit of the round."""
        draws = Key(key.seed, ("absent", key.round)).torch()
        return torch.rand(len(self.net.names), generator=draws) >= self.chance

    def visit(
        self,
        kernel: Trainer | Scorer,
        beliefs: Beliefs,
        edges: Tensor,
        key: Key,
        memory: Beliefs | None = None,
    ) -> Replies:
        return self.net.visit(kernel, beliefs, edges[self.present(key)[edges[:, 1]]], key, memory)

    def mix(self, weights: Weights, replies: Replies) -> Beliefs:
        return self.net.mix(weights, replies)

    def settle(self, beliefs: Beliefs, replies: Replies) -> Beliefs:
        return self.net.settle(beliefs, replies)

    def distances(
        self, replies: Replies, to: Replies | Beliefs, importance: Mapping[str, float] | None = None
    ) -> Tensor:
        return self.net.distances(replies, to, importance)

    def open(self, replies: Replies) -> Beliefs:
        return self.net.open(replies)

    def pool(self, groups: Sequence[Sequence[int]]) -> Net:
        return self.net.pool(groups)
