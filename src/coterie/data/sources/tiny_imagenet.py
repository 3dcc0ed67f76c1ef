"""TinyImageNet-200.

wnids.txt                     the classes, n01443537 and so on
words.txt                     their names, and those of all other classes of WordNet
train/CLASS/images/*.JPEG     500 pictures of each class
val/images/*.JPEG             10,000 pictures, whose classes val/val_annotations.txt tells
test/images/*.JPEG            10,000 pictures, whose classes were never published: not read
"""

from __future__ import annotations

import contextlib
import io
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from coterie.core.errors import BadData, BadInput
from coterie.data import downloads
from coterie.data.dataset import Arrays, Dataset
from coterie.data.downloads import PublishedFile
from coterie.data.intake import Array
from coterie.data.sources.base import SOURCES, Natural, Normalise

ARCHIVE = PublishedFile(
    "tiny-imagenet-200.zip",
    "md5:90528d7ca1a48142e341f4ef8d21d0de",
    "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
)
ARCHIVE_FOLDERS = ("tiny-imagenet", "")
UNPACKED_FOLDERS = ("tiny-imagenet/tiny-imagenet-200", "tiny-imagenet-200", "tiny-imagenet")
CLASSES, WORDS, TESTED = "wnids.txt", "words.txt", "val/val_annotations.txt"
TRAINED = re.compile(r"train/(n\d+)/images/[^/]+\.JPEG")
COUNTS = (200, 100_000, 10_000)  # classes, pictures to train on, pictures to test on
SIDE = 64


@SOURCES.register("tiny-imagenet")
@dataclass(frozen=True)
class _TinyImageNet:
    """Colour photographs of two hundred kinds of things, 64 x 64 pixels; the validation set is the test set.

    Read from tiny-imagenet-200.zip as it is, or from the folder unpacked from it; a folder has no checksum,
    so its pictures are counted. Needs Pillow. Normalised by channel with mean 0.4802, 0.4481, 0.3975 and
    deviation 0.2770, 0.2691, 0.2821, those of the 100,000 training images.
    """

    natural: ClassVar[Natural] = Natural("dirichlet", "resnet18")
    about: ClassVar[str] = "100,000 + 10,000 photographs, 3 x 64 x 64, 200 classes"
    citation: ClassVar[str] = "Le, Yang: Tiny ImageNet visual recognition challenge. CS 231N, Stanford, 2015"
    licence: ClassVar[str] = "ImageNet's: research and education, not for commerce"

    def load(self) -> Dataset:
        _need_pillow()
        paths = self.fetch()
        with _opened(paths[0] if len(paths) == 1 else paths[0].parent) as tree:
            wnids = sorted(tree.lines(CLASSES))
            train, test = _trained(tree, wnids), _tested(tree, wnids)
            found = (len(wnids), len(train), len(test))
            if found != COUNTS:
                raise BadData(
                    f"{tree.where} has {found[0]} classes with {found[1]} training and {found[2]} validation "
                    f"pictures, not {COUNTS[0]} with {COUNTS[1]} and {COUNTS[2]}: unpack {ARCHIVE.name} again"
                )
            names = _class_names(wnids, tree.lines(WORDS))
            (x, grey), (held, grey_held) = tree.pictures(list(train)), tree.pictures(list(test))
        return Dataset(
            name="tiny-imagenet",
            task="classification",
            train=Arrays(x, np.array(list(train.values()), dtype=np.int64)),
            test=Arrays(held, np.array(list(test.values()), dtype=np.int64)),
            classes=names,
            prepare=Normalise((0.4802, 0.4481, 0.3975), (0.2770, 0.2691, 0.2821)),
            notes=(
                "the published validation set is the test set: the published test pictures have no labels",
                f"{grey + grey_held} of {len(train) + len(test)} pictures are grey: "
                "their three channels are the same",
            ),
            citation=self.citation,
        )

    def fetch(self) -> list[Path]:
        """The archive, or where there is none the three lists of an unpacked folder."""
        folder = _unpacked()
        if folder is None or downloads.at_hand([ARCHIVE], ARCHIVE_FOLDERS):
            return downloads.obtain([ARCHIVE], ARCHIVE_FOLDERS)
        return [folder / name for name in (CLASSES, WORDS, TESTED)]

    def at_hand(self) -> bool:
        return downloads.at_hand([ARCHIVE], ARCHIVE_FOLDERS) or _unpacked() is not None


