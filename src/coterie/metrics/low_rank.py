"""The part of a matrix that stands out of its noise: empirical variational Bayesian matrix factorisation.

Nakajima, Sugiyama, Babacan and Tomioka, 2013, "Global analytic solution of fully-observed variational
Bayesian matrix factorization", JMLR 14; free energy and bound on the rank as in Nakajima, Tomioka, Sugiyama
and Babacan, 2015, "Condition for perfect dimensionality recovery by variational Bayesian PCA", JMLR 16. W
is low-rank plus Gaussian noise, with L ≤ M rows and columns (else it is transposed), singular values γ_1 ≥
... ≥ γ_L, a = L / M:

    Ξ(τ) = Φ(τ) + Φ(τ/a) = 0,   Φ(z) = log(1 + z) / z - 1/2,   at τ = τ_       threshold
    x_ = (1 + τ_) (1 + a/τ_)                                      γ is kept if x = γ² / (M σ²) > x_
    τ(x) = (x - (1 + a) + √((x - (1 + a))² - 4a)) / 2                          tau
    γ̂ = M σ² τ(x) / γ  = γ/2 (1 - (L+M)σ²/γ² + √((1 - (L+M)σ²/γ²)² - 4LMσ⁴/γ⁴))
    Ω(σ²) = Σ_h x_h - log x_h + [kept] (log(1 + τ_h) + a log(1 + τ_h/a) - τ_h)   the free energy
    at most H = ⌈L / (1 + a)⌉ - 1 values are kept

σ² is the global minimum of Ω, found without a grid. As dτ/dx = τ² / (τ² - a), the slope in u = 1/σ² is
u Ω' = Σ_h x_h - 1 - [kept] τ_h. While the same k values are kept it is convex in u, so Ω has at most one
minimum there, the larger root; where one more value is kept, it falls. So each k has one candidate or none,
which Newton's steps from the right end of its stretch reach without passing it, and there is always one.
There, L M σ² = Σ_h γ_h² - γ_h γ̂_h.

Everything is float64. Only γ² enters, so the eigenvalues of W Wᵀ serve, at a tenth of the cost of the
singular values of a wide W: they are exact to about 1e-16 of γ_1², and what is so small counts as 0.
Weights that were ever held in float32 have noise far above. A matrix without noise (H or fewer values above
0) is kept as it is, σ² = 0, which is the limit of the above. A matrix with one row or column never stands
out of noise: H = 0.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch
from torch import Tensor

from coterie.core.errors import BadInput

STEPS = 200  # of Newton; near a double root each only halves the distance
CELLS = 2**22  # numbers looked at at once in the search for the noise


class _LowRank(NamedTuple):
    """The kept part U diag(S) Vᵀ: U [row, rank], S [rank] falling, V [column, rank]; the noise."""

    U: Tensor
    S: Tensor
    V: Tensor
    noise: float


class _Spectra(NamedTuple):
    """Of many: shrunk singular values [matrix, min(rows, columns)], 0 where not kept; noise [matrix]."""

    S: Tensor
    noise: Tensor


def factorise(matrix: Tensor) -> _LowRank:
    """The low-rank part of one matrix [row, column] and the variance of its noise."""
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise BadInput(f"a tensor of shape {list(matrix.shape)} is no matrix: give [row, column]")
    unit, scale = _scaled(matrix.unsqueeze(0))
    U, S, Vh = torch.linalg.svd(unit[0], full_matrices=False)
    kept = shrink(S.square().unsqueeze(0), max(matrix.shape))
    rank = int((kept.S[0] > 0).sum())
    one = float(scale)
    return _LowRank(U[:, :rank], one * kept.S[0, :rank], Vh[:rank].mT, one * one * float(kept.noise))


def spectra(matrices: Tensor) -> _Spectra:
    """The same of many matrices [matrix, row, column], without their singular vectors."""
    unit, scale = _scaled(matrices)
    squares = torch.linalg.eigvalsh(_grams(unit)).flip(-1)
    kept = shrink(squares, max(matrices.shape[1:]))
    return _Spectra(scale.unsqueeze(1) * kept.S, scale.square() * kept.noise)


def low_rank_parts(matrices: Tensor) -> Tensor:
    """The low-rank parts themselves, [matrix, row, column]: Ŵ = U diag(γ̂/γ) Uᵀ W, on the shorter side."""
    unit, scale = _scaled(matrices)
    squares, U = torch.linalg.eigh(_grams(unit))
    squares, U = squares.flip(-1), U.flip(-1)
    ratios = shrink(squares, max(matrices.shape[1:])).S / squares.clamp(min=1e-300).sqrt()
    keep: Tensor = (U * ratios.unsqueeze(1)) @ U.mT * scale[:, None, None]
    return keep @ unit if matrices.shape[1] <= matrices.shape[2] else unit @ keep


def singular_values(matrices: Tensor) -> Tensor:
    """All singular values as they are, falling: [matrix, min(rows, columns)], by the same way."""
    unit, scale = _scaled(matrices)
    squares = torch.linalg.eigvalsh(_grams(unit)).flip(-1)
    return scale.unsqueeze(1) * _cleaned(squares, max(matrices.shape[1:])).sqrt()


def shrink(squares: Tensor, columns: int) -> _Spectra:
    """From squared singular values [matrix, L], falling, and M: what is kept, shrunk, and the noise."""
    squares = _cleaned(squares, columns)
    rows = squares.shape[1]
    # u = 1/σ² [matrix] at the minimum of the free energy; infinite for a matrix without noise
    most, u = most_kept(rows, columns), torch.full((len(squares),), math.inf, dtype=torch.float64)
    for some in torch.split((squares[:, most] > 0).nonzero().flatten(), max(1, CELLS // (most + 1) ** 2)):
        u[some] = _least_energy(squares[some], columns, most)
    ratio, threshold = rows / columns, threshold_of(rows, columns)
    exact = u.isinf().unsqueeze(1)
    x = squares * torch.where(exact, 0.0, u.unsqueeze(1)) / columns
    # at most H are kept by the choice of u, but for ties at the threshold, which the order decides
    kept = (x > threshold) & (torch.arange(rows) < most)
    shrunk = squares.sqrt() * torch.where(kept, tau(x, ratio) / x.clamp(min=1), 0.0)
    return _Spectra(torch.where(exact, squares.sqrt(), shrunk), 1 / u)


def _least_energy(squares: Tensor, columns: int, most: int) -> Tensor:
    """u of matrices with noise: candidates (matrix i, kept values k), then the best of each."""
    rows = squares.shape[1]
    ratio, threshold = rows / columns, threshold_of(rows, columns)
    scaled = squares / columns
    left = scaled.flip(1).cumsum(1).flip(1)[:, : most + 1]  # Σ of what is not kept, by k
    right_end = threshold / scaled[:, : most + 1]
    left_end = torch.cat([torch.zeros(len(squares), 1, dtype=torch.float64), right_end[:, :-1]], dim=1)

    def slope(i: Tensor, k: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Σ x - [kept] τ - L, its derivative by u, and the free energy up to a constant."""
        x = scaled[i, :most] * u.unsqueeze(1)
        t = tau(x.clamp(min=threshold), ratio)
        kept = torch.arange(most) < k.unsqueeze(1)

        def total(terms: Tensor) -> Tensor:
            return torch.where(kept, terms, 0.0).sum(dim=1)

        noise = left[i, k] * u
        rest = 1 + ratio + ratio / t  # x - τ
        logs = torch.log1p(t) + ratio * torch.log1p(t / ratio)
        steeper = left[i, k] - total(ratio / (t.square() - ratio) * scaled[i, :most])
        return noise + total(rest) - rows, steeper, noise + total(rest + logs) - rows * u.log()

    i = torch.arange(len(squares)).repeat_interleave(most + 1)
    k = torch.arange(most + 1).repeat(len(squares))
    u = right_end[i, k]
    for _ in range(STEPS):
        value, steepness, _energy = slope(i, k, u)
        # rounding apart, the slope is above 0 until the root; where it never falls to it, there is none
        after = torch.where(value > 0, u - value / steepness, u)
        fine = ((steepness > 0) & (after > left_end[i, k])) | (value <= 0) & (u < right_end[i, k])
        done = (u - after).abs() <= 4e-16 * u
        i, k, u, done = i[fine], k[fine], after[fine], done[fine]
        if bool(done.all()):
            break
    energy = slope(i, k, u)[2]
    best = torch.full((len(squares),), math.inf, dtype=torch.float64).scatter_reduce(0, i, energy, "amin")
    chosen = torch.zeros(len(squares), dtype=torch.float64)
    for at in (energy <= best[i]).nonzero().flatten().flip(0).tolist():  # the fewest kept, of equals
        chosen[i[at]] = u[at]
    return chosen


