"""A row as people read it: a picture, as PNG with the same bytes each time, or columns of a table in their
units; and how alike two rows are.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coterie.data.preparation import Preparation

BEFORE = b"\x89PNG\r\n\x1a\n"


def png(pixels: np.ndarray) -> bytes:
    """Grey [height, width] or coloured [height, width, 3] pixels of 0 to 255."""
    pixels = np.ascontiguousarray(pixels, dtype=np.uint8)
    height, width = pixels.shape[:2]
    kind = 0 if pixels.ndim == 2 else 2
    lines = pixels.reshape(height, -1)
    raw = np.concatenate([np.zeros((height, 1), dtype=np.uint8), lines], axis=1).tobytes()
    header, whole = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0), BEFORE
    for name, data in ((b"IHDR", header), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b"")):
        whole += struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return whole


def pixels_of(picture: np.ndarray, low: float, high: float) -> np.ndarray:
    """[channel, height, width] as pixels, `low` black and `high` white; the first channel unless there are
    three.
    """
    scaled = (np.asarray(picture, dtype=np.float64) - low) / ((high - low) or 1.0)
    levels = np.rint(255 * np.clip(np.nan_to_num(scaled), 0, 1)).astype(np.uint8)
    return np.moveaxis(levels, 0, 2) if len(levels) == 3 else levels[0]


def enlarged(pixels: np.ndarray, least: int = 96) -> np.ndarray:
    """Every pixel as a square of several, so that a small picture can be seen."""
    times = max(1, -(-least // max(pixels.shape[:2])))
    return pixels.repeat(times, axis=0).repeat(times, axis=1)


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
            here, at = slice(at, at + len(part.inputs)), at + len(part.inputs)
            if part.read:
                x, y = (part.column.of.text_of_inputs(part.column, values[here]) for values in (a, b))
                read.append((part.column.name, x, y))
    listed = [{"column": name, "original": x, "recovered": y} for name, x, y in read]
    return listed[:MOST_COLUMNS]
