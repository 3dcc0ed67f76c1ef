"""A predictor whose probabilities are recalibrated: its answers, pushes, folder and card."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from four_columns import linear

from coterie.core.client import Samples
from coterie.core.errors import BadRun
from coterie.metrics.recalibration import BOTH, Recalibrated, Recalibration
from coterie.use import load, save
from coterie.use.site_model import recalibrated

FOUND = Recalibration(BOTH, 0.5, (0.3, -0.3), 120, "validation rows", 0.61, 0.55)
RAW = np.array([[60.0, 1, 2, 3], [45.0, 0, 1, 7], [33.3, 1, 2, 0]])


@pytest.fixture
def changed(by_hand):
    return by_hand(recalibrated=Recalibrated(FOUND))


def test_the_log_odds_are_halved_and_shifted(by_hand, changed):
    before, after = (np.log(p[:, 1] / p[:, 0]) for p in (by_hand().proba(RAW), changed.proba(RAW)))
    assert after == pytest.approx(0.5 * before - 0.6)
    assert changed.proba(RAW).sum(axis=1) == pytest.approx(np.ones(3))


def test_a_row_alone_has_the_same_bits(changed):
    assert (changed.proba(RAW[:1]) == changed.proba(RAW)[:1]).all()


def test_pushes_are_shares_of_the_log_odds_that_are_said(by_hand, changed):
    said = changed.proba(RAW).argmax(axis=1) == by_hand().proba(RAW).argmax(axis=1)
    for same, mine, plain in zip(said, changed.explain(RAW, 2), by_hand().explain(RAW, 2), strict=True):
        if same:
            assert [p.push for p in mine] == pytest.approx([0.5 * p.push for p in plain])


def test_the_folder_says_and_does_the_same(changed, tmp_path):
    path = save(changed, tmp_path / "model")
    again = load(path)
    assert again.recalibrated == changed.recalibrated
    assert (again.proba(RAW) == changed.proba(RAW)).all()
    wanted = "robabilities are recalibrated by a slope and an intercept (logistic), fitted to 120 rows"
    assert wanted in (path / "card.md").read_text()
    assert wanted in " ".join(again.means)


def test_why_nothing_is_changed_is_on_the_card(by_hand, tmp_path):
    kept = save(by_hand(recalibrated=Recalibrated(why="too few rows")), tmp_path / "kept")
    assert "Probabilities are the model's own: too few rows." in (kept / "card.md").read_text()
    assert load(kept).recalibrated == Recalibrated(why="too few rows")
    unknown = save(by_hand(), tmp_path / "unknown")
    assert "nothing was recalibrated after training" in (unknown / "card.md").read_text()


@pytest.mark.parametrize("wrong", [{"slope": -1.0}, {"intercepts": [0.0]}, {"slope": "high"}, {"test": 3}])
def test_damage_is_refused(changed, tmp_path, wrong):
    path = save(changed, tmp_path / "model")
    table = json.loads((path / "bundle.json").read_text())
    table["recalibration"] |= wrong
    (path / "bundle.json").write_text(json.dumps(table))
    with pytest.raises(BadRun, match="is damaged"):
        load(path)


def validation_rows(many: int) -> Samples:
    """Rows whose log-odds are a third of what the model says."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(many, 5)).astype(np.float32))
    z = linear()(x).detach().double().numpy()
    odds = (z[:, 1] - z[:, 0]) / 3
    return Samples(x, torch.from_numpy((rng.random(many) < 1 / (1 + np.exp(-odds))).astype(np.int64)))


def test_a_site_recalibrates_by_its_own_validation_rows(by_hand):
    rows = validation_rows(900)
    found = recalibrated(by_hand(), rows).recalibrated
    assert found.found is not None
    assert found.found.slope == pytest.approx(1 / 3, abs=0.15)
    few = recalibrated(by_hand(), Samples(rows.x[:30], rows.y[:30])).recalibrated
    assert few.found is None
    assert "of 30 validation rows are not of the commonest class, and 40 are needed" in few.why
    assert recalibrated(replace(by_hand(), task="regression", classes=()), rows).recalibrated is None
