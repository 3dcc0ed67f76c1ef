"""Gaussian posteriors over a model's parameters, and their product (Makni, 2022, sections 4.2 and 5.1).

A Gaussian N(μ, Σ) is held by its natural parameters, the precision Λ = Σ⁻¹ and the shift η = Λ μ, because
those of a product of densities are sums:

    Σ_S = (Σ_i Σ_i⁻¹)⁻¹,   μ_S = Σ_S (Σ_i Σ_i⁻¹ μ_i)      that is  Λ_S = Σ_i Λ_i,  η_S = Σ_i η_i

    symbol                      name
    Λ, η                        `precision`, `shift`
    Λ_S, η_S                    those of `product`
    θ_SWA, Σ_diag, D, T         `mean`, `variance`, `deviations`, `count` of `from_collected`

Three forms of Σ: diag(d) (`diagonal`); diag(d) + D Dᵀ / (K-1) with K columns (`low_rank`; without columns it
is the diagonal form); any matrix (`full`, small models). They may meet in one product. SWAG's own are Σ_diag,
and ½ Σ_diag + D Dᵀ / (2(K-1)) where D is used.

The paper multiplies subposteriors as they are: each then must hold its own share of the prior, or none. Where
each of b clients has counted the whole prior N(μ_0, Λ_0⁻¹), the product counts it b times; given as `prior`,
all but one are divided out: Λ_S = Σ_i Λ_i - (b-1) Λ_0, and η likewise. Weights w_i are powers of the
densities: Λ_S = Σ_i w_i Λ_i - (Σ_i w_i - 1) Λ_0. Priors and weights are not in the paper.

All arithmetic is in float64; beliefs come back in the model's dtype.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from coterie.core.belief import Belief, Beliefs
from coterie.core.belief import count as number_of
from coterie.core.errors import BadInput, UnknownName
from coterie.core.seeds import Key
from coterie.posteriors.precision import Form, Indefinite, Precision, inverse_of_low_rank
from coterie.posteriors.slots import Slots, flat, place, same_model, size, slots_of, tree
from coterie.posteriors.weighing import UNKNOWN, Below, faded, raised

FULL = 4096  # parameters of a full posterior: a matrix of 128 MiB


@dataclass(frozen=True, eq=False)
class Gaussian:
    """N(Λ⁻¹η, Λ⁻¹) over the tensors named in `slots`."""

    slots: Slots
    shift: Tensor
    precision: Precision

    @property
    def form(self) -> Form:
        return self.precision.form

    def __add__(self, other: Gaussian) -> Gaussian:
        """The product of two densities."""
        same_model(self.slots, other.slots)
        return Gaussian(self.slots, self.shift + other.shift, self.precision + other.precision)

    def __sub__(self, other: Gaussian) -> Gaussian:
        """The quotient of two densities, which need not be one."""
        return self + other * -1.0

    def __mul__(self, weight: float) -> Gaussian:
        """A power of a density: 1/T for a temperature T."""
        return Gaussian(self.slots, weight * self.shift, self.precision * weight)


def diagonal(mean: Belief, variance: Belief) -> Gaussian:
    """N(mean, diag(variance))."""
    slots = slots_of(mean)
    return _gaussian(slots, flat(slots, mean), Precision(1 / _variances(slots, flat(slots, variance))))


def low_rank(mean: Belief, variance: Belief, deviations: Beliefs) -> Gaussian:
    """N(mean, diag(variance) + D Dᵀ / (K-1)); `deviations` [K, ...] are the columns of D."""
    slots = slots_of(mean)
    d = _variances(slots, flat(slots, variance))
    return _from_low_rank(slots, flat(slots, mean), d, _columns(slots, deviations))


def full(mean: Belief, covariance: Tensor) -> Gaussian:
    """N(mean, covariance) with a matrix [p, p]; coordinates in the order of `slots_of(mean)`."""
    slots = slots_of(mean)
    p = _small(slots)
    if tuple(covariance.shape) != (p, p):
        raise BadInput(f"a covariance of shape {list(covariance.shape)}: this model needs [{p}, {p}]")
    matrix = covariance.detach().cpu().double()
    _finite(slots, matrix.abs().amax(dim=1), "covariance")
    if not torch.allclose(matrix, matrix.T):
        raise BadInput("a covariance that is not symmetric: give (C + Cᵀ) / 2")
    _variances(slots, matrix.diagonal())
    inverse, failed = torch.linalg.inv_ex(matrix)
    if failed:
        raise BadInput("a covariance that is singular: add a small variance to its diagonal")
    zeros = matrix.new_zeros(p)
    made = _gaussian(slots, flat(slots, mean), Precision(zeros, dense=(inverse + inverse.T) / 2))
    return checked(made, "this covariance has", "add a small variance to its diagonal")


def isotropic(like: Belief, variance: float) -> Gaussian:
    """N(0, variance · I): a weight decay of 1 / (variance · N) on the mean loss of N samples."""
    if not 0 < variance < math.inf:
        raise BadInput(f"prior variance={variance} must be above 0 and finite: try 1")
    zeros = {name: torch.zeros_like(t) for name, t in like.items()}
    return diagonal(zeros, {name: torch.full_like(t, variance) for name, t in like.items()})


def from_collected(
    mean: Belief,
    variance: Belief,
    deviations: Beliefs,
    count: int,
    form: Form = "diagonal",
    floor: float = 0.0,
    below: Below = "raise",
    unknown: float = UNKNOWN,
) -> Gaussian:
    """A posterior from what SWAG collects along a client's training.

    mean, variance  of the `count` collected models; tensors without a variance (buffers) are left out
    deviations      [K, ...] the last K of them, each minus the running mean of its time; `diagonal` has no
                    use for them
    floor, below    variances below the floor are raised to it (the authors took 1e-6), or their precision
                    fades (see `weighing.py`): a weight behind an input that is always 0 never moves. 0
                    refuses those
    unknown         precision to which that of a weight fades
    """
    if count < 2:
        raise BadInput(
            f"{count} collected models: a variance needs at least 2: collect more often or train longer"
        )
    if form not in get_args(Form):
        raise UnknownName("form", form, get_args(Form))
    if not 0 <= floor < math.inf:
        raise BadInput(f"floor={floor} must be at least 0 and finite: try 1e-6")
    if below not in get_args(Below):
        raise UnknownName("below", below, get_args(Below))
    slots = slots_of(variance)
    mu = flat(slots, {name: t for name, t in mean.items() if name in variance})
    v = flat(slots, variance)
    d = _variances(slots, faded(v, floor, unknown) if below == "fade" else raised(v, floor))
    if form == "diagonal":
        return _gaussian(slots, mu, Precision(1 / d))
    K = number_of(deviations) if deviations else 0
    if not 2 <= K <= count:
        raise BadInput(
            f"{K} deviations of {count} collected models: need at least 2 and no more than models: "
            "collect more, or use form=diagonal"
        )
    made = _from_low_rank(slots, mu, d / 2, _columns(slots, deviations) / math.sqrt(2))
    return densified(made) if form == "full" else made


def product(
    posteriors: Sequence[Gaussian], prior: Gaussian | None = None, weights: Sequence[float] | None = None
) -> Gaussian:
    """Π_i p_i^(w_i) / p_0^(Σ w_i - 1): the posterior of all clients' data together."""
    if not posteriors:
        raise BadInput("a product of 0 posteriors: give at least 1")
    weights = [1.0] * len(posteriors) if weights is None else [float(w) for w in weights]
    if len(weights) != len(posteriors):
        raise BadInput(f"{len(weights)} weights for {len(posteriors)} posteriors: give one for each")
    for w in weights:
        if not 0 < w < math.inf:
            raise BadInput(f"weight {w:g} must be above 0 and finite: leave that posterior out")
    total = posteriors[0] * weights[0]
    for posterior, w in zip(posteriors[1:], weights[1:], strict=True):
        total = total + posterior * w
    if prior is not None:
        total = total - prior * (sum(weights) - 1)
    return checked(
        total, f"the product of {len(posteriors)} posteriors has", "take a prior of larger variance"
    )


