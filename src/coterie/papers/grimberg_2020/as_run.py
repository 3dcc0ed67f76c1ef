"""What the program of grimberg-2020 did otherwise than its text says; the paper's file says what for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from coterie.core.held import hold
from coterie.core.method import Info
from coterie.core.net import SERVER, Net, from_server
from coterie.core.seeds import Key
from coterie.data.holdout import hold_out
from coterie.methods import FedAvg, WeightErosion
from coterie.methods.server import fedavg
from coterie.papers.base import Preset


@dataclass(frozen=True)
class CompletedEpochs(WeightErosion):
    """as-run: the size penalty counts whole epochs, in which a short last batch is a round like any other."""

    def passes(self, rounds: Tensor, sizes: Tensor) -> Tensor:
        batch: int = self.local.batch  # type: ignore[attr-defined]
        return rounds // -(-sizes // batch)


@dataclass(frozen=True)
class WrongAxis(FedAvg):
    """as-run: Global with its wrong average."""

    def round(self, state: fedavg.State, net: Net, key: Key) -> tuple[fedavg.State, Info]:
        n = len(net.roster)
        replies = net.visit(self.local, state.beliefs, from_server(torch.arange(n)), key)
        before = net.open(state.beliefs)
        updates = {name: t - before[name] for name, t in net.open(replies.beliefs).items()}
        after = {name: before[name] + wrong_average(u) for name, u in updates.items()}
        shares = fedavg.averaging_weights(net.roster.sizes, weighted=False)
        return fedavg.State(hold(after, SERVER), None, n), fedavg.server_info(n, replies, shares)


def wrong_average(updates: Tensor) -> Tensor:
    """(Σ(Σ(Σ(u_0) + u_1) + u_2) + u_3) / 4 with Σ over the last axis, that of the features.

    Worked out from what is known of it: it adds up along a wrong axis, and four updates of ones for nine
    features give (1 + 9 + 81 + 729) / 4 = 205.
    """
    total = updates[0]
    for update in updates[1:]:
        total = total.sum(dim=-1, keepdim=True) + update
    return total / len(updates)


def by_batches(right: Tensor, batch: int) -> float:
    """The mean of the batches' accuracies; the last counts as much as the others."""
    return float(torch.stack([part.mean() for part in torch.split(right, batch)]).mean())


def halves(
    y: np.ndarray, rows: np.ndarray, preset: Preset, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(test, train): halves with the classes' shares, or 1 + ⌊n/2⌋ shuffled rows and the rest."""
    if preset == "text":
        kept, held = hold_out(y[rows], 0.5, rng, "the user")
        return rows[held], rows[kept]
    order = rng.permutation(rows)
    first = 1 + len(rows) // 2
    return order[:first], order[first:]
