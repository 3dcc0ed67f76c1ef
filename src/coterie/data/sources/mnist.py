"""MNIST and Fashion-MNIST, which has its form: four files in the format idx.

That is two zero bytes, a type, the number of axes, their sizes, then the values. Sizes are 32-bit and
big-endian; the only type read here is 0x08, unsigned bytes.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from coterie.core.errors import BadData
from coterie.data.dataset import Arrays, Dataset
from coterie.data.downloads import PublishedFile
from coterie.data.intake import Array
from coterie.data.sources.base import SOURCES, Natural, Normalise, Published

UNSIGNED_BYTE = 8


def _four_files(base: str, md5: Sequence[str]) -> tuple[PublishedFile, ...]:
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


def _read_pool(images: Path, labels: Path) -> Arrays:
    """Grey pictures [n, 1, height, width] as bytes, with their labels."""
    x, y = read_idx(images), read_idx(labels)
    if x.ndim != 3 or y.ndim != 1 or len(x) != len(y):
        raise BadData(
            f"{images} has shape {list(x.shape)}, {labels} {list(y.shape)}: they do not belong together"
        )
    return Arrays(x[:, None], y.astype(np.int64))


class _FourFiles(Published):
    """A source in this form: what it is called, its classes, and what its pixels are normalised with."""

    name: ClassVar[str]
    classes: ClassVar[tuple[str, ...]]
    prepare: ClassVar[Normalise]
    citation: ClassVar[str]

    def load(self) -> Dataset:
        paths = self.fetch()
        return Dataset(
            name=self.name,
            task="classification",
            train=_read_pool(*paths[:2]),
            test=_read_pool(*paths[2:]),
            classes=self.classes,
            prepare=self.prepare,
            citation=self.citation,
        )


FILES = _four_files(
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    (
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
)


@SOURCES.register("mnist")
@dataclass(frozen=True)
class Mnist(_FourFiles):
    """Handwritten digits, 28 x 28 grey pixels, with the published test set.

    Normalised with mean 0.1307 and deviation 0.3081, those of the 60,000 training images; PyTorch's
    examples and Gengler (2020) use the same.
    """

    files: ClassVar = FILES
    folders: ClassVar = ("mnist", "MNIST/raw")
    natural: ClassVar[Natural] = Natural("shift", "erosion-cnn")
    about: ClassVar[str] = "60,000 + 10,000 handwritten digits, 1 x 28 x 28, 10 classes"
    citation: ClassVar[str] = (
        "LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition. "
        "Proc. IEEE 86(11), 1998"
    )
    licence: ClassVar[str] = "CC BY-SA 3.0"

    name: ClassVar[str] = "mnist"
    classes: ClassVar[tuple[str, ...]] = tuple("0123456789")
    prepare: ClassVar[Normalise] = Normalise((0.1307,), (0.3081,))


FASHION_FILES = _four_files(
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    (
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
)
CLOTHES = (
    "t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip


@SOURCES.register("fashion-mnist")
@dataclass(frozen=True)
class _FashionMnist(_FourFiles):
    """Pictures of clothing, 28 x 28 grey pixels, with the published test set.

    Normalised with mean 0.2860 and deviation 0.3530, those of the 60,000 training images.
    """

    files: ClassVar = FASHION_FILES
    folders: ClassVar = ("fashion-mnist", "FashionMNIST/raw")
    natural: ClassVar[Natural] = Natural("interests", "lenet5-small")
    about: ClassVar[str] = "60,000 + 10,000 pictures of clothing, 1 x 28 x 28, 10 classes"
    citation: ClassVar[str] = (
        "Xiao, Rasul, Vollgraf: Fashion-MNIST, a novel image dataset for benchmarking machine learning "
        "algorithms. arXiv:1708.07747, 2017"
    )
    licence: ClassVar[str] = "MIT"

    name: ClassVar[str] = "fashion-mnist"
    classes: ClassVar[tuple[str, ...]] = CLOTHES
    prepare: ClassVar[Normalise] = Normalise((0.2860,), (0.3530,))
