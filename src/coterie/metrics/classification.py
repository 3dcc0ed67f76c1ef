"""How often a classifier is right in each of several groups of rows, [group]; without groups, all are one."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from coterie.core.groups import Groups, whole


def hits(outputs: Tensor, y: Tensor) -> Tensor:
    """1 where the largest of a row's outputs (the first of equals) is the label's, else 0: [row]."""
    return (outputs.argmax(dim=1) == y).double()


def accuracy(right: Tensor, groups: Groups | None = None) -> Tensor:
    """The share of rows that are right, from `hits`."""
    return whole(groups, right).mean(right)


def balanced_accuracy(right: Tensor, y: Tensor, classes: int, groups: Groups | None = None) -> Tensor:
    """The mean over the classes present of the share of that class that was found (recall)."""
    by_class = whole(groups, y).by(y, classes)
    rows = by_class.counts()
    recall = by_class.sum(right) / rows.clamp(min=1)
    return recall.sum(dim=1) / (rows > 0).sum(dim=1)


def of_two(right: Tensor, y: Tensor, positive: int = 1, groups: Groups | None = None) -> dict[str, Tensor]:
    """Of two classes, where the more probable is said, so that each is from one half on:

    sensitivity    of the positive class, the share that is called so; NaN where there is none
    specificity    of the other, the share that is not; NaN where there is none
    net_benefit    (true positives - false positives) / rows (`operating.net_benefit` at one half)
    """
    by_class = whole(groups, y).by(y, 2)
    rows, found = by_class.counts().double(), by_class.sum(right)
    recall, wrongly = found / rows, rows[:, 1 - positive] - found[:, 1 - positive]  # 0/0 is NaN
    return {
        "sensitivity": recall[:, positive],
        "specificity": recall[:, 1 - positive],
        "net_benefit": (found[:, positive] - wrongly) / rows.sum(dim=1),
    }


def auc(score: Tensor, y: Tensor, groups: Groups | None = None) -> Tensor:
    """The chance that a sample of class 1 scores above one of class 0, ties counting half.

    By ranks in the group (Mann and Whitney, 1947), with n1 samples of class 1 and n0 others:
    AUC = (Σ of the ranks of class 1 - n1 (n1 + 1) / 2) / (n0 n1). NaN where one of the two is absent.
    Ranks count on from group to group; those who tie share their mean. By numpy, which sorts several times as
    fast as torch.
    """
    groups = whole(groups, y)
    index, sizes = groups.index.numpy(), groups.sizes.numpy()
    _, level = np.unique(score.double().numpy(force=True), return_inverse=True)
    _, place, tied = np.unique(index * len(level) + level, return_inverse=True, return_counts=True)
    positive, ranks = (y == 1).numpy(force=True), (tied.cumsum() - (tied - 1) / 2)[place]
    n1 = np.bincount(index, positive, minlength=len(sizes))
    total = np.bincount(index, positive * ranks, minlength=len(sizes))
    before = sizes.cumsum() - sizes  # rows of the groups before
    with np.errstate(invalid="ignore"):  # 0/0 where one is absent
        return torch.from_numpy((total - n1 * before - n1 * (n1 + 1) / 2) / ((sizes - n1) * n1))


def sensitivity(score: Tensor, y: Tensor, specificity: float, groups: Groups | None = None) -> Tensor:
    """The share of class 1 that scores above all but 1 - specificity of class 0; NaN where one is absent.

    Of n0 rows of class 0 at most floor((1 - specificity) n0) may be called positive: the threshold is the
    highest score of class 0 that must not be, and a row of class 1 that ties with it is not found.
    """
    found = []
    for values, labels in zip(
        *(torch.split(t, whole(groups, y).sizes.tolist()) for t in (score.double(), y)), strict=True
    ):
        well, ill = values[labels != 1], values[labels == 1]
        if not len(well) or not len(ill):
            found.append(float("nan"))
            continue
        allowed = int((1 - specificity) * len(well) + 1e-9)
        threshold = well.sort(descending=True).values[allowed]
        found.append(float((ill > threshold).double().mean()))
    return torch.tensor(found, dtype=torch.float64)
