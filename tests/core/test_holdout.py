from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.core.errors import BadInput
from coterie.core.seeds import Key
from coterie.data.dataset import hold_out


def split(y, fraction, seed=0):
    return hold_out(np.asarray(y), fraction, Key(seed).numpy(), "client 'a'")


@pytest.mark.parametrize(
    ("n", "fraction", "held"),
    [(10, 0.3, 3), (10, 0.25, 2), (100, 0.2, 20), (2, 0.5, 1), (2, 0.01, 1), (2, 0.99, 1), (7, 0.999, 6)],
)
def test_sizes_by_hand(n, fraction, held):
    kept, set_aside = split(np.zeros(n, dtype=int), fraction)
    assert (len(kept), len(set_aside)) == (n - held, held)


@pytest.mark.parametrize("seed", range(5))
def test_a_label_that_does_not_divide_is_off_by_less_than_one_row(seed):
    y = np.array([0] * 11 + [1] * 6 + [2] * 3)
    _, held = split(y, 0.25, seed)
    counts = np.bincount(y[held], minlength=3)
    assert counts.sum() == 5
    assert all(abs(c - share) < 1 for c, share in zip(counts, [2.75, 1.5, 0.75], strict=True))
    # a third of 6, 3 and 9 rows
    y = np.array([0, 1, 2, 2, 0, 2] * 3)
    assert np.bincount(y[split(y, 1 / 3, seed)[1]]).tolist() == [2, 1, 3]


@pytest.mark.parametrize("seed", range(5))
def test_a_continuous_target_is_held_from_low_to_high(seed):
    y = np.random.default_rng(seed).permutation(100).astype(float)
    _, held = split(y, 0.1, seed)
    assert sorted(y[held] // 10) == list(range(10))


@given(st.lists(st.integers(0, 4), min_size=2, max_size=60), st.floats(0.001, 0.999), st.integers(0, 1000))
def test_nothing_is_lost_and_nothing_is_twice(y, fraction, seed):
    kept, held = split(y, fraction, seed)
    assert sorted([*kept, *held]) == list(range(len(y)))
    assert len(kept) >= 1
    assert len(held) >= 1
    assert list(kept) == sorted(kept)
    assert list(held) == sorted(held)


def test_the_same_seed_holds_the_same_rows_and_another_seed_others():
    y = np.arange(100) % 3
    assert split(y, 0.3, 1)[1].tolist() == split(y, 0.3, 1)[1].tolist()
    assert split(y, 0.3, 1)[1].tolist() != split(y, 0.3, 2)[1].tolist()


@pytest.mark.parametrize("y", [np.arange(12) % 2, np.arange(12) / 7], ids=["labels", "numbers"])
def test_every_row_is_held_at_times(y):
    held = {int(row) for seed in range(60) for row in split(y, 0.25, seed)[1]}
    assert held == set(range(12))


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, float("nan")])
def test_refuses_a_fraction_out_of_bounds(fraction, refused):
    with refused(BadInput, f"client 'a': held-out fraction {fraction} must lie between 0 and 1: try 0.3"):
        split([0, 1, 0], fraction)


@pytest.mark.parametrize("n", [0, 1])
def test_refuses_too_few_rows(n, refused):
    message = f"client 'a' has {n} sample(s), but training and testing need at least 2: add samples"
    with refused(BadInput, message):
        split([0] * n, 0.3)
