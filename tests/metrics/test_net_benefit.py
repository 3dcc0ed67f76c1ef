"""Sensitivity, specificity and net benefit, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from coterie.core.groups import Groups
from coterie.kernels import Calibrate, Tallied
from coterie.kernels.calibrate import unpacked
from coterie.metrics import operating
from coterie.metrics.calibration import calibration, called_positive, probabilities, taus
from coterie.metrics.classification import hits, of_two

# ten rows, three of them ill: at 0.2 two of these and two of the well are called so
P = np.array([0.9, 0.3, 0.1, 0.6, 0.2, 0.15, 0.1, 0.05, 0.05, 0.0])
ILL = np.array([1, 1, 1, 0, 0, 0, 0, 0, 0, 0])
LOGITS = torch.log(torch.tensor(np.stack([1 - P, P], axis=1)).clamp(min=1e-300))


def test_net_benefit_by_hand():
    t = np.array([0.0, 0.2, 0.5, 0.8])
    found = operating.counts(P, ILL == 1, t)
    # 3/10; 2/10 - 2/10 / 4; 1/10 - 1/10; 1/10
    assert operating.net_benefit(found, t).tolist() == pytest.approx([0.3, 0.15, 0.0, 0.1])
    everybody = operating.treating_all(found)
    # 3/10 - 7/10 t / (1 - t)
    assert operating.net_benefit(everybody, t).tolist() == pytest.approx([0.3, 0.125, -0.4, -2.5])
    assert np.isnan(operating.net_benefit(operating.counts(P, ILL == 1, np.ones(1)), np.ones(1))).all()


def test_treating_all_is_worth_nothing_where_the_threshold_is_the_share_of_the_ill():
    t = np.array([0.3])
    found = operating.treating_all(operating.counts(P, ILL == 1, t))
    assert operating.net_benefit(found, t) == pytest.approx([0.0])


@pytest.mark.parametrize(
    ("positive", "wanted"),
    [
        (1, {"sensitivity": 1 / 3, "specificity": 6 / 7, "net_benefit": (1 - 1) / 10}),
        (0, {"sensitivity": 6 / 7, "specificity": 1 / 3, "net_benefit": (6 - 2) / 10}),
    ],
)
def test_where_the_more_probable_is_said(positive, wanted):
    y = torch.from_numpy(ILL)
    found = of_two(hits(LOGITS, y), y, positive)
    assert {name: float(value) for name, value in found.items()} == pytest.approx(wanted)
    scored = Calibrate(positive=positive).measure(
        "classification", LOGITS, torch.zeros(10), y, Groups.one(10)
    )
    assert {name: float(scored[name]) for name in wanted} == pytest.approx(wanted)


def test_a_class_without_rows_has_no_share():
    y = torch.zeros(10, dtype=torch.int64)
    found = of_two(hits(LOGITS, y), y)
    assert torch.isnan(found["sensitivity"]).all()
    assert float(found["specificity"]) == pytest.approx(0.8)
    assert float(found["net_benefit"]) == pytest.approx(-0.2)


@pytest.mark.parametrize("positive", [0, 1])
def test_tallies_count_what_is_called_positive_at_each_threshold(positive):
    rng = np.random.default_rng(0)
    logits, y = torch.from_numpy(rng.normal(size=(200, 2))), torch.from_numpy(rng.integers(0, 2, 200))
    p = probabilities(logits)
    found = called_positive(p, y, positive)
    counts = operating.counts(p[:, positive].numpy(), (y == positive).numpy(), taus(100).numpy())
    assert found.right[0].tolist() == counts.tp.tolist()
    assert (found.samples - found.right)[0].tolist() == counts.fp.tolist()


def test_more_classes_than_two_have_none():
    y = torch.tensor([0, 1, 2])
    groups = Groups.of(torch.tensor([2, 1]))
    scored = Calibrate().measure("classification", torch.eye(3), torch.zeros(3), y, groups)
    assert not {"sensitivity", "specificity", "net_benefit"} & scored.keys()
    kept = unpacked(Tallied().measure("classification", torch.eye(3), torch.zeros(3), y, groups))
    assert kept.positive.samples.shape == (2, 0)


def test_what_tells_how_many_are_ill_is_not_told():
    """A site whose policy keeps its counts of classes has none of the three, and no tally of the positive."""
    y = torch.from_numpy(ILL)
    given = ("classification", LOGITS, torch.zeros(10), y, Groups.one(10))
    scored = Calibrate(label_counts=False).measure(*given)
    assert all(torch.isnan(scored[name]).all() for name in ("sensitivity", "specificity", "net_benefit"))
    open_, closed = (Tallied(label_counts=told).measure(*given) for told in (True, False))
    assert open_.keys() == closed.keys()  # of one shape, whoever tells
    assert torch.isnan(unpacked(closed).positive.samples).all()
    assert not torch.isnan(unpacked(closed).confidence.samples).any()


def test_joined_bins_are_the_same_whichever_class_is_positive():
    """Two ways to join rows would tell by their difference of few of them."""
    rng = np.random.default_rng(1)
    logits, y = torch.from_numpy(rng.normal(size=(43, 2))), torch.from_numpy(rng.integers(0, 2, 43))
    one, other = (calibration(logits, y, least=5, positive=c) for c in (0, 1))
    for mine, theirs in zip(one[:3], other[:3], strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
    for found in (one, other):
        reached = found.positive.samples - torch.nn.functional.pad(found.positive.samples[:, 1:], (0, 1))
        assert ((reached == 0) | (reached >= 5)).all()
        assert reached.sum() == 43
