"""From what `Gather` collected to a Gaussian, to a product of several, to models drawn from it; all at a
site.

    Natural     collected moments  ->  Λ_i, η_i: "diagonal" and "shift", with a form also "factor" or "dense"
                                       (weighed by variance: w_i, w_i μ_i for η_i: "weight", "weighed")
    Draws       Λ_S, η_S           ->  μ_S = Λ_S⁻¹ η_S, and draws θ_s ~ N(μ_S, T Λ_S⁻¹)
    Share       Λ_S, beside Λ_i    ->  how much of the joint precision is one's own
    Visited     collected moments  ->  their mean, and the last states that a sampler visited

A product of Gaussians is a sum of these natural parameters, which the net's `mix` makes. Columns of a
low-rank precision, Λ_i = diag(a_i) - W_i W_iᵀ, do not add up: `Draws` takes them from beside, named
`factor/...`. Weighed by variance, μ_S comes from the sums of w_i and w_i μ_i (`posteriors/weighing.py`). A
model's buffers travel with the parameters, named `buffer/...`, to be averaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs
from coterie.core.errors import BadInput
from coterie.core.kernel import KERNELS
from coterie.core.seeds import Key
from coterie.kernels.bayes import COUNTERS
from coterie.posteriors.gaussian import Gaussian, checked, from_collected, isotropic, mean, sample
from coterie.posteriors.precision import Factor, Form, Precision
from coterie.posteriors.slots import flat, size, slots_of
from coterie.posteriors.weighing import UNKNOWN, Below, Weigh, centre, weight_of

KINDS = ("variance/", "deviation/", "draw/")
BUFFER, FACTOR = "buffer/", "factor"
WEIGHT, WEIGHED = "weight", "weighed"
MINE = "mine"


@dataclass(frozen=True, eq=False)
class Collected:
    """mean      a whole model, with its buffers
    variance     of each trained parameter, at least 0
    deviations   of each trained parameter from the mean of its time, [column, ...], oldest first
    draws        the last states of a sampler, stacked, oldest first
    count        how many states the moments are of
    """

    mean: Belief
    variance: Belief
    deviations: Beliefs
    draws: Beliefs
    count: int

    def gaussian(
        self, form: Form, floor: float, below: Below = "raise", unknown: float = UNKNOWN
    ) -> Gaussian:
        """The posterior; columns of a sampler are draws less their mean."""
        columns = self.deviations or {n: d - self.mean[n] for n, d in self.draws.items()}
        return from_collected(self.mean, self.variance, columns, self.count, form, floor, below, unknown)


def collected(reply: Belief) -> Collected:
    """One reply of `Gather`, read."""
    if "count" not in reply:
        raise BadInput("the belief brings no moments: visit with Gather(kernel), for a kernel that collects")
    mean = {n: t for n, t in reply.items() if n not in COUNTERS and not n.startswith(KINDS)}
    variance = {n: reply[f"variance/{n}"].clamp(min=0) for n in mean if f"variance/{n}" in reply}
    columns = int(reply["columns"])
    return Collected(
        mean,
        variance,
        {n: d for n in variance if len(d := ring_of(reply, "deviation", n, columns))},
        {n: d for n in variance if len(d := ring_of(reply, "draw", n, columns))},
        int(reply["count"]),
    )


def ring_of(reply: Belief, kind: str, name: str, columns: int) -> Tensor:
    """Of the columns ever made, those that were kept, oldest first: [column, ...]."""
    kept: list[Tensor] = []
    while len(kept) < columns and (entry := f"{kind}/{len(kept)}/{name}") in reply:
        kept.append(reply[entry])
    return torch.stack(kept[::-1]) if kept else torch.empty(0)


def enough(form: Form, count: int, columns: int) -> bool:
    """Whether so many states and columns make a Gaussian."""
    return count >= 2 and (form == "diagonal" or columns >= 2)


@KERNELS.register("natural")
@dataclass(frozen=True)
class Natural:
    """A site's Gaussian by its natural parameters; zeros, if too little was collected for one."""

    form: Form = "diagonal"
    """Covariance: diagonal, low-rank (a diagonal and the last deviations) or full."""
    floor: float = 1e-6
    """Variance of a weight that hardly moved; 0 refuses those that did not move."""
    rank: int = 0
    """Columns of a low-rank form; where there are fewer, the rest is 0."""
    below: Below = "raise"
    """Variances below the floor are raised to it, or their precision fades."""
    unknown: float = UNKNOWN
    """Precision to which that of a weight fades."""
    weigh: Weigh = "precision"
    """What means are summed up by."""

    def make(
        self, belief: Belief, beside: Mapping[str, Belief], times: int, key: Key
    ) -> tuple[Sequence[Belief], dict[str, float]]:
        found, columns = collected(belief), int(belief["columns"])
        told = {"count": float(found.count), "columns": float(columns)}
        buffers = {BUFFER + n: t for n, t in found.mean.items() if n not in found.variance}
        p = size(slots_of(found.variance))
        zeros = torch.zeros(p, dtype=torch.float64)
        fit = enough(self.form, found.count, columns)
        if fit:
            made = found.gaussian(self.form, self.floor, self.below, self.unknown)
        else:
            made = Gaussian((), zeros, Precision(zeros))
        natural = {"shift": made.shift, "diagonal": made.precision.diagonal}
        if self.weigh == "variance":
            weight = weighed = zeros
            if fit:  # w_i and w_i μ_i, to be summed up
                slots = slots_of(found.variance)
                weight = weight_of(flat(slots, found.variance))
                weighed = weight * flat(slots, {n: found.mean[n] for n in found.variance})
            natural = {"diagonal": made.precision.diagonal, WEIGHT: weight, WEIGHED: weighed}
        if self.form == "low-rank":
            factors = made.precision.factors
            W = factors[0].columns if factors else zeros.new_zeros(p, 0)
            natural[FACTOR] = F.pad(W, (0, self.rank - W.shape[1]))
        if self.form == "full":
            dense = made.precision.dense
            natural["dense"] = zeros.new_zeros(p, p) if dense is None else dense
        return [{**natural, **buffers}] * times, told


