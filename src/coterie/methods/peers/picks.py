"""Drawing, picking and averaging peers, as pure functions. Axes are [receiver, sender]."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from coterie.core.errors import BadInput

Asked = list[list[Tensor]]  # [client][sampling] numbers of the clients drawn, in the order drawn


def alike(me: int, picked: Tensor, n: int) -> Tensor:
    """1 / (1 + |picked|) for oneself and each of the picked: [client]."""
    row = torch.zeros(n, dtype=torch.float64)
    row[me] = 1
    row[picked] = 1
    return row / row.sum()


def draw_others(n: int, me: int, size: int, generator: torch.Generator) -> Tensor:
    """`size` different clients other than oneself, in the order drawn."""
    drawn = torch.randperm(n - 1, generator=generator)[:size]
    return drawn + (drawn >= me)


def draw_from(pool: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """`size` different ones of the pool, or all, in the order drawn."""
    return pool[torch.randperm(len(pool), generator=generator)[:size]]


def highest(asked: Tensor, merit: Tensor, size: int) -> Tensor:
    """The `size` asked ones of highest merit [client]; of equals, who was drawn first, which is chance."""
    return asked[merit[asked].argsort(descending=True, stable=True)[:size]]


def counts(asked: Asked, n: int) -> Tensor:
    """[client, client] how often each has turned to each."""
    times = torch.zeros(n, n, dtype=torch.int64)
    for k, samplings in enumerate(asked):
        for sampling in samplings:
            times[k, sampling] += 1
    return times


def check_peers(
    option: str,
    asked: int,
    available: int,
    of: str = "the other clients",
    remedy: str = "lower it or add clients",
) -> None:
    if not 1 <= asked <= available:
        raise BadInput(f"{option}={asked} must lie between 1 and {available}, {of}: {remedy}")


def distinct(samplings: Sequence[Tensor]) -> list[int]:
    """Everybody in any of the samplings, once."""
    return sorted({j for sampling in samplings for j in sampling.tolist()})


def last_of(samplings: Sequence[Tensor]) -> Tensor:
    """The last sampling; nobody if there is none."""
    return samplings[-1] if samplings else torch.zeros(0, dtype=torch.int64)
