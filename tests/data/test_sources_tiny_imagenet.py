"""TinyImageNet from a handmade folder and a handmade archive: three classes, a few flat pictures."""

from __future__ import annotations

import hashlib
import io
import sys
import zipfile

import numpy as np
import pytest
from PIL import Image

from coterie.core.errors import BadData, BadInput
from coterie.data import downloads
from coterie.data.downloads import PublishedFile
from coterie.data.sources import SOURCES, tiny_imagenet

TOP = "tiny-imagenet-200"
RED, GREEN, BLUE, GREY = (200, 20, 20), (20, 200, 20), (20, 20, 200), 90


def jpeg(colour, side=64) -> bytes:
    out = io.BytesIO()
    Image.new("L" if isinstance(colour, int) else "RGB", (side, side), colour).save(out, "JPEG", quality=95)
    return out.getvalue()


def tree() -> dict[str, bytes]:
    """Two training pictures of each class and three validation pictures, by path."""
    pictures = {
        "train/n03/images/n03_0.JPEG": jpeg(BLUE),
        "train/n03/images/n03_1.JPEG": jpeg(BLUE),
        "train/n01/images/n01_0.JPEG": jpeg(RED),
        "train/n01/images/n01_10.JPEG": jpeg(GREY),
        "train/n02/images/n02_0.JPEG": jpeg(GREEN),
        "train/n02/images/n02_1.JPEG": jpeg(GREEN),
        "val/images/val_0.JPEG": jpeg(GREEN),
        "val/images/val_1.JPEG": jpeg(BLUE),
        "val/images/val_2.JPEG": jpeg(RED),
        "test/images/test_0.JPEG": jpeg(RED),
    }
    lists = {
        "wnids.txt": "n02\nn03\nn01\n",
        "words.txt": "n00\tentity\nn01\tgoldfish, Carassius auratus\nn02\tcrane\nn03\tcrane, derrick\n",
        "val/val_annotations.txt": (
            "val_0.JPEG\tn02\t0\t32\t44\t62\nval_1.JPEG\tn03\t1\t2\t3\t4\nval_2.JPEG\tn01\t0\t0\t9\t9\n"
        ),
        "train/n01/n01_boxes.txt": "n01_0.JPEG\t0\t10\t63\t58\n",
    }
    return pictures | {name: text.encode() for name, text in lists.items()}


def write_folder(where, content):
    for name, data in content.items():
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        (where / name).write_bytes(data)


