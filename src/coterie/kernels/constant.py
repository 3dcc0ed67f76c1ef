"""The model that looks at no input: what always saying the same has.

    classification   b_c = log((n_c + 1/2) / (n + C/2)),   the shares of the n training rows in C classes
    regression       b   = mean of the targets
    survival         b   = 0,   the same risk for everybody; Kaplan and Meier's curve is the one that goes
                           with it, and an order of patients it has none

The last layer's weights are 0 and its bias is b, whatever comes before it. The half row more in each class is
Jeffreys' prior: a class that a site has not seen is improbable, and not impossible. The model that came is
forgotten, but for the layers that no output depends on any more. Nothing is told: not even a loss.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from coterie.core.belief import Belief, belief_of
from coterie.core.client import Task
from coterie.core.errors import BadInput
from coterie.core.kernel import WORK, Carry, Reply, Tick
from coterie.core.learner import Batch, Learner
from coterie.core.target_scale import TargetScale
from coterie.kernels.solving import Solving, targets_in_units

HALF = 0.5
"""Of a row, for each class."""
NO_LAYER = (
    "always the same answer is a last linear layer of weights 0 and a bias, and this model does not end in "
    "one that has a bias: let it return what an nn.Linear gives"
)


@WORK.register("constant")
@dataclass(frozen=True)
class Constant(Solving):
    """Always the same answer: the shares of the classes, or the mean, of a client's own training rows."""

    numbers: ClassVar[tuple[str, ...]] = ()
    gradients: ClassVar[int] = 0

    def suits(self, model: nn.Module) -> None:
        """Any that ends in the right layer, which shows in a forward pass alone (`tries`)."""

    def tries(self, model: nn.Module, shape: tuple[int, ...]) -> None:
        """Refuses a model that does not end in such a layer, for rows of that shape, before anything runs."""
        first = next(model.parameters())
        row = torch.zeros(1, *shape, dtype=first.dtype, device=first.device)
        _answering_layer(copy.deepcopy(model).eval(), belief_of(model), row)

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        belief: Mapping[str, Tensor] = carry["belief"]
        weight, bias = _answering_layer(learner.scoring, belief, batch.x[:1])
        y = targets_in_units(learner, batch.y)
        always = answer_of(learner.task, y, len(belief[bias])).to(belief[bias])
        after = {**belief, weight: torch.zeros_like(belief[weight]), bias: always}
        return {**carry, "belief": after}

    def finish(self, carry: Carry) -> Reply:
        return Reply(carry["belief"], carry["memory"], {})


def answer_of(task: Task, y: Tensor, outputs: int) -> Tensor:
    """[output] what a model gives that has seen targets alone."""
    if task == "regression":
        return y.double().mean().expand(outputs)
    if task == "survival":
        return torch.zeros(outputs, dtype=torch.float64)
    counts = torch.bincount(y.cpu(), minlength=outputs).double() + HALF
    return (counts / counts.sum()).log()


def _answering_layer(model: nn.Module, belief: Belief, x: Tensor) -> tuple[str, str]:
    """Weight and bias, by their names, of the linear layer whose output is the model's, but for a scale of
    targets behind it; a refusal if there is none. The model is in eval mode; its own tensors are not looked
    at.
    """
    called = list[tuple[str, Tensor]]()

    def note(layer: nn.Module, given: tuple[Tensor, ...], out: Tensor, name: str) -> None:
        if isinstance(layer, nn.Linear):
            called.append((name, out))
        elif called and called[-1][1] is given[0]:  # a scale
            called[-1] = (called[-1][0], out)

    layers = [(n, layer) for n, layer in model.named_modules() if isinstance(layer, nn.Linear | TargetScale)]
    hooks = [layer.register_forward_hook(functools.partial(note, name=name)) for name, layer in layers]
    try:
        with torch.no_grad():
            out = functional_call(model, dict(belief), (x,))
    finally:
        for hook in hooks:
            hook.remove()
    if not called or called[-1][1] is not out:
        raise BadInput(NO_LAYER)
    name = called[-1][0]
    weight, bias = (f"{name}.{of}" if name else of for of in ("weight", "bias"))
    if bias not in belief:
        raise BadInput(NO_LAYER)
    return weight, bias
