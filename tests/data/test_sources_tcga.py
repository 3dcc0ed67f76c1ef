"""TCGA-BRCA from three handmade files of a few rows."""

from __future__ import annotations

import hashlib

import pytest

from coterie.core.errors import BadData, UnknownName
from coterie.core.seeds import Key
from coterie.data import downloads
from coterie.data.build import deal_clients
from coterie.data.downloads import PublishedFile
from coterie.data.partition import SPLITS
from coterie.data.sources import SOURCES, tcga_brca

ROWS = {
    "brca.csv": """\
pid,age_at_index,stage i,E,T
TCGA-AA-0001,50,1,1.0,300.0
TCGA-AA-0002,60,0,0.0,0.0
TCGA-AA-0003,40,0,0.0,900.0
TCGA-BB-0001,70,1,1.0,120.0
TCGA-BB-0002,30,0,0.0,45.0
TCGA-CC-0001,55,0,1.0,200.0
""",
    "centers.csv": """\
TSS Code,Source Site,Country,State,Region
AA,One,USA,PA,Northeast
BB,Two,Canada,,Canada
CC,Three,Nigeria,,Other
""",
    "train_test_split.csv": """\
pid,fold,fold2
TCGA-AA-0001,train,train_0
TCGA-AA-0002,train,train_0
TCGA-AA-0003,test,test_0
TCGA-BB-0001,train,train_5
TCGA-BB-0002,test,test_5
""",
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Writes three small files, and sums to match; other texts by name."""

    def write(**other):
        folder = tmp_path / "tcga-brca"
        folder.mkdir(exist_ok=True)
        known = []
        for name, text in ROWS.items():
            text = other.get(name.split(".")[0], text)
            (folder / name).write_text(text)
            sha = hashlib.sha256(text.encode()).hexdigest()
            known.append(PublishedFile(name, f"sha256:{sha}", "http://x/"))
        monkeypatch.setattr(tcga_brca.TcgaBrca, "files", tuple(known))
        monkeypatch.setenv("COTERIE_DATA", str(tmp_path))
        monkeypatch.setattr(downloads.pooch, "os_cache", lambda name: tmp_path / "cache")
        return folder

    return write


def test_times_have_a_sign_and_other_regions_are_left_out_and_said(files):
    files()
    data = SOURCES.make("tcga-brca").load()
    assert data.train.y.tolist() == [300, -0.5, -900, 120, -45]
    assert data.train.columns["region"].tolist() == ["northeast"] * 3 + ["canada"] * 2
    assert (data.task, data.silos, data.test) == ("survival", "region", None)
    assert data.features == ("age_at_index", "stage i")
    said = "\n".join(data.notes)
    assert "northeast 3 (1 died)" in said
    assert "other 1" in said
    assert "0 days without an event: 1, written as 0.5 days, before the first death at 120" in said
    assert "nobody may try to identify a participant" in said


def test_the_fixed_test_rows_and_ages_as_they_are(files):
    files()
    data = SOURCES.make("tcga-brca", fold="flamby", scale="none").load()
    assert [pool.y.tolist() for pool in data.pools] == [[300, -0.5, 120], [-900, -45]]
    dealt = deal_clients(data, SPLITS.make("silos", minimum=2, small="drop"), None, Key(0))
    (client,) = dealt.clients
    assert (client.name, client.task, client.train.x.tolist()) == (
        "northeast",
        "survival",
        [[50, 1], [60, 0]],
    )
    assert client.test.y.tolist() == [-900]


def test_damage_and_files_that_disagree_are_refused(files):
    folder = files()
    (folder / "brca.csv").write_text("pid\n")
    with pytest.raises(BadData, match=r"brca\.csv is damaged: expected sha256:"):
        SOURCES.make("tcga-brca").load()
    files(train_test_split=ROWS["train_test_split.csv"].replace("test_0", "test_3"))
    with pytest.raises(BadData, match=r"TCGA-AA-0003 is of northeast in .*centers\.csv, and test_3 in"):
        SOURCES.make("tcga-brca").load()
    with pytest.raises(UnknownName, match="rows to test on of tcga-brca 'mine'"):
        SOURCES.make("tcga-brca", fold="mine")
