"""Bulyan on Krum (El Mhamdi, Guerraoui and Rouault, 2018, "The hidden vulnerability of distributed learning
in Byzantium", arXiv:1802.07927).

    1.  take Krum's best reply out of those that are left, n - 2f times                 picked_by_krum
    2.  x[k] = mean of the n - 4f values of these nearest to their median               around_median

n >= 4f + 3. Of k replies left, Krum looks at the k - f - 2 nearest others, and at one at least: at the end
of step 1 fewer may be left than Krum alone would need. Of equal scores the lower number goes first.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.rules.base import RULES, Needs, Rule
from coterie.rules.krum import krum_scores
from coterie.rules.meamed import around_median


@RULES.register("bulyan")
@dataclass(frozen=True)
class Bulyan(Rule):
    """Krum's n - 2f best replies; of every weight of the model, the mean of n - 4f around their median."""

    needs = Needs("n >= 4f + 3", lambda f: 4 * f + 3, opens=True)

    def chosen(self, D: Tensor, f: int) -> Tensor:
        n = len(D) - 1
        return picked_by_krum(D[:n, :n], f, n - 2 * f)

    def summed(self, values: Tensor, n: int, f: int) -> Tensor:
        return around_median(values, n - 4 * f)


def picked_by_krum(D: Tensor, f: int, many: int) -> Tensor:
    """So many replies, by one Krum after the other on what is left; their numbers in order."""
    left, found = torch.arange(len(D)), list[int]()
    for _ in range(many):
        scores = krum_scores(D[left][:, left], max(1, len(left) - f - 2))
        best = int(scores.argmin())
        found.append(int(left[best]))
        left = torch.cat([left[:best], left[best + 1 :]])
    return torch.tensor(sorted(found))
