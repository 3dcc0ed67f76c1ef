"""The original files, where they are at hand; everything else is tested on handmade ones."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from coterie.data.sources import SOURCES
from coterie.data.sources.tcga_brca import REGIONS

SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(autouse=True)
def data_folder(monkeypatch):
    if "COTERIE_DATA" not in os.environ and SHARED.is_dir():
        monkeypatch.setenv("COTERIE_DATA", str(SHARED))


def load(name: str, **options):
    source = SOURCES.make(name, **options)
    if not source.at_hand():
        pytest.skip(f"the files of {name} are not at hand: set COTERIE_DATA to a folder that has them")
    return source.load()


@pytest.mark.parametrize(
    ("name", "mean", "deviation", "train", "test"),
    [
        (
            "mnist", [0.1307], [0.3081],
            [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
            [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
        ),
        ("fashion-mnist", [0.2860], [0.3530], [6000] * 10, [1000] * 10),
        ("cifar10", [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616], [5000] * 10, [1000] * 10),
        ("cifar100", [0.5071, 0.4865, 0.4409], [0.2673, 0.2564, 0.2762], [500] * 100, [100] * 100),
        ("tiny-imagenet", [0.4802, 0.4481, 0.3975], [0.2770, 0.2691, 0.2821], [500] * 200, [50] * 200),
    ],
)  # fmt: skip
def test_pictures_have_the_published_counts_and_constants(name, mean, deviation, train, test):
    data = load(name)
    assert np.bincount(data.train.y).tolist() == train
    assert np.bincount(data.test.y).tolist() == test
    shades = np.arange(256) / 255
    for channel in range(data.train.x.shape[1]):
        share = np.bincount(data.train.x[:, channel].ravel(), minlength=256) / data.train.x[:, channel].size
        middle = share @ shades
        assert np.isclose(middle, mean[channel], atol=1e-4)
        assert np.isclose(np.sqrt(share @ (shades - middle) ** 2), deviation[channel], atol=1e-4)


def test_heart_disease_has_the_published_counts():
    data = load("heart-disease")
    assert data.notes[0] == (
        "rows: cleveland 303 (139 ill), hungary 294 (106 ill), switzerland 123 (115 ill), va 200 (149 ill)"
    )
    assert "values of 0 taken as unknown: trestbps 1 (va 1), chol 172 (switzerland 123, va 49)" in data.notes
    assert "rows without a gap: 661 (cleveland 303, hungary 261, va 97) of 920" in data.notes
    kept = load("heart-disease", zero_is_missing=False)
    assert "rows without a gap: 740 (cleveland 303, hungary 261, switzerland 46, va 130) of 920" in kept.notes
    full = load("heart-disease", sparse_columns=True)
    assert "rows without a gap: 299 (cleveland 297, hungary 1, va 1) of 920" in full.notes


def test_tcga_brca_has_the_sizes_of_flamby():
    data = load("tcga-brca", fold="flamby")
    sizes = [[int((pool.columns["region"] == r).sum()) for pool in data.pools] for r in REGIONS]
    assert sizes == [[248, 63], [156, 40], [164, 42], [129, 33], [129, 33], [40, 11]]
    events = [int((pool.y > 0).sum()) for pool in data.pools]
    assert (events, len(data.features)) == ([119, 32], 39)
    whole = load("tcga-brca")
    assert (len(whole.train), whole.test) == (1088, None)
