"""Every source by name, and those that come with scikit-learn."""

from __future__ import annotations

import dataclasses
import gzip

import numpy as np
import pytest
import sklearn.datasets

from coterie.core.errors import BadData
from coterie.data.sources import SOURCES, bundled

NAMES = [
    "breast-cancer", "cifar10", "cifar100", "diabetes", "digits", "fashion-mnist", "heart-disease", "mnist",
    "tcga-brca", "tiny-imagenet", "titanic",
]  # fmt: skip


def test_all_sources_are_registered():
    assert list(SOURCES) == sorted([*NAMES, "sites", "table"])


@pytest.mark.parametrize("name", NAMES)
def test_a_source_says_what_it_is(name):
    source = SOURCES[name]
    first = source.__doc__.splitlines()[0]
    assert first.endswith(".")
    assert not first.startswith(source.__name__ + "(")  # not the signature that dataclass fills in
    for text in (source.about, source.citation, source.licence):
        assert text
        assert "\n" not in text
    assert all(f.default is not dataclasses.MISSING for f in dataclasses.fields(source))


@pytest.mark.parametrize("name", ["breast-cancer", "diabetes", "digits", "titanic"])
def test_bundled_sources_need_no_files(name, monkeypatch, tmp_path):
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path))
    source = SOURCES.make(name)
    assert source.at_hand()
    assert source.fetch() == []
    assert source.load().name == name
    assert list(tmp_path.iterdir()) == []


def test_breast_cancer_has_its_published_counts():
    data = SOURCES.make("breast-cancer").load()
    assert data.train.x.shape == (569, 30)
    assert data.classes == ("malignant", "benign")
    assert np.bincount(data.train.y).tolist() == [212, 357]
    assert data.train.columns["mean radius"][0] == 17.99
    assert data.features[0] == "mean radius"
    [train, rest], notes = data.prepare(data.train.take(np.arange(400)), data.train.take(np.arange(400, 569)))
    assert np.allclose(train.x.mean(axis=0), 0, atol=1e-5)
    assert np.allclose(train.x.std(axis=0), 1, atol=1e-5)
    assert rest.x.shape == (169, 30)
    assert notes == ("standardised with this client's own training mean and deviation: all columns",)


def test_digits_are_pictures_from_0_to_1():
    data = SOURCES.make("digits").load()
    assert data.train.x.shape == (1797, 1, 8, 8)
    assert data.train.x.dtype == np.float32
    assert (data.train.x.min(), data.train.x.max()) == (0, 1)
    assert (data.train.x[0, 0, 0] * 16).tolist() == [0, 0, 5, 13, 9, 1, 0, 0]
    assert np.bincount(data.train.y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_diabetes_keeps_its_targets_in_their_own_units():
    data = SOURCES.make("diabetes").load()
    assert data.task == "regression"
    assert data.train.x.shape == (442, 10)
    assert (data.train.y.min(), data.train.y.max()) == (25, 346)
    assert data.train.x[0, :3].tolist() == [59, 2, 32.1]
    assert "always predicting the mean of all rows, 152.1, has an RMSE of 77.0" in data.notes[1]
    [train], _ = data.prepare(data.train)
    assert np.array_equal(train.y, data.train.y)
    assert np.allclose(train.x.std(axis=0), 1, atol=1e-5)


def test_what_comes_with_scikit_learn_is_what_its_loaders_give():
    digits, cancer = SOURCES.make("digits").load(), SOURCES.make("breast-cancer").load()
    diabetes = SOURCES.make("diabetes").load()
    theirs = sklearn.datasets.load_digits()
    assert np.array_equal(digits.train.x, (theirs.images / 16).astype(np.float32)[:, None])
    assert np.array_equal(digits.train.y, theirs.target)
    for ours, raw in (
        (cancer, sklearn.datasets.load_breast_cancer()),
        (diabetes, sklearn.datasets.load_diabetes(scaled=False)),
    ):
        assert np.array_equal(ours.train.x, raw.data)
        assert np.array_equal(np.stack(list(ours.train.columns.values()), axis=1), raw.data)
        assert np.array_equal(ours.train.y, raw.target)
        assert list(ours.features) == list(ours.train.columns) == list(raw.feature_names)
    assert list(cancer.classes) == list(sklearn.datasets.load_breast_cancer().target_names)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        (b"no gzip", "cannot be read"),
        (gzip.compress(b"1,2,x\n", mtime=0), "is damaged"),
        (gzip.compress(b"1,2,3\n", mtime=0), "has 1 rows and 3 columns, must have 1797 and 65"),
    ],
)
def test_a_damaged_copy_is_refused(content, said, monkeypatch, tmp_path):
    monkeypatch.setattr(bundled, "inside", lambda path: tmp_path / "digits.csv.gz")
    if content is not None:
        (tmp_path / "digits.csv.gz").write_bytes(content)
    with pytest.raises(BadData, match=f"digits.csv.gz {said}.*: reinstall scikit-learn"):
        SOURCES.make("digits").load()
