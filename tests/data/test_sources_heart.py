"""Heart disease from four handmade files of a few rows."""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np
import pytest

from coterie.core.errors import BadData
from coterie.data import downloads
from coterie.data.downloads import PublishedFile
from coterie.data.sources import SOURCES, heart_disease

ROWS = {
    "processed.cleveland.data": """\
63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0
67.0,1.0,4.0,160.0,286.0,0.0,2.0,108.0,1.0,1.5,2.0,3.0,3.0,2
41.0,0.0,2.0,130.0,204.0,0.0,2.0,172.0,0.0,1.4,1.0,?,3.0,0
""",
    "processed.hungarian.data": """\
28,1,2,130,132,0,2,185,0,0,?,?,?,0
29,1,2,140,?,0,0,170,0,0,?,?,?,1
""",
    "processed.switzerland.data": """\
32,1,1,95,0,?,0,127,0,.7,1,?,?,1
34,1,4,115,0,?,?,154,0,.2,1,?,?,4
35,0,4,120,0,0,0,130,1,-1.0,?,?,7,3
""",
    "processed.va.data": """\
63,1,4,140,260,0,1,112,1,3,2,?,?,2
44,1,4,0,0,0,1,127,0,0,?,?,?,0
""",
}


@pytest.fixture(autouse=True)
def hospitals(tmp_path, monkeypatch):
    """Four files that are too small for their names, and sums to match."""
    folder = tmp_path / "heart-disease"
    folder.mkdir()
    known = []
    for name, text in ROWS.items():
        (folder / name).write_text(text)
        known.append(PublishedFile(name, f"sha256:{hashlib.sha256(text.encode()).hexdigest()}", "http://x/"))
    monkeypatch.setattr(heart_disease.HeartDisease, "files", tuple(known))
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path))
    monkeypatch.setattr(downloads.pooch, "os_cache", lambda name: tmp_path / "cache")
    return folder


def rows_of(data, hospital):
    return data.train.take(np.flatnonzero(data.train.columns["hospital"] == hospital))


def test_four_hospitals_in_one_table():
    data = SOURCES.make("heart-disease").load()
    hospitals = Counter(data.train.columns["hospital"])
    assert hospitals == {"cleveland": 3, "hungary": 2, "switzerland": 3, "va": 2}
    assert data.train.y.tolist() == [0, 1, 0, 0, 1, 1, 1, 1, 1, 0]
    assert data.classes == ("well", "ill")
    assert [len(values) for values in data.train.columns.values()] == [10] * 14
    assert data.train.columns["chol"].tolist()[5:8] == [0, 0, 0]  # as published
    assert np.isnan(data.train.x[5:8, 4]).all()  # as what it means


def test_columns_and_categories_do_not_depend_on_the_rows():
    dense = SOURCES.make("heart-disease").load().features
    assert len(dense) == 15
    assert dense[2:6] == ("cp=1", "cp=2", "cp=3", "cp=4")
    full = SOURCES.make("heart-disease", sparse_columns=True).load().features
    assert len(full) == 22
    assert full[-7:] == ("slope=1", "slope=2", "slope=3", "ca", "thal=3", "thal=6", "thal=7")


def test_zeros_are_unknown_and_counted():
    data = SOURCES.make("heart-disease").load()
    assert "values of 0 taken as unknown: trestbps 1 (va 1), chol 4 (switzerland 3, va 1)" in data.notes
    (unknown,) = [note for note in data.notes if note.startswith("values unknown: ")]
    assert "chol 5 (hungary 1, switzerland 3, va 1)" in unknown
    assert "rows without a gap: 5 (cleveland 3, hungary 1, va 1) of 10" in data.notes
    assert "columns left out: slope, ca, thal" in data.notes
    assert (
        data.notes[0] == "rows: cleveland 3 (1 ill), hungary 2 (1 ill), switzerland 3 (3 ill), va 2 (1 ill)"
    )


def test_zeros_can_be_kept():
    data = SOURCES.make("heart-disease", zero_is_missing=False).load()
    assert "values of 0 kept as they are: trestbps 1 (va 1), chol 4 (switzerland 3, va 1)" in data.notes
    assert "rows without a gap: 7 (cleveland 3, hungary 1, switzerland 1, va 2) of 10" in data.notes


def test_filling_counts_every_value():
    data = SOURCES.make("heart-disease").load()
    swiss = rows_of(data, "switzerland")
    [train, test], notes = data.prepare(swiss.take(np.array([0, 2])), swiss.take(np.array([1])))
    assert np.isfinite(train.x).all()
    assert notes == (
        "missing values filled by this client's training median or mode: fbs (1 in training and 1 in further "
        "rows, by 0), restecg (0 in training and 1 in further rows, by 0)",
        "columns without any value in training rows, 0 in all rows: chol",
        "standardised with this client's own training mean and deviation: age, trestbps, thalach, oldpeak",
    )
    assert np.allclose(train.x[:, 0], [-1, 1])  # ages 32 and 35
    assert np.isclose(test.x[0, 0], (34 - 33.5) / 1.5)
    assert test.x[0, 2:6].tolist() == [0, 0, 0, 1]  # cp 4


def test_dropping_counts_every_row():
    data = SOURCES.make("heart-disease", missing="drop").load()
    hungary = rows_of(data, "hungary")
    [train, test], notes = data.prepare(hungary.take(np.array([0])), hungary.take(np.array([1])))
    assert (len(train), len(test)) == (1, 0)
    assert notes[0] == "rows left out for missing values: 0 of 1 in training and 1 of 1 further ones"
    with pytest.raises(BadData, match="chol is missing in 3"):
        data.prepare(rows_of(data, "switzerland"))


def test_a_missing_file_is_asked_for(hospitals, monkeypatch):
    def no_network(url, path):
        raise ConnectionError

    monkeypatch.setattr(downloads, "http_fetch", no_network)
    source = SOURCES.make("heart-disease")
    assert source.at_hand()
    (hospitals / "processed.va.data").unlink()
    assert not source.at_hand()
    with pytest.raises(BadData, match=r"processed\.va\.data not at hand.*put it into .*heart-disease"):
        source.load()
