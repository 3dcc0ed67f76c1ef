"""What was mixed in a round, beside what was planned: the notes of `ownership.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from coterie.core.belief import Weights
from coterie.core.held import COORDINATOR, Held
from coterie.sealed.guard import Guard


class Notes:
    """What a wrapper remembers of a round.

    kept_out (site, receiver): out of a sum or a circle by decision, in the order in which it showed
    sent     {id of a reply: the handle and row that went out}
    sums     {receiver: [site] weights that were planned, and those of who stayed}
    guard    what receivers have got
    """

    def __init__(self) -> None:
        self.withdrawals: list[dict[str, Any]] = []
        self.kept_out: dict[tuple[int, int], None] = {}
        self.sent: dict[int, tuple[Held, int]] = {}
        self.sums: dict[int, tuple[Tensor, Tensor]] = {}
        self.guard = Guard(1.0)

    def count(self, weights: Weights, stays: Tensor, beliefs: Held, at: Tensor) -> None:
        by_name = [weights] if isinstance(weights, Tensor) else list(weights.values())
        size = torch.stack([w.detach().double().abs() for w in by_name]).amax(dim=0)
        owners = torch.stack([part.places for part in beliefs.parts]).amax(dim=0) + 1  # 0: the coordinator
        many = int(owners.max()) + 1
        for place in dict.fromkeys(at.tolist()):
            here = at == place
            planned, kept = (
                torch.zeros(many, dtype=torch.float64).index_add_(0, owners, w[here].sum(dim=0))
                for w in (size, size * stays)
            )
            if place in self.sums:
                planned, kept = (added(a, b) for a, b in zip((planned, kept), self.sums[place], strict=True))
            self.sums[place] = planned, kept

    def anew(self) -> None:
        """What was begun of a round does not count."""
        self.withdrawals, self.kept_out, self.sums = [], {}, {}

    def over(self, live: Sequence[Held]) -> None:
        ids = {int(id) for held in live for part in held.parts for id in part.ids}
        self.sent.clear()
        for got in self.guard.got.values():
            for name in [n for n in got if int(n.partition("/")[2]) not in ids]:
                del got[name]


def added(left: Tensor, right: Tensor) -> Tensor:
    """Of different lengths."""
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    return longer.index_add(0, torch.arange(len(shorter)), shorter)


def really(weights: Tensor, sums: Mapping[int, tuple[Tensor, Tensor]]) -> Tensor:
    """[receiver, sender] of plans, {receiver: planned and kept weights by site, the coordinator first}."""
    for place, (planned, kept) in sums.items():
        if torch.equal(planned, kept):
            continue
        stayed = torch.ones(1 + weights.shape[1], dtype=torch.float64)
        known = torch.where(planned > 0, kept / planned.clamp(min=1e-300), torch.ones_like(planned))
        stayed[: len(known)] = known
        rows = torch.arange(len(weights)) if place == COORDINATOR else torch.tensor([place])
        before = weights[rows]
        now = before * stayed[1:].to(before.dtype)
        total = now.sum(dim=1, keepdim=True)
        scale = torch.where(total > 0, before.sum(dim=1, keepdim=True) / total.clamp(min=1e-30), total)
        weights = weights.index_copy(0, rows, now * scale)
    return weights
