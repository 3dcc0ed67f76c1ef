"""The least Gaussian noise for a wanted epsilon and delta.

Balle and Wang 2018, "Improving the Gaussian Mechanism for Differential Privacy: Analytical Calibration and
Optimal Denoising", theorem 8. Noise of standard deviation σ on figures that one row changes by no more than 1
(in Euclidean norm) is (ε, δ)-differentially private if and only if

    δ(σ) = Φ(1/(2σ) - εσ) - e^ε Φ(-1/(2σ) - εσ) ≤ δ

δ(σ) falls with σ, so the least σ is found by bisection. The classical σ = √(2 ln(1.25/δ)) / ε holds for ε < 1
only, and asks for more.
"""

from __future__ import annotations

import math

from coterie.privacy.accounting import check_budget

STEPS = 200  # of the bisection: far more than a float has digits


def delta_of(epsilon: float, sigma: float) -> float:
    """δ(σ) at this ε."""
    half, shift = 1 / (2 * sigma), epsilon * sigma
    below = normal_cdf(-half - shift)
    # e^ε Φ(...) in logarithms: e^ε alone may be beyond what a float holds
    taken = math.exp(epsilon + math.log(below)) if below > 0 else 0.0
    return normal_cdf(half - shift) - taken


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


def normal_cdf(x: float) -> float:
    """Φ(x), right far into the lower tail too."""
    return 0.5 * math.erfc(-x / math.sqrt(2))
