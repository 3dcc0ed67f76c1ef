"""How often a classifier is right. All take one client's test set."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def accuracy(outputs: Tensor, y: Tensor) -> float:
    """The share of samples whose largest logit is the label's."""
    return float((outputs.argmax(dim=1) == y).double().mean())


def balanced_accuracy(outputs: Tensor, y: Tensor) -> float:
    """The mean over the classes present of the share of that class that was found (recall)."""
    right = (outputs.argmax(dim=1) == y).double()
    present = torch.unique(y)
    return float(torch.stack([right[y == c].mean() for c in present]).mean())


def auc(score: Tensor, y: Tensor) -> float:
    """The chance that a sample of class 1 scores above one of class 0, ties counting half.

    By ranks (Mann and Whitney, 1947). NaN where one of the two classes is absent.
    """
    positive = y == 1
    n1 = int(positive.sum())
    n0 = len(y) - n1
    if not n0 or not n1:
        return math.nan
    _, place, tied = torch.unique(score, return_inverse=True, return_counts=True)
    last = tied.cumsum(0).double()
    ranks = (last - (tied.double() - 1) / 2)[place]
    return float((ranks[positive].sum() - n1 * (n1 + 1) / 2) / (n0 * n1))
