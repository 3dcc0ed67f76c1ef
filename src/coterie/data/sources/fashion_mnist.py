"""Fashion-MNIST."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from coterie.data import downloads
from coterie.data.dataset import Dataset
from coterie.data.sources.base import SOURCES
from coterie.data.sources.idx import four_files, read_pool
from coterie.data.sources.images import Normalise

FOLDERS = ("fashion-mnist", "FashionMNIST/raw")
FILES = four_files(
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    (
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
)
CLASSES = (
    "t-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)


@SOURCES.register("fashion-mnist")
@dataclass(frozen=True)
class FashionMnist:
    """Pictures of clothing, 28 x 28 grey pixels, with the published test set.

    Normalised with mean 0.2860 and deviation 0.3530, those of the 60,000 training images.
    """

    about: ClassVar[str] = "60,000 + 10,000 pictures of clothing, 1 x 28 x 28, 10 classes"
    citation: ClassVar[str] = (
        "Xiao, Rasul, Vollgraf: Fashion-MNIST, a novel image dataset for benchmarking machine learning "
        "algorithms. arXiv:1708.07747, 2017"
    )
    licence: ClassVar[str] = "MIT"

    def load(self) -> Dataset:
        paths = self.fetch()
        return Dataset(
            name="fashion-mnist",
            task="classification",
            train=read_pool(*paths[:2]),
            test=read_pool(*paths[2:]),
            classes=CLASSES,
            prepare=Normalise((0.2860,), (0.3530,)),
            citation=self.citation,
        )

    def fetch(self) -> list[Path]:
        return downloads.obtain(FILES, FOLDERS)

    def at_hand(self) -> bool:
        return downloads.at_hand(FILES, FOLDERS)
