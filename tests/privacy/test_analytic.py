"""The analytic Gaussian mechanism: against an accountant of another kind, and by its own equation."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.charge import Charge
from coterie.core.errors import BadInput
from coterie.privacy.accounting import COARSE, delta_of, epsilon, sigma_of


@pytest.mark.parametrize("wanted", [0.1, 1.0, 3.0, 20.0])
def test_the_accountant_finds_the_epsilon_that_was_asked_for(wanted):
    pytest.importorskip("dp_accounting")
    assert epsilon([Charge(sigma_of(wanted, 1e-5))], 1e-5, COARSE) == pytest.approx(wanted, rel=0.01)


def test_without_epsilon_delta_is_the_distance_of_two_normals():
    """At ε = 0: 2 Φ(1/2σ) - 1, which is 0.6827 where 1/2σ is one deviation."""
    assert delta_of(0.0, 0.5) == pytest.approx(0.682689, abs=1e-6)


@settings(max_examples=30)
@given(st.floats(0.05, 60), st.floats(1e-9, 0.1))
def test_it_is_the_least_noise_and_less_than_the_classical(wanted, delta):
    sigma = sigma_of(wanted, delta)
    assert delta_of(wanted, sigma) <= delta < delta_of(wanted, 0.999 * sigma)
    if wanted < 1:
        assert sigma < math.sqrt(2 * math.log(1.25 / delta)) / wanted


def test_refusals():
    for wanted, delta in ((0.0, 1e-5), (math.inf, 1e-5), (1.0, 0.0), (1.0, 1.0)):
        with pytest.raises(BadInput, match="must lie"):
            sigma_of(wanted, delta)