def mean(posterior: Gaussian) -> Belief:
    """μ = Λ⁻¹ η."""
    return tree(posterior.slots, posterior.precision.solve(posterior.shift))


def variances(posterior: Gaussian) -> Belief:
    """The diagonal of Σ = Λ⁻¹, tensor by tensor."""
    return tree(posterior.slots, posterior.precision.root.variances())


def covariance(posterior: Gaussian) -> Tensor:
    """Σ = Λ⁻¹ as a matrix [p, p], of small models."""
    return posterior.precision.solve(torch.eye(_small(posterior.slots), dtype=torch.float64))


def densified(posterior: Gaussian) -> Gaussian:
    """The same Gaussian in full form."""
    p = _small(posterior.slots)
    matrix = posterior.precision.times(torch.eye(p, dtype=torch.float64))
    zeros = torch.zeros(p, dtype=torch.float64)
    return Gaussian(posterior.slots, posterior.shift, Precision(zeros, dense=(matrix + matrix.T) / 2))


def sample(posterior: Gaussian, n: int, key: Key) -> Beliefs:
    """n models θ = μ + H z, z ~ N(0, I), H Hᵀ = Σ: [n, ...]."""
    if n < 1:
        raise BadInput(f"samples={n} must be at least 1: try 30")
    z = torch.randn(n, size(posterior.slots), generator=key.torch(), dtype=torch.float64)
    mu = posterior.precision.solve(posterior.shift)
    return tree(posterior.slots, mu + posterior.precision.root.times(z))


