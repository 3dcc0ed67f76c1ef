"""Steps on the Moreau envelope of a client's loss: Dinh, Tran and Nguyen, 2020, "Personalized federated
learning with Moreau envelopes", Algorithm 1.

    for each batch D:
        θ ← θ - μ (∇L_D(θ) + λ (θ - w))      K times, by the work inside: θ ≈ argmin L_D(θ) + λ/2 ‖θ - w‖²
        w ← w - η λ (w - θ)

The belief that visits is w, and so is the reply; θ, which begins at w, is beside it under `own/`. λ is
`pull`, K `inner_steps`, η `outer_lr`, falling with the schedule as the rate μ of the work inside does. What
is not trained (batch norm's statistics) is that of θ in both. The loss told is θ's, over all K looks at each
batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from coterie.core.belief import Belief
from coterie.core.errors import BadInput
from coterie.core.kernel import KERNELS, Carry, Reply, Tick, Trainer
from coterie.core.learner import Batch, Learner
from coterie.core.options import bounded, check_options
from coterie.kernels.around import Around
from coterie.kernels.local import check_plain
from coterie.kernels.proximal import pulled
from coterie.kernels.sgd import SGD
from coterie.kernels.taken import OWN, under


@KERNELS.register("moreau")
@dataclass(frozen=True)
class Moreau(Around):
    """A personal model near a shared one, and the shared one drawn after it."""

    inner: Trainer = SGD()
    """The work on the personal model: sgd, adam or adamw."""
    pull: float = bounded(2.0, "be above 0 and finite", "try 2, or use fedavg for none")
    """How strongly the personal model is held near the shared one."""
    inner_steps: int = bounded(5, "be at least 1", "try 5")
    """Steps of the personal model on each batch."""
    outer_lr: float = 0.25
    """Learning rate of the shared model."""

    def __post_init__(self) -> None:
        check_options(self)
        check_plain("pfedme", self.inner)
        if not 0 < self.outer_lr * self.pull <= 1:
            raise BadInput(
                f"outer_lr={self.outer_lr} times pull={self.pull} must be above 0 and at most 1, where the "
                f"shared model takes the personal one's place: try outer_lr={1 / (2 * self.pull):.2g}"
            )

    @property
    def gradients(self) -> int:
        """Of one step."""
        return self.inner_steps

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        return {"own": super().start(belief, memory, {}), "shared": dict(belief)}

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        own, shared = carry["own"], carry["shared"]
        near = pulled(learner, shared, self.pull)
        for _ in range(self.inner_steps):
            own = super().step(near, own, batch, tick)
        theta, rate = own["belief"], tick.rate * self.outer_lr
        drawn = {n: envelope_step(shared[n], theta[n], rate, self.pull) for n in learner.trainable}
        return {"own": own, "shared": {**theta, **drawn}}

    def finish(self, carry: Carry) -> Reply:
        reply = super().finish(carry["own"])
        return reply._replace(belief={**carry["shared"], **under(OWN, reply.belief)})


def envelope_step(w: Tensor, theta: Tensor, rate: Tensor, pull: float) -> Tensor:
    """w - η λ (w - θ): λ (w - θ) is the gradient of the envelope at w."""
    return w - (rate * pull).to(w.dtype) * (w - theta)
