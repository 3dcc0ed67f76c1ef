"""Figures of many groups of rows at once: by hand, and against plain loops over groups."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.groups import Groups
from coterie.metrics.calibration import ece, probabilities
from coterie.metrics.classification import auc, balanced_accuracy, hits


def test_sums_by_hand():
    groups = Groups.of(torch.tensor([2, 0, 3]))
    assert groups.index.tolist() == [0, 0, 2, 2, 2]
    values = torch.tensor([1, 2, 4, 8, 16])
    assert groups.sum(values).tolist() == [3, 0, 28]
    assert groups.mean(values).tolist() == pytest.approx([1.5, math.nan, 28 / 3], nan_ok=True)
    kinds = torch.tensor([1, 1, 0, 1, 0])
    assert groups.by(kinds, 2).counts().tolist() == [[0, 2], [0, 0], [2, 1]]
    assert groups.by(kinds, 2).sum(values).tolist() == [[0, 3], [0, 0], [20, 8]]


@settings(max_examples=30)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.integers(0, 10_000))
def test_a_sum_has_the_same_bits_alone_and_among_others(sizes, seed):
    values = torch.randn(sum(sizes), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    alone = [Groups.one(len(v)).sum(v) for v in values.split(sizes)]
    assert torch.equal(Groups.of(torch.tensor(sizes)).sum(values), torch.cat(alone))


rows = st.lists(st.tuples(st.integers(0, 2), st.integers(-4, 4)), min_size=1, max_size=12)
some_groups = st.lists(rows, min_size=1, max_size=5)


def tensors(found):
    """Labels and scores of all rows, and the groups; scores are few, so that many tie."""
    y, score = (torch.tensor([row[i] for rows in found for row in rows]) for i in (0, 1))
    return y, score / 2, Groups.of(torch.tensor([len(rows) for rows in found]))


def agrees(found, wanted):
    assert found.dtype == torch.float64
    assert found.tolist() == pytest.approx(wanted, nan_ok=True)


@settings(max_examples=60)
@given(some_groups)
def test_auc_counts_pairs(found):
    def one(rows):
        pairs = [(a > b) + (a == b) / 2 for c, a in rows if c == 1 for d, b in rows if d != 1]
        return sum(pairs) / len(pairs) if pairs else math.nan

    y, score, groups = tensors(found)
    agrees(auc(score, y, groups), [one(rows) for rows in found])


@settings(max_examples=60)
@given(some_groups)
def test_balanced_accuracy_is_the_mean_recall_of_the_classes_present(found):
    def one(rows):
        recall = []
        for c in {y for y, _ in rows}:
            guesses = [guess(score) == c for y, score in rows if y == c]
            recall.append(sum(guesses) / len(guesses))
        return sum(recall) / len(recall)

    def guess(score):
        return 0 if score < 0 else 1 if score < 2 else 2

    y, score, groups = tensors(found)
    outputs = torch.stack([torch.where(score < 0, 1, 0), torch.where(score < 1, 0.5, 0), score], dim=1)
    agrees(balanced_accuracy(hits(outputs, y), y, 3, groups), [one(rows) for rows in found])


@settings(max_examples=60)
@given(some_groups, st.integers(1, 25))
def test_ece_is_the_mean_gap_over_bins(found, bins):
    y, score, groups = tensors(found)
    p = probabilities(torch.stack([score, 0.3 * score, torch.ones(len(y))], dim=1))

    def one(p, y):
        by_bin: dict[int, list[tuple[float, bool]]] = {}
        for chances, label in zip(p.tolist(), y.tolist(), strict=True):
            confidence = max(chances)
            m = next(m for m in range(1, bins + 1) if confidence <= m / bins)
            by_bin.setdefault(m, []).append((confidence, chances.index(confidence) == label))
        gaps = [abs(sum(right - sure for sure, right in some)) for some in by_bin.values()]
        return sum(gaps) / len(y)

    sizes = groups.sizes.tolist()
    agrees(ece(p, y, bins, groups), [one(*part) for part in zip(p.split(sizes), y.split(sizes), strict=True)])
