"""A model and its loss as pure functions of a belief.

The module inside is only a shape to call through: its own tensors are never read or written. Training
and scoring use two copies, so no mode is ever switched back and forth.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional as F

from coterie.core.belief import Belief
from coterie.core.client import Task
from coterie.core.draws import SeededDraws
from coterie.core.dropout import SeededDropout
from coterie.core.errors import BadInput
from coterie.core.groups import Groups, each, part_numbers
from coterie.core.survival import cox
from coterie.core.target_scale import scale_of
from coterie.core.watch import Watch

Loss = Callable[[Tensor, Tensor], Tensor]
"""Of outputs [n, ...] and targets y [n], one number for each row [n]: padding counts by a weight of 0."""


def cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    """Without the rows that torch's own leaves out: under vmap those cost half a step."""
    return -F.log_softmax(outputs, dim=1).gather(1, y.unsqueeze(1)).squeeze(1)


def _squared_error(outputs: Tensor, y: Tensor) -> Tensor:
    return (outputs.squeeze(-1) - y).square()


LOSSES: dict[Task, Callable[..., Tensor]] = {
    "classification": cross_entropy,
    "regression": _squared_error,
    "survival": cox,
}
"""What a task's models are trained by, and their `loss` is, unless somebody gives another."""
COUPLED: tuple[Callable[..., Tensor], ...] = (cox,)
"""Losses that look at all rows of a batch at once: they take its weights too, to look past padding."""


NO_ROW = (
    "its loss compares rows, so none can be clipped or hidden by itself: use bounded(...) for a whole client"
)
"""Why what works row by row is refused, and what to do."""


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


Term = Callable[[Belief], Mapping[str, Tensor]]
"""Something to add to a gradient that looks at no rows, such as a pull towards an anchor."""


