"""FLTrust (Cao, Fang, Liu and Gong, 2021, "FLTrust: Byzantine-robust federated learning via trust
bootstrapping", arXiv:2012.13995), with one's own reply as the root.

    g_i = x_i - x,   x is what went out
    t_i = max(0, cos(g_i, g_0))                                                         trust
    x ← x + 1 / Σ_j t_j · Σ_i t_i (|g_0| / |g_i|) g_i                                   scaled_by_trust

g_0 is the root's. Cosines come from lengths and distances: 2 ⟨g_i, g_0⟩ = |g_i|² + |g_0|² - |x_i - x_0|².
Short replies are made longer, so that the share of what went out may be below 0. n > f: it holds against any
number of liars as long as the root is honest; the number f itself does not enter.

Deviations. The root has data of its own and takes part in the sum, with t_0 = 1; the paper's server only
compares. g_0 = 0: the root has nothing to learn, and its reply is taken. g_i = 0 has no direction: t_i = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.rules.base import RULES, Needs, Rule, more_than
from coterie.rules.identities import alone


@RULES.register("fltrust")
@dataclass(frozen=True)
class FLTrust(Rule):
    """All replies made as long as one's own, each counting as far as it points one's own way."""

    needs = Needs("n > f", more_than(1), reads="mine", origin=True, root=True)

    def weights(self, D: Tensor, f: int, me: int | None) -> Tensor:
        assert me is not None
        n = len(D) - 1
        squares = D[:n, n]
        if float(squares[me]) == 0:
            return alone(n + 1, me)
        return scaled_by_trust(trust(D[:n, me], squares, me), squares.sqrt(), me)


def trust(away: Tensor, squares: Tensor, me: int) -> Tensor:
    """max(0, cos(g_i, g_0)) from |x_i - x_0|² and |g_i|² [reply]; 1 for oneself, 0 where |g_i| = 0."""
    product = (squares + squares[me] - away) / 2
    lengths = (squares * squares[me]).sqrt()
    found = torch.where(lengths > 0, product / lengths, torch.zeros_like(lengths)).clamp(0, 1)
    found[me] = 1
    return found


def scaled_by_trust(trust: Tensor, lengths: Tensor, me: int) -> Tensor:
    """Weights [n+1] from trust and |g_i| [reply]."""
    scale = torch.where(trust > 0, lengths[me] / lengths, torch.zeros_like(lengths))
    w = trust * scale / trust.sum()
    return torch.cat([w, (1 - w.sum()).unsqueeze(0)])
