"""Batches, schedules and seeds: the random side of a visit."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coterie.core.kernel import batch_of
from coterie.core.seeds import Key
from coterie.kernels import SGD
from coterie.kernels.local import deal_batches, scheduled


def deal(samples, batch, epochs=1, steps=0, shuffle=True, seed=0, past=0):
    return deal_batches(samples, batch, epochs, steps, shuffle, seed, past)


class TestBatches:
    def test_in_order_by_hand(self):
        assert deal(5, 2, epochs=2, shuffle=False).tolist() == [[0, 1], [2, 3], [4, -1]] * 2

    def test_steps_instead_of_epochs(self):
        assert deal(5, 2, epochs=9, steps=4, shuffle=False).tolist() == [[0, 1], [2, 3], [4, -1], [0, 1]]
        assert deal(5, 2, epochs=9, steps=1, shuffle=False).tolist() == [[0, 1]]

    def test_steps_in_order_go_on_from_round_to_round(self):
        in_order = SGD(batch=2, steps=2, shuffle=False)
        rounds = [in_order.plan(5, Key(0).at_round(r, 4)).rows.tolist() for r in (1, 2, 3, 4)]
        assert rounds == [[[0, 1], [2, 3]], [[4, -1], [0, 1]], [[2, 3], [4, -1]], [[0, 1], [2, 3]]]

    def test_epochs_in_order_begin_anew_in_each_round(self):
        in_order = SGD(batch=2, shuffle=False)
        for r in (1, 2):
            assert in_order.plan(3, Key(0).at_round(r, 2)).rows.tolist() == [[0, 1], [2, -1]]

    @given(st.integers(1, 40), st.integers(1, 50), st.integers(1, 4), st.integers(0, 100))
    def test_every_epoch_deals_each_row_once(self, samples, batch, epochs, seed):
        dealt = deal(samples, batch, epochs, seed=seed)
        steps = -(-samples // min(batch, samples))
        assert dealt.shape == (epochs * steps, min(batch, samples))
        for epoch in dealt.reshape(epochs, -1):
            assert sorted(epoch[epoch >= 0].tolist()) == list(range(samples))
            # only the last batch is short, and only at its end
            assert bool((epoch[:samples] >= 0).all())

    @given(st.integers(1, 40), st.integers(1, 50), st.integers(1, 30))
    def test_as_many_steps_as_told(self, samples, batch, steps):
        dealt = deal(samples, batch, steps=steps)
        assert len(dealt) == steps
        rows = dealt[dealt >= 0]
        counts = torch.bincount(rows, minlength=samples)
        assert int(counts.max() - counts.min()) <= 1

    def test_epochs_are_shuffled_differently_and_by_the_generator(self):
        first, second = deal(50, 50, epochs=2)
        assert first.tolist() != second.tolist()
        assert torch.equal(deal(50, 7, seed=3), deal(50, 7, seed=3))
        assert not torch.equal(deal(50, 7, seed=3), deal(50, 7, seed=4))

    def test_a_batch_is_cut_to_its_rows(self):
        x, y = torch.arange(10.0, dtype=torch.float64).reshape(5, 2), torch.arange(5)
        batch = batch_of(x, y, torch.tensor([3, 1, -1, -1]))
        assert batch.x.tolist() == [[6.0, 7.0], [2.0, 3.0]]
        assert batch.y.tolist() == [3, 1]
        assert batch.weight.tolist() == [1.0, 1.0]
        assert batch.weight.dtype == torch.float64


class TestSchedules:
    done = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)

    @pytest.mark.parametrize(
        ("schedule", "final", "factors"),
        [
            ("constant", 0.01, [1.0, 1.0, 1.0]),
            ("linear", 0.2, [1.0, 0.6, 0.2]),
            ("cosine", 0.2, [1.0, 0.6, 0.2]),
            ("exponential", 0.01, [1.0, 0.1, 0.01]),
        ],
    )
    def test_first_middle_and_last_by_hand(self, schedule, final, factors):
        assert scheduled(schedule, final, self.done).tolist() == pytest.approx(factors)

    @pytest.mark.parametrize("schedule", ["linear", "cosine", "exponential"])
    def test_falls_over_the_whole_run_without_a_jump_between_rounds(self, schedule):
        kernel = SGD(schedule=schedule, final=0.1, steps=4)
        rates = torch.cat([kernel.plan(10, Key(0).at_round(r, 3)).rates for r in (1, 2, 3)])
        at_once = SGD(schedule=schedule, final=0.1, steps=12).plan(10, Key(0).at_round(1, 1)).rates
        torch.testing.assert_close(rates, at_once)
        assert rates[0] == 1
        assert bool((rates.diff() < 0).all())
        assert rates[-1] > 0.1

    def test_two_rounds_by_hand(self):
        kernel = SGD(schedule="linear", final=0.5, steps=2)
        assert kernel.plan(10, Key(0).at_round(1, 2)).rates.tolist() == [1.0, 0.875]
        assert kernel.plan(10, Key(0).at_round(2, 2)).rates.tolist() == [0.75, 0.625]


class TestPlan:
    def test_is_the_keys_own(self):
        def plan(key):
            drawn = SGD(batch=4).plan(20, key)
            return drawn.rows.tolist(), drawn.seed

        key = Key(0).at_round(1, 5).at("guest", 0, "host", 1)
        assert plan(key) == plan(key)
        for other in (Key(1), key.at("x"), Key(0).at_round(2, 5).at("guest", 0, "host", 1)):
            assert plan(other)[0] != plan(key)[0]
            assert plan(other)[1] != plan(key)[1]

    def test_another_optimiser_sees_the_same_batches(self):
        from coterie.kernels import Adam

        key = Key(0).at("host", 3)
        assert torch.equal(Adam(batch=4).plan(20, key).rows, SGD(batch=4, momentum=0.9).plan(20, key).rows)


def test_work_that_takes_several_gradients_in_a_step_says_so():
    """20 rows in batches of 8 are 3 steps; in three batches of 8 each they are one step."""
    from coterie.core.kernel import gradient_steps
    from coterie.kernels import SGD
    from coterie.kernels.meta import Meta
    from coterie.kernels.mixture import Mixture
    from coterie.kernels.moreau import Moreau

    sgd = SGD(batch=8)
    assert gradient_steps(sgd, 20) == 3
    assert gradient_steps(Moreau(sgd, inner_steps=5), 20) == 15
    assert gradient_steps(Mixture(sgd), 20) == 6
    assert gradient_steps(Meta(sgd), 20) == 4  # two steps of two batches of 5
    assert gradient_steps(Meta(sgd, hessian="exact"), 20) == 3
    assert gradient_steps(Meta(sgd, hessian="difference"), 20) == 4
