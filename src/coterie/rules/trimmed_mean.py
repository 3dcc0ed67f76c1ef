"""The coordinate-wise trimmed mean (Yin, Chen, Kannan and Bartlett, 2018, "Byzantine-robust distributed
learning: towards optimal statistical rates", arXiv:1803.01498).

    x[k] = mean of x_i[k] without the f largest and the f smallest                      trimmed

n > 2f.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from coterie.rules.base import RULES, Needs, Rule, more_than


@RULES.register("trimmed-mean")
@dataclass(frozen=True)
class TrimmedMean(Rule):
    """Of every weight of the model, the mean without the f largest and f smallest."""

    needs = Needs("n > 2f", more_than(2), reads="nothing", opens=True)

    def summed(self, values: Tensor, n: int, f: int) -> Tensor:
        return trimmed(values, f)


def trimmed(values: Tensor, f: int) -> Tensor:
    """[...] the trimmed mean of [reply, ...]."""
    return values.sort(dim=0).values[f : len(values) - f].mean(dim=0)
