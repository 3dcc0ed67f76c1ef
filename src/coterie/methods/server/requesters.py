"""A model for each requester, which lives with it: what `weight_erosion` and `robust_personal` share.

A requester's belief visits all clients; replies go from client to requester, which measures and mixes them.
If one client alone asks, its model is everybody's; else each asks for itself, at as many times the work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from coterie.core.contract import Held, Models, Net, Replies, Trainer
from coterie.core.errors import BadInput
from coterie.core.facts import ALL
from coterie.core.method import asking, first_of, handed_out

ROOM = 2**27  # bytes of replies that are held at a time
T = TypeVar("T")


def check_keeps(local: Trainer, requester: str) -> None:
    if local.keeps and requester == ALL:
        raise BadInput(
            "keep=true needs one requester, as a client keeps one optimiser's state: "
            "name it with requester, or set keep=false"
        )


def first_at_home(requester: str, start: Held, net: Net) -> Held:
    """[requester, ...] what each begins with."""
    if requester == ALL:
        return handed_out(start, net)
    return net.deliver(first_of(start), torch.tensor([0]), asking(requester, net.roster.names))


def guests_of(requester: str, beliefs: Held, clients: int) -> Held:
    """The beliefs as they visit: guests go by the numbers of requesters, so that alone one draws the random
    numbers that it draws among all.
    """
    return beliefs if requester == ALL else beliefs.spread(clients)


def by_room(requesters: Sequence[T], beliefs: Held, clients: int) -> Iterator[Sequence[T]]:
    """As many at a time as have their replies in `ROOM` together."""
    a_belief = sum(t[0].numel() * t.element_size() for t in beliefs.like.values())
    at_once = max(1, ROOM // (clients * a_belief))
    for first in range(0, len(requesters), at_once):
        yield requesters[first : first + at_once]


def by_requester(replies: Replies, requesters: Sequence[int]) -> dict[int, Replies]:
    """Of a visit for several of them, each one's replies by its number."""
    return {r: replies.only((replies.guests == r).nonzero().flatten()) for r in requesters}


def rows_of(who: Sequence[int], rows: Sequence[Tensor], empty: float = math.nan) -> Tensor:
    """Requesters' rows as a matrix [receiver, sender]."""
    matrix = torch.full((len(rows[0]), len(rows[0])), empty, dtype=torch.float64)
    return matrix.index_copy(0, torch.tensor(who), torch.stack(list(rows)).double())


def models_for(requester: str, beliefs: Held, clients: int) -> Models:
    """Each client's own, or that of the one that asks for all."""
    if requester == ALL:
        return Models(beliefs, of=torch.arange(clients))
    return Models(beliefs, of=torch.zeros(clients, dtype=torch.int64), shared=beliefs)


def own_losses(requester: str, losses: Sequence[Tensor]) -> Tensor:
    """[client] of a client's model on its own data, from requesters' losses by client."""
    return torch.stack(list(losses)).diagonal().clone() if requester == ALL else losses[0]
