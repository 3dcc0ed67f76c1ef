"""Survival: how long until an event, where many rows only say that it had not come yet.

Targets stay one number a row: +t where the event was seen at time t, -t where the row was watched until t
and no event was seen (censored). So whatever deals, stores or sends targets needs to know nothing of this.

A model gives each row a risk r_i, the logarithm of its hazard up to what all rows share: the higher, the
earlier the event. It is trained by the negative partial likelihood of Cox, 1972, "Regression models and
life-tables", with ties as in Breslow, 1974, "Covariance analysis of censored survival data":

    ℓ_i = e_i ( log Σ_{j: t_j ≥ t_i} exp r_j  -  r_i ),    L = Σ_i ℓ_i / n

e_i is 1 for an event and 0 for a censored row; the sum goes over the risk set, who was still watched at t_i,
rows that tie with i among them. L is the mean over all n rows of the batch, not over its events: every event
then counts alike in whichever batch it falls, where a mean over events would let the only one of a batch
count as much as all of another batch. Rows of a batch without an event give 0, and so does its gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

from coterie.core.devices import widest


def cox(outputs: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
    """ℓ [n] of outputs [n, 1] and signed times y [n]; rows of weight 0 are in nobody's risk set.

    Rows in the order of falling times, padding last: a risk set is then all rows up to the last of a tie, and
    one pass of log-sum-exp has the sums of all. In float64, as its backward pass takes logarithms too.
    """
    risk, time = outputs.squeeze(-1).to(widest(outputs.device)), y.abs()
    if weight is not None:
        time = torch.where(weight > 0, time, -1.0)
    order = time.argsort(descending=True, stable=True)
    sums = risk.gather(0, order).logcumsumexp(0)
    last = torch.searchsorted(-time.gather(0, order), -time, right=True) - 1
    return ((sums.gather(0, last) - risk) * (y > 0)).to(outputs.dtype)
