"""CIFAR-10."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from coterie.data import downloads
from coterie.data.dataset import Dataset
from coterie.data.downloads import PublishedFile
from coterie.data.sources.base import SOURCES
from coterie.data.sources.cifar_binary import read_archive, read_records
from coterie.data.sources.images import Normalise

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
ARCHIVE = PublishedFile("cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530", URL)
ARCHIVE_FOLDERS = ("cifar10", "")
UNPACKED = tuple(
    PublishedFile(f"{name}.bin", f"md5:{md5}", URL)
    for name, md5 in (
        ("data_batch_1", "5dd7e06a14cb22eb9f671a540d1b7c25"),
        ("data_batch_2", "5ea93a67294ea407fff1d09f752e9692"),
        ("data_batch_3", "942cd6a4bcdd0dd3c604fbe906cb4421"),
        ("data_batch_4", "ae636b3ba5c66a11e91e8cb52e771fcb"),
        ("data_batch_5", "53f37980c15c3d472c316c40844f3f0d"),
        ("test_batch", "803d5f7f4d78ea53de84dbe85f74fb6d"),
    )
)
UNPACKED_FOLDERS = ("cifar10/cifar-10-batches-bin", "cifar-10-batches-bin", "cifar10")
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@SOURCES.register("cifar10")
@dataclass(frozen=True)
class Cifar10:
    """Small colour photographs of ten kinds of things, 32 x 32 pixels, with the published test set.

    Read from the binary version, packed (cifar-10-binary.tar.gz) or unpacked (cifar-10-batches-bin).
    Normalised by channel with mean 0.4914, 0.4822, 0.4465 and deviation 0.2470, 0.2435, 0.2616, those of
    the 50,000 training images.
    """

    about: ClassVar[str] = "50,000 + 10,000 photographs, 3 x 32 x 32, 10 classes"
    citation: ClassVar[str] = (
        "Krizhevsky: Learning multiple layers of features from tiny images. Technical report, "
        "University of Toronto, 2009"
    )
    licence: ClassVar[str] = "none stated; the authors ask to be cited"

    def load(self) -> Dataset:
        paths, names = self.fetch(), [file.name for file in UNPACKED]
        if len(paths) == 1:
            parts = read_archive(paths[0], names)
        else:
            parts = {path.name: path.read_bytes() for path in paths}
        return Dataset(
            name="cifar10",
            task="classification",
            train=read_records(parts, names[:-1], label_bytes=1, label=0),
            test=read_records(parts, names[-1:], label_bytes=1, label=0),
            classes=CLASSES,
            prepare=Normalise((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
            citation=self.citation,
        )

    def fetch(self) -> list[Path]:
        """The six unpacked files if they are all there, else the archive."""
        if downloads.at_hand(UNPACKED, UNPACKED_FOLDERS):
            return downloads.obtain(UNPACKED, UNPACKED_FOLDERS)
        return downloads.obtain([ARCHIVE], ARCHIVE_FOLDERS)

    def at_hand(self) -> bool:
        return downloads.at_hand(UNPACKED, UNPACKED_FOLDERS) or downloads.at_hand([ARCHIVE], ARCHIVE_FOLDERS)
