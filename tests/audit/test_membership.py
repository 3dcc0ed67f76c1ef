"""Yeom et al., 2018: figures by hand, an overfitted model, and one that was trained on nothing."""

from __future__ import annotations

import numpy as np
import pytest
from audit_runs import LEAKY

from coterie.core.seeds import Key
from coterie.features.audit import BEFORE, membership
from coterie.features.audit.membership import advantage, auc, intervals, threshold, tpr_at

A = np.array


def test_auc_by_hand():
    assert auc(A([1.0, 2.0]), A([3.0, 4.0])) == 1
    assert auc(A([3.0, 4.0]), A([1.0, 2.0])) == 0
    assert auc(A([1.0, 3.0]), A([2.0, 4.0])) == 3 / 4
    assert auc(A([1.0, 2.0]), A([2.0, 2.0])) == (1 + 1 / 2) / 2


def test_advantage_by_hand():
    members, others = A([0.0, 1.0, 2.0, 5.0]), A([1.0, 2.0, 3.0, 9.0])
    assert threshold(members) == 2
    assert advantage(members, others) == 3 / 4 - 2 / 4


def test_found_by_hand():
    others = np.arange(10.0)
    members = A([-1.0, 0.0, 0.5, 1.0, 7.0])
    assert tpr_at(0.01, members, others) == 1 / 5  # below all others: -1
    assert tpr_at(0.1, members, others) == 3 / 5  # one other may be taken: all below 1
    assert tpr_at(1.0, members, others) == 1
    assert tpr_at(0.1, members, members * 0) == 1 / 5  # all others alike: none may be taken


def test_intervals_are_seeded_and_hold_the_figure():
    source = np.random.default_rng(0)
    members, others = source.exponential(size=40), source.exponential(1.5, size=30)
    found = intervals(members, others, Key(0), 200)
    assert found == intervals(members, others, Key(0), 200)
    assert found != intervals(members, others, Key(1), 200)
    for figure in found.values():
        assert figure["low"] <= figure["value"] <= figure["high"]


def test_intervals_cover():
    """Of 100 pairs from one distribution, the interval misses a half some 5 times."""
    source = np.random.default_rng(1)
    missed = 0
    for i in range(100):
        members, others = source.normal(size=40), source.normal(size=40)
        found = intervals(members, others, Key(i), 100)["auc"]
        missed += not found["low"] <= 0.5 <= found["high"]
    assert missed <= 12


@pytest.fixture(scope="module")
def leaky(subject_of):
    with pytest.MonkeyPatch.context() as few:
        few.setattr(membership, "DRAWS", 100)
        return membership.attack(subject_of(*LEAKY))


def test_an_overfitted_model_gives_its_rows_away(leaky):
    own, shared, before = (
        next(e for e in leaky["together"] if e["model"] == name) for name in ("own", "shared", BEFORE)
    )
    assert own["auc"]["low"] > 0.58
    assert own["auc"]["value"] > shared["auc"]["high"]
    assert own["mean_loss"]["members"] < own["mean_loss"]["others"] / 2
    assert before["auc"]["low"] < 0.5 < before["auc"]["high"]
    worst = max((e for e in leaky["clients"] if e["model"] == "own"), key=lambda e: e["auc"]["value"])
    assert worst["auc"]["low"] > 0.6


def test_every_client_has_every_model(leaky):
    names = [(e["client"], e["model"]) for e in leaky["clients"]]
    assert names == [(f"client-{i}", m) for i in range(30) for m in ("own", "shared", BEFORE)]


def test_losses_are_those_of_the_record(subject_of):
    """The mean loss over test rows is what the run itself wrote down."""
    subject = subject_of(*LEAKY)
    expected = subject.record.final("loss")
    for i in (0, 7):
        own = subject.models_of(i)["own"]
        found = subject.losses(own, subject.clients[i].test).mean()
        assert found == pytest.approx(expected[i], rel=1e-5)
