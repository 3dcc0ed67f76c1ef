"""Leverage by hand; what the guard lets pass and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.core.errors import BadInput, Refused
from coterie.nets.guard import Guard, check_leverage, leverage


def test_leverage_by_hand():
    assert leverage(np.full((1, 8), 1 / 8)).tolist() == pytest.approx([1 / 8] * 8)
    assert leverage(np.array([[0.6, 0.8]])).tolist() == pytest.approx([0.36, 0.64])
    assert leverage(np.array([[0.5, 0.5]]), own=[0]).tolist() == pytest.approx([0, 1])
    leave_one_out = (1 - np.eye(4)) / 3
    assert leverage(leave_one_out).tolist() == pytest.approx([1] * 4)
    assert leverage(np.zeros((1, 3))).tolist() == [0, 0, 0]


@given(st.integers(2, 6), st.integers(1, 4), st.integers(0, 10**6))
def test_leverage_is_the_rank_and_grows(replies, sums, seed):
    rows = np.random.default_rng(seed).normal(size=(sums, replies))
    found = leverage(rows)
    assert found.sum() == pytest.approx(np.linalg.matrix_rank(rows))
    assert (found <= 1 + 1e-9).all()
    assert (found >= leverage(rows[:-1]) - 1e-9).all()


def test_leverage_of_one_is_what_can_be_solved_for():
    """Replies recovered from all leave-one-out means, and none from the mean alone."""
    x = np.random.default_rng(0).normal(size=(5, 7))
    ways = (1 - np.eye(5)) / 4
    assert np.allclose(np.linalg.pinv(ways) @ (ways @ x), x, atol=1e-12)
    mean = np.full((1, 5), 0.2)
    assert np.abs(np.linalg.pinv(mean) @ (mean @ x) - x).max() > 0.5


def test_sums_one_after_the_other_are_seen_together():
    guard = Guard(0.75)
    assert guard.pass_on("r", "w", [{"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}], set()) == pytest.approx(1 / 3)
    assert guard.pass_on("q", "w", [{"a": 0.5, "b": 0.5}], set()) == pytest.approx(0.5)
    with pytest.raises(Refused, match=r"would show r 1\.00 of the reply of c, above the bound of 0\.75"):
        guard.pass_on("r", "w", [{"a": 0.5, "b": 0.5}], set())
    assert guard.pass_on("r", "w", [{"d": 0.5, "e": 0.5}], set()) == pytest.approx(0.5)  # of other replies
    assert guard.pass_on("r", "v", [{"a": 0.5, "b": 0.5}], set()) == pytest.approx(0.5)  # another tensor
    assert guard.pass_on("r", "w", [{"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}], set()) == pytest.approx(1 / 3)


def test_what_a_receiver_knows_itself_hides_nothing():
    guard = Guard(0.75)
    with pytest.raises(Refused, match=r"1\.00 of the reply of b"):
        guard.pass_on("a", "w", [{"a/1": 0.9, "b/1": 0.1}], {"a/1"})
    assert guard.got == {}


def test_a_host_may_set_a_lower_bound_for_its_reply():
    guard = Guard(0.75)
    guard.own["a"] = 0.3
    with pytest.raises(Refused, match=r"0\.50 of the reply of a, above the bound of 0\.3 \(its policy's\)"):
        guard.pass_on("r", "w", [{"a": 0.5, "b": 0.5}], set())
    passed = guard.pass_on("r", "w", [{"a": 0.3, "b": 0.4, "c": 0.4}], set())
    assert passed == pytest.approx(0.16 / 0.41)


def test_its_own_reply_of_an_earlier_sum_hides_nothing_either():
    guard = Guard(0.75)
    guard.pass_on("a", "w", [{"a/1": 0.5, "b/1": 0.25, "c/1": 0.25}], set())
    with pytest.raises(Refused, match=r"1\.00 of the reply of"):
        guard.pass_on("a", "w", [{"b/1": 0.2, "c/1": 0.8}], set())


@pytest.mark.parametrize("bound", [0.0, -1.0, 1.5])
def test_bounds(bound):
    with pytest.raises(BadInput, match="must lie above 0 and up to 1"):
        check_leverage(bound)
