"""Local work whose whole change is bounded and hidden: all rows of a client at once, at the client (after
McMahan, Ramage, Talwar and Zhang, 2018, "Learning differentially private recurrent language models").

    Δ  ← θ' - θ                               what the work inside made of the belief θ that came
    θ" ← θ + Δ min(1, C / ‖Δ‖) + 2 C σ ξ,    ξ ~ N(0, I)

C is `clip` and σ `sigma`; the norm is that over all parameters. Whatever other rows the client might have
had, the clipped change moves by at most 2 C. Noise of standard deviation 2 C σ is therefore a Gaussian
mechanism of σ for *all* of a client's rows together (`charges`: one of unit "client" a visit, unsampled).

Deviations: the paper adds noise once to the mean of n clients, at a server that all trust. Here each client
adds its own before anything leaves, and needs to trust nobody; the mean then has √n times the noise, and
twice that, because a change is held against any other, where the paper's is there or not. The training loss
is not told. What the optimiser remembers stays at the client, but with keep=true later changes depend on it
as on rows: each visit pays for itself.

Batch norm is refused, and so is a model of which only a part is trained: statistics and frozen tensors would
go home beside the change. ξ is a hash of the last step's seed: see `dp.py` on who knows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from coterie.core.contract import Batch, Belief, Carry, Charge, Learner, Reply, Tick, Trainer
from coterie.core.errors import BadInput
from coterie.core.kernel import WORK
from coterie.kernels.bayes import normals
from coterie.kernels.dp import Hiding, check_noise, refuse_batch_norm
from coterie.kernels.sgd import SGD

CHANGE = 1 << 24  # calls of `uniform`, apart from all others
ORIGIN, SEED, ORDER, STILL = "origin", "seed", "order:", "still:"


@WORK.register("bounded")
@dataclass(frozen=True)
class Bounded(Hiding):
    """Local work with its whole change clipped and noise added, for a client as a unit: bounded(sgd)."""

    inner: Trainer = SGD()
    """The local work itself."""
    clip: float = 1.0
    """The norm that a visit's change of the model is clipped to."""
    sigma: float = 1.0
    """Standard deviation of the noise over 2 clip, the most by which other rows could move the change."""

    def __post_init__(self) -> None:
        check_noise("bounded", self.inner, self.clip, self.sigma)

    @property
    def numbers(self) -> tuple[str, ...]:
        return ("samples",)

    def suits(self, model: nn.Module) -> None:
        """Refuses a model that would take more home than trained parameters."""
        refuse_batch_norm("bounded", model)
        others = [n for n, p in model.named_parameters() if not p.requires_grad]
        others += [n for n, b in model.named_buffers() if b.is_floating_point()]
        if others:
            raise BadInput(
                f"bounded hides trained parameters, and {others[0]!r} is none: train all of the model, "
                "or use dp"
            )

    def charges(self, samples: int) -> tuple[Charge, ...]:
        """What one visit costs a client, of however many rows."""
        return (Charge(self.sigma, rows=samples, unit="client"),)

    def fresh(self, learner: Learner, belief: Belief) -> Belief:
        self.suits(learner.training)
        places = {f"{ORDER}{i:06d}:{n}": torch.zeros(()) for i, n in enumerate(learner.trainable)}
        others = {f"{STILL}{n}": torch.zeros(()) for n in belief if n not in learner.trainable}
        return {**super().fresh(learner, belief), **places, **others}

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        carry = super().start(belief, memory, beside)
        book = {"book": carry.pop("book")} if "book" in carry else {}  # a book comes last
        seed = torch.zeros((), dtype=torch.int64, device=carry["samples"].device)
        return {**carry, ORIGIN: dict(belief), SEED: seed, **book}

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        return {**super().step(learner, carry, batch, tick), SEED: tick.seed.clone()}

    def finish(self, carry: Carry) -> Reply:
        reply, origin = super().finish(carry), carry[ORIGIN]
        trained = _in_order(carry["memory"], origin)
        changes = clipped([reply.belief[n] - origin[n] for n in trained], self.clip)
        noise = normals(carry[SEED], changes, CHANGE)
        hidden: dict[str, Any] = {
            n: origin[n] + change + 2 * self.clip * self.sigma * z
            for n, change, z in zip(trained, changes, noise, strict=True)
        }
        numbers = {"samples": reply.numbers["samples"]}
        return Reply({**reply.belief, **hidden}, reply.memory, numbers)


def _in_order(memory: Belief, belief: Belief) -> list[str]:
    """The names of trained parameters as the model has them, however a belief came to lie; an engine may have
    them as one.
    """
    names = [n.split(":", 2)[2] for n in sorted(memory) if n.startswith(ORDER)]
    still = {n.removeprefix(STILL) for n in memory if n.startswith(STILL)}
    return [n for n in names if n in belief] or [
        n for n, t in belief.items() if t.is_floating_point() and n not in still
    ]


def clipped(changes: list[Tensor], clip: float) -> list[Tensor]:
    """Δ min(1, C / ‖Δ‖), with one norm over all tensors; a change that is not finite is none."""
    square = torch.stack([c.square().sum() for c in changes]).sum()
    fine = torch.isfinite(square)
    factor = (clip / square.sqrt()).clamp(max=1)
    return [(factor * c).masked_fill(~fine, 0.0) for c in changes]
