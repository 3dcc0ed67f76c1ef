"""Sums of replies: leverage by hand, leave-one-out means that give all away, a plain mean that does not."""

from __future__ import annotations

import numpy as np
import pytest
from audit_runs import DIGITS

from coterie.features.audit import mixes
from coterie.features.audit.mixes import leverage, solved

REPLIES = np.random.default_rng(0).normal(size=(6, 50))
LEAVE_ONE_OUT = (1 - np.eye(6)) / 5
MEAN = np.full((1, 6), 1 / 6)


def test_leverage_by_hand():
    assert leverage(MEAN) == pytest.approx(np.full(6, 1 / 6))
    assert leverage(LEAVE_ONE_OUT) == pytest.approx(np.ones(6))
    assert leverage(np.array([[0.5, 0.5, 0.0]]), [0]) == pytest.approx([0, 1, 0])  # of oneself and one other
    assert leverage(np.array([[0.6, 0.8]])) == pytest.approx([0.36, 0.64])
    assert leverage(np.array([[1.0, 1, 0], [0, 1, 1]])) == pytest.approx(np.full(3, 2 / 3))
    assert leverage(np.zeros((1, 3))) == pytest.approx(np.zeros(3))


def test_leave_one_out_gives_every_reply_away():
    found = solved(LEAVE_ONE_OUT, LEAVE_ONE_OUT @ REPLIES)
    assert np.abs(found - REPLIES).max() < 1e-10


def test_a_plain_mean_does_not():
    found = solved(MEAN, MEAN @ REPLIES)
    error = np.linalg.norm(found - REPLIES, axis=1) / np.linalg.norm(REPLIES, axis=1)
    assert error.min() > 0.5


def test_ones_own_reply_takes_the_veil_off_another():
    rows = np.array([[0.5, 0.5, 0.0]])
    found = solved(rows, rows @ REPLIES[:3], [0], REPLIES[:1])
    assert np.abs(found[1] - REPLIES[1]).max() < 1e-10


@pytest.fixture(scope="module")
def pens(subject_of):
    words = (*DIGITS, "--clients", "6", "--method", "pens", "--rounds", "2")
    return mixes.attack(subject_of(*words))


def test_one_neighbour_is_solved_for(pens):
    """PENS averages with one other: whoever knows itself knows the other."""
    assert max(h["leverage"] for h in pens["hosts"]) == pytest.approx(1)
    exact = [h for h in pens["really"]["hosts"] if h["leverage"] > 0.999]
    assert exact
    assert max(h["error"] for h in exact) < 1e-4
    assert pens["directly"] == ["other clients"]


def test_an_average_of_many_is_not(subject_of):
    found = mixes.attack(subject_of(*DIGITS, "--clients", "6", "--rounds", "2"))
    assert found["directly"] == ["the coordinator"]
    assert len(found["really"]["hosts"]) == 6
    for host in (*found["hosts"], *found["really"]["hosts"]):
        assert 0.1 < host["leverage"] < 0.35
    assert min(h["error"] for h in found["really"]["hosts"]) > 0.05


def test_training_alone_has_no_mixes(subject_of):
    subject = subject_of(*DIGITS, "--clients", "4", "--method", "local", "--rounds", "1")
    assert mixes.why_not(subject) == "nobody listened to anybody else: there were no mixes"


def test_rows_that_move_leave_nothing_to_work_out(subject_of):
    subject = subject_of(*DIGITS, "--clients", "4", "--method", "central", "--rounds", "1")
    assert mixes.why_not(subject).startswith("the method moves clients' rows themselves")


def test_the_round_is_the_run_s_own(subject_of):
    """What is played again is what the record says: the weights of the sums are the record's."""
    subject = subject_of(*DIGITS, "--clients", "6", "--rounds", "2")
    replies, sums = mixes.played_again(subject, 2)
    assert [r.host for r in replies] == list(range(6))
    found = [sums[0].weights[r.id] for r in replies]
    assert found == pytest.approx(subject.record.weights[2][0].tolist(), rel=1e-6)
