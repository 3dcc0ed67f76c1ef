"""Calibration: worked out by hand, its invariants, and against other libraries."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss
from torchmetrics.functional.classification import multiclass_calibration_error

from coterie.core.groups import Groups
from coterie.metrics.calibration import (
    abstention,
    brier,
    by_entropy,
    calibration,
    ece,
    entropy,
    mce,
    nll,
    normalised_nll,
    probabilities,
    reliability,
    taus,
)

# sure by 0.6 (right), 0.6 (wrong), 0.8 (right), 0.8 (right): all on edges of bins
P = torch.tensor([[0.6, 0.4], [0.6, 0.4], [0.2, 0.8], [0.2, 0.8]], dtype=torch.float64)
Y = torch.tensor([0, 1, 1, 1])


def held(t: torch.Tensor) -> dict[int, float]:
    """Where there is something in the only group, and what."""
    assert len(t) == 1
    return {i: v for i, v in enumerate(t[0].tolist()) if v}


def test_bins_by_hand():
    found = reliability(P, Y)
    # 0.6 is in (0.55, 0.6], the twelfth bin; 0.8 in (0.75, 0.8], the sixteenth
    assert held(found.samples) == {11: 2, 15: 2}
    assert held(found.right) == {11: 1, 15: 2}
    assert held(found.total) == pytest.approx({11: 1.2, 15: 1.6})
    assert found.accuracy[0, 11] == 0.5
    assert found.mean[0, 15] == pytest.approx(0.8)
    assert found.accuracy[0, 0].isnan()


def test_scores_by_hand():
    assert float(ece(P, Y)) == pytest.approx(2 / 4 * 0.1 + 2 / 4 * 0.2)
    assert float(mce(P, Y)) == pytest.approx(0.2)
    # one bin: right on 3 of 4, sure by 0.7
    assert [float(ece(P, Y, bins=1)), float(mce(P, Y, bins=1))] == pytest.approx([0.05, 0.05])
    assert float(brier(P, Y)) == pytest.approx((2 * 0.4**2 + 2 * 0.6**2 + 4 * 0.2**2) / 4)
    each = [-math.log(0.6), -math.log(0.4), -math.log(0.8), -math.log(0.8)]
    assert nll(P.log(), Y).tolist() == pytest.approx(each)
    assert float(normalised_nll(P.log(), Y)) == pytest.approx(sum(each) / 4)


def test_scores_of_groups_by_hand():
    groups = Groups.of(torch.tensor([1, 3]))
    assert ece(P, Y, groups=groups).tolist() == pytest.approx([0.4, (0.6 + 2 * 0.2) / 3])
    assert mce(P, Y, groups=groups).tolist() == pytest.approx([0.4, 0.6])
    assert brier(P, Y, groups).tolist() == pytest.approx([0.32, (0.72 + 2 * 0.08) / 3])
    assert normalised_nll(P.log(), Y, groups).tolist() == pytest.approx(
        [-math.log(0.6), -(math.log(0.4) + 2 * math.log(0.8)) / 3]
    )
    above = abstention(P, Y, 10, groups)
    assert above.samples.tolist() == [[1] * 7 + [0] * 4, [3] * 7 + [2, 2] + [0, 0]]
    assert by_entropy(P, Y, 1, groups).right.tolist() == [[1], [2]]


def test_abstaining_by_hand():
    found = abstention(P, Y, steps=10)
    assert taus(10).tolist() == [i / 10 for i in range(11)]
    # at least 0.6: all; at least 0.7 and 0.8: the last two; above: nobody
    assert found.samples.tolist() == [[4] * 7 + [2, 2] + [0, 0]]
    assert found.right.tolist() == [[3] * 7 + [2, 2] + [0, 0]]
    assert found.mean[0, [0, 6, 7, 8]].tolist() == pytest.approx([0.7, 0.7, 0.8, 0.8])
    assert found.accuracy[0, [6, 7]].tolist() == [0.75, 1]
    assert found.accuracy[0, 9].isnan()


def test_entropy_by_hand():
    p = torch.tensor([[0.25, 0.25, 0.25, 0.25], [0.0, 1.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]])
    assert entropy(p).tolist() == pytest.approx([math.log(4), 0, math.log(2)])
    found = by_entropy(p, torch.tensor([3, 1, 0]), bins=4)
    # shares of log 4: 1, 0 and 1/2, which closes the second bin
    assert found.samples.tolist() == [[1, 1, 0, 1]]
    assert found.right.tolist() == [[1, 1, 0, 0]]
    assert found.total[0].tolist() == pytest.approx([0, math.log(2), 0, math.log(4)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("m", [10, 13, 14, 19, 20])
def test_an_edge_closes_its_bin(m, dtype):
    edge = torch.tensor(m / 20, dtype=dtype)
    above, y = torch.nextafter(edge, torch.tensor(2, dtype=dtype)), torch.tensor([0])
    assert held(reliability(torch.stack([edge, 1 - edge])[None], y).samples) == {m - 1: 1}
    beyond = min(m, 19)  # nothing is surer than the last bin holds
    assert held(reliability(torch.stack([above, 1 - above])[None], y).samples) == {beyond: 1}
    at = abstention(torch.stack([edge, 1 - edge])[None], y).samples
    assert at.tolist() == [[1.0] * (m + 1) + [0.0] * (20 - m)]


def test_a_probability_too_small_for_a_float_still_counts():
    logits = torch.tensor([[2000.0, 0.0]])
    assert normalised_nll(logits, torch.tensor([1])) == 2000
    assert probabilities(logits).tolist() == [[1, 0]]


def test_what_is_not_a_number_is_not_hidden():
    p, y = torch.full((2, 2), math.nan), torch.tensor([0, 1])
    assert math.isnan(ece(p, y))
    assert math.isnan(mce(p, y))
    assert math.isnan(brier(p, y))


def drawn(seed: int, n: int = 200, classes: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and labels that have something to do with them."""
    rng = np.random.default_rng(seed)
    logits = torch.from_numpy(rng.normal(0, 2, (n, classes)))
    noise = torch.from_numpy(rng.gumbel(0, 1.5, (n, classes)))
    return logits, (logits + noise).argmax(dim=1)


