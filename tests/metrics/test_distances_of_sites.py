"""Distances between sites: quantiles and Gaussian transport, by hand, and what chance makes of them."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.kernels.sketches import moments_of, quantiles_of, unfolded
from coterie.metrics import alike, transport
from coterie.metrics.transport import Classes


def doubles(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def gaussians(tables):
    """One class at each site."""
    found = [moments_of(x, 2) for x in tables]
    d = tables[0].shape[1]
    return Classes(
        torch.stack([m for m, _, _ in found]).unsqueeze(1),
        unfolded(torch.stack([s for _, s, _ in found]), d).unsqueeze(1),
        torch.tensor([[float(len(x))] for x in tables]).double(),
    )


def test_quantile_terms_by_hand():
    """Two sites with one value each in two columns, 0 and 2, and the same in the other: s = 1, so 2 and 0."""
    quantiles = torch.stack([doubles([0.0] * 19, [5.0] * 19), doubles([2.0] * 19, [5.0] * 19)])
    sizes = torch.tensor([10, 10])
    deviation = alike.pooled_deviation(quantiles, sizes)
    assert deviation.tolist() == [1, 1]  # a column that never changes counts as 1
    assert alike.column_terms(quantiles, deviation)[0, 1].tolist() == [2, 0]
    uneven = alike.pooled_deviation(quantiles, torch.tensor([30, 10]))
    assert float(uneven[0]) == pytest.approx(math.sqrt(0.25 * 0.75) * 2)  # by rows: shares of 3/4 and 1/4


def test_quantile_function_goes_on_beyond_its_ends():
    even = (torch.arange(1, 20) / 20).double().unsqueeze(0)
    at = doubles(0.0, 0.05, 0.475, 1.0)
    assert alike.quantile_function(even, at)[0].tolist() == pytest.approx([0.0, 0.05, 0.475, 1.0])


def test_sampling_error_of_a_uniform_median():
    """The median of n uniform numbers has the variance 1 / 4(n + 2)."""
    even = (torch.arange(1, 20) / 20).double().reshape(1, 1, 19)
    found = alike.sampling_variance(even, torch.tensor([101]))[0, 0, 9]
    assert float(found) == pytest.approx(1 / (4 * 103), rel=0.05)  # 32 points leave the tails out


@pytest.mark.parametrize(("n", "m"), [(25, 60), (90, 300)])
def test_chance_is_what_samples_of_the_same_rows_show(n, m):
    """The mean over 120 pairs of samples, beside what is expected of them; both measures."""
    draws = torch.Generator().manual_seed(n)
    turn = torch.randn(4, 4, generator=draws).double()
    seen = []
    for _ in range(120):
        tables = [torch.randn(k, 4, generator=draws).double() @ turn for k in (n, m)]
        sizes, quantiles = torch.tensor([n, m]), torch.stack([quantiles_of(x) for x in tables])
        deviation = alike.pooled_deviation(quantiles, sizes)
        variance = alike.sampling_variance(quantiles, sizes)
        found, _ = transport.scaled(gaussians(tables))
        towards = transport.within(found)
        seen.append(
            [
                float(alike.column_terms(quantiles, deviation)[0, 1].mean()),
                float(alike.by_chance(variance, deviation)[0, 1].mean()),
                float(transport.class_transport(transport.shrunk(found, towards))[0, 1]),
                float(transport.by_chance(found, towards)[0, 1]),
            ]
        )
    terms, expected, square, of_square = torch.tensor(seen).mean(dim=0).tolist()
    assert expected == pytest.approx(terms, rel=0.15)
    assert of_square == pytest.approx(square, rel=0.2)


def test_transport_between_gaussians_by_hand():
    """In one dimension W² = (m - m')² + (s - s')²; with commuting covariances, the same in each direction."""
    means, spreads = doubles([0.0], [3.0]), doubles([[4.0]], [[1.0]])
    assert transport.wasserstein(means, spreads)[0, 1] == pytest.approx(9 + 1)
    spreads = torch.stack([torch.diag(doubles(4.0, 9.0)), torch.diag(doubles(1.0, 25.0))])
    assert transport.wasserstein(torch.zeros(2, 2).double(), spreads)[0, 1] == pytest.approx(1 + 4)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(2, 5))
def test_transport_is_symmetric_and_does_not_see_a_common_turn(seed, d):
    draws = torch.Generator().manual_seed(seed)
    some = torch.randn(3, d, d, generator=draws).double()
    means, spreads = torch.randn(3, d, generator=draws).double(), some @ some.mT
    turn = torch.linalg.qr(torch.randn(d, d, generator=draws).double()).Q
    found = transport.wasserstein(means, spreads)
    torch.testing.assert_close(found, found.T)
    torch.testing.assert_close(
        transport.wasserstein(means @ turn.T, turn @ spreads @ turn.T), found, atol=1e-6, rtol=1e-6
    )
    assert (found >= 0).all()


def test_classes_count_by_their_shares_and_missing_ones_are_held_against_all_rows():
    """Site 1 lacks class 1: its rows of class 0 stand in. Means 0 and 4 against 0, unit variances."""
    means = doubles([[0.0], [4.0]], [[0.0], [0.0]])
    spreads, counts = torch.ones(2, 2, 1, 1).double(), doubles([30.0, 10.0], [20.0, 0.0])
    weights = transport.class_weights(Classes(means, spreads, counts))[0, 1]
    assert weights.tolist() == pytest.approx([(0.75 + 1) / 2, 0.125])
    found = transport.class_transport(Classes(means, spreads, counts))
    assert found[0, 1] == pytest.approx(0.125 * 16)
    nobody = transport.class_transport(Classes(means, spreads, doubles([30.0, 10.0], [0.0, 0.0])))
    assert nobody.isnan().tolist() == [[False, True], [True, True]]


def test_other_labels_for_the_same_inputs_are_far_and_few_rows_are_drawn_in():
    means = doubles([[-1.0], [1.0]], [[1.0], [-1.0]])
    spreads, counts = torch.ones(2, 2, 1, 1).double(), doubles([10.0, 10.0], [10.0, 10.0])
    assert transport.class_transport(Classes(means, spreads, counts))[0, 1] == pytest.approx(4)
    odd = Classes(means, 9 * spreads, doubles([1.0, 10.0], [1.0, 10.0]))
    drawn = transport.shrunk(odd, doubles([1.0]).reshape(1, 1)).covariances
    assert drawn[0, :, 0, 0].tolist() == pytest.approx([(9 + 1) / 2, (90 + 1) / 11])


def test_few_columns_of_the_same_rows_are_said_to_differ():
    """Of 600 columns, normal and skewed, at most 1 % lie beyond the bound of sentences."""
    from coterie.features.similarity.shown import CLEAR

    draws, beyond = torch.Generator().manual_seed(0), []
    for _ in range(100):
        tables = [torch.randn(84, 6, generator=draws).double() for _ in range(2)]
        for x in tables:
            x[:, 3:] = x[:, 3:].exp()
        quantiles, sizes = torch.stack([quantiles_of(x) for x in tables]), torch.tensor([84, 84])
        deviation = alike.pooled_deviation(quantiles, sizes)
        chance = alike.by_chance(alike.sampling_variance(quantiles, sizes), deviation)[0, 1]
        beyond.append(alike.column_terms(quantiles, deviation)[0, 1] > CLEAR * chance)
    assert float(torch.cat(beyond).double().mean()) <= 0.01
