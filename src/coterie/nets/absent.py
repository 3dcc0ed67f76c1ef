"""A net wrapped: some sites do not answer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.errors import BadInput
from coterie.core.held import COORDINATOR, Held
from coterie.core.kernel import Kernel
from coterie.core.net import WRAPS, Beside, Replies
from coterie.core.seeds import Key
from coterie.nets.wrapped import Wrapped


@WRAPS.register("absent")
@dataclass(frozen=True, eq=False)
class Absent(Wrapped):
    """Each site is gone for a whole round with some probability."""

    chance: float = 0.1
    """The probability, drawn for each site from the run's seed and the round."""

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
        edges, beside = among(self.present(key), beliefs, edges, beside)
        return self.net.visit(kernel, beliefs, edges, key, slot, beside)


def among(
    present: Tensor, beliefs: Held, edges: Tensor, beside: Beside | None
) -> tuple[Tensor, Beside | None]:
    """The edges of a visit among those who are there [site], and what is beside them."""
    here = present[edges[:, 1]]
    for part in beliefs.parts:  # nor can a model leave a site that is gone
        places = part.places[edges[:, 0]]
        here = here & ((places == COORDINATOR) | present[places])
    if beside and not bool(here.all()):  # what lies beside all edges is one row
        index = here.nonzero().flatten()
        beside = {name: b.rows(index) if len(b) == len(here) > 1 else b for name, b in beside.items()}
    return edges[here], beside
