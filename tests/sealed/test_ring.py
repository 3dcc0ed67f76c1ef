"""The ring by hand, and what must hold in it whatever the numbers are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.core.errors import BadInput
from coterie.features.sealed.ring import (
    LOAD,
    check_bits,
    combined,
    decoded,
    encoded,
    masks,
    reach,
    room_for_distances,
    summed_up,
    whole_weights,
)

SMALL = st.floats(-1000, 1000, allow_nan=False)


def test_numbers_by_hand():
    words = encoded(np.array([1.0, -1.0, 0.5, -0.25]), bits=2)
    assert words.tolist() == [4, 2**64 - 4, 2, 2**64 - 1]
    assert decoded(words, 2).tolist() == [1.0, -1.0, 0.5, -0.25]
    assert decoded(words + words, 2).tolist() == [2.0, -2.0, 1.0, -0.5]


def test_sums_by_hand():
    rows = [encoded(np.array([1.0, 2.0]), 4), encoded(np.array([-3.0, 0.5]), 4)]
    whole, bits = whole_weights(np.array([[0.25, 0.75]]))
    assert (whole.tolist(), bits) == ([[2**22, 3 * 2**22]], 24)
    assert decoded(combined(whole, rows), 4 + 24).tolist() == [[-2.0, 0.875]]
    whole, bits = whole_weights(np.array([[1.0, -2.0]]))
    assert (whole.tolist(), bits) == ([[1, -2]], 0)
    assert decoded(combined(whole, rows), 4).tolist() == [[7.0, 1.0]]


def test_weights_that_do_not_add_up_after_rounding_are_made_up_for():
    weights = np.full((1, 3), 1 / 3)
    whole, bits = whole_weights(weights)
    assert whole.sum() == 2**24 - 1
    assert summed_up(weights, whole, bits) * whole.sum() / 2**24 == pytest.approx(1, abs=1e-15)
    nothing = np.zeros((1, 2))
    assert summed_up(nothing, *whole_weights(nothing)).tolist() == [1.0]


def test_room_by_hand():
    """Weights that add up to 4 leave two bits less than the ring has; a distance takes twice a length."""
    assert reach(np.array([[3, 1]])) == LOAD - 2 == 60
    assert reach(np.array([[2**24]])) == LOAD - 24
    assert 4 * (2.0 ** room_for_distances()) ** 2 == pytest.approx(2.0**63)


@given(st.lists(SMALL, min_size=1, max_size=20), st.integers(8, 30))
def test_encoding_is_exact_to_half_a_unit(values, bits):
    x = np.array(values)
    assert np.abs(decoded(encoded(x, bits), bits) - x).max() <= 0.5 * 2.0**-bits


@given(st.lists(SMALL, min_size=3, max_size=3), st.binary(min_size=32, max_size=32))
def test_masks_cancel_exactly(values, seed):
    words, mask = encoded(np.array(values), 24), masks(seed, 3)
    assert (words - mask + mask).tolist() == words.tolist()
    assert masks(seed, 3).tolist() == mask.tolist() == masks(seed, 9)[:3].tolist()


def test_bounds():
    for bits in (7, 31):
        with pytest.raises(BadInput, match=f"bits={bits} must lie between 8 and 30: try 26"):
            check_bits(bits)
    with pytest.raises(BadInput, match="a seed of 3 bytes, not of 32"):
        masks(b"abc", 1)
