"""A row as people read it: a picture, or columns of a table in their units; and how alike two rows are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coterie.audit.png import enlarged, pixels_of, png
from coterie.data.preparation import Part, Preparation

MOST_COLUMNS = 40
LOUDEST = 150.0  # dB: what is left is rounding


def cosines(found: Tensor, rows: Tensor) -> Tensor:
    """[candidate, row] of the angle between them."""
    a, b = (t.double().flatten(1) for t in (found, rows))
    sizes = a.norm(dim=1, keepdim=True) * b.norm(dim=1)
    found_cosines: Tensor = (a @ b.T) / sizes.clamp(min=torch.finfo(torch.float64).tiny)
    return found_cosines


def psnr(found: Tensor, row: Tensor, span: float) -> float:
    """10 log10(span² / mean squared error), in dB; `span` is from the darkest to the brightest."""
    error = float((found.double() - row.double()).square().mean())
    return LOUDEST if error == 0 else min(LOUDEST, 10 * math.log10(span**2 / error))


def is_picture(shape: Sequence[int]) -> bool:
    return len(shape) == 3 and shape[0] in (1, 3) and min(shape[1:]) > 1


def side_by_side(original: Tensor, found: Tensor, low: float, high: float) -> bytes:
    """Two pictures as one PNG, the original on the left, with a grey bar between them."""
    left, right = (enlarged(pixels_of(t.double().numpy(), low, high)) for t in (original, found))
    bar = np.full((left.shape[0], 12, *left.shape[2:]), 128, dtype=np.uint8)
    return png(np.concatenate([left, bar, right], axis=1))


def columns(
    original: Tensor, found: Tensor, features: Sequence[str], preparation: Preparation | None
) -> list[dict[str, Any]]:
    """{column, original, recovered} in the units of the table, where it is known how inputs were made."""
    a, b = original.double().flatten().tolist(), found.double().flatten().tolist()
    if preparation is None or len(preparation.features) != len(a):
        names = list(features) if len(features) == len(a) else [f"input {i + 1}" for i in range(len(a))]
        read = [(name, f"{x:.4g}", f"{y:.4g}") for name, x, y in zip(names, a, b, strict=True)]
    else:
        read, at = [], 0
        for part in preparation.parts:
            width = len(part.inputs)
            if part.read:
                read.append(
                    (part.column.name, text_of(part, a[at : at + width]), text_of(part, b[at : at + width]))
                )
            at += width
    listed = [{"column": name, "original": x, "recovered": y} for name, x, y in read]
    return listed[:MOST_COLUMNS]


def text_of(part: Part, inputs: Sequence[float]) -> str:
    """The inputs of one column as a value of the table."""
    column = part.column
    if column.kind == "category":
        return column.values[int(np.argmax(inputs[: len(column.values)]))]
    if column.kind == "flag":
        return f"{inputs[0]:.2g}"
    value = inputs[0] * column.spread + column.center
    return f"{value:.4g} {column.unit}".strip()
