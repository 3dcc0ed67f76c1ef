"""The bar: whoever is chosen has to do about as well on the requester's rows as its own model, or nobody is.

    d_rjk = L_{S_rk}(f_j) - L_{S_rk}(f_r^{-k})                     on part k of the rows that r holds out
    d_rj  = Σ_k n_rk d_rjk / Σ_k n_rk,   e_rj = sd_k(d_rjk) / √K   the mean over parts, its standard error
    j clears the bar of r:   d_rj ≤ e_rj  (own),   or  d_rj < -e_rj  (better)

f_j is j's model, f_r^{-k} is r's own, trained without the rows S_rk, of which there are n_rk. Both are tried
on the same rows, so that hard ones count for both, and what is left of chance is in e_rj. A model that was
trained on other rows and does as well here as one's own adds what it has learnt from them; one that does
worse by more than e_rj has learnt something else. Parts of fewer than LEAST rows tell nothing, and then
nobody clears the bar.

The papers have no bar: `bar="none"`. Ranks are theirs with either; the bar decides who may be chosen at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from coterie.core.contract import Held, Key, Net, Scorer
from coterie.core.method import NOBODYS, scatter
from coterie.kernels.fold import HeldOut

Bar = Literal["own", "better", "none"]
ABOVE, THERE = "loss above own", "loss at the requester"
PARTS = 5  # of the validation rows, where there are no folds
LEAST = 2  # rows that a part needs


def error_name(matrix: str) -> str:
    """What the standard errors of a matrix are called."""
    return f"error of {matrix}"


def parts(folds: int, key: Key) -> list[HeldOut]:
    """What to score on, part by part: the folds, or as many parts of the validation rows."""
    seed = key.at("folds").integer()
    if folds:
        return [HeldOut(folds, k, seed) for k in range(folds)]
    return [HeldOut(PARTS, k, seed, "validation") for k in range(PARTS)]


@dataclass(frozen=True, eq=False)
class Part:
    """What models lose on one part of held-out rows.

    theirs  [requester, other] each other's model, NaN where it was not tried
    own     [requester] its own
    rows    [requester] how many there are
    """

    theirs: Tensor
    own: Tensor
    rows: Tensor


class Home(NamedTuple):
    """[client] what models lose at home, and on how many rows: NaN and 0 where none was scored."""

    loss: Tensor
    rows: Tensor


def scored_at_home(net: Net, scorer: Scorer, models: Held, edges: Tensor, key: Key) -> Home:
    """At each host the one model that visits it; rows that a loss is not defined on are none."""
    n = len(net.roster)
    found = net.visit(scorer, models, edges, key)
    if len(found) == 0:
        return Home(torch.full((n,), math.nan, dtype=torch.float64), torch.zeros(n, dtype=torch.float64))
    loss, samples = (found.numbers[name].double() for name in ("loss", "samples"))
    samples = samples * ~loss.isnan()  # a part of a survival in which no event was seen
    return Home(scatter(loss, found.hosts, n), scatter(samples, found.hosts, n, empty=0))


def elsewhere(net: Net, scorer: Scorer, models: Held, owners: Tensor, requesters: Tensor, key: Key) -> Tensor:
    """[requester, other] what others' models lose at each requester; owners[row] has whose each is, or
    NOBODYS.
    """
    n = len(net.roster)
    pairs = torch.cartesian_prod((owners != NOBODYS).nonzero().flatten(), requesters)
    others = pairs[owners[pairs[:, 0]] != pairs[:, 1]]
    theirs = torch.full((n, n), math.nan, dtype=torch.float64)
    found = net.visit(scorer, models, others, key)
    if len(found):
        theirs[found.hosts, owners[found.guests]] = found.numbers["loss"].double()
    return theirs


@dataclass(frozen=True, eq=False)
class Beside:
    """Models of others beside one's own on the same rows, all [requester, other].

    there   the mean loss of the other's model
    above   d_rj, by how much that is more than one's own loss
    error   e_rj, NaN where there are too few rows to tell
    """

    there: Tensor
    above: Tensor
    error: Tensor

    def clears(self, bar: Bar) -> Tensor:
        """Nobody does where one of the two is NaN."""
        return self.above < -self.error if bar == "better" else self.above <= self.error

    def matrices(self) -> dict[str, Tensor]:
        return {THERE: self.there, ABOVE: self.above, error_name(ABOVE): self.error}


def beside(seen: Sequence[Part], n: int) -> Beside:
    """Of n clients: the mean over parts, by their rows, and its standard error."""
    if not seen:
        return Beside(*(torch.full((n, n), math.nan, dtype=torch.float64) for _ in range(3)))
    theirs = torch.stack([part.theirs for part in seen], dim=-1)
    own = torch.stack([part.own for part in seen], dim=-1).unsqueeze(1)
    rows = torch.stack([part.rows for part in seen], dim=-1).unsqueeze(1)
    apart, shares, known = theirs - own, rows / rows.sum(dim=-1, keepdim=True), rows > 0
    error = standard_error(apart, known).where((~known | (rows >= LEAST)).all(dim=-1), math.nan)
    there, above = ((shares * part).where(known, shares).sum(dim=-1) for part in (theirs, apart))
    return Beside(there, above, error)


def standard_error(values: Tensor, known: Tensor | None = None) -> Tensor:
    """sd / √K over the last axis, of the K values that are known; NaN of a single one."""
    known = torch.ones_like(values, dtype=torch.bool) if known is None else known.expand_as(values)
    k = known.sum(dim=-1, keepdim=True)
    mean = values.where(known, 0).sum(dim=-1, keepdim=True) / k
    squares = (values - mean).square().where(known, 0).sum(dim=-1)
    k = k.squeeze(-1)
    return (squares / (k - 1) / k).sqrt().where(k > 1, math.nan)
