"""A learner that runs its module as any PyTorch program does: for one thread, and for large layers.

Beliefs are swapped into a module of its own, and gradients come from autograd without functional
transforms. The same numbers as `Learner` up to the order of sums, with less work around each operation.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from coterie.core.belief import Belief
from coterie.core.errors import BadInput
from coterie.core.learner import Batch, Gradient, Learner, dropout_of


class EagerLearner(Learner):
    """A `Learner` for one thread at a time."""

    def __init__(self, learner: Learner) -> None:
        self.task, self.training, self.scoring = (
            learner.task,
            copy.deepcopy(learner.training),
            learner.scoring,
        )
        self.trainable, self.buffers, self.drops = learner.trainable, learner.buffers, learner.drops
        self._params = dict(self.training.named_parameters())
        self._homes = [(*_home(self.training, name), name) for name in self.buffers]
        self._pictures = any(isinstance(m, nn.Conv2d) for m in self.training.modules())

    def gradient(self, belief: Belief, batch: Batch, seed: Tensor) -> Gradient:
        for name, param in self._params.items():
            param.data = belief[name]
        # batch norm writes its statistics in place: give it copies
        buffers = {name: belief[name].clone() for name in self.buffers}
        for owner, leaf, name in self._homes:
            owner._buffers[leaf] = buffers[name]
        x = batch.x
        if self._pictures and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        with torch.enable_grad(), dropout_of(self, seed):
            losses = self.losses(self._forward(x), batch.y)
            loss = (losses * batch.weight).sum() / batch.weight.sum().clamp(min=1)
            moving = [self._params[n] for n in self.trainable]
            grads = torch.autograd.grad(loss, moving, allow_unused=True, materialize_grads=True)
        return Gradient(loss.detach(), dict(zip(self.trainable, grads, strict=True)), buffers)

    def _forward(self, x: Tensor) -> Tensor:
        try:
            out: Tensor = self.training(x)
        except ValueError as error:
            raise BadInput(self.explained(error)) from None
        return out


def _home(module: nn.Module, name: str) -> tuple[nn.Module, str]:
    """The submodule that holds a buffer, and its name there."""
    path, _, leaf = name.rpartition(".")
    return module.get_submodule(path), leaf
