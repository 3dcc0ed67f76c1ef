"""What a client's say in a weight comes to, from how far the weight moved there.

SWAG's variance v is how far a weight moved while states were collected. Read as a posterior's, it makes a
client surest of what never moved; but a weight also rests where the data say nothing of it, for instance
behind an input that is always 0. Three ways to go about it:

    raise       Λ = 1 / max(v, f)                            the authors' clamp, f = 1e-6        `raised`
    fade        Λ = r / (v + f) + (1 - r) λ,  r = v / (v + f)                                    `faded`
    variance    μ_S = Σ_i w_i μ_i / Σ_i w_i,  w_i = max(v_i, 1e-6)                               `by_variance`

f is `floor`, λ `unknown`. To fade is to send N(μ, v + f) to the power r times N(μ, 1/λ) to the power 1 - r:
of what moved far beyond f a client says what it found, of what did not move only that it knows nothing. Its
say is greatest about v = f and falls to both sides. A weight that nobody moved keeps the plain mean, with the
precision Σ_i λ_i: with λ = 1/b for each of b clients a unit Gaussian, of which each sends its share, so that
those who know nothing of a weight weigh no more than that together.

Weighing by variance is for the mean alone. The spread about it stays that of the product: a variance is no
precision, so that Σ_i w_i says nothing of how sure the mean is.

Fading and weighing by variance are ours and not the paper's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from coterie.core.belief import Belief
from coterie.posteriors.slots import flat, slots_of, tree

Below = Literal["fade", "raise"]
Weigh = Literal["precision", "variance"]

UNKNOWN = 1.0  # precision of a weight of which nobody knows anything
LEAST = 1e-6  # variance of a weight that did not move, where variances weigh


def raised(variance: Tensor, floor: float) -> Tensor:
    """max(v, f)."""
    return variance.clamp(min=floor)


def faded(variance: Tensor, floor: float, unknown: float = UNKNOWN) -> Tensor:
    """1 / (r / (v + f) + (1 - r) λ), r = v / (v + f); a floor of 0 leaves v."""
    if floor == 0:
        return variance
    wider = variance + floor
    moved = variance / wider
    return 1 / (moved / wider + (1 - moved) * unknown)


def weight_of(variance: Tensor) -> Tensor:
    """w = max(v, 1e-6): who moved a weight further counts for more in it."""
    return variance.clamp(min=LEAST)


def centre(weighed: Tensor, weight: Tensor) -> Tensor:
    """Σ_i w_i μ_i / Σ_i w_i, from the two sums."""
    return weighed / weight


def by_variance(means: Sequence[Belief], variances: Sequence[Belief]) -> Belief:
    """Σ_i w_i μ_i / Σ_i w_i with w_i = max(v_i, 1e-6), parameter by parameter: the mean of weigh=variance."""
    slots = slots_of(variances[0])
    weights = weight_of(torch.stack([flat(slots, v) for v in variances]))
    mus = torch.stack([flat(slots, {n: m[n] for n in variances[0]}) for m in means])
    return tree(slots, centre((weights * mus).sum(dim=0), weights.sum(dim=0)))
