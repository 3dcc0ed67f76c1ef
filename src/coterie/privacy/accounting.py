"""From charges to epsilon at a delta, by distributions of the privacy loss.

A visit costs `Charge`s (`core/charge.py`): Gaussian noise on a sum over all rows, over rows drawn each by
chance (Poisson), or over such a batch cut off at a cap. What many of them come to is computed by the package
`dp-accounting` from distributions of the privacy loss (PLD: Koskela, Jälkö and Honkela 2020, "Computing tight
differential privacy guarantees using FFT"; Doroshenko et al. 2022, "Connect the dots"), whose discretisation
errs on the safe side.

    (ε, δ):  P[M(D) ∈ S] ≤ e^ε P[M(D') ∈ S] + δ     for all S, and D' that is D with one unit more or less

A unit is one row, or all rows of a client at once; the two are accounted for apart, each by itself. That rows
are so and so many is taken to be public.

The distribution of one step is made once for its kind, and so is each result: both take seconds on the fine
grid, a tenth of that on the coarse one, which says slightly more and serves to keep budgets.

The least Gaussian noise for a wanted ε and δ, released once: Balle and Wang 2018, "Improving the Gaussian
Mechanism for Differential Privacy: Analytical Calibration and Optimal Denoising", theorem 8. Noise of
standard deviation σ on figures that one row changes by no more than 1 (in Euclidean norm) is (ε, δ)-private
if and only if

    δ(σ) = Φ(1/(2σ) - εσ) - e^ε Φ(-1/(2σ) - εσ) ≤ δ

δ(σ) falls with σ, so the least σ is found by bisection. The classical σ = √(2 ln(1.25/δ)) / ε holds for ε < 1
only, and asks for more.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from coterie.core.charge import Charge
from coterie.core.errors import BadInput

FINE, COARSE = 1e-4, 1e-3  # between values of the privacy loss
MOST = 2**24  # visits that `most_times` looks for
LEAST_SIGMA, MOST_SIGMA = 0.3, 1e5  # between which `sigma_for` looks
Charges = tuple[Charge, ...]
Spent = Counter[Charge]  # how often each; their own `times` are 1


def accountants() -> Any:
    """The package dp-accounting, loaded when it is needed."""
    try:
        import dp_accounting
        from dp_accounting.pld import privacy_loss_distribution
    except ModuleNotFoundError:
        raise BadInput("accounting needs the package dp-accounting: pip install 'coterie[privacy]'") from None
    return dp_accounting, privacy_loss_distribution


def merged(charges: Iterable[Charge]) -> Charges:
    """The same charges with equal ones as one, in an order of their own."""
    return as_charges(spent_on(charges))


def spent_on(charges: Iterable[Charge]) -> Spent:
    found = Spent()
    for c in charges:
        found[replace(c, times=1)] += c.times
    return found


def as_charges(spent: Spent) -> Charges:
    return tuple(sorted((replace(c, times=t) for c, t in spent.items() if t), key=repr))


def event_of(charges: Iterable[Charge]) -> Any:
    """Charges as the events that dp-accounting knows, for whoever wants to account for them otherwise."""
    dp, _ = accountants()

    def one(charge: Charge) -> Any:
        if _capped(charge):
            return dp.TruncatedSubsampledGaussianDpEvent(
                dataset_size=charge.rows,
                sampling_probability=charge.rate,
                truncated_batch_size=charge.cap,
                noise_multiplier=charge.sigma,
            )
        gaussian = dp.GaussianDpEvent(charge.sigma)
        return gaussian if charge.rate >= 1 else dp.PoissonSampledDpEvent(charge.rate, gaussian)

    return dp.ComposedDpEvent([dp.SelfComposedDpEvent(one(c), c.times) for c in merged(charges)])


def _capped(charge: Charge) -> bool:
    """Whether a batch can be cut off at all."""
    return 0 < charge.cap < charge.rows


def epsilon(charges: Iterable[Charge], delta: float, grid: float = FINE) -> float:
    """ε at δ of all of these together; of two kinds of units, the larger one."""
    return max(epsilons(charges, delta, grid).values(), default=0.0)


def epsilons(charges: Iterable[Charge], delta: float, grid: float = FINE) -> dict[str, float]:
    """ε at δ by unit, each accounted for apart."""
    all_of = merged(charges)
    units = dict.fromkeys(c.unit for c in all_of)
    return {unit: _epsilon(tuple(c for c in all_of if c.unit == unit), delta, grid) for unit in units}


@functools.lru_cache(maxsize=4096)
def _epsilon(charges: Charges, delta: float, grid: float) -> float:
    if any(c.sigma <= 0 for c in charges):
        return math.inf
    gaussian = sum(c.times / c.sigma**2 for c in charges if c.rate >= 1 and not _capped(c))
    parts = [_step(c, grid).self_compose(c.times) for c in charges if c.rate < 1 or _capped(c)]
    if gaussian:  # noise of several is noise of one, with 1/σ² added up
        parts.append(_step(Charge(gaussian**-0.5), grid))
    if not parts:
        return 0.0
    return float(functools.reduce(lambda a, b: a.compose(b), parts).get_epsilon_for_delta(delta))


@functools.lru_cache(maxsize=32)
def _step(charge: Charge, grid: float) -> Any:
    """The distribution of one step's privacy loss."""
    dp, pld = accountants()
    relation = dp.NeighboringRelation.ADD_OR_REMOVE_ONE
    how = {"value_discretization_interval": grid, "neighboring_relation": relation}
    if _capped(charge):
        return pld.from_truncated_subsampled_gaussian_mechanism(
            dataset_size=charge.rows,
            sampling_probability=min(1.0, charge.rate),
            truncated_batch_size=charge.cap,
            noise_multiplier=charge.sigma,
            **how,
        )
    return pld.from_gaussian_mechanism(charge.sigma, sampling_prob=min(1.0, charge.rate), **how)


