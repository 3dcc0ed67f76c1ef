"""The mean around the median (Xie, Koyejo and Gupta, 2018, "Generalized Byzantine-tolerant SGD",
arXiv:1802.10116).

    x[k] = mean of the n - f values x_i[k] nearest to their median                      around_median

n > 2f. Of values equally near the lower number goes first.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from coterie.rules.base import RULES, Needs, Rule, more_than
from coterie.rules.median import middle


@RULES.register("meamed")
@dataclass(frozen=True)
class Meamed(Rule):
    """Of every weight of the model, the mean of the n - f nearest to the median."""

    needs = Needs("n > 2f", more_than(2), reads="nothing", opens=True)

    def summed(self, values: Tensor, n: int, f: int) -> Tensor:
        return around_median(values, n - f)


def around_median(values: Tensor, many: int) -> Tensor:
    """[...] the mean of so many of [reply, ...] around the median."""
    near = (values - middle(values)).abs().argsort(dim=0, stable=True)[:many]
    return values.gather(0, near).mean(dim=0)
