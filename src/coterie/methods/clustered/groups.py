"""Clients in groups, laid out [receiver, sender]: what methods that make clusters have in common."""

from __future__ import annotations

import torch
from torch import Tensor

NOT_YET = -1  # in the place of a group: that client is in none so far


def by_client(rows: Tensor, hosts: Tensor, of: Tensor, n: int) -> Tensor:
    """[receiver, sender] who listened to whom, from weights [group, reply] of replies from `hosts` [reply]
    and the receivers' groups [client]; rows add up to 1, or to 0 where nothing was heard.
    """
    out = torch.zeros(n, n, dtype=torch.float64)
    there = of != NOT_YET
    mine = rows[of[there]].double()
    total = mine.sum(dim=1, keepdim=True)
    heard = torch.zeros(len(mine), n, dtype=torch.float64)
    heard[:, hosts] = torch.where(total > 0, mine / total, 0.0)
    out[there] = heard
    return out


def same_group(of: Tensor) -> Tensor:
    """[receiver, sender] 1 for whom a client takes for its own kind: all of its group."""
    alike = (of.unsqueeze(1) == of) & (of != NOT_YET)
    return alike.double()
