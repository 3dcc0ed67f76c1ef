"""What an engine has to know of a model: read off its layers, or found out by trying it on a few rows."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, vmap

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs
from coterie.core.client import Samples
from coterie.core.devices import seeded
from coterie.core.errors import Refused
from coterie.core.learner import Batch, Learner, dropout_of

ROWS = 4  # enough for batch norm, few enough to cost nothing


@dataclass(frozen=True)
class Traits:
    """draws   whether it draws random numbers that seeded dropout does not reach
    lockless   why it cannot be trained many at once; empty if it can
    convolves  whether it has convolutions
    """

    draws: bool
    lockless: str
    convolves: bool


_known: weakref.WeakKeyDictionary[Learner, Traits] = weakref.WeakKeyDictionary()


def traits_of(learner: Learner, beliefs: Beliefs, data: Samples) -> Traits:
    """Found out once for each learner."""
    if learner not in _known:
        belief, device, layers = tree.row(beliefs, 0), data.x.device, list(learner.training.modules())
        generators: Any = torch if device.type == "cpu" else torch.get_device_module(device)
        with seeded(1, device), torch.no_grad(), dropout_of(learner, torch.tensor(1, device=device)):
            before = generators.get_rng_state()
            tensors = {name: t.clone() for name, t in belief.items()}
            for module in (learner.training, learner.scoring):
                functional_call(module, tensors, (_rows(data).x,))
            learner.drawn(_batch_of_ones(_rows(data)), torch.tensor(1, device=device))
            draws = not torch.equal(before, generators.get_rng_state())
        _known[learner] = Traits(
            draws=draws,
            lockless=_why_not_in_lockstep(learner, belief, data, draws),
            convolves=any(isinstance(layer, nn.modules.conv._ConvNd) for layer in layers),
        )
    return _known[learner]


def _why_not_in_lockstep(learner: Learner, belief: Belief, data: Samples, draws: bool) -> str:
    """The reason why a model cannot be trained many at once, or nothing."""
    for layer in learner.training.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            return f"batch norm ({type(layer).__name__}), whose statistics would see the padding"
    if draws:
        return "random numbers of its own, which cannot be kept apart"
    few = _rows(data)
    two = tree.rows(tree.stack([belief]), torch.tensor([0, 0]))
    batches = Batch(*(torch.stack([t, t]) for t in _batch_of_ones(few)))
    seeds = torch.tensor([1, 2], device=few.x.device)
    try:
        with seeded(1, few.x.device):
            drawn = vmap(learner.drawn)(batches, seeds)
            vmap(learner.gradient)(dict(two), drawn, seeds)
    except Refused:  # work is to end, which says nothing of the model
        raise
    except Exception as error:  # whatever a module may do that has no batched form
        return f"operations that have no batched form ({(str(error).splitlines() or [''])[0][:80]})"
    # whether a transform does to rows what it does to them without the padding behind them
    fewer = Samples(few.x[: ROWS // 2], few.y[: ROWS // 2])
    whole, part = (learner.drawn(_batch_of_ones(rows), seeds[0]).x for rows in (few, fewer))
    if not torch.allclose(whole[: len(part)], part):
        return "a transform that draws other numbers when more rows are in a batch"
    return ""


def _batch_of_ones(rows: Samples) -> Batch:
    """All of them, none of them padding."""
    return Batch(rows.x, rows.y, torch.ones(len(rows), dtype=rows.x.dtype, device=rows.x.device))


def _rows(data: Samples) -> Samples:
    index = torch.arange(ROWS, device=data.x.device) % len(data)
    return Samples(data.x[index], data.y[index])