class Learner:
    """`model` maps x [n, ...] to logits [n, class], or to [n, 1] where there are no classes; `loss` is what
    it is trained by, the task's own if none is given. `transform` is what rows go through before each step,
    if anything. `terms` are in its gradients already. `units` [row] say which rows of a step are about one
    patient, for work that holds some out; None: each is about its own, or nobody asks.
    """

    terms: tuple[Term, ...] = ()
    units: Tensor | None = None

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        loss: Loss | None = None,
        transform: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.task, self.rule, self.transform = task, loss or LOSSES[task], transform
        self.watch, self.scale = Watch(), scale_of(model)
        self.training = copy.deepcopy(model).train()
        self.scoring = copy.deepcopy(model).eval()
        self.trainable = tuple(n for n, p in model.named_parameters() if p.requires_grad)
        self.buffers = tuple(n for n, _ in model.named_buffers())
        self.drops = any("drop" in type(m).__name__.lower() for m in model.modules())

    @property
    def couples(self) -> bool:
        """Whether the loss of a row depends on the rows beside it."""
        return self.rule in COUPLED

    def losses(self, outputs: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """One number for each row [n] of a batch, of which those of weight 0 are padding."""
        rule: Callable[..., Tensor] = self.rule
        return rule(outputs, y, weight) if self.couples else rule(outputs, y)

    def losses_of_step(self, outputs: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        """The same in the unit of the model's targets, where it has one: what steps go down."""
        losses, plain = self.losses(outputs, y, weight), self.rule is not _squared_error
        return losses if plain or self.scale.unit == 1 else losses / self.scale.unit**2

    def losses_in(self, outputs: Tensor, y: Tensor, groups: Groups, apart: Tensor | None = None) -> Tensor:
        """The same of rows [n] of several clients: no row is beside another client's, nor are those of one
        client that are in two parts, `apart` [n] being 0 or 1.
        """
        if not self.couples:
            return self.losses(outputs, y)
        return each(part_numbers(groups, apart), self.losses, outputs, y)

    def outputs(self, belief: Belief, x: Tensor) -> Tensor:
        """Predictions without training: batch norm by its running statistics, no dropout."""
        self.watch.check()
        out: Tensor = functional_call(self.scoring, dict(belief), (x,))
        return out

    def drawn(self, batch: Batch, seed: Tensor) -> Batch:
        """A batch of a step, its rows through the transform."""
        if self.transform is None:
            return batch
        with torch.no_grad(), SeededDraws(seed):
            return batch._replace(x=self.transform(batch.x))

    def gradient(self, belief: Belief, batch: Batch, seed: Tensor) -> Gradient:
        """∇ of the mean loss over the batch's real rows; `seed` draws the dropout masks."""
        self.watch.check()
        value, *found = self._derived(belief, batch, seed)
        grads = dict(zip(self.trainable, found, strict=False))
        return Gradient(value, grads, dict(zip(self.buffers, found[len(grads) :], strict=True)))

    def only(self, names: Collection[str]) -> Learner:
        """The same with fewer trained parameters: those of these names."""
        made = copy.copy(self)
        made.trainable = tuple(n for n in self.trainable if n in names)
        if not made.trainable:
            raise BadInput(f"none of {', '.join(names) or 'no names'} is trained in this model: name others")
        return made

    def about(self, units: Tensor) -> Learner:
        """The same for a step whose rows are about these patients."""
        made = copy.copy(self)
        made.units = units
        return made

    def hessian_vector_product(
        self, belief: Belief, batch: Batch, seed: Tensor, along: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """∇²L · d, how the gradient changes along a direction d that has a tensor for each parameter."""
        found = self._derived(belief, batch, seed, *(along[n] for n in self.trainable))
        return dict(zip(self.trainable, found, strict=True))

    def _derived(self, belief: Belief, batch: Batch, seed: Tensor, *along: Tensor) -> tuple[Tensor, ...]:
        moving = [belief[n] for n in self.trainable]
        still = {n: t for n, t in belief.items() if n not in self.trainable}
        tensors = (seed, *batch, *still.values(), *moving, *along)
        found: tuple[Tensor, ...] = _Gradient.apply(self, tuple(still), *tensors)  # type: ignore[no-untyped-call]
        return found

    def clipped(self, belief: Belief, batch: Batch, seed: Tensor, clip: float) -> dict[str, Tensor]:
        """The sum of all rows' gradients, each clipped to that norm: see `rowwise.py`; without terms."""
        from coterie.core.rowwise import clipped_sum

        if self.couples:
            raise BadInput(f"no row of a {self.task} has a gradient of its own: {NO_ROW}")
        return clipped_sum(self, belief, batch, seed, clip)

    def loss(self, belief: Belief, batch: Batch, seed: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The mean loss over the batch's real rows, and the buffers as the forward pass leaves them."""
        # batch norm writes its statistics in place: give it copies
        buffers = {n: belief[n].clone() for n in self.buffers}
        with dropout_of(self, seed):
            try:
                out = functional_call(self.training, {**belief, **buffers}, (batch.x,))
            except ValueError as error:
                raise BadInput(self.explained(error)) from None
        total = (self.losses_of_step(out, batch.y, batch.weight) * batch.weight).sum()
        return total / batch.weight.sum().clamp(min=1), list(buffers.values())

    @staticmethod
    def explained(error: ValueError) -> str:
        """What a layer's refusal means; any other error is the model's own."""
        if "more than 1 value per channel" not in str(error):
            raise error
        return (
            "batch norm cannot train on a batch of 1, and with this batch size some client has "
            "one (perhaps the last of its epoch): choose another batch size"
        )


def with_term(learner: Learner, term: Term) -> Learner:
    """A learner whose gradients have one more term in them."""
    made, plain = copy.copy(learner), learner.gradient

    def gradient(belief: Belief, batch: Batch, seed: Tensor) -> Gradient:
        found = plain(belief, batch, seed)
        return found._replace(grads=plus(found.grads, term(belief)))

    made.gradient, made.terms = gradient, (*learner.terms, term)  # type: ignore[method-assign]
    return made


def plus(grads: Mapping[str, Tensor], more: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {n: g + more[n] for n, g in grads.items()}


def dropout_of(learner: Learner, seed: Tensor) -> contextlib.AbstractContextManager[object]:
    """Seeded masks inside, for a model that has any dropout."""
    return SeededDropout(seed) if learner.drops else contextlib.nullcontext()


class _Gradient(torch.autograd.Function):
    """Loss, gradients and buffers of one edge; under vmap those of all edges, by one backward pass. With a
    direction behind the parameters, how the gradients change along it, by a second pass.

    Edges do not touch each other, so the gradient of the sum of their losses is that of each. torch.func.grad
    would do the same, but imports torch's compiler, which takes more than a second.
    """

    @staticmethod
    def forward(learner: Learner, names: Sequence[str], seed: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        return _Gradient._found(learner, names, seed, tensors, lambda f: f)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def vmap(
        info: Any, in_dims: Sequence[int | None], learner: Learner, names: Sequence[str], *tensors: Tensor
    ) -> tuple[tuple[Tensor, ...], int]:
        n: int = info.batch_size
        seed, *each = (
            t.expand(n, *t.shape) if at is None else t.movedim(at, 0) if at else t
            for t, at in zip(tensors, in_dims[2:], strict=True)
        )
        return _Gradient._found(learner, names, seed, each, vmap), 0

    @staticmethod
    def _found(
        learner: Learner, names: Sequence[str], seed: Tensor, tensors: Sequence[Tensor], batched: Any
    ) -> tuple[Tensor, ...]:
        rows, still, rest = tensors[:3], tensors[3 : 3 + len(names)], tensors[3 + len(names) :]
        moving, along = rest[: len(learner.trainable)], rest[len(learner.trainable) :]

        def loss(seed: Tensor, rows: Any, still: Any, moving: Any) -> tuple[Tensor, list[Tensor]]:
            belief = dict(zip((*names, *learner.trainable), (*still, *moving), strict=True))
            return learner.loss(belief, Batch(*rows), seed)

        with torch.enable_grad():
            leaves = [t.detach().requires_grad_() for t in moving]
            value, buffers = batched(loss)(seed, tuple(rows), tuple(still), leaves)
            if along:
                return curved(value.sum(), leaves, along)
            grads = torch.autograd.grad(value.sum(), leaves, allow_unused=True, materialize_grads=True)
        return value.detach(), *grads, *(b.detach() for b in buffers)


def curved(value: Tensor, leaves: Sequence[Tensor], along: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """∇²L · d for the loss L of these leaves: the gradient of ⟨∇L, d⟩."""
    grads = torch.autograd.grad(value, leaves, create_graph=True, allow_unused=True, materialize_grads=True)
    slope = torch.stack([(g * d).sum() for g, d in zip(grads, along, strict=True)]).sum()
    if not slope.requires_grad:  # a loss that is linear in all of them
        return tuple(torch.zeros_like(leaf) for leaf in leaves)
    return torch.autograd.grad(slope, leaves, allow_unused=True, materialize_grads=True)
