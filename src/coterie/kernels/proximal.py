"""Local work that is held near an anchor.

    g ← ∇L(θ) + μ (θ - θ_anchor)

μ is `strength`; the anchor is what the visit has beside it under the name `anchor`. The work inside does the
rest. The term is that of Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith, 2020, "Federated optimization in
heterogeneous networks", the gradient of μ/2 ‖θ - θ_anchor‖².
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from coterie.core.belief import Belief
from coterie.core.errors import BadInput
from coterie.core.kernel import KERNELS, Carry, Tick, Trainer
from coterie.core.learner import Batch, Gradient, Learner
from coterie.kernels.around import Around
from coterie.kernels.sgd import SGD

ANCHOR = "anchor"


@KERNELS.register("proximal")
@dataclass(frozen=True)
class Proximal(Around):
    """The same work, pulled towards an anchor."""

    inner: Trainer = SGD()
    """The local work itself."""
    strength: float = 0.1
    """How strong the pull is."""

    def __post_init__(self) -> None:
        if not 0 <= self.strength < math.inf:
            raise BadInput(f"strength={self.strength} must be at least 0 and finite: try 0.1")

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        if ANCHOR not in beside:
            raise BadInput(f"proximal work needs a belief beside it, named {ANCHOR!r}: give one to the visit")
        carry = super().start(belief, memory, beside)
        book = {"book": carry.pop("book")} if "book" in carry else {}  # a book comes last
        return {**carry, ANCHOR: dict(beside[ANCHOR]), **book}

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        return super().step(pulled(learner, carry[ANCHOR], self.strength), carry, batch, tick)


def pulled(learner: Learner, anchor: Belief, strength: float) -> Learner:
    """A learner whose gradients have the pull in them."""
    made, plain = copy.copy(learner), learner.gradient

    def gradient(belief: Belief, batch: Batch, seed: Tensor) -> Gradient:
        found = plain(belief, batch, seed)
        grads = {n: g + strength * (belief[n] - anchor[n]) for n, g in found.grads.items()}
        return found._replace(grads=grads)

    made.gradient = gradient  # type: ignore[method-assign]
    return made
