"""How strongly coefficients are held towards 0, by cross-validation within a site's training rows.

    θ_λf = argmin L_{-f}(θ) + λ/2 Σ_{j no intercept} θ_j²         without the rows of fold f
    λ    = argmin Σ_f loss of θ_λf on the rows of f

λ goes over STRENGTHS in the units of a sum of losses, the reciprocal of scikit-learn's C, from the strongest
down, but for a regression, whose models cost little, until several in a row are no better. The strongest
leaves nothing but the intercept, and an order of rows, by coefficients that are next to 0. Intercepts are
free: slopes that are held less than the intercept would take its place where columns are as many as rows, and
rows are centred by those held out too, so that these would be told. For Cox's model,
whose loss compares rows, a fold's loss is that of all rows less that of the others (Verweij and van
Houwelingen, 1993, "Cross-validation in survival analysis").

Of classes, the strongest is taken that is worse than the best by no more than a standard error (Breiman et
al., 1984, "Classification and Regression Trees"): the loss of a probability that is too bold has no bound,
and with few rows what looks best often is. A regression's is the best itself.

Rows of one patient are in one fold, and each class or range of the target is spread over the folds. With few
rows a single dealing says little: rows are dealt several times over, and losses are added up. With more than
MANY rows the strength is found on so many of them: it is the precision of a prior of the coefficients, which
does not depend on how many rows there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from coterie.linear.design import Design
from coterie.linear.families import AT_ONCE, Rowwise
from coterie.linear.newton import ENOUGH as EXACT
from coterie.linear.newton import minimise

STRENGTHS = (*(10.0 ** (e / 2) for e in range(-8, 7)), 1e4, 1e6)
"""From 0.0001 to a million, finer where it matters."""
ROUGHLY = 1e-6  # near enough to an optimum to choose a strength
FIRM = 0.01  # holds intercepts that would be infinite: of a class of which there is no row, or no other
FREE = 1e-6  # holds the others, of which one for all classes says nothing
MANY = 5_000
FOLDS, DEALINGS, FEW = 10, 3, 200  # rows are dealt until so many were held out
CLOSED = 20  # folds of a regression, whose models cost little: few rows are not made fewer
ENOUGH = 4  # weaker strengths in a row that are no better: then no weaker ones are tried


class Strength(NamedTuple):
    """What was chosen, and what it was chosen by: {strength: mean loss on held-out rows}."""

    value: float
    losses: dict[float, float]


def _penalties(design: Design, strengths: Tensor, mask: Tensor) -> Tensor:
    """[p, q] of strengths [p] on the rows of a mask [p, n]: slopes are held, intercepts hardly."""
    hold = strengths.unsqueeze(1).expand(-1, len(design.slopes))
    if not design.family.intercept:
        return hold
    if _in_closed_form(design):
        return torch.where(design.slopes, hold, 0.0)
    classes = torch.arange(design.family.outputs) if design.family.outputs > 1 else torch.ones(1)
    counts = mask @ (design.u.unsqueeze(1) == classes).double()
    lone = (counts < 1) | (counts > mask.sum(1, keepdim=True) - 1)
    each = torch.where(lone, FIRM, FREE).repeat_interleave(design.z.shape[1], 1)
    return torch.where(design.slopes, hold, each)


def narrowed(design: Design) -> tuple[Design, Tensor | None]:
    """Rows in as many directions as there are rows, where columns are more, and these directions [d, r]:
    coefficients that are held alike lie among them, and steps cost what so few do.
    """
    ends = int(design.family.intercept)
    d = design.z.shape[1] - ends
    if d <= len(design.z):
        return design, None
    left, sizes, right = torch.linalg.svd(design.z[:, :d], full_matrices=False)
    return replace(design, z=torch.cat([left * sizes, design.z[:, d:]], 1)), right.T


def _widened(design: Design, directions: Tensor | None, theta: Tensor) -> Tensor:
    """[p, q] for the design's own columns, of coefficients along directions [d, r] of them."""
    if directions is None:
        return theta
    table = theta.view(len(theta), design.family.outputs, -1)
    r = directions.shape[1]
    return torch.cat([table[..., :r] @ directions.T, table[..., r:]], -1).flatten(1)


