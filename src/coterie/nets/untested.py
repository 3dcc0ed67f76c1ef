"""A net wrapped: sites without test rows are not scored on them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.held import Held
from coterie.core.kernel import Kernel
from coterie.core.net import Beside, Replies
from coterie.core.seeds import Key
from coterie.nets.absent import beside_of
from coterie.nets.wrapped import Wrapped


@dataclass(frozen=True, eq=False)
class Untested(Wrapped):
    """For who keeps test rows elsewhere: a visit that scores on them finds only those sites that have some.

    Where nobody has any, a run's record has no scores, instead of scores on rows that models were trained on.
    """

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        if getattr(kernel, "part", None) == "test":
            tested = torch.tensor([m.test > 0 for m in self.roster.members])
            here = tested[edges[:, 1]]
            edges, beside = edges[here], beside_of(here, beside)
        return self.net.visit(kernel, beliefs, edges, key, slot, beside)
