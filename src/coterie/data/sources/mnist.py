"""MNIST."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from coterie.data import downloads
from coterie.data.dataset import Dataset
from coterie.data.sources.base import SOURCES
from coterie.data.sources.idx import four_files, read_pool
from coterie.data.sources.images import Normalise

FOLDERS = ("mnist", "MNIST/raw")
FILES = four_files(
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
class Mnist:
    """Handwritten digits, 28 x 28 grey pixels, with the published test set.

    Normalised with mean 0.1307 and deviation 0.3081, those of the 60,000 training images; PyTorch's
    examples and Gengler (2020) use the same.
    """

    about: ClassVar[str] = "60,000 + 10,000 handwritten digits, 1 x 28 x 28, 10 classes"
    citation: ClassVar[str] = (
        "LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition. "
        "Proc. IEEE 86(11), 1998"
    )
    licence: ClassVar[str] = "CC BY-SA 3.0"

    def load(self) -> Dataset:
        paths = self.fetch()
        return Dataset(
            name="mnist",
            task="classification",
            train=read_pool(*paths[:2]),
            test=read_pool(*paths[2:]),
            classes=tuple("0123456789"),
            prepare=Normalise((0.1307,), (0.3081,)),
            citation=self.citation,
        )

    def fetch(self) -> list[Path]:
        return downloads.obtain(FILES, FOLDERS)

    def at_hand(self) -> bool:
        return downloads.at_hand(FILES, FOLDERS)