def tau(x: Tensor, ratio: float) -> Tensor:
    """τ with x = (1 + τ)(1 + a/τ), the larger of the two."""
    middle = x - (1 + ratio)
    return (middle + (middle.square() - 4 * ratio).clamp(min=0).sqrt()) / 2


def most_kept(rows: int, columns: int) -> int:
    """H = ⌈L / (1 + L/M)⌉ - 1: more cannot be told from noise."""
    return -(-rows * columns // (rows + columns)) - 1


@functools.cache
def threshold_of(rows: int, columns: int) -> float:
    """x_ from the root of Ξ, which lies above √a and not above that for a = 1."""
    from scipy.optimize import brentq  # only here: it takes a while to import

    ratio = rows / columns

    def phi(z: float) -> float:
        return math.log1p(z) / z - 0.5

    highest = brentq(phi, 1, 4, xtol=1e-15)
    root = brentq(lambda t: phi(t) + phi(t / ratio), math.sqrt(ratio), highest * (1 + 1e-12), xtol=1e-15)
    return float((1 + root) * (1 + ratio / root))


def _scaled(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """In float64 on the CPU, each divided by its largest entry [matrix]: no square leaves the range."""
    wide = matrices.detach().cpu().double()
    if not bool(torch.isfinite(wide).all()):
        raise BadInput("a matrix holds NaN or infinity, which has no low-rank part: look at what made it")
    scale = wide.abs().amax(dim=(1, 2))
    return wide / torch.where(scale > 0, scale, 1.0)[:, None, None], scale


def _grams(matrices: Tensor) -> Tensor:
    """W Wᵀ on the shorter side: [matrix, L, L]."""
    return matrices @ matrices.mT if matrices.shape[1] <= matrices.shape[2] else matrices.mT @ matrices


def _cleaned(squares: Tensor, columns: int) -> Tensor:
    """What rounding alone may have made counts as 0."""
    bound = torch.finfo(torch.float64).eps * columns * squares[:, :1]
    return torch.where(squares > bound, squares, 0.0)
