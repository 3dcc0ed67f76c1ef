"""Steps towards a model from which one gradient step does well: Fallah, Mokhtari and Ozdaglar, 2020,
"Personalized federated learning with theoretical guarantees: a model-agnostic meta-learning approach",
Algorithm 1.

    w̃ ← w - α ∇L_D(w)
    w ← w - β (I - α ∇²L_D″(w)) ∇L_D′(w̃)        for three batches D, D′ and D″ of different rows

α is `adapt_lr`, β the rate of the work inside, whose step takes the gradient on the right as its own. What
becomes of ∇² is `hessian`:

    none         it is left out (FO): two batches
    exact        a product of the Hessian with a vector, by a second backward pass
    difference   (∇L_D″(w + δ g) - ∇L_D″(w - δ g)) / 2δ in its place, g = ∇L_D′(w̃) (HF); δ is `delta`

`batch` of the work inside is the size of each of the batches. A step's rows are dealt to them in turn, and
all steps of an epoch have about as many rows, so that none is left with a batch of a row or two. Batch norm's
statistics are those of the pass at w̃, and so is the loss.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from coterie.core.belief import Belief
from coterie.core.kernel import KERNELS, Carry, Extent, Plan, Tick, Trainer, extent_of
from coterie.core.learner import Batch, Gradient, Learner
from coterie.core.options import bounded, check_options, chosen
from coterie.core.seeds import Key
from coterie.kernels.around import Around
from coterie.kernels.local import check_plain
from coterie.kernels.sgd import SGD

Hessian = Literal["none", "exact", "difference"]


@KERNELS.register("meta")
@dataclass(frozen=True)
class Meta(Around):
    """Work whose gradient is taken one step ahead."""

    inner: Trainer = SGD()
    """The work that makes the steps: sgd, adam or adamw."""
    adapt_lr: float = bounded(0.05, "be above 0 and finite", "try 0.05")
    """Length of the step ahead."""
    hessian: Hessian = chosen("none", Hessian)
    """Second derivatives: left out, exact, or by a difference of gradients."""
    delta: float = bounded(1e-3, "be above 0 and finite", "try 0.001")
    """How far to either side a difference looks, times the gradient."""

    def __post_init__(self) -> None:
        check_options(self)
        check_plain("per-fedavg", self.inner)

    @property
    def batches(self) -> int:
        """Into how many batches the rows of a step go."""
        return 2 if self.hessian == "none" else 3

    @property
    def gradients(self) -> int:
        """Of one step, each of a batch of its own size; a product with the Hessian counts as one."""
        return {"none": 2, "exact": 3, "difference": 4}[self.hessian]

    def extent(self, samples: int) -> Extent | None:
        rows = evenly(samples, self.batches * self.inner.batch)  # type: ignore[attr-defined]
        found = extent_of(replace(self.inner, batch=rows), samples)  # type: ignore[type-var]
        return found and found._replace(batch=found.batch // self.batches, evenly=False)

    def plan(self, samples: int, key: Key) -> Plan:
        rows = evenly(samples, self.batches * self.inner.batch)  # type: ignore[attr-defined]
        return replace(self.inner, batch=rows).plan(samples, key)  # type: ignore[type-var]

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        return super().step(self.ahead(learner), carry, batch, tick)

    def ahead(self, learner: Learner) -> Learner:
        """A learner whose gradients are those of the loss after a step."""
        made = copy.copy(learner)

        def gradient(belief: Belief, batch: Batch, seed: Tensor) -> Gradient:
            first, second, *third = dealt(batch, self.batches)
            there = _moved(belief, learner.gradient(belief, first, seed).grads, -self.adapt_lr)
            found = learner.gradient(there, second, seed)
            if not third:
                return found
            bent = self.hessian_vector_product(learner, belief, third[0], seed, found.grads)
            return found._replace(grads=_moved(found.grads, bent, -self.adapt_lr))

        made.gradient = gradient  # type: ignore[method-assign]
        return made

    def hessian_vector_product(
        self, learner: Learner, belief: Belief, batch: Batch, seed: Tensor, along: Mapping[str, Tensor]
    ) -> Mapping[str, Tensor]:
        """∇²L_D″(w) g."""
        if self.hessian == "exact":
            return learner.hessian_vector_product(belief, batch, seed, along)
        ahead, behind = (
            learner.gradient(_moved(belief, along, side * self.delta), batch, seed).grads for side in (1, -1)
        )
        return {n: (g - behind[n]) / (2 * self.delta) for n, g in ahead.items()}


def _moved(belief: Mapping[str, Tensor], along: Mapping[str, Tensor], far: float) -> dict[str, Tensor]:
    """Some tensors so far along a direction, the others as they are."""
    return {**belief, **{n: belief[n] + far * d for n, d in along.items()}}


def dealt(batch: Batch, parts: int) -> list[Batch]:
    """The rows of a batch in turn to so many batches; padding, which comes last, stays padding."""
    return [Batch(*(t[i::parts] for t in batch)) for i in range(parts)]


def evenly(samples: int, most: int) -> int:
    """The batch size, at most so many rows, with which the last batch of an epoch is hardly shorter."""
    return -(-samples // -(-samples // most))
