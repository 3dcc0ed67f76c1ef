"""A shared and a personal model trained side by side, and used mixed: Deng, Kamani and Mahdavi, 2020,
"Adaptive personalized federated learning", Algorithm 1 and equation 10.

    w ← w - η ∇L(w)
    v ← v - η α ∇L(v̄),            v̄ = α v + (1 - α) w
    α ← α - η_α ⟨v - w, ∇L(v̄)⟩    kept within 0 and 1

for each batch, w and v by steps of the work inside. The belief that visits is w, and so is the reply; v is
beside the visit under the name `own`, α under `alpha`. The reply has v under `own/`, v̄ under `mixed/`, and
α. η_α is `alpha_lr`, falling with the schedule as η does; 0 leaves α as it is. What is not trained (batch
norm's statistics) is v's own in v̄. The loss told is that of v̄.

As in the authors' program, v̄ has w after its step (in the text, before), and both models see the same batch.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.belief import Belief
from coterie.core.devices import widest
from coterie.core.errors import BadInput
from coterie.core.kernel import KERNELS, Carry, Reply, Tick, Trainer
from coterie.core.learner import Batch, Gradient, Learner
from coterie.core.options import bounded, check_options
from coterie.kernels.around import Around, numbers_of
from coterie.kernels.local import check_plain
from coterie.kernels.sgd import SGD
from coterie.kernels.taken import OWN, under

MIXED, ALPHA = "mixed/", "mixture/alpha"
SIDES = ("shared", "own")


@KERNELS.register("mixture")
@dataclass(frozen=True)
class Mixture(Around):
    """Two models trained on the same batches, the second through its mixture with the first."""

    compares: ClassVar[bool] = True  # its numbers tell how beliefs differ
    tells: ClassVar[str] = "the last step"  # of which its numbers tell more than of others

    inner: Trainer = SGD()
    """The work on both models: sgd, adam or adamw."""
    alpha_lr: float = bounded(0.1, "be at least 0 and finite", "try 0.1, or 0 for a fixed")
    """Learning rate of the mixture's weight; 0 leaves it as it is."""

    def __post_init__(self) -> None:
        check_options(self)
        check_plain("apfl", self.inner)

    @property
    def gradients(self) -> int:
        """Of one step: one for each model."""
        return 2

    @property
    def numbers(self) -> tuple[str, ...]:
        return (*numbers_of(self.inner), "alpha")

    def fresh(self, learner: Learner, belief: Belief) -> Belief:
        one = super().fresh(learner, belief)
        return {f"{side}:{n}": t for side in SIDES for n, t in one.items()}

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        if not {"own", "alpha"} <= beside.keys():
            raise BadInput("mixture needs beliefs beside it, named 'own' and 'alpha': give them to the visit")
        begun = dict[str, Carry]()
        for side, first in zip(SIDES, (belief, beside["own"]), strict=True):
            mine = {n.removeprefix(f"{side}:"): t for n, t in memory.items() if n.startswith(f"{side}:")}
            begun[side] = super().start(first, mine, {})
        return {**begun, "alpha": beside["alpha"][ALPHA], "mixed": dict(beside["own"])}

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        alpha, before = carry["alpha"], carry["own"]["belief"]
        shared = super().step(learner, carry["shared"], batch, tick)
        w, v = ({n: b[n] for n in learner.trainable} for b in (shared["belief"], before))
        found = learner.gradient({**before, **mixed(v, w, alpha)}, batch, tick.seed)
        through = {n: alpha.to(g.dtype) * g for n, g in found.grads.items()}
        own = super().step(_giving(learner, found._replace(grads=through)), carry["own"], batch, tick)
        now = (alpha - self.alpha_lr * tick.rate.to(alpha.dtype) * alpha_slope(v, w, found.grads)).clamp(0, 1)
        after: Belief = own["belief"]
        both = {**after, **mixed({n: after[n] for n in w}, w, now)}
        return {"shared": shared, "own": own, "alpha": now, "mixed": both}

    def finish(self, carry: Carry) -> Reply:
        shared, own = (super(Mixture, self).finish(carry[side]) for side in SIDES)
        memory = {**under("shared:", shared.memory), **under("own:", own.memory)}
        models = {**shared.belief, **under(OWN, own.belief), **under(MIXED, carry["mixed"])}
        return Reply({**models, ALPHA: carry["alpha"]}, memory, {**own.numbers, "alpha": carry["alpha"]})


def mixed(v: Belief, w: Belief, alpha: Tensor) -> dict[str, Tensor]:
    """v̄ = α v + (1 - α) w."""
    return {n: alpha.to(t.dtype) * t + (1 - alpha).to(t.dtype) * w[n] for n, t in v.items()}


def alpha_slope(v: Belief, w: Belief, grads: Belief) -> Tensor:
    """∂L(v̄) / ∂α = ⟨v - w, ∇L(v̄)⟩."""
    wide = widest(next(iter(v.values())).device)
    return torch.stack([((v[n] - w[n]) * grads[n]).to(wide).sum() for n in v]).sum()


def _giving(learner: Learner, gradient: Gradient) -> Learner:
    """A learner whose gradient is known already."""
    made = copy.copy(learner)
    made.gradient = lambda belief, batch, seed: gradient  # type: ignore[method-assign]
    return made