class _Tree(NamedTuple):
    """Files by their path below the top folder, on the disk or in an archive."""

    where: Path
    names: frozenset[str]
    read: Callable[[str], bytes]

    def lines(self, name: str) -> list[str]:
        self.need(name)
        return self.read(name).decode().splitlines()

    def need(self, name: str) -> None:
        if name not in self.names:
            raise BadData(f"{self.where} lacks {name}: unpack {ARCHIVE.name} again")

    def pictures(self, names: Sequence[str]) -> tuple[Array, int]:
        """Bytes [n, channel, height, width], and how many of the pictures are grey."""
        x, grey = np.empty((len(names), 3, SIDE, SIDE), dtype=np.uint8), 0
        for i, name in enumerate(names):
            self.need(name)
            try:
                with _need_pillow().open(io.BytesIO(self.read(name))) as picture:
                    if picture.size != (SIDE, SIDE):
                        raise ValueError(f"it is {picture.width} x {picture.height}")
                    x[i] = np.asarray(picture.convert("RGB")).transpose(2, 0, 1)
                    grey += picture.mode == "L"
            except (OSError, SyntaxError, ValueError, zipfile.BadZipFile) as error:
                raise BadData(
                    f"{self.where}: {name} is no {SIDE} x {SIDE} picture ({error}): unpack it again"
                ) from None
        return x, grey


def _unpacked() -> Path | None:
    places = [root / folder for root in downloads.roots() for folder in UNPACKED_FOLDERS]
    return next((p for p in places if all((p / n).is_file() for n in (CLASSES, WORDS, TESTED))), None)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[_Tree]:
    if path.is_dir():
        names = (p.relative_to(path).as_posix() for p in path.rglob("*.*"))
        yield _Tree(path, frozenset(names), lambda name: (path / name).read_bytes())
        return
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile):
        raise BadData(f"{path} is not a whole zip: delete it, then it is fetched again") from None
    with archive:
        within = {name.partition("/")[2]: name for name in archive.namelist()}
        yield _Tree(path, frozenset(within), lambda name: archive.read(within[name]))


def _trained(tree: _Tree, wnids: Sequence[str]) -> dict[str, int]:
    """The class of each training picture, one class after the other."""
    number = {wnid: c for c, wnid in enumerate(wnids)}
    found = ((name, TRAINED.fullmatch(name)) for name in sorted(tree.names))
    return {name: number[match[1]] for name, match in found if match and match[1] in number}


def _tested(tree: _Tree, wnids: Sequence[str]) -> dict[str, int]:
    """The class of each validation picture, in the order of their list: name, class and a box, by tabs."""
    number = {wnid: c for c, wnid in enumerate(wnids)}
    labels = {}
    for i, line in enumerate(tree.lines(TESTED), start=1):
        name, _, rest = line.partition("\t")
        wnid = rest.partition("\t")[0]
        if wnid not in number:
            raise BadData(f"{tree.where}: line {i} of {TESTED} has no class of {CLASSES}: unpack it again")
        labels[f"val/images/{name}"] = number[wnid]
    return labels


def _class_names(wnids: Sequence[str], words: Sequence[str]) -> tuple[str, ...]:
    """The first of each class's synonyms, with its number where several classes have the same."""
    known: Mapping[str, str] = dict(line.split("\t", 1) for line in words if "\t" in line)
    first = [known.get(wnid, wnid).partition(",")[0].strip() for wnid in wnids]
    return tuple(
        name if first.count(name) == 1 else f"{name} {wnid}" for name, wnid in zip(first, wnids, strict=True)
    )


def _need_pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise BadInput("tiny-imagenet needs Pillow to read JPEG: pip install 'coterie[images]'") from None
    return Image
