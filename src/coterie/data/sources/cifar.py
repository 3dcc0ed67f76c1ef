"""CIFAR-10 and CIFAR-100: small colour photographs, in the binary versions.

Each record is 1 or 2 label bytes, then 3 x 32 x 32 pixels, red first.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from coterie.core.errors import BadData
from coterie.data import downloads
from coterie.data.dataset import Arrays, Dataset
from coterie.data.downloads import PublishedFile
from coterie.data.sources.base import SOURCES, Natural, Normalise, Published

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
TEN = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
HUNDRED = PublishedFile(
    "cifar-100-binary.tar.gz",
    "md5:03b5dce01913d631647c71ecec9e9cb8",
    "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
)
FINE = (
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle", "bowl",
    "boy", "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle", "chair",
    "chimpanzee", "clock", "cloud", "cockroach", "couch", "crab", "crocodile", "cup", "dinosaur", "dolphin",
    "elephant", "flatfish", "forest", "fox", "girl", "hamster", "house", "kangaroo", "keyboard", "lamp",
    "lawn_mower", "leopard", "lion", "lizard", "lobster", "man", "maple_tree", "motorcycle", "mountain",
    "mouse", "mushroom", "oak_tree", "orange", "orchid", "otter", "palm_tree", "pear", "pickup_truck",
    "pine_tree", "plain", "plate", "poppy", "porcupine", "possum", "rabbit", "raccoon", "ray", "road",
    "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk", "skyscraper", "snail", "snake", "spider",
    "squirrel", "streetcar", "sunflower", "sweet_pepper", "table", "tank", "telephone", "television", "tiger",
    "tractor", "train", "trout", "tulip", "turtle", "wardrobe", "whale", "willow_tree", "wolf", "woman",
    "worm",
)  # fmt: skip
COARSE = (
    "aquatic_mammals", "fish", "flowers", "food_containers", "fruit_and_vegetables",
    "household_electrical_devices", "household_furniture", "insects", "large_carnivores",
    "large_man-made_outdoor_things", "large_natural_outdoor_scenes", "large_omnivores_and_herbivores",
    "medium_mammals", "non-insect_invertebrates", "people", "reptiles", "small_mammals", "trees",
    "vehicles_1", "vehicles_2",
)  # fmt: skip
CITATION = (
    "Krizhevsky: Learning multiple layers of features from tiny images. Technical report, University of "
    "Toronto, 2009"
)
LICENCE = "none stated; the authors ask to be cited"

SHAPE, PIXELS = (3, 32, 32), 3072


def _read_records(parts: Mapping[str, bytes], names: Sequence[str], label_bytes: int, label: int) -> Arrays:
    """The named parts, one after the other; `label` is which of the label bytes counts."""
    size = label_bytes + PIXELS
    for name in names:
        if len(parts[name]) % size or not parts[name]:
            raise BadData(f"{name} has {len(parts[name])} bytes, not a multiple of {size}: fetch it again")
    blocks = [np.frombuffer(parts[name], np.uint8).reshape(-1, size) for name in names]
    x = np.concatenate([block[:, label_bytes:] for block in blocks]).reshape(-1, *SHAPE)
    return Arrays(x, np.concatenate([block[:, label] for block in blocks]).astype(np.int64))


def read_archive(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """The named members of a tar.gz, in whichever folder they lie there; nothing is unpacked to the disk."""
    parts: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                content = archive.extractfile(member) if name in names else None
                if content is not None:
                    parts[name] = content.read()
    except (OSError, EOFError, tarfile.TarError, zlib.error):
        raise BadData(f"{path} is not a whole tar.gz: delete it, then it is fetched again") from None
    lacking = [name for name in names if name not in parts]
    if lacking:
        raise BadData(f"{path} lacks {', '.join(lacking)}: delete it, then it is fetched again")
    return parts


@SOURCES.register("cifar10")
@dataclass(frozen=True)
class Cifar10:
    """Small colour photographs of ten kinds of things, 32 x 32 pixels, with the published test set.

    Read from the binary version, packed (cifar-10-binary.tar.gz) or unpacked (cifar-10-batches-bin).
    Normalised by channel with mean 0.4914, 0.4822, 0.4465 and deviation 0.2470, 0.2435, 0.2616, those of
    the 50,000 training images.
    """

    natural: ClassVar[Natural] = Natural("clusters", "pens-cnn")
    about: ClassVar[str] = "50,000 + 10,000 photographs, 3 x 32 x 32, 10 classes"
    citation: ClassVar[str] = CITATION
    licence: ClassVar[str] = LICENCE

    def load(self) -> Dataset:
        paths, names = self.fetch(), [file.name for file in UNPACKED]
        if len(paths) == 1:
            parts = read_archive(paths[0], names)
        else:
            parts = {path.name: path.read_bytes() for path in paths}
        return Dataset(
            name="cifar10",
            task="classification",
            train=_read_records(parts, names[:-1], label_bytes=1, label=0),
            test=_read_records(parts, names[-1:], label_bytes=1, label=0),
            classes=TEN,
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


@SOURCES.register("cifar100")
@dataclass(frozen=True)
class Cifar100(Published):
    """Small colour photographs of a hundred kinds of things, 32 x 32 pixels, with the published test set.

    Normalised by channel with mean 0.5071, 0.4865, 0.4409 and deviation 0.2673, 0.2564, 0.2762, those of
    the 50,000 training images.
    """

    coarse: bool = False
    """Take the 20 superclasses as labels instead of the 100 fine classes."""

    files: ClassVar = (HUNDRED,)
    folders: ClassVar = ("cifar100", "")
    natural: ClassVar[Natural] = Natural("dirichlet", "resnet18")
    about: ClassVar[str] = "50,000 + 10,000 photographs, 3 x 32 x 32, 100 classes in 20 superclasses"
    citation: ClassVar[str] = CITATION
    licence: ClassVar[str] = LICENCE

    def load(self) -> Dataset:
        parts = read_archive(self.fetch()[0], ["train.bin", "test.bin"])
        label = 0 if self.coarse else 1  # each record begins with the coarse label
        return Dataset(
            name="cifar100",
            task="classification",
            train=_read_records(parts, ["train.bin"], label_bytes=2, label=label),
            test=_read_records(parts, ["test.bin"], label_bytes=2, label=label),
            classes=COARSE if self.coarse else FINE,
            prepare=Normalise((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
            citation=self.citation,
        )
