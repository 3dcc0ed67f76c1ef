"""Sketches of rows: numbers worked out by hand, what one row can change, what is not told."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.charge import Charge
from coterie.core.errors import BadInput
from coterie.core.kernel import kernel_of, kernel_to_dict, looks, scores
from coterie.core.seeds import Key
from coterie.kernels.sketches import (
    BINS,
    SENSITIVITY,
    Moments,
    Quantiles,
    column_count,
    column_names,
    columns_of,
    counts_of,
    noise_in_quantiles,
    quantiles_of,
    read_off,
    sums_of,
    unfolded,
)


def doubles(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def test_quantiles_by_hand():
    """21 values 0, 1, ..., 20: the 5 % quantile is 1, the 10 % one 2, ...; between two, a straight line."""
    table = torch.stack([torch.arange(21.0), 10 * torch.arange(21.0)], dim=1).double().flip(0)
    torch.testing.assert_close(quantiles_of(table), doubles(list(range(1, 20)), list(range(10, 200, 10))))
    assert quantiles_of(doubles([2.0], [6.0]))[0, [0, 9, 18]].tolist() == pytest.approx([2.2, 4.0, 5.8])
    assert quantiles_of(doubles([3.0])).unique().tolist() == [3.0]


def test_moments_by_hand_class_by_class():
    x = doubles([0, 0], [2, 0], [1, 3], [5, 5], [9, 9])
    y = torch.tensor([0, 0, 0, 1, 2])
    found = Moments(2, classes=3, least=2).look("classification", x, y)
    assert found["means"].tolist() == [1, 1, 0, 0, 0, 0]
    assert found["covariances"].tolist() == [1, 0, 3, 0, 0, 0, 0, 0, 0]
    assert found["there"].tolist() == [1, 0, 0]  # classes of one row would tell that row
    assert {n: len(t) for n, t in found.items()} == Moments(2, classes=3).sizes
    assert unfolded(found["covariances"][:3], 2).tolist() == [[1, 0], [0, 3]]


def test_a_regression_has_its_target_as_one_more_column():
    kernel = Moments(1, least=2)
    found = kernel.look("regression", doubles([0.0], [2.0]), torch.tensor([1.0, 5.0]))
    assert found["means"].tolist() == [1, 3]
    assert found["covariances"].tolist() == [2, 4, 8]
    hidden = Moments(1, least=2, sigma=1e-9)
    assert hidden.sizes == {"means": 1, "covariances": 1, "there": 1}  # a target has no agreed scale


def test_counts_and_reading_them_off():
    """Eight bins on each side: half of the values lie in the bin right of 0, half at the upper end."""
    counts = counts_of(doubles([0.1], [0.3], [3.9], [99.0]), 4.0)
    assert counts[0].nonzero().flatten().tolist() == [BINS // 2, BINS - 1]
    assert counts.sum() == 4
    found = read_off(counts, 4.0)[0]
    assert found[[0, 9, 18]].tolist() == pytest.approx([0.05, 0.5, 3.95])  # 5 % is a tenth of the first half
    assert read_off(torch.full((1, BINS), -3.0).double(), 4.0)[0, 9] == pytest.approx(0)  # nothing is left


@settings(max_examples=30)
@given(st.integers(2, 12), st.integers(1, 6), st.integers(0, 10**6), st.floats(0.1, 50))
def test_one_row_changes_no_more_than_noise_is_measured_by(rows, columns, seed, wide):
    x = wide * torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)).double()
    less = x[1:]
    moved = (counts_of(x, 4.0) - counts_of(less, 4.0)).norm()
    assert moved <= math.sqrt(columns) + 1e-9
    radius = Moments(columns, sigma=1.0).radius
    assert (sums_of(x, radius) - sums_of(less, radius)).norm() <= SENSITIVITY + 1e-9


def test_noise_is_of_the_size_that_is_charged():
    """Many keys: the noise of a count has the deviation σ √d."""
    kernel = Quantiles(4, sigma=3.0)
    assert kernel.charges(50) == (Charge(3.0),)
    assert Quantiles(4).charges(50) is None
    assert Moments(4, 2, sigma=2.0).charges(50) == (Charge(2.0),)
    keys = [Key(i) for i in range(200)]
    none = torch.zeros(200, 1 + 2 * 2)
    told_of = Moments(2, sigma=5.0, least=2).tell({"sums": none}, range(200), keys)
    drawn = torch.stack([torch.randn(5, generator=k.at("noise").torch(), dtype=torch.float64) for k in keys])
    count = 5 * SENSITIVITY * drawn[:, 0]
    assert ((count >= 2).double() == told_of["there"][:, 0]).all()
    assert float(count.std()) == pytest.approx(5 * math.sqrt(3), rel=0.15)


def test_without_much_noise_private_sketches_are_the_plain_ones():
    x = torch.randn(4000, 2, generator=torch.Generator().manual_seed(0)).double() * 0.8 + 0.3
    y = torch.zeros(4000, dtype=torch.int64)
    quantiles, moments = Quantiles(2, sigma=1e-6), Moments(2, 1, sigma=1e-6, bound=4.0)
    found = [
        {n: t.unsqueeze(0) for n, t in k.look("classification", x, y).items()} for k in (quantiles, moments)
    ]
    read = quantiles.tell(found[0], [0], [Key(0)])["quantiles"].reshape(2, 19)
    torch.testing.assert_close(read, quantiles_of(x), atol=0.1, rtol=0)  # bins are 0.5 wide
    read = moments.tell(found[1], [0], [Key(0)])
    torch.testing.assert_close(read["means"][0], x.mean(0), atol=1e-4, rtol=0)
    torch.testing.assert_close(read["covariances"][0], x.var(0), atol=1e-3, rtol=0)


def test_the_effect_of_noise_is_foreseen():
    """As large as what noise does to the quantiles of many keys."""
    x = torch.randn(300, 3, generator=torch.Generator().manual_seed(1)).double()
    kernel = Quantiles(3, sigma=2.0)
    counts = kernel.look("classification", x, x[:, 0])["counts"].expand(300, -1)
    seen = kernel.tell({"counts": counts}, range(300), [Key(i) for i in range(300)])["quantiles"]
    seen = seen.reshape(300, 3, 19).var(dim=0).sqrt().mean()
    foreseen = noise_in_quantiles(quantiles_of(x), 300, 2.0, 4.0).sqrt().mean()
    assert float(foreseen / seen) == pytest.approx(1, abs=0.2)
    assert not noise_in_quantiles(quantiles_of(x), 300, 0.0, 4.0).any()


def test_a_picture_has_a_column_for_each_tile():
    x = torch.zeros(1, 1, 8, 8)
    x[0, 0, :2, 2:4] = 1
    assert columns_of(x, 16)[0].nonzero().flatten().tolist() == [1]
    assert column_count((3, 32, 32)) == 48
    assert column_names((1, 8, 8), ())[:2] == ["tile 1, 1", "tile 1, 2"]
    assert column_names((2, 2, 1), ())[2] == "tile 1, 1 of channel 2"
    assert column_names((2,), ("age", "bmi")) == ["age", "bmi"]
    assert column_names((2,), ()) == ["column 1", "column 2"]


def test_told_as_data_and_known_as_what_it_is():
    kernel = Moments(3, 2, sigma=1.5)
    assert kernel_of(kernel_to_dict(kernel)) == kernel
    assert looks(kernel)
    assert scores(kernel)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: Quantiles(sigma=-1), "quantiles: sigma=-1 must be at least 0 and finite"),
        (lambda: Quantiles(reach=0), "quantiles: reach=0 must lie above 0"),
        (lambda: Moments(least=1), "moments: least=1 must be at least 2, or it tells single rows: try 5"),
        (lambda: columns_of(torch.zeros(2, 3), 4), "3 columns here, asked for 4: is it another table?"),
    ],
)
def test_refusals(make, line):
    with pytest.raises(BadInput) as caught:
        make()
    assert str(caught.value).startswith(line)
