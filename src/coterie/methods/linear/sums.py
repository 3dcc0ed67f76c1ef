"""What `pooled` and `partial` share: sums over sites, and a Newton step on them at the coordinator.

    scale      means and deviations of all rows' columns, from sums, in the first round
    A, a, s    how all rows bend around a common model (`kernels/curvature.py`), summed over sites
    c ← P^{-1} a                                  with σ, τ, τ₀ as `linear/evidence.py` learns them

A regression's noise goes on with the rounds: what is left of the squares over the rows that no parameter used
up. When nothing moves any more, the rounds that are left ask nobody.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Key, Net, Replies, Roster, Trainer
from coterie.core.errors import BadInput, Withdrawn
from coterie.core.held import hold
from coterie.core.method import first_of, losses_of, scatter
from coterie.core.net import SERVER, Beside, from_server
from coterie.kernels.curvature import (
    BEND,
    CENTRES,
    CONSTANT,
    REST,
    SCALE,
    SLOPE,
    UNITS,
    ColumnSums,
    Curvature,
    roughly,
    scale_of,
)
from coterie.linear.design import Design, designed, linear_names, names_in, read_linear, written_linear
from coterie.linear.evidence import Sums, grid, learnt

FURTHEST = 1.0  # of a coefficient in deviations of a column, in one round
STILL = 1e-5  # of a coefficient in deviations of a column: less is no change
LEFT = 0.01  # of a target's variance, at least, is noise


@dataclass(frozen=True, eq=False)
class Common:
    """A common model and what was learnt of how sites differ.

    beliefs   the model [1, ...], at the coordinator
    scale     sums of columns [1, ...], at the coordinator; None before the first round
    learnt    [4] tau, level, sigma and noise
    shares    [client] of its own coefficients, what it learnt from its own rows; 0: all from others
    losses    [client] of the last round that asked
    there     [client] who answered then
    settled   whether nothing moves any more
    whole     what the model is the solution of [1, ...]: the sums of all with the prior, at the coordinator
    """

    beliefs: Held
    scale: Held | None
    learnt: Tensor
    shares: Tensor
    losses: Tensor
    there: Tensor
    settled: bool = False
    whole: Held | None = None


def first_common(start: Held, net: Net) -> Common:
    """From a model of zeros: what the random first one says is nothing."""
    n, like = len(net.roster), net.open(first_of(start))
    zeros = hold({name: torch.zeros_like(t) for name, t in like.items()}, SERVER)
    none = torch.full((n,), float("nan"), dtype=torch.float64)
    wide = torch.tensor([1.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    return Common(
        zeros, None, wide, torch.zeros(n, dtype=torch.float64), none, torch.zeros(n, dtype=torch.bool)
    )


def one_more_step(state: Common, net: Net, key: Key, apart: bool) -> Common:
    """A round: sums of all who are there, and the common model after it."""
    if state.settled:
        return state
    scale = state.scale
    if scale is None:
        scale = _scale_of_all(net, state.beliefs, key)
        if scale is None:
            return state
        state = replace(state, beliefs=_at_the_centre(net, state.beliefs, scale))
    tau, level, _, noise = state.learnt.tolist()
    work = Curvature(tau if apart else 0.0, level if apart else 0.0, noise, apart)
    replies, sums = _asked(net, work, state.beliefs, key, {SCALE: scale})
    if sums is None:
        return replace(state, scale=scale)
    n = len(net.roster)
    rows = int(net.roster.sizes[replies.hosts].sum())
    found = {name: rows * t[0].double() for name, t in net.open(sums).items()}
    found |= {name: found[name] / noise for name in (BEND, SLOPE, CONSTANT)}
    model, design = net.open(state.beliefs), _design_in(net, state.beliefs, scale)
    pairs = grid(apart, design.family.intercept)
    best = learnt(Sums(found[BEND], found[SLOPE], found[CONSTANT]), pairs, design.slopes)
    before = design.coefficients(*read_linear({k: t[0] for k, t in model.items()}))
    mean = best.mean if net.roster.task == "regression" else _not_too_far(before, best.mean)
    after = written_linear({k: t[0] for k, t in model.items()}, *design.weights(mean))
    left = _noise_left(found[REST], rows, len(best.mean)) if net.roster.task == "regression" else 1.0
    now = torch.tensor([best.apart, best.level, best.common, left], dtype=torch.float64)
    same = torch.equal(now[:3], state.learnt[:3]) and abs(left - noise) < 1e-3 * noise
    settled = bool(same and (best.mean - before).abs().max() < STILL)
    there = torch.zeros(n, dtype=torch.bool)
    there[replies.hosts] = True
    shares = scatter(replies.numbers["share"], replies.hosts, n, empty=0)
    beliefs = hold({k: t.unsqueeze(0) for k, t in after.items()}, SERVER)
    whole = hold({BEND: best.precision.float().unsqueeze(0), SLOPE: best.slope.float().unsqueeze(0)}, SERVER)
    return Common(beliefs, scale, now, shares, losses_of(replies, n), there, settled, whole)


def _scale_of_all(net: Net, beliefs: Held, key: Key) -> Held | None:
    """Sums of columns and targets, at the coordinator, made in units that sites agree on first."""
    _, sizes = _asked(net, ColumnSums(), beliefs, key.at("sizes"))
    if sizes is None:
        return None
    _, sums = _asked(net, ColumnSums(), beliefs, key.at("scale"), {UNITS: sizes})
    if sums is None:
        return None
    centre, unit = roughly(net.open(sizes))
    return hold({**net.open(sums), CENTRES: centre, UNITS: unit}, SERVER)


def _at_the_centre(net: Net, beliefs: Held, scale: Held) -> Held:
    """A model that says the mean of all targets, whatever the inputs."""
    design = _design_in(net, beliefs, scale)
    like = {name: t[0] for name, t in net.open(beliefs).items()}
    made = written_linear(like, *design.weights(torch.zeros(len(design.slopes), dtype=torch.float64)))
    return hold({name: t.unsqueeze(0) for name, t in made.items()}, SERVER)


def _not_too_far(before: Tensor, after: Tensor) -> Tensor:
    """Newton's step, shortened if a coefficient goes further than FURTHEST: where the likelihood is no
    parabola, far steps overshoot.
    """
    move = after - before
    return before + move * min(1.0, FURTHEST / max(float(move.abs().max()), 1e-30))


def _noise_left(rest: Tensor, rows: int, parameters: int) -> float:
    """A regression's variance: twice the half squares over the rows that parameters leave free."""
    halves, used = (float(v) for v in rest)
    return max(LEFT, 2 * halves / max(1.0, rows - used - min(parameters, rows / 2)))


