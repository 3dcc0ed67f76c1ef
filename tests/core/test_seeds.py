from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coterie.core.seeds import Key


def test_the_same_path_is_the_same_number_however_it_was_walked():
    assert Key(3).at("guest", 1).at("host", 4).integer() == Key(3).at("guest", 1, "host", 4).integer()


def test_numbers_are_pinned_across_processes_and_versions():
    assert Key(0).integer() == 9183883414534618160
    assert Key(7).at_round(3, 10).at("guest", 1, "host", 4).integer() == 2630506505682127390


steps = st.one_of(st.integers(-5, 5), st.text("ab1", max_size=2))
walks = st.tuples(st.integers(0, 3), st.lists(steps, max_size=4))


@given(walks, walks)
def test_different_paths_are_different_numbers(one, other):
    same = one == other
    assert (Key(one[0], tuple(one[1])).integer() == Key(other[0], tuple(other[1])).integer()) is same


@given(st.integers(-(2**70), 2**70), st.lists(steps, max_size=3))
def test_numbers_fit_every_generator(seed, path):
    key = Key(seed).at(*path)
    assert 0 <= key.integer() < 2**63
    assert 0 <= key.numpy().random() < 1
    assert 0 <= torch.rand((), generator=key.torch()).item() < 1


def test_a_longer_run_draws_the_same_numbers_in_its_first_rounds():
    assert Key(1).at_round(2, 5).integer() == Key(1).at_round(2, 500).integer()
    assert Key(1).at_round(2, 5).integer() != Key(1).at_round(3, 5).integer()


def test_generators_start_anew_each_time_and_share_nothing():
    key = Key(0).at("x")
    assert key.numpy().random(5).tolist() == key.numpy().random(5).tolist()
    assert torch.equal(torch.rand(5, generator=key.torch()), torch.rand(5, generator=key.torch()))
    before = torch.random.get_rng_state()
    torch.rand(5, generator=key.torch())
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    "draw",
    [lambda k: k.numpy().random(), lambda k: torch.rand((), generator=k.torch()).item()],
    ids=["numpy", "torch"],
)
def test_neighbouring_keys_are_independent(draw):
    numbers = np.array([draw(Key(0).at("host", i)) for i in range(2000)])
    assert abs(numbers.mean() - 0.5) < 4 * (1 / 12 / 2000) ** 0.5
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 4 / 2000**0.5


def test_numpy_integers_are_integers():
    assert Key(np.int64(2)).at(np.int64(3)) == Key(2).at(3)
    assert Key(np.int64(2)).at(np.int64(3)).integer() == Key(2).at(3).integer()
