"""Dropout whose masks come from a seed, so that every engine drops the same units.

The mask is a hash of (seed, which dropout call of the forward pass, position in the sample, sample): pure
integer arithmetic on tensors, with no generator to share between threads or to hide from `vmap`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from coterie.core.devices import widest

_WORD = 0xFFFFFFFF


def _scramble(x: Tensor) -> Tensor:
    """A 32-bit finaliser (multiply and shift) on int64 tensors that hold 32-bit words."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _WORD
    x = ((x ^ (x >> 15)) * 0x6C62272F + 0x9E3779B9) & _WORD
    x = ((x ^ (x >> 16)) * 0x2C1B3C6D) & _WORD
    return x ^ (x >> 15)


def uniform(seed: Tensor, call: int, count: int) -> Tensor:
    """`count` numbers in [0, 1) that belong to (seed, call)."""
    position = torch.arange(count, dtype=torch.int64, device=seed.device)
    word = _scramble(seed & _WORD) ^ _scramble(((seed >> 32) + 0x51ED27 * (call + 1)) & _WORD)
    # the word once more: else seed and position could change places
    return _scramble(_scramble(position & _WORD) ^ _scramble(word)).to(widest(seed.device)) / 2.0**32


class SeededDropout(TorchFunctionMode):
    """Inside, the functions behind nn.Dropout and nn.Dropout1d to 3d draw their masks from `seed`."""

    def __init__(self, seed: Tensor) -> None:
        super().__init__()
        self._seed, self._call = seed, 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.dropout or func in _WHOLE_CHANNELS:
            return self._drop(func in _WHOLE_CHANNELS, *args, **kwargs)
        return func(*args, **kwargs)

    def _drop(
        self, channels: bool, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if not training or p == 0:
            return input
        if p == 1:
            return input * 0
        shape = (*input.shape[:2], *[1] * (input.ndim - 2)) if channels else tuple(input.shape)
        keep = uniform(self._seed, self._call, math.prod(shape)).reshape(shape) >= p
        self._call += 1
        return input * keep.to(device=input.device, dtype=input.dtype) / (1 - p)


_WHOLE_CHANNELS = (F.dropout1d, F.dropout2d, F.dropout3d)
