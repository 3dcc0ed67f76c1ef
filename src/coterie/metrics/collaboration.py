"""Who learned with whom, and was it worth it: neighbours against true clusters, drift, bytes.

W is a matrix of weights [receiver, sender]; whoever has a weight above 0 there, beside oneself, was chosen.

    precision_k = |chosen_k ∩ kin_k| / |chosen_k|       NaN for whoever chose nobody
    recall_k    = |chosen_k ∩ kin_k| / |kin_k|          NaN for whoever is alone in its cluster
    drift       = mean_k ‖w_k - w̄‖,   w̄ = mean_k w_k

kin_k are the others of k's true cluster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from coterie.core.errors import BadInput


class Found(NamedTuple):
    """Precision and recall of chosen neighbours, [client] each, and the means of those known."""

    precision: Tensor
    recall: Tensor
    mean_precision: float
    mean_recall: float


def neighbours_found(weights: Tensor, clusters: Sequence[int | None]) -> Found:
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
    return Found(precision, recall, mean_of_known(precision), mean_of_known(recall))


def mean_of_known(values: Tensor) -> float:
    known = values[~values.isnan()]
    return float(known.mean()) if len(known) else math.nan


def drift(apart: Tensor) -> float:
    """The mean distance of models to their mean, from their distances [model, model] to one another.

    ‖w_k - w̄‖² = mean_j d_kj² - ½ mean_ij d_ij²: a net's `distances` are enough, and nothing is opened.
    """
    squares = apart.double().square()
    return float((squares.mean(dim=1) - squares.mean() / 2).clamp(min=0).sqrt().mean())


def communication_cost(sent: Tensor, received: Tensor) -> float:
    """Models sent and received, the mean over clients of [client] or [round, client] counts (PENS, 3.5)."""
    both = (sent + received).double()
    return float((both.sum(dim=0) if both.ndim == 2 else both).mean())


def bytes_moved(models: Tensor, size: int) -> Tensor:
    """Bytes for so many models of `size` bytes each, in the shape of the counts."""
    return models.long() * size