def write_zip(where, content) -> PublishedFile:
    where.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(where, "w") as archive:
        archive.writestr(f"{TOP}/", b"")
        for name, data in content.items():
            archive.writestr(f"{TOP}/{name}", data)
    return PublishedFile(where.name, f"md5:{hashlib.md5(where.read_bytes()).hexdigest()}", "http://x/y.zip")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty data folder, an empty cache, no network; three classes are all there are."""

    def no_network(url, path):
        raise ConnectionError

    monkeypatch.setenv("COTERIE_DATA", str(tmp_path))
    monkeypatch.setattr(downloads.pooch, "os_cache", lambda name: tmp_path / "cache")
    monkeypatch.setattr(downloads, "http_fetch", no_network)
    monkeypatch.setattr(tiny_imagenet, "COUNTS", (3, 6, 3))
    return tmp_path


@pytest.fixture
def source():
    return SOURCES.make("tiny-imagenet")


def refused(what, kind=BadData) -> str:
    with pytest.raises(kind) as caught:
        what()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def check(data):
    assert data.classes == ("goldfish", "crane n02", "crane n03")
    assert data.train.y.tolist() == [0, 0, 1, 1, 2, 2]
    assert data.test.y.tolist() == [1, 2, 0]
    assert data.train.x.shape == (6, 3, 64, 64)
    assert data.test.x.shape == (3, 3, 64, 64)
    assert data.train.x.dtype == data.test.x.dtype == np.uint8
    for x, colour in (
        (data.train.x[0], RED),
        (data.train.x[1], (GREY, GREY, GREY)),
        (data.train.x[2], GREEN),
        (data.train.x[5], BLUE),
        (data.test.x[0], GREEN),
        (data.test.x[2], RED),
    ):
        assert np.abs(x.astype(int) - np.array(colour).reshape(3, 1, 1)).max() <= 3  # JPEG is not exact
    assert data.notes == (
        "the published validation set is the test set: the published test pictures have no labels",
        "1 of 9 pictures are grey: their three channels are the same",
    )
    [train], _ = data.prepare(data.train)
    assert train.x.dtype == np.float32
    assert np.isclose(train.x[1, 2, 9, 9], (data.train.x[1, 2, 9, 9] / 255 - 0.3975) / 0.2821)


@pytest.mark.parametrize("place", ["tiny-imagenet-200", "tiny-imagenet/tiny-imagenet-200", "tiny-imagenet"])
def test_unpacked(folder, source, place):
    assert not source.at_hand()
    write_folder(folder / place, tree())
    assert source.at_hand()
    assert [path.name for path in source.fetch()] == ["wnids.txt", "words.txt", "val_annotations.txt"]
    check(source.load())


@pytest.mark.parametrize("place", ["", "tiny-imagenet"])
def test_packed(folder, source, monkeypatch, place):
    path = folder / place / "tiny-imagenet-200.zip"
    made = write_zip(path, tree())
    assert source.at_hand()
    assert "is damaged: expected md5:90528d7ca1a48142e341f4ef8d21d0de" in refused(source.load)
    monkeypatch.setattr(tiny_imagenet, "ARCHIVE", made)
    check(source.load())
    assert [p for p in folder.rglob("*") if p.is_file()] == [path]  # nothing was unpacked


def test_without_anything(folder, source):
    said = refused(source.load)
    assert "http://cs231n.stanford.edu/tiny-imagenet-200.zip could not be fetched" in said
    assert f"put it into {folder / 'tiny-imagenet'}" in said
    assert list(folder.iterdir()) == []


def test_pictures_that_are_missing_are_counted(folder, source):
    write_folder(folder / TOP, {k: v for k, v in tree().items() if k != "train/n02/images/n02_1.JPEG"})
    assert refused(source.load) == (
        f"{folder / TOP} has 3 classes with 5 training and 3 validation pictures, not 3 with 6 and 3: "
        "unpack tiny-imagenet-200.zip again"
    )


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("train/n01/images/n01_0.JPEG", b"nonsense", "train/n01/images/n01_0.JPEG is no 64 x 64 picture"),
        ("train/n01/images/n01_0.JPEG", jpeg(RED)[:300], "n01_0.JPEG is no 64 x 64 picture"),
        ("val/images/val_1.JPEG", jpeg(RED, side=32), "(it is 32 x 32): unpack it again"),
        ("val/images/val_2.JPEG", None, "lacks val/images/val_2.JPEG: unpack tiny-imagenet-200.zip again"),
        (
            "val/val_annotations.txt",
            b"val_0.JPEG\tn07\t0\n",
            "line 1 of val/val_annotations.txt has no class",
        ),
        ("val/val_annotations.txt", b"val_0.JPEG n02", "line 1 of val/val_annotations.txt has no class"),
    ],
)
def test_what_is_broken_is_named(folder, source, name, content, said):
    made = {k: v for k, v in (tree() | {name: content}).items() if v is not None}
    write_folder(folder / TOP, made)
    assert said in refused(source.load)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"no zip", "is not a whole zip"), ({"wnids.txt": b""}, "lacks val/val_annotations.txt")],
)
def test_an_archive_of_something_else_is_refused(folder, source, monkeypatch, content, said):
    path = folder / "tiny-imagenet-200.zip"
    if isinstance(content, dict):
        made = write_zip(path, content)
    else:
        path.write_bytes(content)
        made = PublishedFile(path.name, f"md5:{hashlib.md5(content).hexdigest()}", "http://x/y.zip")
    monkeypatch.setattr(tiny_imagenet, "ARCHIVE", made)
    assert said in refused(source.load)


def test_without_pillow_the_remedy_is_named(folder, source, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    said = refused(source.load, BadInput)
    assert said == "tiny-imagenet needs Pillow to read JPEG: pip install 'coterie[images]'"
