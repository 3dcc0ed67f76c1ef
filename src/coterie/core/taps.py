"""Where a model's trained parameters meet its rows: the calls of linear layers and convolutions.

If all that a forward pass does with its trained parameters is such calls, one each, then the gradient of a
row is known from what went into them and from the slope of the row's loss along what came out of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


class Use(NamedTuple):
    """One call of a layer: the names of its weight and bias, the shape of what it gives for a row, and for a
    convolution its kernel's size and how it moves.
    """

    weight: str
    bias: str | None
    shape: tuple[int, ...]
    moves: dict[str, Any] | None


class Uses(TorchFunctionMode):
    """Inside, notes what happens to the tensors that `names` knows by id; `known` says whether it was calls
    of these layers alone.
    """

    def __init__(self, names: Mapping[int, str], rows: int) -> None:
        super().__init__()
        self._names, self._rows = names, rows
        self.found: list[Use] = []
        self.known = True

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if any(id(leaf) in self._names for leaf in pytree.tree_leaves((args, kwargs))):
            use = self._use(out, *args, **kwargs) if func in (F.linear, F.conv2d) else None
            self.known &= use is not None
            self.found += [use] if use else []
        return out

    def _use(
        self,
        out: Tensor,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Use | None:
        name = self._names.get(id(weight))
        convolves = weight.ndim == 4
        if name is None or len(input) != self._rows or isinstance(padding, str) or groups != 1:
            return None
        if input.ndim != (4 if convolves else 2):
            return None
        moves = {"kernel_size": tuple(weight.shape[2:]), "dilation": dilation, "padding": padding}
        shape = tuple(out.shape[1:])
        return Use(
            name,
            self._names.get(id(bias)),
            shape,
            {**moves, "stride": 1 if stride is None else stride} if convolves else None,
        )


class Taps(TorchFunctionMode):
    """Inside, adds a tap to what each of the layers gives, in the order of their calls, and keeps what went
    in.
    """

    def __init__(self, weights: Sequence[Tensor], taps: Sequence[Tensor]) -> None:
        super().__init__()
        self._weights = {id(w) for w in weights}
        self._taps = list(taps)
        self.inputs: list[Tensor] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in (F.linear, F.conv2d):
            given = (args + tuple((kwargs or {}).values()))[:2]
            if id(given[1]) in self._weights:
                self.inputs.append(given[0])
                return out + self._taps[len(self.inputs) - 1]
        return out


def squares(use: Use, given: Tensor, slope: Tensor) -> tuple[Tensor, Tensor | None]:
    """‖g_i‖² of each row's gradient by one layer's parameters [..., row], and for a convolution that gradient
    of its weight [..., row, out, in · positions].

    A linear layer's is an outer product, δ_i a_iᵀ, whose norm needs no product: ‖δ_i‖ ‖a_i‖.
    """
    if use.moves is None:
        along = slope.square().sum(-1)
        found = along * given.square().sum(-1)
        return (found + along if use.bias else found), None
    outer = per_row(use.moves, given, slope)
    found = outer.flatten(-2).square().sum(-1)
    return (found + slope.flatten(-2).sum(-1).square().sum(-1) if use.bias else found), outer


def per_row(moves: Mapping[str, Any], given: Tensor, slope: Tensor) -> Tensor:
    """Each row's gradient by the weight of a convolution: δ_i U_iᵀ, with the patches U_i of its input."""
    ahead = given.shape[:-3]
    patches = F.unfold(given.flatten(0, -4), **moves)
    outer = torch.bmm(slope.flatten(-2).flatten(0, -3), patches.transpose(1, 2))
    return outer.view(*ahead, *outer.shape[1:])


def sums(use: Use, given: Tensor, slope: Tensor, outer: Tensor | None, factors: Tensor) -> dict[str, Tensor]:
    """Σ_i f_i g_i by one layer's parameters, as they lie in memory: [..., number]."""
    if use.moves is None or outer is None:
        scaled = factors.unsqueeze(-1) * slope
        found = {use.weight: (scaled.transpose(-1, -2) @ given).flatten(-2)}
        return found | ({use.bias: scaled.sum(-2)} if use.bias else {})
    row = factors.unsqueeze(-2)
    found = {use.weight: (row @ outer.flatten(-2)).squeeze(-2)}
    return found | ({use.bias: (row @ slope.flatten(-2).sum(-1)).squeeze(-2)} if use.bias else {})
