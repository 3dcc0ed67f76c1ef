"""A model and its loss as pure functions of a belief.

The module inside is only a shape to call through: its own tensors are never read or written. Training
and scoring use two copies, so no mode is ever switched back and forth.
"""

from __future__ import annotations

import contextlib
import copy
from typing import NamedTuple

from torch import Tensor, nn
from torch.func import functional_call, grad_and_value
from torch.nn import functional as F

from coterie.core.belief import Belief
from coterie.core.client import Task
from coterie.core.dropout import SeededDropout
from coterie.core.errors import BadInput


class Batch(NamedTuple):
    """Rows to learn from; `weight` is 1 for a row and 0 for padding."""

    x: Tensor
    y: Tensor
    weight: Tensor


class Gradient(NamedTuple):
    """The mean loss over a batch, its gradient, and the buffers as the forward pass left them."""

    loss: Tensor
    grads: dict[str, Tensor]
    buffers: dict[str, Tensor]


class Learner:
    """`model` maps x [n, ...] to logits [n, class], or to [n, 1] for a regression."""

    def __init__(self, model: nn.Module, task: Task) -> None:
        self.task = task
        self.training = copy.deepcopy(model).train()
        self.scoring = copy.deepcopy(model).eval()
        self.trainable = tuple(n for n, p in model.named_parameters() if p.requires_grad)
        self.buffers = tuple(n for n, _ in model.named_buffers())
        self.drops = any("drop" in type(m).__name__.lower() for m in model.modules())

    def outputs(self, belief: Belief, x: Tensor) -> Tensor:
        """Predictions without training: batch norm by its running statistics, no dropout."""
        out: Tensor = functional_call(self.scoring, dict(belief), (x,))
        return out

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss of each sample [n]: cross-entropy, or the squared error."""
        if self.task == "regression":
            return (outputs.squeeze(-1) - y).square()
        # cross-entropy without the rows that torch's own leaves out: under vmap those cost half a step
        return -F.log_softmax(outputs, dim=1).gather(1, y.unsqueeze(1)).squeeze(1)

    def gradient(self, belief: Belief, batch: Batch, seed: Tensor) -> Gradient:
        """∇ of the mean loss over the batch's real rows; `seed` draws the dropout masks."""
        moving = {n: belief[n] for n in self.trainable}
        still = {n: t for n, t in belief.items() if n not in moving}

        def loss(params: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            # batch norm writes its statistics in place: give it copies
            buffers = {n: still[n].clone() for n in self.buffers}
            with dropout_of(self, seed):
                try:
                    out = functional_call(self.training, {**still, **params, **buffers}, (batch.x,))
                except ValueError as error:
                    raise BadInput(self.explained(error)) from None
            total = (self.losses(out, batch.y) * batch.weight).sum()
            return total / batch.weight.sum().clamp(min=1), buffers

        grads, (value, buffers) = grad_and_value(loss, has_aux=True)(moving)
        return Gradient(value, grads, buffers)

    @staticmethod
    def explained(error: ValueError) -> str:
        """What a layer's refusal means; any other error is the model's own."""
        if "more than 1 value per channel" not in str(error):
            raise error
        return (
            "batch norm cannot train on a batch of 1, and with this batch size some client has "
            "one (perhaps the last of its epoch): choose another batch size"
        )


def dropout_of(learner: Learner, seed: Tensor) -> contextlib.AbstractContextManager[object]:
    """Seeded masks inside, for a model that has any dropout."""
    return SeededDropout(seed) if learner.drops else contextlib.nullcontext()