@KERNELS.register("share")
@dataclass(frozen=True)
class Share:
    """Of a joint precision, the share that one of its parts has: the mean over coordinates of Λ_i / Λ_S.

    Weighed by variance it is that of w_i / Σ w. The part is beside it under the name `mine`.
    """

    def make(
        self, belief: Belief, beside: Mapping[str, Belief], times: int, key: Key
    ) -> tuple[Sequence[Belief], dict[str, float]]:
        mine = beside[MINE]
        if WEIGHT in belief:
            share = mine[WEIGHT] / belief[WEIGHT]
        else:
            part = _precision_of(mine, _columns_in(mine, {}))
            share = part.entries() / _precision_of(belief, _columns_in(belief, beside)).entries()
        return [{"diagonal": belief["diagonal"][:0]}] * times, {"share": float(share.mean())}


@KERNELS.register("draws")
@dataclass(frozen=True)
class Draws:
    """The mean of a Gaussian, and beside it models drawn from it: as many as there are edges, less one."""

    like: tuple[tuple[str, str, tuple[int, ...]], ...] = ()
    """The model's tensors: name, kind of number and shape of each (`make_of`)."""
    members: int = 1
    """Of how many Gaussians this is the product."""
    prior: float = 0.0
    """Precision of a Gaussian prior that every member has counted, to count it once; 0 for none."""
    temperature: float = 1.0
    """Factor of the covariance."""
    seed: int | None = None
    """Of the draws, where several sites are to draw alike; else each draws its own."""

    varies: ClassVar[tuple[str, ...]] = ("members", "seed")

    def make(
        self, belief: Belief, beside: Mapping[str, Belief], times: int, key: Key
    ) -> tuple[Sequence[Belief], dict[str, float]]:
        buffers = {n.removeprefix(BUFFER): t for n, t in belief.items() if n.startswith(BUFFER)}
        like = {n: torch.empty(shape, dtype=getattr(torch, kind)) for n, kind, shape in self.like}
        trained = {n: t for n, t in like.items() if n not in buffers}
        precision = _precision_of(belief, _columns_in(belief, beside))
        shift = belief.get("shift")
        if shift is None:  # Λ_S μ_S of a mean that was weighed by variance
            shift = precision.times(centre(belief[WEIGHED], belief[WEIGHT]))
        joint = Gaussian(slots_of(trained), shift, precision)
        if self.prior:
            joint = joint - isotropic(trained, 1 / self.prior) * (self.members - 1)
        said = f"the product of {self.members} posteriors has" if self.members > 1 else "this posterior has"
        joint = checked(joint, said, "take a prior of larger variance") * (1 / self.temperature)
        models = [mean(joint)]
        if times > 1:
            drawn = sample(joint, times - 1, key if self.seed is None else Key(self.seed))
            models += [tree.row(drawn, s) for s in range(times - 1)]
        return [{n: {**buffers, **m}[n].to(t.dtype) for n, t in like.items()} for m in models], {}


def make_of(model: Beliefs) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    """What `Draws` has to know of a model, from tensors [row, ...]."""
    return tuple((n, str(t.dtype).removeprefix("torch."), tuple(t.shape[1:])) for n, t in model.items())


@KERNELS.register("visited")
@dataclass(frozen=True)
class Visited:
    """The mean of what a sampler collected, and as many of its last states as there are further edges."""

    def make(
        self, belief: Belief, beside: Mapping[str, Belief], times: int, key: Key
    ) -> tuple[Sequence[Belief], dict[str, float]]:
        found, columns = collected(belief), int(belief["columns"])
        told = {"count": float(found.count), "columns": float(columns)}
        if not found.draws or times == 1:
            return [found.mean] * times, told
        chosen = tree.rows(found.draws, spread_over(tree.count(found.draws), times - 1))
        states = [{**found.mean, **tree.row(chosen, s)} for s in range(times - 1)]
        return [found.mean, *states], told


def _precision_of(natural: Belief, columns: Sequence[Tensor]) -> Precision:
    """Λ = diag(a) - Σ W Wᵀ + P; columns of zeros say nothing."""
    kept = [W[:, W.abs().amax(dim=0) > 0] for W in columns]
    factors = tuple(Factor(W, -1.0) for W in kept if W.shape[1])
    return Precision(natural["diagonal"], factors, natural.get("dense"))


def _columns_in(belief: Belief, beside: Mapping[str, Belief]) -> list[Tensor]:
    """The belief's own columns, and those of others."""
    own = [belief[FACTOR]] if FACTOR in belief else []
    return [*own, *(b[FACTOR] for name, b in beside.items() if name.startswith(f"{FACTOR}/"))]


def spread_over(values: int, wanted: int) -> Tensor:
    """So many of the numbers below `values`, evenly spaced, the last among them: [wanted]."""
    return ((torch.arange(1, wanted + 1) * values) / wanted).ceil().long() - 1
