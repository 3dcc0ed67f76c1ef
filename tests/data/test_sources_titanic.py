"""Titanic: the figures of the paper's program, and what happens without scikit-learn's copy."""

from __future__ import annotations

from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets

from coterie.core.errors import BadData
from coterie.data import downloads
from coterie.data.sources import SOURCES, titanic


@pytest.fixture(scope="module")
def data():
    return SOURCES.make("titanic").load()


@pytest.fixture
def broken_wheel(tmp_path, monkeypatch):
    """A copy in the wheel that is not the known one, and empty data folders."""
    path = tmp_path / "data-v1-dl-16826755.arff.gz"
    path.write_bytes(b"abc")
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(titanic, "inside", lambda name: path)
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(downloads.pooch, "os_cache", lambda name: tmp_path / "cache")
    return path


def test_sizes_and_counts(data):
    assert data.train.x.shape == (1309, 9)
    assert data.train.x.dtype == np.float32
    assert np.isfinite(data.train.x).all()
    assert np.bincount(data.train.y).tolist() == [809, 500]
    male, _, _, minor, alone, port_c, port_q, class_1, class_2 = data.train.x.sum(axis=0, dtype=np.float64)
    assert (male, minor, alone) == (843, 134, 790)
    assert (port_c, port_q, class_1, class_2) == (270, 123, 323, 277)


def test_the_first_passenger_by_hand(data):
    # Miss Allen: female, 29, fare 211.3375, alone, from Southampton, first class
    age, fare = (29 - 29.8811) / 14.4135, (211.3375 - 33.2955) / 51.7587
    assert np.allclose(data.train.x[0], [0, age, fare, 0, 1, 0, 0, 1, 0], atol=1e-4)
    assert data.train.y[0] == 1


def test_share_gives_unknown_ages_a_fifth_of_a_minor(data):
    shared = SOURCES.make("titanic", minor_if_unknown="share").load()
    unknown = np.isnan(data.train.columns["age"])
    assert np.allclose(shared.train.x[unknown, 3], 263 / 1309)
    assert np.array_equal(shared.train.x[~unknown], data.train.x[~unknown])
    assert any("0.2009 for 263 of unknown age" in note for note in shared.notes)


def test_the_table_keeps_its_own_columns_without_the_target(data):
    columns = data.train.columns
    assert "survived" not in columns
    assert [len(values) for values in columns.values()] == [1309] * 13
    assert set(columns["pclass"]) == {1, 2, 3}
    assert np.isnan(columns["fare"]).sum() == 1
    assert columns["embarked"].tolist().count(None) == 2
    assert columns["name"][1] == "Allison, Master. Hudson Trevor"


def test_every_step_is_said_with_its_counts_and_constants(data):
    said = "\n".join(data.notes)
    for fact in (
        "from scikit-learn's own test data, checked",
        "columns left out: boat, body, cabin, home.dest, name, ticket",
        "missing values filled: age (263, by the median 28), fare (1, by the median 14.4542), embarked (2, "
        "by S)",
        "columns standardised: age (mean 29.8811, deviation 14.4135), fare (mean 33.2955, deviation 51.7587)",
        "minor (1 for 134 younger than 17, 0 for 263 of unknown age",
        "those of all 1309 rows",
    ):
        assert fact in said


def test_a_strange_copy_is_replaced_by_openml(data, broken_wheel, monkeypatch):
    asked = []

    def openml(**options):
        asked.append(options)
        frame = pd.DataFrame(data.train.columns).assign(survived=data.train.y.astype(str))
        frame = frame.astype(dict.fromkeys(("survived", "sex", "embarked"), "category") | {"pclass": float})
        kept = broken_wheel.parent / "data" / "titanic" / "openml" / "16826755.gz"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(b"")
        return SimpleNamespace(frame=frame)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", openml)
    source = SOURCES.make("titanic")
    assert not source.at_hand()
    again = source.load()
    assert asked[0]["data_id"] == 40945
    assert asked[0]["data_home"] == str(broken_wheel.parent / "data" / "titanic")
    assert np.array_equal(again.train.x, data.train.x)
    assert np.array_equal(again.train.y, data.train.y)
    assert again.train.columns["embarked"].tolist() == data.train.columns["embarked"].tolist()
    assert "fetched because scikit-learn's copy" in again.notes[0]
    assert "sha256:ba7816bf" in again.notes[0]
    assert [path.name for path in source.fetch()] == ["16826755.gz"]
    assert source.at_hand()


def test_a_table_from_openml_that_is_another_is_refused(data, broken_wheel, monkeypatch):
    frame = pd.DataFrame(data.train.columns).assign(survived=data.train.y).iloc[:10]
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda **_: SimpleNamespace(frame=frame))
    with pytest.raises(BadData, match="10 rows and 14 columns"):
        SOURCES.make("titanic").load()


@pytest.mark.parametrize("absent", [False, True])
def test_without_copy_and_network_one_line_says_so(broken_wheel, monkeypatch, absent):
    def openml(**options):
        (broken_wheel.parent / "data" / "titanic" / "openml").mkdir(parents=True)
        raise URLError("no such host")

    if absent:
        broken_wheel.unlink()
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", openml)
    with pytest.raises(BadData) as caught:
        SOURCES.make("titanic").load()
    said = str(caught.value)
    assert "\n" not in said
    assert ("is absent" if absent else "has sha256:ba7816bf") in said
    assert "no such host" in said
    assert "reinstall scikit-learn" in said
    assert list((broken_wheel.parent / "data").iterdir()) == []
