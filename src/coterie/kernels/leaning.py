"""Local work that leans towards the direction of the belief that came.

    g ← ∇L(θ) - λ ∇ cos(θ, a),    ∇ cos(θ, a) = (a / ‖a‖ - cos(θ, a) θ / ‖θ‖) / ‖θ‖

λ is `strength`, a the belief as it came; norms and products are over all trained parameters. The length of θ
is left alone. Where θ or a is 0 there is no direction, and no pull. The term is that of Ye et al., 2023: see
`methods/personal/pfedgraph.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.belief import Belief
from coterie.core.kernel import KERNELS, Carry, Tick, Trainer
from coterie.core.learner import Batch, Learner, with_term
from coterie.core.options import bounded, check_options
from coterie.kernels.around import AsCostly
from coterie.kernels.sgd import SGD

CAME = "came"


@KERNELS.register("leaning")
@dataclass(frozen=True)
class Leaning(AsCostly):
    """The same work, pulled towards the direction of what came."""

    inner: Trainer = SGD()
    """The local work itself."""
    strength: float = bounded(0.01, "be at least 0 and finite", "try 0.01")
    """How strong the pull is."""

    def __post_init__(self) -> None:
        check_options(self)

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        carry = super().start(belief, memory, beside)
        book = {"book": carry.pop("book")} if "book" in carry else {}  # a book comes last
        return {**carry, CAME: dict(belief), **book}

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        return super().step(_leaning(learner, carry[CAME], self.strength), carry, batch, tick)


def _leaning(learner: Learner, towards: Belief, strength: float) -> Learner:
    """A learner whose gradients have the pull in them."""

    def pull(belief: Belief) -> dict[str, Tensor]:
        slope = cosine_slope([belief[n] for n in learner.trainable], [towards[n] for n in learner.trainable])
        return {n: -strength * s for n, s in zip(learner.trainable, slope, strict=True)}

    return with_term(learner, pull)


def cosine_slope(theta: list[Tensor], a: list[Tensor]) -> list[Tensor]:
    """∇_θ cos(θ, a), of vectors in pieces."""
    own, other = _length(theta), _length(a)
    cosine = torch.stack([(t * v).sum() for t, v in zip(theta, a, strict=True)]).sum() / (own * other)
    slopes = [(v / other - cosine * t / own) / own for t, v in zip(theta, a, strict=True)]
    return [s.masked_fill((own == 0) | (other == 0), 0.0) for s in slopes]


def _length(pieces: list[Tensor]) -> Tensor:
    return torch.stack([t.square().sum() for t in pieces]).sum().sqrt()