def fitted(
    design: Design,
    strengths: Tensor,
    mask: Tensor,
    check: Callable[[], None] = lambda: None,
) -> Tensor:
    """θ [p, q] of each strength [p] on the rows of its mask [p, n]."""
    small, directions = narrowed(design)
    first = torch.zeros(len(strengths), len(small.slopes), dtype=torch.float64)
    return _widened(design, directions, _fitted_from(small, strengths, mask, first, check))


def _fitted_from(
    design: Design,
    strengths: Tensor,
    mask: Tensor,
    start: Tensor,
    check: Callable[[], None] = lambda: None,
    enough: float = EXACT,
) -> Tensor:
    """The same from a start [p, q], by columns as they are."""
    hold = _penalties(design, strengths, mask)
    return minimise(design.family, design.z, design.u, mask, hold, start, check=check, enough=enough)


def chosen_strength(
    design: Design, unit: np.ndarray | None, seed: int, check: Callable[[], None] = lambda: None
) -> Strength:
    """By cross-validation over the rows of a design; `unit` [n] says which are about one patient."""
    if len(design.z) > MANY:
        design, unit = some_rows(design, unit, seed)
    closed, held_out = _in_closed_form(design), _held_out(design, unit, seed)
    if held_out is None:
        return Strength(STRENGTHS[-1], {})
    (kept, dealings), (design, _) = held_out, narrowed(design)
    theta = torch.zeros(len(kept), len(design.slopes), dtype=torch.float64)
    losses, best = dict[float, Tensor](), STRENGTHS[-1]
    at_once = max(1, AT_ONCE // max(1, design.z.numel() * design.family.outputs))
    for strength in reversed(STRENGTHS):  # each from where the one before ended
        found = list[Tensor]()
        for first in range(0, len(kept), at_once):
            some = slice(first, first + at_once)
            strengths = torch.full((len(kept[some]),), strength, dtype=torch.float64)
            theta[some] = _fitted_from(design, strengths, kept[some], theta[some], check, ROUGHLY)
            found.append(_held_out_losses(design, theta[some], kept[some]))
        losses[strength] = torch.stack(found).sum(0) / dealings
        if float(losses[strength].mean()) < float(losses[best].mean()):  # of equals the stronger
            best = strength
        if not closed and sum(s < best for s in losses) >= ENOUGH:
            break
    chosen = best
    if isinstance(design.family, Rowwise) and not closed:
        chosen = next((s for s in losses if not_worse(losses[s] - losses[best], unit)), best)
    return Strength(chosen, {s: float(each.mean()) for s, each in losses.items()})


def _in_closed_form(design: Design) -> bool:
    """Whether one step of Newton's is the optimum."""
    return isinstance(design.family, Rowwise) and design.family.kind == "gaussian"


def cross_losses(
    design: Design,
    hold: Tensor,
    towards: Tensor,
    unit: np.ndarray | None,
    seed: int,
    check: Callable[[], None] = lambda: None,
) -> Tensor | None:
    """[n] what rows lose while they are held out, by a model that is held [q] towards coefficients [q]; None
    where there are too few rows to hold any out.
    """
    held_out = _held_out(design, unit, seed)
    if held_out is None:
        return None
    kept, dealings = held_out
    many = len(kept)
    centre = towards.expand(many, -1)
    rows, held = (design.family, design.z, design.u, kept), hold.expand(many, -1)
    theta = minimise(*rows, held, centre, centre, check=check, enough=ROUGHLY)
    return _held_out_losses(design, theta, kept) / dealings


def own_losses(
    design: Design, strength: float, unit: np.ndarray | None, seed: int, check: Callable[[], None]
) -> Tensor | None:
    """The same by a model of one's own, of one strength."""
    held_out = _held_out(design, unit, seed)
    if held_out is None:
        return None
    (kept, dealings), (design, _) = held_out, narrowed(design)
    start = torch.zeros(len(kept), len(design.slopes), dtype=torch.float64)
    strengths = torch.full((len(kept),), strength, dtype=torch.float64)
    theta = _fitted_from(design, strengths, kept, start, check, ROUGHLY)
    return _held_out_losses(design, theta, kept) / dealings


def _held_out(design: Design, unit: np.ndarray | None, seed: int) -> tuple[Tensor, int] | None:
    """[fold of each dealing, n] 1 for the rows that are not held out, and how many dealings there are; None
    where there are too few rows to hold any out.
    """
    folds = dealt(design.u.numpy(), unit, seed, CLOSED if _in_closed_form(design) else FOLDS)
    if folds is None:
        return None
    each = [torch.stack([f != i for i in range(int(f.max()) + 1)]) for f in map(torch.from_numpy, folds)]
    return torch.cat(each).double(), len(folds)


def not_worse(more: Tensor, unit: np.ndarray | None, errors: float = 1.0) -> bool:
    """Whether rows [n] lose no more by a strength than so many standard errors, over patients where there
    are.
    """
    if unit is not None:
        _, of = np.unique(unit, return_inverse=True)
        totals = torch.zeros(int(of.max()) + 1, dtype=torch.float64)
        more = totals.index_add_(0, torch.from_numpy(of), more)
    return bool(more.mean() <= errors * more.std() / math.sqrt(len(more)))


def _held_out_losses(design: Design, theta: Tensor, kept: Tensor) -> Tensor:
    """[n] what rows lose where they do not count, over problems; of Cox's model, whose rows have no losses of
    their own, a fold's loss is spread over its rows.
    """
    if isinstance(design.family, Rowwise):
        return (design.family.losses(theta, design.z, design.u) * (1 - kept)).sum(0)
    whole = design.family.loss(theta, design.z, design.u, torch.ones_like(kept))
    more = whole - design.family.loss(theta, design.z, design.u, kept)
    return ((more / (1 - kept).sum(1)).unsqueeze(1) * (1 - kept)).sum(0)


def dealt(y: np.ndarray, unit: np.ndarray | None, seed: int, folds: int = FOLDS) -> list[np.ndarray] | None:
    """Several ways [n] in which rows are dealt to folds; None where there are too few to hold any out."""
    own = np.arange(len(y)) if unit is None else unit
    _, first, of = np.unique(own, return_index=True, return_inverse=True)
    many = min(folds, len(first))
    if many < 2:
        return None
    found = []
    for dealing in range(min(DEALINGS, -(-FEW // len(first)))):
        rng = np.random.default_rng((seed, dealing))
        order = np.lexsort((rng.random(len(first)), y[first]))
        fold = np.empty(len(first), dtype=np.int64)
        fold[order] = (np.arange(len(first)) + rng.integers(many)) % many
        found.append(fold[of])
    return found


def some_rows(design: Design, unit: np.ndarray | None, seed: int) -> tuple[Design, np.ndarray | None]:
    """MANY of the rows, drawn by the seed; of patients, all rows of some."""
    rng = np.random.default_rng((seed, len(design.z)))
    if unit is None:
        rows = np.sort(rng.choice(len(design.z), MANY, replace=False))
    else:
        whose, of, counts = np.unique(unit, return_inverse=True, return_counts=True)
        turn = rng.permutation(len(whose))
        taken = turn[: max(2, int(np.searchsorted(np.cumsum(counts[turn]), MANY)))]
        rows = np.flatnonzero(np.isin(of, taken))
        unit = unit[rows]
    index = torch.from_numpy(rows)
    return replace(design, z=design.z[index], u=design.u[index]), unit
