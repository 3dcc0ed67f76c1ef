"""Rows from the step of a first linear layer.

Phong, Aono, Hayashi, Wang and Moriai, 2018, "Privacy-Preserving Deep Learning via Additively Homomorphic
Encryption", section 3. For z = W x + b and any loss behind it,

    dL/dW_i = (dL/dz_i) x,    dL/db_i = dL/dz_i,    so    x = (dL/dW_i) / (dL/db_i)

for every unit i whose bias moves: one row is recovered exactly, without guessing anything. Of a batch, unit i
gives the mean of its rows, each weighted by its own dL/dz_i: a unit that only one row switches on still gives
that row. The factor of the learning rate is the same above and below the line, so the step of a visit serves
as well as a gradient.

dL/dW is `weight` [unit, input], dL/db `bias` [unit]; `rows_of` gives a candidate for each unit that moves,
the one that moves most first.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

STILL = 1e-6  # of the largest: a bias that moves no more than this says nothing


def rows_of(weight: Tensor, bias: Tensor) -> Tensor:
    """x̂ = ΔW_i / Δb_i for each unit i that moves: [candidate, input]; none if no bias does."""
    weight, bias = weight.double(), bias.double()
    size = bias.abs()
    order = size.argsort(descending=True, stable=True)
    moved = order[size[order] > STILL * float(size.max())]
    return weight[moved] / bias[moved].unsqueeze(1)


def first_layer(model: nn.Module, x: Tensor) -> tuple[str, nn.Module]:
    """The first layer with parameters that inputs [1, ...] pass, and its name."""
    seen: list[tuple[str, nn.Module]] = []
    handles = [
        layer.register_forward_pre_hook(_noting(seen, name, layer))
        for name, layer in model.named_modules()
        if next(layer.parameters(recurse=False), None) is not None
    ]
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return seen[0]


def takes_rows_as_they_are(model: nn.Module, x: Tensor) -> tuple[str, str] | None:
    """The names of weight and bias of a first linear layer that gets the inputs unchanged; None otherwise."""
    name, layer = first_layer(model, x)
    if not isinstance(layer, nn.Linear) or layer.bias is None:
        return None
    caught: list[Tensor] = []
    handle = layer.register_forward_pre_hook(lambda _, given: caught.append(given[0]))
    try:
        with torch.no_grad():
            model(x)
    finally:
        handle.remove()
    same = caught[0].numel() == x.numel() and torch.equal(caught[0].reshape(-1), x.reshape(-1))
    inside = f"{name}." if name else ""  # a model may be one layer
    return (f"{inside}weight", f"{inside}bias") if same else None


def _noting(seen: list[tuple[str, nn.Module]], name: str, layer: nn.Module) -> Callable[..., None]:
    return lambda *_: seen.append((name, layer))
