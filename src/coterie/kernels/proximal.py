"""Local work that is held near an anchor.

    g ← ∇L(θ) + μ (θ - θ_anchor)

μ is `strength`; the anchor is what the visit has beside it under the name `anchor`. The work inside does the
rest. The term is that of Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith, 2020, "Federated optimization in
heterogeneous networks", the gradient of μ/2 ‖θ - θ_anchor‖².
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from coterie.core.belief import Belief
from coterie.core.errors import BadInput
from coterie.core.kernel import KERNELS, Carry, Tick, Trainer
from coterie.core.learner import Batch, Learner, with_term
from coterie.core.options import bounded, check_options
from coterie.kernels.around import AsCostly
from coterie.kernels.sgd import SGD

ANCHOR = "anchor"


@KERNELS.register("proximal")
@dataclass(frozen=True)
class Proximal(AsCostly):
    """The same work, pulled towards an anchor."""

    inner: Trainer = SGD()
    """The local work itself."""
    strength: float = bounded(0.1, "be at least 0 and finite", "try 0.1")
    """How strong the pull is."""

    def __post_init__(self) -> None:
        check_options(self)

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        if ANCHOR not in beside:
            raise BadInput(f"proximal work needs a belief beside it, named {ANCHOR!r}: give one to the visit")
        carry = super().start(belief, memory, beside)
        book = {"book": carry.pop("book")} if "book" in carry else {}  # a book comes last
        return {**carry, ANCHOR: dict(beside[ANCHOR]), **book}

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        return super().step(pulled(learner, carry[ANCHOR], self.strength), carry, batch, tick)


@KERNELS.register("tethered")
@dataclass(frozen=True)
class Tethered(Proximal):
    """The same work, pulled towards the belief that it began with."""

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        return super().start(belief, memory, {**beside, ANCHOR: belief})


def pulled(learner: Learner, anchor: Belief, strength: float) -> Learner:
    """A learner whose gradients have the pull in them."""

    def pull(belief: Belief) -> dict[str, Tensor]:
        return {n: strength * (belief[n] - anchor[n]) for n in learner.trainable}

    return with_term(learner, pull)
