"""The idx format of MNIST: two zero bytes, a type, the number of axes, their sizes, then the values.

Sizes are 32-bit and big-endian; the only type read here is 0x08, unsigned bytes.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from coterie.core.errors import BadData
from coterie.data.dataset import Arrays
from coterie.data.downloads import PublishedFile
from coterie.data.intake import Array

UNSIGNED_BYTE = 8


def four_files(base: str, md5: Sequence[str]) -> tuple[PublishedFile, ...]:
    """Training images, training labels, test images, test labels, as MNIST and its look-alikes name them."""
    names = [
        f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
    ]
    return tuple(PublishedFile(n, f"md5:{m}", base + n) for n, m in zip(names, md5, strict=True))


def read_idx(path: Path) -> Array:
    """The bytes of a gzipped idx file, in its own shape."""
    try:
        raw = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error):
        raise BadData(f"{path} is not a whole gzip file: delete it, then it is fetched again") from None
    axes = raw[3] if len(raw) > 3 else 0
    start = 4 + 4 * axes
    if raw[:3] != bytes([0, 0, UNSIGNED_BYTE]) or not axes or len(raw) < start:
        raise BadData(f"{path} is not an idx file of bytes (starts {raw[:4].hex() or 'empty'}): replace it")
    shape = tuple(int(size) for size in np.frombuffer(raw, ">u4", count=axes, offset=4))
    if len(raw) - start != math.prod(shape):
        raise BadData(
            f"{path} has {len(raw) - start} values, but shape {list(shape)} needs {math.prod(shape)}"
        )
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def read_pool(images: Path, labels: Path) -> Arrays:
    """Grey pictures [n, 1, height, width] as bytes, with their labels."""
    x, y = read_idx(images), read_idx(labels)
    if x.ndim != 3 or y.ndim != 1 or len(x) != len(y):
        raise BadData(
            f"{images} has shape {list(x.shape)}, {labels} {list(y.shape)}: they do not belong together"
        )
    return Arrays(x[:, None], y.astype(np.int64))
