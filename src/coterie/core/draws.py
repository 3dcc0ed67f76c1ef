"""Random numbers of a transform, drawn from the step's seed, so that every engine draws the same.

Inside `SeededDraws` the usual functions of torch (`rand`, `randn`, `rand_like`, `randn_like`, `randint`,
`bernoulli`, dropout) are hashes of (seed, which call, position), as in `dropout.py`: one client at a time or
many side by side, they give the same numbers. Whatever draws in another way moves torch's own generator:
engines find that out, and train such clients one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from coterie.core.dropout import SeededDropout, uniform

APART = 0x2545F4914F6CDD1D  # from the seeds of dropout masks and noise


class SeededDraws(SeededDropout):
    """Inside, what torch draws comes from `seed`."""

    def __init__(self, seed: Tensor) -> None:
        super().__init__(seed ^ APART)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        found = DRAWN.get(func)
        if found is None or not set(kwargs) <= {"dtype", "device", "size", "low", "high", "requires_grad"}:
            return super().__torch_function__(func, types, args, kwargs)
        return found(self.numbers, *args, **kwargs)

    def numbers(self, shape: Any) -> Tensor:
        """In [0, 1), in this shape; each call has others."""
        shape = tuple(shape)
        self._call += 1
        drawn = uniform(self._seed, self._call, math.prod(shape)).reshape(shape)
        return drawn.clamp(max=1 - 2.0**-24)  # below 1 in shorter numbers too


Numbers = Callable[[Any], Tensor]
Law = Callable[[Tensor], Tensor]  # what becomes of uniform numbers


def _of_size(
    law: Law, numbers: Numbers, *size: Any, dtype: Any = None, device: Any = None, **rest: Any
) -> Tensor:
    alone = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    return _as(law(numbers(tuple(rest.get("size", alone)))), dtype, device)


def _like(
    law: Law, numbers: Numbers, like: Tensor, dtype: Any = None, device: Any = None, **rest: Any
) -> Tensor:
    return _as(law(numbers(like.shape)), dtype or like.dtype, device or like.device)


def _normal(drawn: Tensor) -> Tensor:
    """Standard normal numbers of uniform ones, each by itself: Φ⁻¹(u)."""
    tiny = max(2.0**-33, torch.finfo(drawn.dtype).eps)
    found: Tensor = torch.special.ndtri(drawn.clamp(tiny, 1 - tiny))
    return found


def _randint(
    numbers: Numbers, *given: Any, size: Any = None, dtype: Any = None, device: Any = None, **rest: Any
) -> Tensor:
    """(high, size) or (low, high, size), each by place or by name."""
    places = list(given)
    if size is None:
        size = places.pop()
    low, high = rest.get("low", 0), rest.get("high")
    if high is None:
        high = places.pop()
    low = places.pop() if places else low
    drawn = (numbers(size) * (high - low)).floor().clamp(max=high - low - 1) + low
    return _as(drawn, dtype or torch.int64, device)


def _bernoulli(numbers: Numbers, chance: Tensor, **rest: Any) -> Tensor:
    return (numbers(chance.shape).to(chance.device) < chance).to(chance.dtype)


def _as(drawn: Tensor, dtype: Any, device: Any) -> Tensor:
    return drawn.to(device=device or drawn.device, dtype=dtype or torch.get_default_dtype())


DRAWN: dict[Any, Callable[..., Tensor]] = {
    torch.rand: partial(_of_size, lambda drawn: drawn),
    torch.randn: partial(_of_size, _normal),
    torch.rand_like: partial(_like, lambda drawn: drawn),
    torch.randn_like: partial(_like, _normal),
    torch.randint: _randint,
    torch.bernoulli: _bernoulli,
}
