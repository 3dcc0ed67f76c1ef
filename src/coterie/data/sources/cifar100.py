"""CIFAR-100."""

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

ARCHIVE = PublishedFile(
    "cifar-100-binary.tar.gz",
    "md5:03b5dce01913d631647c71ecec9e9cb8",
    "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
)
FOLDERS = ("cifar100", "")
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


@SOURCES.register("cifar100")
@dataclass(frozen=True)
class Cifar100:
    """Small colour photographs of a hundred kinds of things, 32 x 32 pixels, with the published test set.

    Normalised by channel with mean 0.5071, 0.4865, 0.4409 and deviation 0.2673, 0.2564, 0.2762, those of
    the 50,000 training images.
    """

    coarse: bool = False
    """Take the 20 superclasses as labels instead of the 100 fine classes."""

    about: ClassVar[str] = "50,000 + 10,000 photographs, 3 x 32 x 32, 100 classes in 20 superclasses"
    citation: ClassVar[str] = (
        "Krizhevsky: Learning multiple layers of features from tiny images. Technical report, "
        "University of Toronto, 2009"
    )
    licence: ClassVar[str] = "none stated; the authors ask to be cited"

    def load(self) -> Dataset:
        parts = read_archive(self.fetch()[0], ["train.bin", "test.bin"])
        label = 0 if self.coarse else 1  # each record begins with the coarse label
        return Dataset(
            name="cifar100",
            task="classification",
            train=read_records(parts, ["train.bin"], label_bytes=2, label=label),
            test=read_records(parts, ["test.bin"], label_bytes=2, label=label),
            classes=COARSE if self.coarse else FINE,
            prepare=Normalise((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
            citation=self.citation,
        )

    def fetch(self) -> list[Path]:
        return downloads.obtain([ARCHIVE], FOLDERS)

    def at_hand(self) -> bool:
        return downloads.at_hand([ARCHIVE], FOLDERS)
