"""What was collected, as a Gaussian or as draws: pure functions on a reply of `Gather`.

    N(θ̄, T (½ Σ_diag + D̂ D̂ᵀ / (2 (K - 1))))        (Maddox et al., 2019, Eq. 2)
    θ = θ̄ + √(T/2) (Σ_diag^½ z₁ + D̂ z₂ / √(K - 1)),   z₁ ~ N(0, I_d), z₂ ~ N(0, I_K)

θ̄ is `mean`, Σ_diag `variance`, D̂ `deviations` [column, ...], T `temperature`. K is the number of columns that
were written, so that a ring not yet full is no bias. Without the low rank the covariance is T Σ_diag, whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.belief import Belief, Beliefs
from coterie.core.errors import BadInput
from coterie.core.seeds import Key
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
    """The columns of a ring that were written, oldest first: [column, ...]."""
    ring: list[Tensor] = []
    while (entry := f"{kind}/{len(ring)}/{name}") in reply:
        ring.append(reply[entry])
    first = columns % len(ring) if columns > len(ring) > 0 else 0
    written = (ring[first:] + ring[:first])[:columns]
    return torch.stack(written) if written else torch.empty(0)


def factor(posterior: Collected) -> Beliefs:
    """D̂ / √(K - 1), whose square is the covariance of low rank: [column, ...]."""
    columns = len(next(iter(posterior.deviations.values()), ()))
    if columns < 2:
        raise BadInput(
            f"a covariance of low rank needs at least 2 deviations; got {columns}: "
            "raise rank, take more steps or lower every"
        )
    return {n: d / math.sqrt(columns - 1) for n, d in posterior.deviations.items()}


def enough(posterior: Collected) -> None:
    """Refuses what has no variance."""
    if posterior.count < 2:
        raise BadInput(
            f"a variance needs at least 2 collected states; got {posterior.count}: "
            "take more steps, lower every or lower burn"
        )


def draw(
    posterior: Collected, samples: int, key: Key, *, low_rank: bool = True, temperature: float = 1.0
) -> Beliefs:
    """So many models from the Gaussian, stacked; buffers are the mean's, for `Refresh` to renew."""
    if not 0 <= temperature < math.inf:
        raise BadInput(f"temperature={temperature} must be at least 0 and finite: try 1")
    tilted = factor(posterior) if low_rank else {}
    enough(posterior)
    like = next(iter(posterior.variance.values()))
    columns = len(next(iter(tilted.values()), ()))
    common = normal(samples, (columns,), key.at("low rank"), like)
    drawn = {n: t.expand(samples, *t.shape).clone() for n, t in posterior.mean.items()}
    for n, variance in posterior.variance.items():
        away = variance.sqrt() * normal(samples, tuple(variance.shape), key.at("diagonal", n), variance)
        if low_rank:
            away = (away + torch.tensordot(common.to(variance.dtype), tilted[n], dims=1)) / math.sqrt(2)
        drawn[n] = drawn[n] + math.sqrt(temperature) * away
    return drawn


def normal(samples: int, shape: tuple[int, ...], key: Key, like: Tensor) -> Tensor:
    """Standard normal numbers [sample, ...], drawn in float64 so that every dtype sees the same."""
    return torch.randn(samples, *shape, generator=key.torch(), dtype=torch.float64).to(like)
