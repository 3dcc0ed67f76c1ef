"""The coordinate-wise median (Yin, Chen, Kannan and Bartlett, 2018, "Byzantine-robust distributed learning:
towards optimal statistical rates", arXiv:1803.01498).

    x[k] = median_i x_i[k]                                                              middle

n > 2f; of an even number, the mean of the two in the middle. The number f itself does not enter.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from coterie.rules.base import RULES, Needs, Rule, more_than


@RULES.register("median")
@dataclass(frozen=True)
class Median(Rule):
    """Of every weight of the model, the median over all replies."""

    needs = Needs("n > 2f", more_than(2), reads="nothing", opens=True)

    def summed(self, values: Tensor, n: int, f: int) -> Tensor:
        return middle(values)


def middle(values: Tensor) -> Tensor:
    """[...] the median of [reply, ...]."""
    ordered, n = values.sort(dim=0).values, len(values)
    return (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
