"""What `Gather` brought home, read; `posteriors.from_collected` makes a Gaussian of it to draw from."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.belief import Belief, Beliefs
from coterie.core.errors import BadInput
from coterie.kernels.bayes import COUNTERS

KINDS = ("variance/", "deviation/", "draw/")


@dataclass(frozen=True, eq=False)
class Collected:
    """mean      a whole model, with its buffers
    variance     of each trained parameter, at least 0
    deviations   of each trained parameter from the mean of its time, [column, ...], oldest first
    draws        the last states of a sampler, stacked, oldest first
    count        how many states the moments are of
    """

    mean: Belief
    variance: Belief
    deviations: Beliefs
    draws: Beliefs
    count: int


def collected(reply: Belief) -> Collected:
    """One reply of `Gather`, read."""
    if "count" not in reply:
        raise BadInput("the belief brings no moments: visit with Gather(kernel), for a kernel that collects")
    mean = {n: t for n, t in reply.items() if n not in COUNTERS and not n.startswith(KINDS)}
    variance = {n: reply[f"variance/{n}"].clamp(min=0) for n in mean if f"variance/{n}" in reply}
    columns = int(reply["columns"])
    return Collected(
        mean,
        variance,
        {n: d for n in variance if len(d := ring_of(reply, "deviation", n, columns))},
        {n: d for n in variance if len(d := ring_of(reply, "draw", n, columns))},
        int(reply["count"]),
    )


def ring_of(reply: Belief, kind: str, name: str, columns: int) -> Tensor:
    """Of the columns ever made, those that were kept, oldest first: [column, ...]."""
    kept: list[Tensor] = []
    while len(kept) < columns and (entry := f"{kind}/{len(kept)}/{name}") in reply:
        kept.append(reply[entry])
    return torch.stack(kept[::-1]) if kept else torch.empty(0)
