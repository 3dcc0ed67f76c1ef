"""What looking at rows costs them: a mechanism with noise, and how many times it ran.

A kernel that adds noise says its cost by a method `charges(samples)`; what the costs of many visits come to
is `privacy/accounting.py`'s to say. A kernel without that method gives no bound at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Charge:
    """Gaussian noise on a sum in which one unit counts for no more than a bound.

    sigma   standard deviation of the noise over that bound
    rate    chance with which a row is drawn into a batch; 1: every row is in
    cap     rows in a batch at the most, further ones are left out; 0: there is no cap
    rows    how many rows batches are drawn from; only a cap makes it matter
    times   how often
    unit    what the noise hides: one row, or all rows of a client at once
    """

    sigma: float
    rate: float = 1.0
    cap: int = 0
    rows: int = 0
    times: int = 1
    unit: Literal["row", "client"] = "row"
