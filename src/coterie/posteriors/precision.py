"""A precision matrix Λ as a sum of three parts, none of which is larger than it must be.

    Λ = diag(a) + Σ_j s_j W_j W_jᵀ + P

a is `diagonal`, (W_j, s_j) are `factors` (columns and scale), P is `dense`. Diagonal posteriors have a alone,
low-rank ones a and factors, full ones P. Sums and multiples go part by part, so that the product of Gaussians
of any forms is one addition; a factor that is added and taken away again cancels and leaves nothing behind.

Λ is never inverted as a p x p matrix without P. With A = diag(a), the columns of all A^(-1/2) W_j as Q R, and
the small symmetric R S Rᵀ = V diag(m) Vᵀ, S the scales of the columns,

    Λ     = A^(1/2) (I + E diag(m) Eᵀ) A^(1/2),            E = Q V, EᵀE = I
    Λ⁻¹   = H Hᵀ,   H = A^(-1/2) (I + E diag(g) Eᵀ),       g = (1 + m)^(-1/2) - 1
    log|Λ| = Σ log a + Σ log(1 + m)

which is the Woodbury identity in a form that also samples (H z) and shows at once whether Λ is positive
definite (a > 0 and 1 + m > 0). With P, Λ = L Lᵀ by Cholesky and H = L^(-T). H is `Precision.root`.

Deviation: beside factors, an a that is not above 0 is refused even where positive factors would make Λ
positive definite. Such factors come only from dividing by a low-rank Gaussian that was not multiplied before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

Form = Literal["diagonal", "low-rank", "full"]
ROUNDING = 1e-12  # what is smaller than this share of its terms is their rounding


class Factor(NamedTuple):
    """s W Wᵀ: columns [parameter, column] and their common scale."""

    columns: Tensor
    scale: float


class Indefinite(ArithmeticError):
    """A matrix that is not positive definite: the coordinate that shows it most, and the precision there."""

    def __init__(self, index: int, value: float) -> None:
        super().__init__(index, value)
        self.index, self.value = index, value


class _Root(Protocol):
    """H with H Hᵀ = Λ⁻¹. Vectors are rows: [..., parameter]."""

    @property
    def log_determinant(self) -> float:
        """log |Λ|."""
        ...

    def variances(self) -> Tensor:
        """The diagonal of Λ⁻¹: [parameter]."""
        ...

    def times(self, v: Tensor) -> Tensor:
        """H v."""
        ...

    def transposed_times(self, v: Tensor) -> Tensor:
        """Hᵀ v."""
        ...


@dataclass(frozen=True, eq=False)
class Precision:
    """Λ, in float64. `root` is worked out on first use."""

    diagonal: Tensor
    factors: tuple[Factor, ...] = ()
    dense: Tensor | None = None

    @property
    def form(self) -> Form:
        if self.dense is not None:
            return "full"
        return "low-rank" if self.factors else "diagonal"

    def __add__(self, other: Precision) -> Precision:
        parts = [p for p in (self.dense, other.dense) if p is not None]
        factors = _collected([*self.factors, *other.factors])
        return Precision(self.diagonal + other.diagonal, factors, sum(parts[1:], parts[0]) if parts else None)

    def __mul__(self, weight: float) -> Precision:
        factors = _collected([Factor(f.columns, weight * f.scale) for f in self.factors])
        return Precision(weight * self.diagonal, factors, None if self.dense is None else weight * self.dense)

    def entries(self) -> Tensor:
        """The diagonal of Λ: [parameter]."""
        out = self.diagonal if self.dense is None else self.diagonal + self.dense.diagonal()
        for f in self.factors:
            out = out + f.scale * f.columns.square().sum(dim=1)
        return out

    def times(self, v: Tensor) -> Tensor:
        """Λ v, for rows v [..., parameter]."""
        out = self.diagonal * v
        for f in self.factors:
            out = out + f.scale * (v @ f.columns) @ f.columns.T
        return out if self.dense is None else out + v @ self.dense

    def solve(self, v: Tensor) -> Tensor:
        """Λ⁻¹ v, for rows v [..., parameter]."""
        return self.root.times(self.root.transposed_times(v))

    @cached_property
    def root(self) -> _Root:
        """H; `Indefinite` if there is none."""
        if self.dense is not None:
            return _Triangle.of(self.times(torch.eye(len(self.diagonal), dtype=torch.float64)))
        return _Scaled.of(self.diagonal, self.factors)


@dataclass(frozen=True, eq=False)
class _Scaled:
    """H = diag(scale) (I + E diag(gain) Eᵀ): [parameter], [parameter, column], [column]."""

    scale: Tensor
    E: Tensor
    gain: Tensor

    @classmethod
    def of(cls, a: Tensor, factors: Sequence[Factor]) -> _Scaled:
        worst = int(a.argmin())
        if not a[worst] > 0:
            raise Indefinite(worst, float(a[worst]))
        scale = a.rsqrt()
        if not factors:
            return cls(scale, a.new_zeros(len(a), 0), a.new_zeros(0))
        Q, R = torch.linalg.qr(torch.cat([scale[:, None] * f.columns for f in factors], dim=1))
        S = torch.cat([a.new_full((f.columns.shape[1],), f.scale) for f in factors])
        m, V = torch.linalg.eigh(R * S @ R.T)
        E = Q @ V
        if not m[0] > -1 + ROUNDING:
            steepest = scale * E[:, 0]
            raise Indefinite(int(steepest.abs().argmax()), float((1 + m[0]) / steepest.square().sum()))
        return cls(scale, E, (1 + m).rsqrt() - 1)

    @property
    def log_determinant(self) -> float:
        return float(-2 * (self.scale.log().sum() + self.gain.log1p().sum()))

    def variances(self) -> Tensor:
        return self.scale.square() * (1 + self.E.square() @ ((1 + self.gain).square() - 1))

    def times(self, v: Tensor) -> Tensor:
        return self.scale * self._stretched(v)

    def transposed_times(self, v: Tensor) -> Tensor:
        return self._stretched(self.scale * v)

    def _stretched(self, v: Tensor) -> Tensor:
        return v + (v @ self.E * self.gain) @ self.E.T


@dataclass(frozen=True, eq=False)
class _Triangle:
    """H = L^(-T): [parameter, parameter]."""

    L: Tensor

    @classmethod
    def of(cls, matrix: Tensor) -> _Triangle:
        L, failed = torch.linalg.cholesky_ex(matrix)
        if failed:
            values, vectors = torch.linalg.eigh(matrix)
            raise Indefinite(int(vectors[:, 0].abs().argmax()), float(values[0]))
        return cls(L)

    @property
    def log_determinant(self) -> float:
        return float(2 * self.L.diagonal().log().sum())

    def variances(self) -> Tensor:
        return self.transposed_times(torch.eye(len(self.L), dtype=torch.float64)).square().sum(dim=1)

    def times(self, v: Tensor) -> Tensor:
        return _solved(self.L.T, v, upper=True)

    def transposed_times(self, v: Tensor) -> Tensor:
        return _solved(self.L, v, upper=False)


def inverse_of_low_rank(d: Tensor, F: Tensor) -> Precision:
    """(diag(d) + F Fᵀ)⁻¹ = diag(1/d) - W Wᵀ,  W = diag(d)^(-1/2) U diag(s / √(1+s²)).

    U diag(s) Vᵀ is the singular value decomposition of diag(d)^(-1/2) F: no sum of large numbers is inverted.

    d is [parameter], F is [parameter, column]; without columns it is the diagonal alone.
    """
    if F.shape[1] == 0:
        return Precision(1 / d)
    scale = d.rsqrt()[:, None]
    U, s, _ = torch.linalg.svd(scale * F, full_matrices=False)
    return Precision(1 / d, (Factor(scale * U * (s / (1 + s.square()).sqrt()), -1.0),))


def _collected(factors: Sequence[Factor]) -> tuple[Factor, ...]:
    """The scales of equal columns added up; what then has scale 0 is gone."""
    out: list[Factor] = []
    for f in factors:
        twin = next((i for i, o in enumerate(out) if torch.equal(o.columns, f.columns)), None)
        if twin is None:
            out.append(f)
        else:
            out[twin] = Factor(f.columns, out[twin].scale + f.scale)
    return tuple(f for f in out if f.scale != 0)


def _solved(triangle: Tensor, rows: Tensor, upper: bool) -> Tensor:
    """triangle⁻¹ v for each row v."""
    flat = rows.reshape(-1, rows.shape[-1])
    out: Tensor = torch.linalg.solve_triangular(triangle, flat.T, upper=upper).T.reshape(rows.shape)
    return out
