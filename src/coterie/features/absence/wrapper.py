"""A net wrapped: some sites do not answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.errors import BadInput
from coterie.core.held import Held
from coterie.core.kernel import Kernel
from coterie.core.net import WRAPS, Beside, Replies, edges_among
from coterie.core.seeds import Key
from coterie.nets.wrapped import Wrapped


@WRAPS.register("absent")
@dataclass(frozen=True, eq=False)
class Absent(Wrapped):
    """Each site is gone for a whole round with some probability."""

    chance: float = 0.1
    """The probability, drawn for each site from the run's seed and the round."""

    unasked: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.check(self.chance)

    @staticmethod
    def check(chance: float = 0.1) -> None:
        if not 0 <= chance <= 1:
            raise BadInput(f"absent={chance} must lie between 0 and 1: try 0.1")

    def present(self, key: Key) -> Tensor:
        """[site] who answers in this round, the same for all its visits; before round 1, everybody."""
        if key.round == 0:
            return torch.ones(len(self.roster), dtype=torch.bool)
        draws = Key(key.seed, ("absent", key.round)).torch()
        return torch.rand(len(self.roster), generator=draws) >= self.chance

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        edges, beside = edges_among(self.present(key), beliefs, edges, beside)
        return self.net.visit(kernel, beliefs, edges, key, slot, beside)
