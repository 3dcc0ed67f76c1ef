"""Local work whose gradients are corrected by control variates, those of SCAFFOLD (`methods/server`).

    y   ← y - η_k (g(y) + c - c_i)              in each step k, from y = x
    Δ_i ← (x - y) / Σ_k η_k - c                 so that c_i + Δ_i is the mean of the g(y), weighed by η_k
    c_i ← c_i + Δ_i

c is beside the visit as `server`, c_i as `own`; their tensors are named control/NAME and own/NAME. The reply
brings, beside the model y, the new c_i as own/NAME and Δ_i as control/NAME. Without a schedule Σ η_k is K η,
and this is option II of the paper. That the way from x to y is a sum of gradients holds for plain SGD, and
for `newton`, whose one step ends where x - y is the gradient at y over its pull μ: η is 1 / μ then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.belief import Belief
from coterie.core.errors import BadInput
from coterie.core.facts import called
from coterie.core.kernel import KERNELS, Carry, Reply, Tick, Trainer
from coterie.core.learner import Batch, Learner, with_term
from coterie.kernels.around import AsCostly, innermost
from coterie.kernels.newton import Newton
from coterie.kernels.sgd import SGD

SERVER, OWN = "server", "own"
CONTROL, MINE = "control/", "own/"


@KERNELS.register("controlled")
@dataclass(frozen=True)
class Controlled(AsCostly):
    """The same work, corrected by what all clients' gradients are and this client's usually is."""

    inner: Trainer = SGD()
    """The local work itself: plain SGD, or newton."""

    def __post_init__(self) -> None:
        plain = innermost(self.inner)
        if not isinstance(plain, SGD | Newton):
            name = called(plain)
            raise BadInput(f"control variates need sgd or newton for local work; got {name}: use kernel=sgd")
        if isinstance(plain, SGD) and plain.momentum:
            raise BadInput(
                f"control variates need sgd without momentum; got momentum={plain.momentum}: set it to 0"
            )

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        if SERVER not in beside or OWN not in beside:
            raise BadInput(
                f"controlled work needs beliefs beside it, {SERVER!r} and {OWN!r}: give them to the visit"
            )
        carry = super().start(belief, memory, beside)
        return {
            **carry,
            "origin": dict(belief),
            SERVER: _bare(beside[SERVER], CONTROL),
            OWN: _bare(beside[OWN], MINE),
            "way": torch.zeros_like(carry["loss"]),
        }

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        c, own = carry[SERVER], carry[OWN]

        def correction(belief: Belief) -> dict[str, Tensor]:
            return {n: c[n] - own[n] for n in learner.trainable}

        after = super().step(with_term(learner, correction), carry, batch, tick)
        plain = innermost(self.inner)
        rate = 1 / plain.pull if isinstance(plain, Newton) else plain.lr
        return {**after, "way": carry["way"] + (tick.rate * rate).to(carry["way"].dtype)}

    def finish(self, carry: Carry) -> Reply:
        reply = super().finish(carry)
        x, y, c, own = carry["origin"], reply.belief, carry[SERVER], carry[OWN]
        way = carry["way"]
        change = {n: (x[n] - y[n]) / way.to(x[n].dtype) - c[n] for n in own}  # of the mean corrected gradient
        controls = {CONTROL + n: t for n, t in change.items()} | {MINE + n: own[n] + change[n] for n in own}
        return reply._replace(belief={**y, **controls})


def _bare(belief: Belief, prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in belief.items()}
