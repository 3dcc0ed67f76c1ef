"""What a classifier does at a threshold, by numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.metrics import operating

P = np.array([0.1, 0.4, 0.35, 0.8, 0.6], dtype=np.float32)
IS = np.array([False, False, True, True, False])


def test_counts_at_thresholds_by_hand():
    found = operating.counts(P, IS, np.array([0.0, 0.35, 0.5, 1.0]))
    assert [c.tolist() for c in found] == [[2, 2, 1, 0], [3, 2, 1, 0], [0, 1, 2, 3], [0, 0, 1, 2]]
    assert operating.sensitivity(found).value.tolist() == [1, 1, 0.5, 0]
    assert operating.specificity(found).value.tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert operating.positive_predictive_value(found).value[:3].tolist() == pytest.approx([0.4, 0.5, 0.5])


def test_wilsons_interval_by_hand():
    """10 of 20: (10 + 1.9207) / 23.8415 ± 1.96 / 23.8415 √(5 + 0.9604)"""
    low, high = operating.wilson(10, 20)
    assert (float(low), float(high)) == pytest.approx((0.2993, 0.7007), abs=5e-5)
    assert [float(b) for b in operating.wilson(0, 20)] == pytest.approx([0, 0.1611], abs=5e-5)
    assert np.isnan(operating.wilson(0, 0)).all()


def test_newcombes_interval_is_that_of_his_first_example():
    """56 of 70 against 48 of 80: 0.0524 to 0.3339 by his method 10."""
    found = operating.difference(operating.share(56, 70), operating.share(48, 80))
    assert found == pytest.approx((0.0524, 0.3339), abs=5e-5)


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(0, n))))
def test_a_difference_lies_in_its_interval_and_turns_with_its_sign(case):
    n, k, m = case
    one, other = operating.share(k, n), operating.share(m, n)
    low, high = operating.difference(one, other)
    assert -1 - 1e-9 <= low <= (k - m) / n <= high <= 1 + 1e-9
    assert operating.difference(other, one) == pytest.approx((-high, -low))


def test_silence_by_hand():
    """Confidences 0.9, 0.6, 0.7, of which the first and last are right."""
    p = np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7]])
    answered, right = operating.abstention(p, np.array([0, 0, 1]), np.array([0.0, 0.65, 0.8, 0.95]))
    assert answered.value.tolist() == pytest.approx([1, 2 / 3, 1 / 3, 0])
    assert right.value[:3].tolist() == pytest.approx([2 / 3, 1, 1])
    assert np.isnan(right.value[3])
