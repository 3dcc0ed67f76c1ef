"""Local work in epochs or steps: what SGD, Adam and their kin share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from coterie.core.contract import Batch, Belief, Carry, Extent, Key, Learner, Plan, Reply, Tick
from coterie.core.devices import widest
from coterie.core.errors import BadInput
from coterie.core.facts import called, kernel_fact
from coterie.core.options import bounded, check_options, chosen
from coterie.core.watch import look

Schedule = Literal["constant", "linear", "cosine", "exponential"]
MOST_STEPS = 10**7  # of a visit, which then takes a quarter of an hour at least


@dataclass(frozen=True)
class LocalWork(ABC):
    """Options of every gradient-based kernel; a kernel adds `memories` and `update`."""

    lr: float = bounded(0.1, "be above 0 and finite", "try 0.1")
    """Learning rate at the start of the run."""
    epochs: int = bounded(1, "be at least 1", "try 1, or give steps")
    """Passes over the client's training data in a round."""
    steps: int = bounded(0, "be at least 0", "0 leaves it to epochs")
    """Batches in a round instead of epochs; 0 leaves it to epochs."""
    batch: int = bounded(32, "be at least 1", "try 32")
    """Samples in a batch; the last batch of an epoch may be shorter and counts."""
    schedule: Schedule = chosen("constant", Schedule)
    """How the rate falls from the first step of the run to its last."""
    final: float = bounded(0.01, "be above 0 and finite", "try 0.01")
    """The rate at the end of a falling schedule, as a share of lr."""
    keep: bool = False
    """Keep the optimiser's state between rounds (true) or start it fresh (false)."""
    shuffle: bool = True
    """Deal the rows anew in each epoch, or take them in order; steps then go on from round to round."""

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def keeps(self) -> bool:
        return self.keep

    def plan(self, samples: int, key: Key) -> Plan:
        mine = key.integer()
        past = max(0, key.round - 1) * self.steps
        rows = deal_batches(samples, self.batch, self.epochs, self.steps, self.shuffle, mine, past)
        rates = rates_of(self.schedule, self.final, len(rows), key.round, key.rounds)
        return Plan(rows, rates, mine // 2)

    def extent(self, samples: int) -> Extent:
        return extent_of_batches(samples, self.batch, self.epochs, self.steps)

    @abstractmethod
    def memories(self) -> tuple[str, ...]:
        """Names of the tensors, alike in shape to a parameter, that the update rule remembers."""

    @abstractmethod
    def update(
        self, param: Tensor, grad: Tensor, memory: dict[str, Tensor], t: Tensor, rate: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """One parameter tensor after its t-th step (from 1), and what is remembered of it."""

    def fresh(self, learner: Learner, belief: Belief) -> Belief:
        zeros = {f"{m}/{n}": torch.zeros_like(belief[n]) for m in self.memories() for n in learner.trainable}
        device = next(iter(belief.values())).device
        return {**zeros, "t": torch.zeros((), dtype=torch.int64, device=device)}

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        device = memory["t"].device
        zero = torch.zeros((), dtype=widest(device), device=device)
        return {"belief": dict(belief), "memory": dict(memory), "loss": zero, "samples": zero}

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        belief, memory = dict(carry["belief"]), dict(carry["memory"])
        gradient = learner.gradient(belief, batch, tick.seed)
        belief.update(gradient.buffers)
        memory["t"] = t = memory["t"] + 1
        rate, told = self.terms(learner, belief, tick)
        grads = self.cut_gradients({n: gradient.grads[n] for n in learner.trainable})
        for n in learner.trainable:
            mine = {m: memory[f"{m}/{n}"] for m in self.memories()} | told.get(n, {})
            belief[n], mine = self.update(belief[n], grads[n], mine, t, rate)
            memory.update({f"{m}/{n}": value for m, value in mine.items()})
        seen = batch.weight.sum().to(carry["samples"].dtype)
        return {
            **carry,
            "belief": belief,
            "memory": memory,
            "loss": carry["loss"] + gradient.loss.detach().to(seen.dtype) * seen,
            "samples": carry["samples"] + seen,
        }

    def cut_gradients(self, found: dict[str, Tensor]) -> dict[str, Tensor]:
        """Those of a batch, by parameter, as updates take them."""
        return found

    def terms(
        self, learner: Learner, belief: Belief, tick: Tick
    ) -> tuple[Tensor, dict[str, dict[str, Tensor]]]:
        """The learning rate of a step, and what else the update of each parameter is to know."""
        return tick.rate * self.lr, {}

    def finish(self, carry: Carry) -> Reply:
        seen = carry["samples"]
        numbers = {"loss": carry["loss"] / seen.clamp(min=1), "samples": seen}
        return Reply(carry["belief"], carry["memory"], numbers)


def check_plain(method: str, work: Any) -> None:
    """Refuses local work that is more than an optimiser: work that hides rows, or that collects states."""
    if not isinstance(work, LocalWork) or kernel_fact(work, "mark"):
        raise BadInput(
            f"{method} makes several steps of each batch, which {called(work)} "
            "has no rule for: use sgd, adam or adamw, or ditto with any work"
        )
    if (clip := kernel_fact(work, "clip")) is not None:
        raise BadInput(
            f"{method} makes gradients of its own, which sgd's clip={clip} does not reach: leave it out"
        )


def refuse_many_steps(asked: str, steps: int) -> None:
    """A visit is planned as a whole before it begins, and cannot be stopped halfway."""
    if steps > MOST_STEPS:
        raise BadInput(
            f"{asked} asks for {steps} steps in one round, at most {MOST_STEPS} are planned: lower it and "
            "raise rounds"
        )


def extent_of_batches(samples: int, batch: int, epochs: int, steps: int) -> Extent:
    """Of what `deal_batches` deals."""
    batch = max(1, min(batch, samples))
    a_pass = -(-samples // batch)
    wanted = steps or epochs * a_pass
    last = samples - (a_pass - 1) * batch  # rows of a pass's last step
    least = samples if wanted >= a_pass else (wanted - 1) * batch + last
    return Extent(wanted, batch, wanted % max(1, a_pass) == 0, least)


def deal_batches(
    samples: int, batch: int, epochs: int, steps: int, shuffle: bool, seed: int, past: int = 0
) -> Tensor:
    """Rows for each step [step, batch]; every epoch deals each row once, the last batch padded with -1.

    Rows in order go on after the `past` steps of former rounds; shuffled ones begin a new epoch.
    """
    batch = min(batch, samples)
    a_pass = -(-samples // batch)
    wanted = steps or epochs * a_pass
    refuse_many_steps(f"steps={steps}" if steps else f"epochs={epochs}", wanted)
    short = a_pass * batch - samples

    def table(order: Tensor) -> Tensor:
        look()
        return (F.pad(order, (0, short), value=-1) if short else order).view(a_pass, batch)

    if not shuffle:
        return table(torch.arange(samples))[(torch.arange(wanted) + past) % a_pass]
    generator = torch.Generator().manual_seed(seed)
    if wanted * batch <= samples:  # no last batch, nothing to pad
        return torch.randperm(samples, generator=generator)[: wanted * batch].view(wanted, batch)
    dealt = [table(torch.randperm(samples, generator=generator)) for _ in range(-(-wanted // a_pass))]
    return torch.cat(dealt)[:wanted] if len(dealt) > 1 else dealt[0][:wanted]


@lru_cache(maxsize=256)  # the same for all clients of a round
def rates_of(schedule: Schedule, final: float, steps: int, round: int, rounds: int) -> Tensor:
    """[step] factors of the learning rate in one round."""
    done = (round - 1 + torch.arange(steps, dtype=torch.float64) / steps) / rounds
    return scheduled(schedule, final, done.clamp(0, 1))


def scheduled(schedule: Schedule, final: float, done: Tensor) -> Tensor:
    """Factors of the learning rate where `done` in [0, 1] of the run is over: 1 at first, `final` at last."""
    if schedule == "constant":
        return torch.ones_like(done)
    if schedule == "linear":
        return 1 + (final - 1) * done
    if schedule == "cosine":
        return final + (1 - final) * (1 + torch.cos(torch.pi * done)) / 2
    return torch.as_tensor(final, dtype=done.dtype) ** done
