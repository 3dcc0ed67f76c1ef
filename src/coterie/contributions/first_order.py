"""First-order influence: how fast a requester's loss falls towards each reply, from distances alone.

Of the idea of Grimberg, 2020, "Privacy-preserving and Personalized Federated Machine Learning for Medical
Data", sections 2.2 and 3.3 (and Richardson, Filos-Ratsikas and Faltings, 2019, "Rewarding High-Quality Data
via Influence Functions", which it builds on). With replies w_j to a belief w, w̄ = Σ_j p_j w_j:

    w̄_{-j} = w̄ + ε_j (w̄ - w_j),    ε_j = p_j / (1 - p_j)           the sum without j
    I_rj = ε_j ⟨∇L_r(w), w̄ - w_j⟩                                  what that adds to r's loss, to first order

Above 0, j helps. The only one there is (p_j = 1) leaves w itself behind: I_rj = ⟨∇L_r(w), w - w_j⟩.

The gradient is taken at w, which went out, not at w̄: so a step along it is one more reply to w, and all
products follow from distances among replies to one belief, which two servers can measure sealed. With d the
difference that a step of length ρ makes, d = -ρ ∇ / |∇|, and a_j = w_j - w:

    ⟨d, a_j⟩ = (|d|² + |a_j|² - |d - a_j|²) / 2,    ⟨∇, a_j⟩ = -|∇| / ρ ⟨d, a_j⟩

This is best conditioned where |d| and |a_j| are alike (a small difference of large squares loses digits), so
ρ is the root mean square of the |a_j|. ∇ is of the mean loss over r's training rows, as in training: for
everybody but r they are rows that it never saw.
"""

from __future__ import annotations

import numpy as np


def step_length(lengths: np.ndarray) -> float:
    """ρ: the root mean square of the replies' distances |a_j| from what went out."""
    return float(np.sqrt(np.square(lengths).mean()))


def slopes(apart: np.ndarray, lengths: np.ndarray, step: np.ndarray, steepness: np.ndarray) -> np.ndarray:
    """⟨∇L_r, a_j⟩ [judge, player] from |d_r - a_j| [player, judge], |a_j| [player], |d_r| and |∇L_r|."""
    products = (np.square(step)[:, None] + np.square(lengths) - np.square(apart.T)) / 2
    scale = np.divide(steepness, step, out=np.zeros_like(step), where=step > 0)
    found: np.ndarray = -scale[:, None] * products
    return found


def influence(slopes: np.ndarray, shares: np.ndarray, total: float = 1.0) -> np.ndarray:
    """I_rj [judge, player] from slopes [judge, player] and shares p_j [player], which add up to 1.

    `total` is what replies count in the sum, if something else is in it that stays.
    """
    if len(shares) == 1:
        return -total * slopes
    found: np.ndarray = total * shares / (1 - shares) * ((slopes @ shares)[:, None] - slopes)
    return found
