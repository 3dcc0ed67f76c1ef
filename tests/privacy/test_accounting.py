"""What charges come to: against dp-accounting used otherwise, a formula by hand, and invariants."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from coterie.core.charge import Charge
from coterie.core.errors import BadInput
from coterie.privacy.accounting import (
    COARSE,
    check_budget,
    check_delta,
    epsilon,
    epsilons,
    event_of,
    merged,
    most_times,
    sigma_for,
)

dp = pytest.importorskip("dp_accounting")
pld = pytest.importorskip("dp_accounting.pld")


def by_accountant(events, delta, grid=1e-4):
    accountant = pld.PLDAccountant(value_discretization_interval=grid)
    for event, times in events:
        accountant.compose(event, times)
    return accountant.get_epsilon(delta)


def drawn(seed: int):
    """A setting at random: charges, and the same written down as events."""
    draw = random.Random(seed)
    kind, sigma = draw.choice(["all", "poisson", "capped"]), draw.uniform(0.7, 4)
    batch, rows = draw.randint(8, 64), draw.randint(100, 1000)
    times, rate = draw.randint(1, 300), batch / rows
    cap = min(rows - 1, math.ceil(batch * draw.uniform(1.2, 2.5)))
    if kind == "all":
        charges = [Charge(sigma, times=times), Charge(2 * sigma, times=3)]
        return charges, [(dp.GaussianDpEvent(sigma), times), (dp.GaussianDpEvent(2 * sigma), 3)]
    if kind == "poisson":
        charges = [Charge(sigma, rate, times=times), Charge(20.0, times=5)]
        step = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma))
        return charges, [(step, times), (dp.GaussianDpEvent(20.0), 5)]
    step = dp.TruncatedSubsampledGaussianDpEvent(rows, rate, cap, sigma)
    return [Charge(sigma, rate, cap, rows, times)], [(step, times)]


DAILY = (0, 1, 6, 7, 17)  # each kind of setting, one of them on the grid of the record


@pytest.mark.parametrize(
    "seed", [*DAILY, *(pytest.param(s, marks=pytest.mark.slow) for s in range(20) if s not in DAILY)]
)
def test_epsilon_is_what_the_accountant_says(seed):
    charges, events = drawn(seed)
    delta = 10.0 ** -random.Random(seed).randint(3, 6)
    # two on the grid of the record; the coarse one takes a tenth of the time
    grid = 1e-4 if seed in (0, 5) else COARSE
    wanted = by_accountant(events, delta, grid)
    assert epsilon(charges, delta, grid) == pytest.approx(wanted, abs=1e-6)
    if grid == COARSE:
        assert by_accountant([(event_of(charges), 1)], delta, grid) == pytest.approx(wanted, abs=1e-6)


def delta_of_gaussian(eps: float, sigma: float) -> float:
    """Balle and Wang 2018, theorem 8: δ(ε) = Φ(1/2σ - εσ) - e^ε Φ(-1/2σ - εσ), at a sensitivity of 1."""
    return norm.cdf(0.5 / sigma - eps * sigma) - math.exp(eps) * norm.cdf(-0.5 / sigma - eps * sigma)


@pytest.mark.parametrize("sigma", [0.8, 2.0, 10.0])
def test_one_gaussian_by_hand(sigma):
    wanted = brentq(lambda e: delta_of_gaussian(e, sigma) - 1e-5, 0, 50)
    found = epsilon([Charge(sigma)], 1e-5)
    assert wanted <= found <= wanted + 2e-4  # never below, and above by no more than the grid


def test_figures_of_the_trial():
    """400 rows, q = 0.08, 30 rounds, sigma = 2: 390 steps with caps of 64 and 48; and by requesters."""

    def setting(cap: int, requesters: int = 1) -> list[Charge]:
        return [Charge(2.0, 0.08, cap, 400, times=390 * requesters)]

    assert epsilon(setting(64), 1e-5, COARSE) == pytest.approx(3.75, abs=0.005)
    assert epsilon(setting(48), 1e-5, COARSE) == pytest.approx(3.87, abs=0.005)
    assert epsilon(setting(64, 6), 1e-5, COARSE) == pytest.approx(10.5, abs=0.05)
    assert epsilon(setting(64, 20), 1e-5, COARSE) == pytest.approx(22.5, abs=0.05)
    assert epsilon([Charge(1.0, 0.125, times=40)], 1e-5, COARSE) == pytest.approx(5.79, abs=0.005)


@settings(max_examples=5, deadline=None)
@given(st.floats(0.6, 8), st.floats(0.02, 1), st.integers(1, 60), st.integers(1, 60))
def test_more_visits_cost_more_and_more_noise_less(sigma, rate, times, more):
    def cost(sigma: float, times: int) -> float:
        return epsilon([Charge(sigma, rate, times=times)], 1e-5, COARSE)

    assert cost(sigma, times) <= cost(sigma, times + more) + 1e-9
    assert cost(2 * sigma, times) <= cost(sigma, times) + 1e-9


def test_units_are_accounted_apart():
    rows, client = Charge(2.0, times=3), Charge(1.0, unit="client")
    found = epsilons([rows, client], 1e-5, COARSE)
    assert found == {
        "row": epsilon([rows], 1e-5, COARSE),
        "client": epsilon([client], 1e-5, COARSE),
    }
    assert epsilon([rows, client], 1e-5, COARSE) == max(found.values())


def test_equal_charges_are_one_and_none_cost_nothing():
    assert merged([Charge(2.0), Charge(2.0, times=2), Charge(3.0, times=0)]) == (Charge(2.0, times=3),)
    assert epsilon([], 1e-5) == 0
    assert epsilon([Charge(0.0)], 1e-5) == math.inf


def test_the_cap_matters_only_if_it_can_cut():
    free = epsilon([Charge(2.0, 0.1, times=20)], 1e-5, COARSE)
    assert epsilon([Charge(2.0, 0.1, cap=100, rows=100, times=20)], 1e-5, COARSE) == free
    assert epsilon([Charge(2.0, 0.1, cap=12, rows=100, times=20)], 1e-5, COARSE) > free


@pytest.mark.parametrize("wanted", [0.5, 3.0])
def test_sigma_for_reaches_epsilon_and_no_more_than_needed(wanted):
    def setting(sigma: float) -> list[Charge]:
        return [Charge(sigma, 0.1, times=50)]

    sigma = sigma_for(wanted, 1e-5, setting)
    assert epsilon(setting(sigma), 1e-5, COARSE) <= wanted < epsilon(setting(0.99 * sigma), 1e-5, COARSE)


def test_most_times_is_the_last_that_fits():
    spent, cost = [Charge(5.0, times=4)], [Charge(3.0)]
    times = most_times(spent, cost, 5.0, 1e-5)
    assert times > 2
    assert epsilon([*spent, Charge(3.0, times=times)], 1e-5, COARSE) <= 5.0
    assert epsilon([*spent, Charge(3.0, times=times + 1)], 1e-5, COARSE) > 5.0
    assert most_times(spent, [Charge(0.3)], 5.0, 1e-5) == 0
    assert most_times(spent, cost, 5.0, 1e-5, most=1) == 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: check_budget(0, 1e-5), "epsilon=0 must lie above 0"),
        (lambda: check_budget(math.nan, 1e-5), "epsilon=nan must lie above 0"),
        (lambda: check_budget(3, 0), "delta=0 must lie between 0 and 1"),
        (lambda: check_delta(0.01, 400, "'a'"), "delta=0.01 is above 1/n = 0.0025 for the 400 rows of 'a'"),
    ],
)
def test_what_cannot_be_kept_is_refused(wrong, said):
    with pytest.raises(BadInput, match=said.replace("(", r"\(")):
        wrong()
