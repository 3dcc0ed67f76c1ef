"""A net wrapped: some clients never answer, not even to be scored; for a run without who has withdrawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from coterie.core.errors import BadInput
from coterie.core.held import Held
from coterie.core.kernel import Kernel
from coterie.core.method import ALL, Method
from coterie.core.net import WRAPS, Beside, Net, Replies
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.nets.absent import among
from coterie.nets.offers import chosen
from coterie.nets.wrapped import Wrapped

WHY = "left out of this run"


@WRAPS.register("without")
@dataclass(frozen=True, eq=False)
class Without(Wrapped):
    """Leaves clients out of a run; the others keep their numbers, and so their random numbers."""

    names: str = ""
    """Who is left out, by names as in a+b."""

    here: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.check(self.names)
        here = torch.ones(len(self.net.roster), dtype=torch.bool)
        here[list(chosen(self.net.roster.names, self.names))] = False
        if not bool(here.any()):
            raise BadInput(f"without={self.names} leaves nobody: leave somebody in")
        object.__setattr__(self, "here", here)

    @staticmethod
    def check(names: str = "") -> None:
        if not names:
            raise BadInput("without names nobody to leave out: write --wrap without:names=a+b")

    @staticmethod
    def admit(method: Method, roster: Roster, **options: Any) -> None:
        asking = getattr(method, "requester", ALL)
        gone = [roster.names[i] for i in sorted(chosen(roster.names, str(options.get("names", ""))))]
        if asking in gone:
            raise BadInput(f"requester={asking} is left out of the run: let somebody else ask")

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        edges, beside = among(self.here, beliefs, edges, beside)
        return self.net.visit(kernel, beliefs, edges, key, slot, beside)

    def in_one_place(self, groups: Sequence[Sequence[int]]) -> Net:
        left = [[site for site in group if self.here[site]] for group in groups]
        if not all(left):
            raise BadInput("all clients of a group are left out, and their rows are needed: leave one in")
        return self.net.in_one_place(left)

    def away(self) -> Mapping[str, str]:
        out = {
            name: WHY for name, here in zip(self.roster.names, self.here.tolist(), strict=True) if not here
        }
        return {**self.net.away(), **out}
