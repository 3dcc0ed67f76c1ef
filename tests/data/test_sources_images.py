"""Pictures from handmade files: idx of a few pixels, CIFAR of a few records."""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import tarfile

import numpy as np
import pytest

from coterie.core.errors import BadData
from coterie.data import downloads
from coterie.data.downloads import PublishedFile
from coterie.data.sources import SOURCES, cifar, mnist
from coterie.data.sources.cifar import read_archive
from coterie.data.sources.mnist import read_idx


def no_network(url, path):
    raise ConnectionError


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty data folder, an empty cache, no network."""
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path))
    monkeypatch.setattr(downloads.pooch, "os_cache", lambda name: tmp_path / "cache")
    monkeypatch.setattr(downloads, "http_fetch", no_network)
    return tmp_path


def idx(values, magic=b"\0\0\x08") -> bytes:
    array = np.array(values, dtype=np.uint8)
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    return gzip.compress(magic + bytes([array.ndim]) + sizes + array.tobytes(), mtime=0)


def md5(content: bytes) -> str:
    return f"md5:{hashlib.md5(content).hexdigest()}"


def write(path, content: bytes) -> PublishedFile:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return PublishedFile(path.name, md5(content), f"http://x/{path.name}")


def refused(what, *args) -> str:
    with pytest.raises(BadData) as caught:
        what(*args)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# idx


def test_an_idx_file_by_hand(folder):
    # magic 0 0 8 2, sizes 2 and 3, values 1 to 6
    raw = bytes.fromhex("00000802 00000002 00000003 010203040506".replace(" ", ""))
    write(folder / "a.gz", gzip.compress(raw))
    assert read_idx(folder / "a.gz").tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no gzip", "not a whole gzip file"),
        (idx([1, 2, 3])[:-9], "not a whole gzip file"),
        (gzip.compress(b"", mtime=0), "not an idx file of bytes (starts empty)"),
        (idx([1], magic=b"\0\0\x0d"), "not an idx file of bytes (starts 00000d01)"),
        (
            gzip.compress(bytes.fromhex("0000080100000005") + b"abc", mtime=0),
            "has 3 values, but shape [5] needs 5",
        ),
    ],
)
def test_a_strange_idx_file_is_refused(folder, content, said):
    write(folder / "a.gz", content)
    assert said in refused(read_idx, folder / "a.gz")


@pytest.mark.parametrize(("name", "module"), [("mnist", mnist), ("fashion-mnist", mnist)])
def test_four_idx_files_make_a_dataset(folder, monkeypatch, name, module):
    parts = [np.arange(12).reshape(3, 2, 2), [7, 0, 9], np.full((1, 2, 2), 255), [4]]
    names = [f.name for f in module.FILES]
    assert names[0] == "train-images-idx3-ubyte.gz"
    assert names[3] == "t10k-labels-idx1-ubyte.gz"
    source = SOURCES.make(name)
    assert not source.at_hand()
    made = [write(folder / name / n, idx(part)) for n, part in zip(names, parts, strict=True)]
    assert source.at_hand()
    assert "is damaged" in refused(source.load)
    monkeypatch.setattr(type(source), "files", tuple(made))
    data = source.load()
    assert data.train.x.shape == (3, 1, 2, 2)
    assert data.train.x.dtype == np.uint8
    assert data.train.y.tolist() == [7, 0, 9]
    assert data.train.y.dtype == np.int64
    assert data.test.y.tolist() == [4]
    assert len(data.classes) == 10
    [train, test], notes = data.prepare(data.train, data.test)
    mean, deviation = (0.1307, 0.3081) if name == "mnist" else (0.2860, 0.3530)
    assert np.isclose(train.x[0, 0, 0, 0], -mean / deviation)
    assert np.allclose(test.x, (1 - mean) / deviation)
    assert train.x.dtype == np.float32
    assert f"mean {mean:.4f} and deviation {deviation:.4f}" in notes[0]
    assert data.train.x.dtype == np.uint8  # the pool itself is left alone


def test_images_and_labels_must_belong_together(folder, monkeypatch):
    parts = [np.zeros((3, 2, 2)), [7, 0], np.zeros((1, 2, 2)), [4]]
    made = [write(folder / "mnist" / f.name, idx(p)) for f, p in zip(mnist.FILES, parts, strict=True)]
    monkeypatch.setattr(mnist.Mnist, "files", tuple(made))
    assert "do not belong together" in refused(SOURCES.make("mnist").load)


# CIFAR


def records(labels, first_pixel) -> bytes:
    """Records whose red plane is `first_pixel`, green that plus 1, blue that plus 2."""
    planes = np.repeat(np.arange(3, dtype=np.uint8) + first_pixel, 1024).tobytes()
    return b"".join(bytes(label) + planes for label in labels)


def archive(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(f"folder/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


BATCHES = {f"data_batch_{i}.bin": records([[i], [i + 4]], 10 * i) for i in range(1, 6)}
BATCHES["test_batch.bin"] = records([[0]], 100)


def check_cifar10(data):
    assert data.train.x.shape == (10, 3, 32, 32)
    assert data.train.x.dtype == np.uint8
    assert data.train.y.tolist() == [1, 5, 2, 6, 3, 7, 4, 8, 5, 9]
    assert data.train.x[2, :, 31, 31].tolist() == [20, 21, 22]
    assert data.test.x[0, :, 0, 0].tolist() == [100, 101, 102]
    assert data.classes[9] == "truck"
    [train, _], _ = data.prepare(data.train, data.test)
    assert np.isclose(train.x[0, 0, 0, 0], (10 / 255 - 0.4914) / 0.2470)
    assert np.isclose(train.x[0, 2, 0, 0], (12 / 255 - 0.4465) / 0.2616)


def test_cifar10_packed(folder, monkeypatch):
    source = SOURCES.make("cifar10")
    assert not source.at_hand()
    turned = dict(reversed(BATCHES.items()))  # the order inside the archive does not matter
    monkeypatch.setattr(cifar, "ARCHIVE", write(folder / "cifar-10-binary.tar.gz", archive(turned)))
    assert source.at_hand()
    assert source.fetch() == [folder / "cifar-10-binary.tar.gz"]
    check_cifar10(source.load())
    assert [path.name for path in folder.iterdir()] == ["cifar-10-binary.tar.gz"]  # nothing was unpacked


@pytest.mark.parametrize("place", ["cifar-10-batches-bin", "cifar10/cifar-10-batches-bin", "cifar10"])
def test_cifar10_unpacked(folder, monkeypatch, place):
    source = SOURCES.make("cifar10")
    made = [write(folder / place / name, content) for name, content in BATCHES.items()]
    assert source.at_hand()
    assert "data_batch_1.bin is damaged" in refused(source.load)
    monkeypatch.setattr(cifar, "UNPACKED", tuple(made))
    check_cifar10(source.load())


def test_cifar10_without_anything(folder):
    said = refused(SOURCES.make("cifar10").load)
    assert "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz could not be fetched" in said
    assert f"put it into {folder / 'cifar10'}" in said
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("coarse", "labels", "classes"), [(False, [99, 3], 100), (True, [19, 8], 20)])
def test_cifar100(folder, monkeypatch, coarse, labels, classes):
    members = {"train.bin": records([[19, 99], [8, 3]], 7), "test.bin": records([[0, 4]], 9)}
    made = write(folder / "cifar100" / "cifar-100-binary.tar.gz", archive(members))
    monkeypatch.setattr(cifar.Cifar100, "files", (made,))
    source = SOURCES.make("cifar100", coarse=coarse)
    assert source.at_hand()
    data = source.load()
    assert data.train.y.tolist() == labels
    assert data.train.x[1, :, 5, 5].tolist() == [7, 8, 9]
    assert len(data.test) == 1
    assert len(set(data.classes)) == classes
    assert list(data.classes) == sorted(data.classes)


def test_a_broken_archive_is_refused(folder):
    whole = archive({"train.bin": bytes(range(256)) * 64})
    write(folder / "cut.tar.gz", whole[: len(whole) // 2])
    assert "not a whole tar.gz" in refused(read_archive, folder / "cut.tar.gz", ["train.bin"])
    write(folder / "other.tar.gz", whole)
    assert "lacks test.bin" in refused(read_archive, folder / "other.tar.gz", ["train.bin", "test.bin"])


def test_a_broken_record_is_refused(folder, monkeypatch):
    made = write(folder / "cifar-100-binary.tar.gz", archive({"train.bin": b"abc", "test.bin": b""}))
    monkeypatch.setattr(cifar.Cifar100, "files", (made,))
    assert "train.bin has 3 bytes, not a multiple of 3074" in refused(SOURCES.make("cifar100").load)
