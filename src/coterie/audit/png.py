"""Pictures as PNG, without a library: the same bytes each time."""

from __future__ import annotations

import struct
import zlib

import numpy as np

BEFORE = b"\x89PNG\r\n\x1a\n"


def png(pixels: np.ndarray) -> bytes:
    """Grey [height, width] or coloured [height, width, 3] pixels of 0 to 255."""
    pixels = np.ascontiguousarray(pixels, dtype=np.uint8)
    height, width = pixels.shape[:2]
    kind = 0 if pixels.ndim == 2 else 2
    lines = pixels.reshape(height, -1)
    raw = np.concatenate([np.zeros((height, 1), dtype=np.uint8), lines], axis=1).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b""))
    return BEFORE + b"".join(_chunk(name, data) for name, data in parts)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


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
