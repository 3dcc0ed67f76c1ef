"""Nearest-neighbour mixing (Allouah, Farhadkhani, Guerraoui, Gupta, Pinot and Stephan, 2023, "Fixing by
mixing: a recipe for optimal Byzantine ML under heterogeneity", arXiv:2302.01772), a step before a rule.

    y_i = mean of the n - f replies nearest to x_i, itself among them                   neighbourhoods

Then another rule goes on with y in the place of x: "nnm+krum". n > 2f. Where honest replies differ, as those
of unlike clients do, y of the honest lie nearer together, and fewer of them pass for liars. Of replies
equally near the lower number goes first.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.rules.base import RULES, Needs, Rule, more_than


@RULES.register("nnm")
@dataclass(frozen=True)
class NNM(Rule):
    """A step before a rule: each reply becomes the mean of its n - f nearest."""

    needs = Needs("n > 2f", more_than(2), before=True)

    def mixing(self, D: Tensor, f: int) -> Tensor:
        n = len(D) - 1
        made = torch.eye(n + 1, dtype=torch.float64)
        made[:n, :n] = neighbourhoods(D[:n, :n], n - f)
        return made


def neighbourhoods(D: Tensor, many: int) -> Tensor:
    """[reply, reply] rows with 1 / many for the nearest by squared distances D, oneself first."""
    near = D.clone().fill_diagonal_(-1.0).argsort(dim=1, stable=True)[:, :many]
    return torch.zeros(len(D), len(D), dtype=torch.float64).scatter_(1, near, 1 / many)
