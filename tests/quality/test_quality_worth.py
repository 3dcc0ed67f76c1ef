"""What a column would bring: intervals by hand, and a column that decides beside one that says nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from small_sites import site

import coterie
from coterie.core.errors import BadInput, UnknownName
from coterie.data.quality import worth as module
from coterie.data.quality.worth import resampled, worth

NAN = math.nan


def test_the_corrected_interval_by_hand():
    # t_{0.975, 2} √(1/3 + 1/4) · 1 = 4.3027 · 0.76376
    mean, low, high = resampled(np.array([1.0, 2.0, 3.0]), 5)
    assert mean == 2
    assert (low, high) == (pytest.approx(2 - 3.2862, abs=1e-4), pytest.approx(2 + 3.2862, abs=1e-4))


@pytest.fixture
def sites(monkeypatch):
    """north has everything; south neither `tells` nor `noise`, and is alone with `own`."""
    monkeypatch.setattr(module, "TIMES", 2)
    draws = np.random.default_rng(0)
    a, tells, noise, hidden = draws.normal(size=(4, 120))
    y = (a + 2 * tells + 0.5 * hidden > 0).astype(int)
    north = site("north", y=y, a=a, tells=tells, noise=noise, own=[NAN] * 120)
    south = site("south", y=y, a=a, tells=[NAN] * 120, noise=[NAN] * 120, own=noise)
    return [north, south]


def test_a_column_that_decides_helps_and_noise_does_not(sites):
    found, notes = worth(sites, "south")
    by = {w.column: w for w in found}
    assert list(by) == ["tells", "noise"]
    assert by["tells"].helps
    assert min(by["tells"].score.low, by["tells"].permuted.low) > 0
    assert not by["noise"].helps
    assert {(w.partner, w.rows, w.beside, w.measure) for w in found} == {("north", 120, 1, "AUC")}
    assert notes == []
    assert found[0].to_dict()["loss"]["mean"] == by["tells"].loss.mean


def test_a_number_to_predict(sites):
    numbers = [
        replace(s, task="regression", classes=(), y=s.raw[:, 0] + np.nan_to_num(s.raw[:, 1])) for s in sites
    ]
    found, _ = worth(numbers, "south")
    assert (found[0].column, found[0].measure, found[0].helps) == ("tells", "R²", True)


def test_what_cannot_be_judged_is_said(sites):
    few = replace(sites[0], raw=np.where(np.arange(120)[:, None] < 40, sites[0].raw, NAN))
    (_, notes) = worth([few, sites[1]], "south")
    assert any("no partner records it well enough" in note for note in notes)
    whole = [replace(s, raw=np.nan_to_num(s.raw)) for s in sites]
    assert worth(whole, "south") == ([], ["south records every column that the others do"])


def test_refusals(sites):
    with pytest.raises(UnknownName, match="did you mean south"):
        worth(sites, "sout")
    with pytest.raises(BadInput, match="no partners"):
        worth(sites[:1], "north")


def test_a_survival_is_checked_but_not_asked_what_columns_are_worth():
    draws = np.random.default_rng(0)
    frames = {
        name: pd.DataFrame(
            {
                "age": draws.normal(60, 9, 80),
                "days": draws.integers(1, 900, 80),
                "died": draws.integers(0, 2, 80),
            }
        )
        for name in ("north", "south")
    }
    frames["north"].loc[3, "age"] = 400
    found = coterie.check(frames, target="days", event="died")
    assert (found.findings["column"] == "age").any()
    with pytest.raises(BadInput, match="not for a survival"):
        coterie.check(frames, target="days", event="died", requester="north")