seeds = st.integers(0, 10_000)


@settings(max_examples=20)
@given(st.dictionaries(st.integers(11, 20), st.integers(1, 4), min_size=1))
def test_who_is_right_as_often_as_sure_has_no_error(by_bin):
    rows, labels = [], []
    for m, times in by_bin.items():  # of 20 samples that are sure by m/20, m are right
        rows += [[m / 20, 1 - m / 20]] * 20 * times
        labels += ([0] * m + [1] * (20 - m)) * times
    p, y = torch.tensor(rows, dtype=torch.float64), torch.tensor(labels)
    assert float(ece(p, y)) == pytest.approx(0, abs=1e-12)
    assert float(mce(p, y)) == pytest.approx(0, abs=1e-12)


@settings(max_examples=20)
@given(seeds, st.integers(2, 6), st.integers(1, 30))
def test_invariants(seed, classes, bins):
    logits, y = drawn(seed, classes=classes)
    p = probabilities(logits)
    assert 0 <= ece(p, y, bins) <= mce(p, y, bins) + 1e-12 <= 1 + 1e-12
    assert 0 <= brier(p, y) <= 2
    assert (entropy(p) <= math.log(classes) + 1e-12).all()
    # neither the order of samples nor the names of classes matter
    random = torch.Generator().manual_seed(seed)
    order, names = (torch.randperm(n, generator=random) for n in (len(y), classes))
    q, z = p[order][:, names], names.argsort()[y[order]]
    for score in (ece, mce, brier):
        assert float(score(q, z)) == pytest.approx(float(score(p, y)))
    assert float(normalised_nll(q.log(), z)) == pytest.approx(float(normalised_nll(logits, y)))
    # who abstains more often answers less
    above = abstention(p, y)
    assert above.samples[0, 0] == len(y)
    assert (above.samples.diff() <= 0).all()
    assert bool((above.mean[above.samples > 0].diff() >= -1e-12).all())


@settings(max_examples=15)
@given(seeds, st.integers(1, 199))
def test_sums_of_clients_are_those_of_their_samples_together(seed, cut):
    logits, y = drawn(seed)
    parts = calibration(logits, y, Groups.of(torch.tensor([cut, len(y) - cut])))
    whole = calibration(logits, y)
    for part, all_in_one in zip(parts, whole, strict=True):
        for one, other in zip(part.pooled(), all_in_one, strict=True):
            torch.testing.assert_close(one, other[0])


@pytest.mark.parametrize(("seed", "bins"), [(0, 5), (1, 15), (2, 20)])
def test_ece_and_mce_agree_with_torchmetrics(seed, bins):
    logits, y = drawn(seed)
    p = probabilities(logits)
    for norm, mine in (("l1", ece), ("max", mce)):
        theirs = multiclass_calibration_error(p, y, p.shape[1], n_bins=bins, norm=norm)
        assert float(mine(p, y, bins)) == pytest.approx(float(theirs), abs=1e-6)


@pytest.mark.parametrize("seed", range(2))
def test_brier_and_nll_agree_with_sklearn(seed):
    logits, y = drawn(seed)
    p = probabilities(logits)
    labels = list(range(p.shape[1]))
    theirs = brier_score_loss(y.numpy(), p.numpy(), labels=labels, scale_by_half=False)
    assert float(brier(p, y)) == pytest.approx(theirs)
    assert float(normalised_nll(logits, y)) == pytest.approx(log_loss(y.numpy(), p.numpy(), labels=labels))