def sigma_for(
    wanted: float, delta: float, charges_of: Callable[[float], Iterable[Charge]], digits: int = 3
) -> float:
    """The least noise, to so many digits, with which a setting's charges cost no more than `wanted`.

    `charges_of` says what the setting costs with noise σ.
    """
    from scipy.optimize import brentq  # only here: it takes a while to import

    check_budget(wanted, delta)

    def excess(log_sigma: float) -> float:
        """log ε - log wanted; nearly a straight line in log σ."""
        found = epsilon(charges_of(math.exp(log_sigma)), delta, COARSE)
        return math.log(max(found, 1e-9) / wanted)

    low = high = 0.0
    while excess(high) > 0:
        high += 0.7
        if high > math.log(MOST_SIGMA):
            raise BadInput(f"epsilon={wanted} needs a sigma above {MOST_SIGMA:g}: raise it, or ask for less")
    while excess(low) <= 0:
        low -= 0.7
        if low < math.log(LEAST_SIGMA):
            return LEAST_SIGMA
    low = max(low, high - 0.7)
    sigma = _rounded_up(math.exp(brentq(excess, low, high, xtol=0.2 * 10.0**-digits)), digits)
    while epsilon(charges_of(sigma), delta, COARSE) > wanted:
        sigma = _rounded_up(sigma * (1 + 0.2 * 10.0**-digits), digits)
    return sigma


def _rounded_up(value: float, digits: int) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.12g}")


def most_times(
    spent: Iterable[Charge], cost: Iterable[Charge], budget: float, delta: float, most: int = MOST
) -> int:
    """How many more visits of this cost fit into a budget, of which something may be spent."""
    before, one = merged(spent), merged(cost)

    def fits(times: int) -> bool:
        return epsilon((*before, *repeated(one, times)), delta, COARSE) <= budget

    if not one:
        return most
    if not fits(1):
        return 0
    low, high = 1, 2
    while high < most and fits(high):
        low, high = high, 2 * high
    if high >= most and fits(most):
        return most
    high = min(high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def repeated(charges: Iterable[Charge], times: int) -> Charges:
    """The same visit so many times."""
    return tuple(replace(c, times=c.times * times) for c in charges) if times else ()


def check_budget(wanted: float, delta: float, name: str = "epsilon") -> None:
    """An epsilon and a delta that can be kept."""
    if not 0 < wanted < math.inf:
        raise BadInput(f"{name}={wanted} must lie above 0 and be finite: try 3")
    if not 0 < delta < 1:
        raise BadInput(f"delta={delta} must lie between 0 and 1, and below 1 / rows: try 1e-5")


def check_delta(delta: float, rows: int, whose: str = "") -> None:
    """With a delta above 1/n, giving away a whole row now and then would count as private."""
    if rows and delta > 1 / rows:
        of, unit = f" of {whose}" if whose else "", 10.0 ** math.floor(math.log10(0.1 / rows))
        small = float(f"{math.floor(0.1 / rows / unit + 1e-9) * unit:.12g}")
        why = f"is above 1/n = {1 / rows:.3g} for the {rows} rows{of}: take delta={small:g} or less"
        raise BadInput(f"delta={delta:g} {why}")


STEPS = 200  # of the bisection: far more than a float has digits


def delta_of(epsilon: float, sigma: float) -> float:
    """δ(σ) at this ε."""
    half, shift = 1 / (2 * sigma), epsilon * sigma
    below = _normal_cdf(-half - shift)
    # e^ε Φ(...) in logarithms: e^ε alone may be beyond what a float holds
    taken = math.exp(epsilon + math.log(below)) if below > 0 else 0.0
    return _normal_cdf(half - shift) - taken


def sigma_of(epsilon: float, delta: float) -> float:
    """The least σ that is (ε, δ)-differentially private."""
    check_budget(epsilon, delta)
    low, high = 0.0, 1.0
    while delta_of(epsilon, high) > delta:
        low, high = high, 2 * high
    for _ in range(STEPS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if delta_of(epsilon, middle) > delta else (low, middle)
    return high


def _normal_cdf(x: float) -> float:
    """Φ(x), right far into the lower tail too."""
    return 0.5 * math.erfc(-x / math.sqrt(2))
