"""Batch norm's statistics anew for weights that no forward pass has seen: an average, a draw of a posterior.

    μ ← Σ_b n_b μ_b / Σ_b n_b,    σ² ← Σ_b n_b σ_b² / Σ_b n_b

over the batches b of one pass through the client's training data, of n_b samples each; the former statistics
do not matter, and nothing is trained. A model without batch norm comes back as it went.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from coterie.core.contract import Batch, Belief, Carry, Extent, Key, Learner, Plan, Reply, Tick
from coterie.core.kernel import KERNELS
from coterie.core.options import bounded, check_options
from coterie.kernels.sgd import SGD


@KERNELS.register("refresh")
@dataclass(frozen=True)
class Refresh:
    """One pass over the training data that renews what batch norm knows of it."""

    batch: int = bounded(32, "be at least 1", "try 32")
    """Samples in a batch."""

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def keeps(self) -> bool:
        return False

    def extent(self, samples: int) -> Extent:
        return self._pass().extent(samples)

    def plan(self, samples: int, key: Key) -> Plan:
        return self._pass().plan(samples, key)

    def fresh(self, learner: Learner, belief: Belief) -> Belief:
        return self._pass().fresh(learner, belief)

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        return self._pass().start(belief, memory, beside)

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        belief, rates = dict(carry["belief"]), momenta(learner)
        # from statistics of 0, batch norm leaves its momentum's share of the batch's own
        blank = {
            n: torch.zeros_like(t) for n, t in belief.items() if n in learner.buffers and _norm_of(n) in rates
        }
        found = learner.gradient({**belief, **blank}, batch, tick.seed)
        rows = batch.weight.sum().to(carry["samples"].dtype)
        seen = carry["samples"] + rows
        for n, t in blank.items():
            if t.is_floating_point():
                now = found.buffers[n] / rates[_norm_of(n)]
                belief[n] = belief[n] + (rows / seen).to(t.dtype) * (now - belief[n])
        loss = carry["loss"] + found.loss.detach().to(rows.dtype) * rows
        return {**carry, "belief": belief, "loss": loss, "samples": seen}

    def finish(self, carry: Carry) -> Reply:
        return self._pass().finish(carry)

    def _pass(self) -> SGD:
        return SGD(batch=self.batch)


def momenta(learner: Learner) -> dict[str, float]:
    """The momentum of each batch norm by its place; one without takes all of its first batch."""
    return {
        place: 1.0 if layer.momentum is None else layer.momentum
        for place, layer in learner.training.named_modules()
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.track_running_stats
    }


def _norm_of(buffer: str) -> str:
    """The place of the layer that a buffer belongs to."""
    return buffer.rpartition(".")[0]
