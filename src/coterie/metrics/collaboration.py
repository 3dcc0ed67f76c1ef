"""Who learned with whom, and was it worth it: neighbours against true clusters, drift, bytes.

W is a matrix of weights [receiver, sender]; whoever has a weight above 0 there, beside oneself, was chosen.

    precision_k = |chosen_k ∩ kin_k| / |chosen_k|       NaN for whoever chose nobody
    recall_k    = |chosen_k ∩ kin_k| / |kin_k|          NaN for whoever is alone in its cluster
    drift_k     = ‖w_k - w̄‖,   w̄ = mean_k w_k          over trained parameters
    cost        = mean_k (models sent by k + models received by k)          as PENS reports it

kin_k are the others of k's true cluster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from coterie.core.belief import Beliefs
from coterie.core.errors import BadInput

CHUNK = 2**20  # numbers of models looked at at once


class _Found(NamedTuple):
    """Precision and recall of chosen neighbours, [client] each, and the means of those known."""

    precision: Tensor
    recall: Tensor
    mean_precision: float
    mean_recall: float


def neighbours_found(weights: Tensor, clusters: Sequence[int | None]) -> _Found:
    """Precision and recall of those with a weight above 0; in several rounds, give the sum of the weights."""
    n = len(clusters)
    if weights.shape != (n, n):
        raise BadInput(f"weights of shape {list(weights.shape)} for {n} clusters: need [receiver, sender]")
    if any(c is None for c in clusters):
        raise BadInput(f"client number {list(clusters).index(None)} has no cluster: give one for each")
    others = ~torch.eye(n, dtype=torch.bool)
    chosen, of = (weights > 0) & others, torch.tensor([int(c) for c in clusters if c is not None])
    kin = (of.unsqueeze(1) == of) & others
    right = (chosen & kin).sum(dim=1).double()
    # 0 / 0 is NaN: nothing to say
    precision, recall = right / chosen.sum(dim=1), right / kin.sum(dim=1)
    return _Found(precision, recall, _mean_of_known(precision), _mean_of_known(recall))


def _mean_of_known(values: Tensor) -> float:
    known = values[~values.isnan()]
    return float(known.mean()) if len(known) else math.nan


def drifts(beliefs: Beliefs, of: Tensor, names: Iterable[str]) -> Tensor:
    """‖w_k - w̄‖ [client], over the named tensors; client k's model is row `of[k]`. One without a model
    (below 0) has NaN, and w̄ is the mean of the others.

    Two passes over the models, some rows at a time: never all pairs, and no second copy of them all.
    """
    found, mine = torch.full((len(of),), math.nan, dtype=torch.float64), of >= 0
    rows, place, owners = torch.unique(of[mine], return_inverse=True, return_counts=True)
    if len(rows) <= 1:
        found[mine] = 0.0
        return found
    flat = [beliefs[name].flatten(1) for name in names]
    if sum(t.numel() for t in flat) <= CHUNK:  # small models at once: each call costs more than its sums
        flat = [torch.cat(flat, dim=1)]
    squares = torch.stack([_from_mean(t, rows.to(t.device), owners) for t in flat])
    found[mine] = squares.sum(dim=0).sqrt()[place]
    return found


def _from_mean(flat: Tensor, rows: Tensor, owners: Tensor) -> Tensor:
    """Squared distances [row] of some rows to their mean, in which each counts once for each owner.

    w̄ = w_0 + mean_k (w_k - w_0): equal models are exactly 0 apart, and float32 is exact enough.
    """
    wide = torch.promote_types(flat.dtype, torch.float32)
    some = max(1, CHUNK // max(1, flat.shape[1]))
    first, share = flat[rows[0]].to(wide), (owners / owners.sum()).to(device=flat.device, dtype=wide)
    parts = [slice(i, i + some) for i in range(0, len(rows), some)]
    mean = first.clone()
    for part in parts:
        mean += share[part] @ (flat[rows[part]] - first)
    apart = [torch.linalg.vector_norm(flat[rows[part]] - mean, dim=1) for part in parts]
    return torch.cat(apart).cpu().double().square()


def communication_cost(sent: Tensor, received: Tensor) -> float:
    """Models sent and received, the mean over clients of [client] or [round, client] counts (PENS, 3.5)."""
    both = (sent + received).double()
    return float((both.sum(dim=0) if both.ndim == 2 else both).mean())
