"""Models as bytes: which tensors there are, and where the bytes of each lie.

A `Layout` tells dtype and shape of each tensor by its name. `flat` lays all of their bytes one after the
other in an order that depends on the layout alone, `unflat` takes them apart again. `planes` puts the first
bytes of all numbers side by side, then the second ones, and so on: numbers of one kind have like last bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from coterie.core.checks import in_one_line
from coterie.core.errors import BadData, BadInput, shown

LONGEST_NAME, MOST_DIMENSIONS, MOST_NUMBERS = 512, 16, 2**48

# bytes of a number by its dtype; a complex one is two numbers
WIDTHS = {
    **dict.fromkeys(("float64", "int64", "uint64", "complex128"), 8),
    **dict.fromkeys(("float32", "int32", "uint32", "complex64"), 4),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("int8", "uint8", "bool", "float8_e4m3fn", "float8_e5m2"), 1),
}

Bytes = npt.NDArray[np.uint8]
Layout = dict[str, tuple[str, tuple[int, ...]]]  # dtype and shape by name


# names, dtypes and shapes


def layout_of(tensors: Mapping[str, Tensor]) -> Layout:
    layout: Layout = {}
    for name, t in tensors.items():
        kind = str(t.dtype).removeprefix("torch.")
        if kind not in WIDTHS:
            raise BadInput(
                f"tensor {shown(name)} of dtype {kind} cannot be sent: use one of {', '.join(WIDTHS)}"
            )
        layout[name] = (kind, tuple(t.shape))
    return layout


def listed(layout: Layout) -> list[list[Any]]:
    """A layout as JSON holds it."""
    return [[name, kind, list(shape)] for name, (kind, shape) in layout.items()]


def told_layout(told: Any) -> Layout:
    """The inverse of `listed`, of what came from elsewhere."""
    if not isinstance(told, list):
        raise BadData(f"a packed model lists its tensors; got {shown(told)}: send it again")
    layout: Layout = {}
    for entry in told:
        name, kind, shape = entry if isinstance(entry, list) and len(entry) == 3 else ("", "", [])
        if not (isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and in_one_line(name)):
            raise BadData(
                f"a packed tensor has a name, a dtype and a shape; got {shown(entry)}: send it again"
            )
        if name in layout:
            raise BadData(f"a packed model has tensor {shown(name)} twice: send it again")
        if not (isinstance(kind, str) and kind in WIDTHS):
            raise BadData(f"packed tensor {shown(name)} is of dtype {shown(kind)}: use float32")
        if not _is_shape(shape):
            raise BadData(f"packed tensor {shown(name)} cannot have the shape {shown(shape)}: send it again")
        layout[name] = (kind, tuple(shape))
    return layout


def _is_shape(shape: Any) -> bool:
    if not (isinstance(shape, list) and len(shape) <= MOST_DIMENSIONS):
        return False
    if not all(type(d) is int and d >= 0 for d in shape):
        return False
    # also where a zero makes the tensor empty: torch multiplies the others for its strides
    return bool(math.prod(max(d, 1) for d in shape) <= MOST_NUMBERS)


def size_of(layout: Layout) -> int:
    """Bytes of all tensors."""
    return sum(_nbytes(kind, shape) for kind, shape in layout.values())


def _nbytes(kind: str, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * WIDTHS[kind] * (2 if kind.startswith("complex") else 1)


# tensors and bytes


def flat(tensors: Mapping[str, Tensor], layout: Layout) -> Bytes:
    """All bytes: numbers of eight bytes first, then of four, two and one; within these by name, so that the
    order in which a model lists its tensors does not matter. The lowest byte of a number comes first.
    """
    whole = np.empty(size_of(layout), np.uint8)
    for name, start, stop in _places(layout):
        if start < stop:
            t = tensors[name].detach().cpu().resolve_conj().resolve_neg().contiguous()
            whole[start:stop] = t.reshape(-1).view(torch.uint8).numpy()
    return whole


def unflat(whole: Bytes, layout: Layout) -> dict[str, Tensor]:
    """The tensors, in memory of their own and in the layout's order."""
    found = {}
    for name, start, stop in _places(layout):
        kind, shape = layout[name]
        if kind == "bool" and (whole[start:stop] > 1).any():
            raise BadData(f"packed tensor {shown(name)} holds what is neither true nor false: send it again")
        own = torch.empty(stop - start, dtype=torch.uint8)
        own.numpy()[:] = whole[start:stop]
        found[name] = own.view(getattr(torch, kind)).reshape(shape)
    return {name: found[name] for name in layout}


def _places(layout: Layout) -> list[tuple[str, int, int]]:
    """Where each tensor's bytes start and stop."""
    places, start = [], 0
    for name in sorted(layout, key=lambda n: (-WIDTHS[layout[n][0]], n)):
        stop = start + _nbytes(*layout[name])
        places.append((name, start, stop))
        start = stop
    return places


def groups(layout: Layout) -> list[tuple[int, int, int]]:
    """Where the numbers of each width start and stop: (width, start, stop), empty ones left out."""
    found: dict[int, tuple[int, int]] = {}
    for name, start, stop in _places(layout):
        width = WIDTHS[layout[name][0]]
        found[width] = (found.get(width, (start, stop))[0], stop)
    return [(width, *ends) for width, ends in found.items() if ends[0] < ends[1]]


def planes(whole: Bytes, layout: Layout) -> Bytes:
    made = np.empty_like(whole)
    for width, start, stop in groups(layout):
        made[start:stop].reshape(width, -1)[:] = whole[start:stop].reshape(-1, width).T
    return made


def unplanes(made: Bytes, layout: Layout) -> Bytes:
    whole = np.empty_like(made)
    for width, start, stop in groups(layout):
        whole[start:stop].reshape(-1, width)[:] = made[start:stop].reshape(width, -1).T
    return whole
