"""Local work that solves a linear model with all rows at once, instead of going downhill in batches.

Its plan is one step that has every row. What it finds follows from rows and options, so that solutions are
remembered by what they were made of: in a run whose rounds ask the same again, they cost nothing.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from coterie.core.client import bytes_of
from coterie.core.contract import Batch, Belief, Carry, Extent, Key, Learner, Plan, Reply, Tick
from coterie.core.errors import BadInput
from coterie.core.facts import called, kernel_fact
from coterie.linear.design import (
    Design,
    design_of,
    linear_names,
    read_linear,
    why_not_exact,
    why_not_linear,
)

REMEMBERED = 512
_known: OrderedDict[bytes, Any] = OrderedDict()


@dataclass(frozen=True)
class Solving:
    """What all of them share; a kernel adds `solve` or only measures; it is sent by name and options like
    any other.
    """

    solves: ClassVar[bool] = True
    """Engines give it one edge at a time: it branches on values."""

    @property
    def keeps(self) -> bool:
        return False

    def suits(self, model: nn.Module) -> None:
        """Refuses a model that is not linear, before anything runs."""
        if why := why_not_linear(model):
            name = called(self)
            raise BadInput(f"kernel {name} solves linear models, and this is none: {why}: use sgd or adamw")

    def plan(self, samples: int, key: Key) -> Plan:
        rows = torch.arange(samples).unsqueeze(0)
        return Plan(rows, torch.ones(1, dtype=torch.float64), key.integer() // 2)

    def extent(self, samples: int) -> Extent:
        return Extent(1, samples, True, samples)

    def fresh(self, learner: Learner, belief: Belief) -> Belief:
        return {"t": torch.zeros((), dtype=torch.int64)}

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        zero = torch.zeros((), dtype=torch.float64)
        return {"belief": dict(belief), "memory": dict(memory), "loss": zero, "samples": zero}

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        if why := self.unsolved(learner):
            name = called(self)
            raise BadInput(f"kernel {name} cannot solve this model: {why}: use sgd or adamw")
        after = self.solve(learner, carry["belief"], batch)
        loss = learner.losses(learner.outputs(after, batch.x), batch.y, batch.weight).double().mean()
        seen = torch.tensor(float(len(batch.y)), dtype=torch.float64)
        return {**carry, "belief": dict(after), "loss": loss, "samples": carry["samples"] + seen}

    def unsolved(self, learner: Learner) -> str:
        """Why a learner's model cannot be solved; nothing if it can."""
        return why_not_exact(learner)

    def solve(self, learner: Learner, belief: Belief, batch: Batch) -> Belief:
        return belief

    def finish(self, carry: Carry) -> Reply:
        return Reply(carry["belief"], carry["memory"], {"loss": carry["loss"], "samples": carry["samples"]})


def solves(kernel: Any) -> bool:
    """Whether work, or what it is around, solves with all rows at once."""
    while kernel is not None:
        if kernel_fact(kernel, "solves"):
            return True
        kernel = kernel_fact(kernel, "inner")
    return False


def digest(*parts: Any) -> bytes:
    """Of tensors, arrays and anything that has a repr."""
    total = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, Tensor):
            total.update(repr((part.dtype, tuple(part.shape))).encode())
            total.update(bytes_of(part))
        elif isinstance(part, np.ndarray):
            total.update(
                np.ascontiguousarray(part).tobytes() if part.dtype != object else repr(part.tolist()).encode()
            )
        else:
            total.update(repr(part).encode())
    return total.digest()


def remembered(mark: bytes, make: Callable[[], Any]) -> Any:
    """What a mark stands for, made once; the oldest of many are forgotten."""
    if mark in _known:
        _known.move_to_end(mark)
        return _known[mark]
    found = make()
    _known[mark] = found
    while len(_known) > REMEMBERED:
        _known.popitem(last=False)
    return found


def design_for(learner: Learner, batch: Batch, scaled: bool) -> Design:
    """The rows of a batch as the learner's model sees them, targets in its unit."""
    return design_of(learner.task, outputs_of(learner), batch.x, targets_in_units(learner, batch.y), scaled)


def targets_in_units(learner: Learner, y: Tensor) -> Tensor:
    """Targets as the last layer has them, where a regression learns scaled ones."""
    centre, unit = learner.scale
    return (y.double() - centre) / unit if learner.task == "regression" and (centre, unit) != (0, 1) else y


def coefficients_of(design: Design, belief: Belief) -> Tensor:
    """[k·d] of a module's tensors."""
    return design.coefficients(*read_linear(belief))


def outputs_of(learner: Learner) -> int:
    """How many a linear model has."""
    return len(learner.scoring.get_parameter(linear_names(dict(learner.scoring.named_parameters())).bias))
