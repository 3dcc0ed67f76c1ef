"""The marginal likelihood against a multivariate normal that knows all rows at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from coterie.linear import evidence
from coterie.linear.evidence import Sums, grid, learnt, marginal, variances


def sites(sizes=(12, 15, 9), d=2, apart=0.5, seed=0):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=d)
    found = []
    for n in sizes:
        x = np.hstack([rng.normal(size=(n, d)), np.ones((n, 1))])
        w = np.append(common + apart * rng.normal(size=d), rng.normal())
        found.append((x, x @ w + rng.normal(size=n)))
    return found


SLOPES = torch.tensor([True, True, False])


def sums_of(data, pairs):
    parts = [
        marginal(torch.tensor(x.T @ x), torch.tensor(x.T @ y), variances(pairs, SLOPES)) for x, y in data
    ]
    return Sums(*(torch.stack(p).sum(0) for p in zip(*parts, strict=True)))


def dense(data, tau, level, sigma):
    """log p(all rows) with unit noise; the common intercept has a prior of variance 1 / FIRM."""
    x = np.vstack([x for x, _ in data])
    y = np.concatenate([y for _, y in data])
    cov = np.eye(len(y)) + x @ np.diag([sigma**2, sigma**2, 1 / evidence.FIRM]) @ x.T
    first = 0
    for own, _ in data:
        s = slice(first, first + len(own))
        cov[s, s] += own @ np.diag([tau**2, tau**2, level**2]) @ own.T
        first += len(own)
    return multivariate_normal(np.zeros(len(y)), cov).logpdf(y)


def test_differences_of_the_evidence_are_those_of_all_rows_at_once(monkeypatch):
    data = sites()
    found = {}
    for sigma in (0.25, 1.0):
        monkeypatch.setattr(evidence, "COMMON", (sigma,))
        for pair in ((0.0, 0.0), (0.25, 1.0), (1.0, 4.0)):
            found[(*pair, sigma)] = learnt(sums_of(data, [pair]), [pair], SLOPES).evidence
    first = (0.0, 0.0, 0.25)
    for key, value in found.items():
        assert value - found[first] == pytest.approx(dense(data, *key) - dense(data, *first), abs=1e-6)


def test_the_common_mean_is_the_posterior_mean_of_all_rows_at_once(monkeypatch):
    data = sites()
    monkeypatch.setattr(evidence, "COMMON", (1.0,))
    pair = (0.5, 1.0)
    mean = learnt(sums_of(data, [pair]), [pair], SLOPES).mean
    prior, x = np.diag([1, 1, 1 / evidence.FIRM]), np.vstack([x for x, _ in data])
    y = np.concatenate([y for _, y in data])
    cov = np.eye(len(y)) + x @ prior @ x.T
    first = 0
    for own, _ in data:
        s = slice(first, first + len(own))
        cov[s, s] += own @ np.diag([0.25, 0.25, 1.0]) @ own.T
        first += len(own)
    assert np.allclose(mean, prior @ x.T @ np.linalg.solve(cov, y))


def test_sites_that_are_alike_are_found_alike_and_others_apart():
    pairs = grid(True, True)
    alike = learnt(sums_of(sites((80,) * 6, apart=0.0), pairs), pairs, SLOPES)
    apart = learnt(sums_of(sites((80,) * 6, apart=0.6), pairs), pairs, SLOPES)
    assert alike.apart <= 0.06
    assert apart.apart >= 0.25
    assert alike.level >= 0.25  # intercepts were drawn apart in both


def test_a_grid_for_one_model_has_one_way():
    assert grid(False, True) == [(0.0, 0.0)]
    assert all(level == 0 for _, level in grid(True, False))
