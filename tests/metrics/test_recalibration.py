"""Recalibration: against scikit-learn where it can be, and only where it helps."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from coterie.metrics.recalibration import (
    BOTH,
    ENOUGH,
    SLOPE,
    Recalibrated,
    Recalibration,
    chosen,
    fitted,
    outputs_of,
    settled,
)


def drawn(seed: int, rows: int, slope: float = 1.0, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities [row, 2] of a model whose log-odds are to be read as slope times them plus shift."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(0, 1.5, rows)
    y = (rng.random(rows) < 1 / (1 + np.exp(-(slope * odds + shift)))).astype(int)
    p = 1 / (1 + np.exp(-odds))
    return np.stack([1 - p, p], axis=1), y


def folds(rows: int) -> np.ndarray:
    return np.arange(rows) % 5


def test_the_fit_is_logistic_regression_on_the_log_odds():
    p, y = drawn(0, 4000, 0.5, -1.0)
    b, a = fitted(outputs_of(p), y, intercepts=True)
    odds = np.log(p[:, 1] / p[:, 0])[:, None]
    known = LogisticRegression(C=np.inf, tol=1e-10).fit(odds, y)
    assert b == pytest.approx(known.coef_[0, 0], abs=2e-3)  # ours is drawn to 1 and 0 by a row or two
    assert a[1] - a[0] == pytest.approx(known.intercept_[0], abs=5e-3)
    assert a.sum() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("slope", "shift", "kind"), [(0.4, 0.0, SLOPE), (1.0, 1.0, BOTH), (0.4, -1.0, BOTH)])
def test_what_is_off_is_put_right(slope, shift, kind):
    p, y = drawn(1, 1000, slope, shift)
    found = chosen(p, y, folds(1000), "validation rows")
    assert isinstance(found, Recalibration)
    if kind == BOTH:  # a slope alone may come with a shift of nearly nothing
        assert found.kind == BOTH
    new, truth = drawn(2, 4000, slope, shift)
    after = found.of_probabilities(new)
    assert after.sum(axis=1) == pytest.approx(np.ones(4000))
    assert log_loss(truth, after) < log_loss(truth, new) - 0.01
    assert roc_auc_score(truth, after[:, 1]) == pytest.approx(roc_auc_score(truth, new[:, 1]))
    assert found.after < found.before


def test_what_is_calibrated_stays():
    """By chance alone one in six or so would look better by more than a standard error."""
    kept = [isinstance(chosen(*drawn(s, 300), folds(300), "validation rows"), str) for s in range(20)]
    assert sum(kept) >= 16
    why = next(w for s in range(20) if isinstance(w := chosen(*drawn(s, 300), folds(300), "rows"), str))
    assert why.startswith("no recalibration makes the log loss of 300 rows that training had not seen")


def test_too_few_rows_change_nothing():
    p, y = drawn(3, 200, 0.2)
    ill = np.flatnonzero(y == 1)[: ENOUGH - 1]
    some = np.sort(np.concatenate([np.flatnonzero(y == 0), ill]))
    found = settled(p[some], y[some], folds(len(some)), "validation rows")
    assert found.found is None
    assert found.why == f"39 of {len(some)} rows are not of the commonest class, and 40 are needed"
    assert found.words() == f"probabilities are the model's own: {found.why}"


def test_rows_that_are_all_told_apart_have_a_finite_slope():
    y = np.arange(200) % 2
    p = np.stack([np.where(y == 0, 0.6, 0.4), np.where(y == 1, 0.6, 0.4)], axis=1)
    found = chosen(p, y, folds(200), "validation rows")
    assert isinstance(found, Recalibration)
    assert 1 < found.slope < 100


def test_a_model_that_says_the_contrary_is_not_turned_round():
    p, y = drawn(4, 400, -1.0)
    found = chosen(p, y, folds(400), "validation rows")
    assert isinstance(found, str)
    assert "turn the order of rows round" in found


def test_several_classes_have_one_slope_and_an_intercept_each():
    rng = np.random.default_rng(5)
    z = rng.normal(0, 2, (900, 3))
    true = np.exp(0.5 * z + np.array([0.8, 0.0, -0.8]))
    true /= true.sum(axis=1, keepdims=True)
    y = (true.cumsum(axis=1) < rng.random(900)[:, None]).sum(axis=1)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    found = chosen(p, y, folds(900), "validation rows")
    assert isinstance(found, Recalibration)
    assert found.kind == BOTH
    assert found.slope == pytest.approx(0.5, abs=0.1)
    assert found.intercepts[0] - found.intercepts[2] == pytest.approx(1.6, abs=0.4)


def test_it_is_kept_as_text_and_damage_is_seen():
    p, y = drawn(6, 400, 0.3)
    found = settled(p, y, folds(400), "validation rows", (p, y))
    assert Recalibrated.read(found.to_dict()) == found
    assert found.test["nll"][1] < found.test["nll"][0]
    for wrong in ({"slope": -1.0}, {"slope": float("nan")}, {"intercepts": [0.0, float("inf")]}):
        with pytest.raises(ValueError, match="is none"):
            Recalibrated.read({**found.to_dict(), **wrong})
