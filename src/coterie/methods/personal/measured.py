"""How far apart clients' models are, measured at the clients, which get them to mix anyway.

Client i measures with a model of its own as the origin: what it had before the round, or what it began with.
No model goes anywhere else for that, and the coordinator gets numbers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from coterie.core.held import Held
from coterie.core.net import Net, Replies


class Measured(NamedTuple):
    """[receiver, sender] among those that answered: from the receiver's reply to each sender's, and from the
    receiver's origin to each sender's reply.
    """

    apart: Tensor
    lengths: Tensor


def seen_from(client: int, replies: Replies, origin: Held) -> Replies:
    """The replies as if all had answered what `client` has in `origin` [client, ...], at home."""
    guests = torch.full_like(replies.hosts, client)
    return replace(replies, edges=torch.stack([guests, replies.hosts], dim=1), origin=origin)


def measure(net: Net, replies: Replies, origin: Held) -> Measured:
    """Everybody that answered measures all that did."""
    rows = [
        net.distances(seen_from(client, replies, origin), torch.tensor([row]), client)
        for row, client in enumerate(replies.hosts.tolist())
    ]
    return Measured(torch.stack([r.apart[:, 0] for r in rows]), torch.stack([r.lengths for r in rows]))


def cosines(measured: Measured) -> Tensor:
    """cos(a_i, a_j) of changes from the receiver's origin, by ‖a_i - a_j‖² = ‖a_i‖² + ‖a_j‖² - 2 ⟨a_i, a_j⟩.

    A model that has not moved is like none but itself: 0, and 1 on the diagonal.
    """
    apart, theirs = measured
    mine = theirs.diagonal().unsqueeze(1)
    both = mine * theirs
    found = (mine.square() + theirs.square() - apart.square()) / (2 * torch.where(both > 0, both, 1.0))
    alike = torch.where(both > 0, found, 0.0).clamp(-1, 1)
    return alike.fill_diagonal_(1.0)


def laid_out(matrix: Tensor, hosts: Tensor, n: int, empty: float = float("nan")) -> Tensor:
    """[receiver, sender] of those that answered, among all n clients."""
    out = torch.full((n, n), empty, dtype=torch.float64)
    out[hosts.unsqueeze(1), hosts] = matrix.double()
    return out