def _asked(
    net: Net, work: Trainer, beliefs: Held, key: Key, beside: Beside | None = None
) -> tuple[Replies, Held | None]:
    """What sites tell of their rows, and the mean over all rows of it, at the coordinator; none if nobody is
    there, or all withdraw.
    """
    replies = net.visit(work, beliefs, from_server(torch.arange(len(net.roster))), key, beside=beside)
    if len(replies) == 0:
        return replies, None
    sizes = net.roster.sizes[replies.hosts].double()
    with suppress(Withdrawn):
        return replies, net.mix((sizes / sizes.sum()).unsqueeze(0), replies.beliefs, SERVER)
    return replies, None


def _design_in(net: Net, beliefs: Held, scale: Held) -> Design:
    """The common scale, without rows, by which coefficients become weights."""
    bias = beliefs.like[linear_names(beliefs.like).bias]
    mean, deviation, centre, unit = scale_of({k: t[0] for k, t in net.open(scale).items()})
    empty = torch.zeros(0, len(mean), dtype=torch.float64)
    return designed(net.roster.task, bias.shape[1], empty, empty[:, 0], mean, deviation, centre, unit)


def check_linear(method: str, roster: Roster, start: Beliefs) -> None:
    """Refuses a model that is not one linear map, by its tensors."""
    if names_in({n: t[0] for n, t in start.items()}) is None:
        raise BadInput(f"{method} fits linear models, and this is none: use --model logistic or linear")
    if len(roster.shape) != 1:
        raise BadInput(f"{method} is for tables; rows here are of shape {list(roster.shape)}: use fedavg")
