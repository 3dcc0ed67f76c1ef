"""Adaptive local aggregation: how much of a shared model to take over, number by number.

    θ̂ = θ_own + (θ_shared - θ_own) ⊙ W                        taken
    W ← min(1, max(0, W - η ∇_θ̂ L(θ̂) ⊙ (θ_shared - θ_own)))   one step for each batch: tuned

The belief that comes is θ_own, beside it is θ_shared under that name, θ̂ comes back. W is 1 at first, stays
at the client from visit to visit, and is learnt in the last `top` layers alone: below them θ̂ is θ_shared, as
are all tensors that are not trained. η is `eta`; batches are of a share `rows` of the client's training rows,
drawn anew in each visit. A visit goes over them once, or with `passes` above 1 so often, but W rests once the
standard deviation of the last ten passes' losses, each that of a last batch, is below `settled`.

Told: `taken`, the mean of W over all trained parameters. See `methods/personal/fedala.py` for the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.contract import Batch, Belief, Carry, Extent, Key, Learner, Plan, Reply, Tick
from coterie.core.devices import widest
from coterie.core.errors import BadInput
from coterie.core.kernel import KERNELS
from coterie.core.options import bounded, check_options
from coterie.kernels.local import deal_batches, extent_of_batches

SHARED, TAKEN = "shared", "taken"
WEIGHT, HIGH = "weight/", "high/"  # of a parameter: W, and 1 if its layer is one of the top ones
RECENT = 10  # passes whose losses are looked at


@KERNELS.register("ala")
@dataclass(frozen=True)
class ALA:
    """Learns how much of a shared model to take over."""

    compares: ClassVar[bool] = True  # its numbers tell how beliefs differ

    eta: float = bounded(1.0, "be above 0 and finite", "try 1")
    """Learning rate of the weights."""
    rows: float = bounded(0.8, "lie above 0 and up to 1", "try 0.8")
    """Share of the training rows to learn them from."""
    top: int = bounded(1, "be at least 0", "1 is the last layer, 0 all layers")
    """In how many layers, counted from the output; 0: in all."""
    batch: int = bounded(32, "be at least 1", "try 32")
    """Rows in a batch."""
    passes: int = bounded(1, "be at least 1", "try 20")
    """How often to go over these rows at most."""
    settled: float = bounded(0.1, "be at least 0 and finite", "try 0.1")
    """Rest once the losses of ten passes have a standard deviation below this."""

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def keeps(self) -> bool:
        return True

    @property
    def numbers(self) -> tuple[str, ...]:
        return (TAKEN,)

    def extent(self, samples: int) -> Extent:
        some = max(1, round(self.rows * samples))
        found = extent_of_batches(some, self.batch, self.passes, 0)
        alone = found.batch > 1 and some % found.batch == 1  # such a batch is left out
        return found._replace(evenly=some == samples and not alone, least=some - alone)

    def plan(self, samples: int, key: Key) -> Plan:
        """Rates are 1 where a pass is over, else 0."""
        mine = key.integer()
        some = torch.randperm(samples, generator=key.at("rows").torch())[: max(1, round(self.rows * samples))]
        dealt = deal_batches(len(some), self.batch, self.passes, 0, True, mine)
        dealt = several(dealt)
        over = torch.zeros(len(dealt), dtype=torch.float64)
        over[len(dealt) // self.passes - 1 :: len(dealt) // self.passes] = 1
        return Plan(torch.where(dealt >= 0, some[dealt.clamp(min=0)], -1), over, mine // 2)

    def fresh(self, learner: Learner, belief: Belief) -> Belief:
        high = set(top_names(learner.trainable, self.top))
        kinds = {n: torch.ones_like if n in high else torch.zeros_like for n in learner.trainable}
        return {
            **{WEIGHT + n: torch.ones_like(belief[n]) for n in learner.trainable},
            **{HIGH + n: of(belief[n]) for n, of in kinds.items()},
        }

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        if SHARED not in beside:
            raise BadInput(f"ala needs a belief beside it, named {SHARED!r}: give one to the visit")
        names = [key.removeprefix(WEIGHT) for key in memory if key.startswith(WEIGHT)]
        own, shared = ({n: b[n] for n in names} for b in (belief, beside[SHARED]))
        begun = {n: taken(own[n], shared[n], memory[WEIGHT + n]) for n in names}
        device = next(iter(begun.values())).device
        zero = torch.zeros((), dtype=widest(device), device=device)
        return {
            "belief": {**beside[SHARED], **begun},
            "memory": dict(memory),
            "own": own,
            SHARED: shared,
            "recent": torch.zeros(RECENT, dtype=zero.dtype, device=device),
            "over": zero,
            "rests": zero,
        }

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        belief, memory, rests = dict(carry["belief"]), dict(carry["memory"]), carry["rests"]
        found = learner.gradient(belief, batch, tick.seed)
        for n in learner.trainable:
            own, shared, old = carry["own"][n], carry[SHARED][n], memory[WEIGHT + n]
            new = tuned(old, found.grads[n], shared - own, self.eta * memory[HIGH + n])
            memory[WEIGHT + n] = torch.where(rests > 0, old, new)
            belief[n] = taken(own, shared, memory[WEIGHT + n])
        wide = carry["recent"].dtype
        over, last = tick.rate.to(wide), found.loss.detach().to(wide)
        recent = torch.where(over > 0, torch.cat([carry["recent"][1:], last.reshape(1)]), carry["recent"])
        done = carry["over"] + over
        still = (over > 0) & (done > RECENT) & (recent.std(correction=0) < self.settled)
        return {
            **carry,
            "belief": belief,
            "memory": memory,
            "recent": recent,
            "over": done,
            "rests": torch.maximum(rests, still.to(wide)),
        }

    def finish(self, carry: Carry) -> Reply:
        weights = [t for key, t in carry["memory"].items() if key.startswith(WEIGHT)]
        total = torch.stack([w.to(carry["over"].dtype).sum() for w in weights]).sum()
        return Reply(carry["belief"], carry["memory"], {TAKEN: total / sum(w.numel() for w in weights)})


def taken(own: Tensor, shared: Tensor, weight: Tensor) -> Tensor:
    """θ̂ = θ_own + (θ_shared - θ_own) ⊙ W; with W = 1 the shared one to the last bit, with 0 one's own."""
    return torch.lerp(own, shared, weight)


def tuned(weight: Tensor, grad: Tensor, way: Tensor, eta: Tensor) -> Tensor:
    """W after a step of rate η, within [0, 1]; `way` is θ_shared - θ_own."""
    return (weight - eta * grad * way).clamp(0, 1)


def layers_of(names: Sequence[str]) -> list[str]:
    """The layers that hold these tensors, in order."""
    return list(dict.fromkeys(n.rpartition(".")[0] for n in names))


def top_names(names: Sequence[str], top: int) -> list[str]:
    """The tensors of the last `top` layers; 0: of all."""
    high = layers_of(names)[-top:]
    return [n for n in names if n.rpartition(".")[0] in high]


def several(batches: Tensor) -> Tensor:
    """Without batches of a single row, on which batch norm cannot train, if there are others."""
    more = (batches >= 0).sum(dim=1) > 1
    return batches[more] if bool(more.any()) else batches