def log_density(posterior: Gaussian, beliefs: Beliefs) -> Tensor:
    """log N(θ | μ, Σ) = ½ (log|Λ| - p log 2π - (θ-μ)ᵀ Λ (θ-μ)) of each of n beliefs: [n]."""
    slots, precision = posterior.slots, posterior.precision
    off = flat(slots, beliefs, (number_of(beliefs),)) - precision.solve(posterior.shift)
    exponent = (off * precision.times(off)).sum(dim=-1)
    return (precision.root.log_determinant - size(slots) * math.log(2 * math.pi) - exponent) / 2


def checked(posterior: Gaussian, whose: str, remedy: str) -> Gaussian:
    """The posterior, refused with its cause if its precision is not positive definite."""
    try:
        _ = posterior.precision.root
    except Indefinite as found:
        where = place(posterior.slots, found.index)
        raise BadInput(f"{whose} precision {found.value:.3g} at {where}, must be above 0: {remedy}") from None
    return posterior


def _gaussian(slots: Slots, mu: Tensor, precision: Precision) -> Gaussian:
    _finite(slots, mu, "mean")
    return Gaussian(slots, precision.times(mu), precision)


def _from_low_rank(slots: Slots, mu: Tensor, d: Tensor, D: Tensor) -> Gaussian:
    K = D.shape[1]
    if K == 1:
        raise BadInput("1 deviation: a covariance D Dᵀ / (K-1) needs at least 2: collect more models")
    made = _gaussian(slots, mu, inverse_of_low_rank(d, D / math.sqrt(max(1, K - 1))))
    return checked(made, "next to its low-rank part this posterior has", "raise the smallest variances")


def _columns(slots: Slots, deviations: Beliefs) -> Tensor:
    """D: [parameter, column]."""
    K = number_of(deviations)
    D = flat(slots, deviations, (K,)).T
    if K:
        _finite(slots, D.abs().amax(dim=1), "deviation")
    return D


def _variances(slots: Slots, d: Tensor) -> Tensor:
    _finite(slots, d, "variance")
    low = int(d.argmin())
    if d[low] <= 0:
        raise BadInput(
            f"the variance of {place(slots, low)} is {float(d[low]):.3g}, must be above 0: "
            "that weight did not move; give a floor, for instance 1e-6"
        )
    return d


def _finite(slots: Slots, values: Tensor, what: str) -> None:
    bad = (~torch.isfinite(values)).nonzero()
    if len(bad):
        at = int(bad[0, 0])
        raise BadInput(
            f"the {what} of {place(slots, at)} is {float(values[at])}, must be finite: "
            "its training diverged; lower the learning rate"
        )


def _small(slots: Slots) -> int:
    p = size(slots)
    if p > FULL:
        raise BadInput(f"a full covariance of {p} parameters, at most {FULL}: use form=low-rank")
    return p
