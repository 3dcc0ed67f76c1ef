"""Does a probability mean what it says? (Guo et al., 2017; Makni, 2022, section 3.1)

For n samples with predicted probabilities p(c|x) and labels y,

    conf(x) = max_c p(c|x)          right(x) = 1 if argmax_c p(c|x) = y, else 0
    B_m     = {x : (m-1)/M < conf(x) <= m/M},  m = 1..M                          `reliability`
    ECE     = Σ_m |B_m|/n · |acc(B_m) - conf(B_m)|                               `ece`
    MCE     = max_m |acc(B_m) - conf(B_m)|, over bins that hold a sample         `mce`
    BS      = mean_x Σ_c (p(c|x) - 1[y = c])²                                    `brier`
    nNLL    = mean_x (-log p(y|x))                                               `normalised_nll`
    H(x)    = -Σ_c p(c|x) log p(c|x), in nats                                    `entropy`
    D_τ     = {x : conf(x) >= τ}: a model that abstains below τ answers |D_τ|/n  `abstention`
              of the questions and is right on acc(D_τ) of them
    P_t     = {x : p(c|x) >= t}, c the positive one of two: called so from t on  `called_positive`

M is 20. Bins are closed at the right, as in the authors' program; the text of Makni closes them at the left,
which leaves out a confidence of 1. "Normalised" in nNLL is the division by n.

Sums over samples are kept (`Tally`), not means: those of several clients or seeds are added before anything
is divided. All figures are of each of several groups of samples; without groups, all samples are one.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch
from torch import Tensor

from coterie.core.groups import Groups, whole
from coterie.metrics.classification import hits

BINS = 20
LEAST = 1e-300  # probability of which there is a logarithm
STEPS = 20  # τ = 0, 1/20, ..., 1
THRESHOLDS = 100  # t = 0, 1/100, ..., 1: outcomes may be rare


class Tally(NamedTuple):
    """Of each bin or each τ, [..., bin]: how many samples, the sum of their scores, how many are right.

    The scores are confidences, or entropies where samples are sorted by entropy.
    """

    samples: Tensor
    total: Tensor
    right: Tensor

    @property
    def accuracy(self) -> Tensor:
        """acc, NaN where there is no sample."""
        return self.right / self.samples

    @property
    def mean(self) -> Tensor:
        """conf (or the mean entropy), NaN where there is no sample."""
        return self.total / self.samples

    @property
    def ece(self) -> Tensor:
        """Σ_m |B_m|/n · |acc(B_m) - conf(B_m)|, as Σ_m |Σ_{B_m} right - Σ_{B_m} conf| / n: [...]"""
        return (self.right - self.total).abs().sum(dim=-1) / self.samples.sum(dim=-1)

    @property
    def mce(self) -> Tensor:
        """max_m |acc(B_m) - conf(B_m)|: [...]"""
        gaps = (self.accuracy - self.mean).abs()
        worst = torch.where(self.samples > 0, gaps, 0.0).amax(dim=-1)
        return torch.where(self.samples.sum(dim=-1) > 0, worst, math.nan)

    def pooled(self) -> Tally:
        """Those of all clients as one: [bin]."""
        return Tally(*(t.unsqueeze(0).flatten(0, -2).sum(dim=0) for t in self))


NO_TALLY = Tally(*(torch.empty(0, dtype=torch.float64) for _ in Tally._fields))


class Calibration(NamedTuple):
    """All that the report draws, of one client [bin] or of several [client, bin].

    confidence   samples by confidence: a reliability diagram
    entropy      samples by H(x) / log C, its share of the greatest possible
    above        D_τ for each of `taus()`: [..., τ]
    positive     P_t for each of `taus(THRESHOLDS)`: [..., t], the sums of p(c|x), `right` those of class c;
                 without any t where there are not two classes, and in runs of earlier versions
    """

    confidence: Tally
    entropy: Tally
    above: Tally
    positive: Tally = NO_TALLY


def probabilities(logits: Tensor) -> Tensor:
    """Softmax in float64; log-probabilities are logits too."""
    return softmax(logits)[0]


def softmax(logits: Tensor) -> tuple[Tensor, Tensor]:
    """p(c|x) and log p(c|x) [n, class] in float64, from the same exponentials.

    With z_c = logit_c - max_k logit_k:  p_c = exp(z_c) / Σ_k exp(z_k),  log p_c = z_c - log Σ_k exp(z_k)
    """
    wide = logits.double()
    z = wide - wide.amax(dim=1, keepdim=True)
    powers = z.exp()
    total = powers.sum(dim=1, keepdim=True)
    return powers / total, z - total.log()


def logits_of(p: Tensor) -> Tensor:
    """Logits with these probabilities, finite also where one has vanished."""
    return p.clamp(min=LEAST).log()


def taus(steps: int = STEPS) -> Tensor:
    """Divided, not summed up: the τ of 0.15 is the number one writes."""
    return torch.arange(steps + 1, dtype=torch.float64) / steps


def reliability(p: Tensor, y: Tensor, bins: int = BINS, groups: Groups | None = None) -> Tally:
    """B_m by confidence: [group, bin]."""
    confidence = p.amax(dim=1)
    return tally(confidence, confidence, hits(p, y), whole(groups, y), bins)


def by_entropy(p: Tensor, y: Tensor, bins: int = BINS, groups: Groups | None = None) -> Tally:
    """The same by H(x) / log C; the sums are of H(x) itself."""
    h = entropy(p)
    share = h / math.log(p.shape[1]) if p.shape[1] > 1 else h
    return tally(share, h, hits(p, y), whole(groups, y), bins)


def abstention(p: Tensor, y: Tensor, steps: int = STEPS, groups: Groups | None = None) -> Tally:
    """D_τ for τ = 0, 1/steps, ..., 1: [group, τ]. The first holds all: coverage is samples / samples[:, :1].

    A sample is in D_τ up to the last τ that its confidence reaches.
    """
    confidence = p.amax(dim=1)
    return _from_each_on(confidence, confidence, hits(p, y), whole(groups, y), steps)


def called_positive(
    p: Tensor, y: Tensor, positive: int = 1, steps: int = THRESHOLDS, groups: Groups | None = None
) -> Tally:
    """P_t for t = 0, 1/steps, ..., 1: [group, t]. Of those with p(c|x) >= t, c the positive class, `right`
    counts the ones of that class. The first holds all.
    """
    own = p[:, positive]
    return _from_each_on(own, own, (y == positive).double(), whole(groups, y), steps)


def _from_each_on(place: Tensor, scores: Tensor, right: Tensor, groups: Groups, steps: int) -> Tally:
    """Sums over the samples whose place is at least 0, 1/steps, ..., 1: [group, step]."""
    last = torch.bucketize(place.contiguous(), taus(steps).to(place), right=True) - 1
    reached = _sums_by(last, steps + 1, scores, right, groups)
    return Tally(*(t.flip(1).cumsum(dim=1).flip(1) for t in reached))


def calibration(
    logits: Tensor, y: Tensor, groups: Groups | None = None, least: int = 0, positive: int | None = 1
) -> Calibration:
    """Everything of the samples of each group. No bin has fewer than `least` samples, but for none: bins of
    confidence, or of the probability of the positive one of two classes, are joined with the next until they
    have, and what is joined is in one bin of each kind. With `positive` None nothing is counted by class.
    """
    p, groups = probabilities(logits), whole(groups, y)
    positive = positive if p.shape[1] == 2 else None
    by_class = Tally(*(t.expand(len(groups.sizes), 0) for t in NO_TALLY))
    if least <= 1:
        if positive is not None:
            by_class = called_positive(p, y, positive, groups=groups)
        kinds = reliability(p, y, groups=groups), by_entropy(p, y, groups=groups)
        return Calibration(*kinds, abstention(p, y, groups=groups), by_class)
    # one way to join samples for all kinds, whichever class is positive: two of them would tell by their
    # difference of few samples
    confidence, h, right = p.amax(dim=1), entropy(p), hits(p, y)
    bins = _bins_of(confidence, BINS) if positive is None else _bins_of(p[:, 1], THRESHOLDS)
    cells = _joined_bins(bins, groups, least)
    many = torch.zeros(int(cells.amax()) + 1, dtype=p.dtype)
    many.index_add_(0, cells, torch.ones_like(confidence))

    def middle(values: Tensor) -> Tensor:
        """Of each sample's cell, the mean."""
        return (torch.zeros_like(many).index_add_(0, cells, values) / many)[cells]

    if positive is not None:
        own, of_class = p[:, positive], (y == positive).double()
        by_class = _from_each_on(middle(own), own, of_class, groups, THRESHOLDS)
    share = h / math.log(p.shape[1]) if p.shape[1] > 1 else h
    return Calibration(
        tally(middle(confidence), confidence, right, groups),
        tally(middle(share), h, right, groups),
        _from_each_on(middle(confidence), confidence, right, groups, STEPS),
        by_class,
    )


def _joined_bins(which: Tensor, groups: Groups, least: int) -> Tensor:
    """[sample] cells of neighbouring bins of one group, numbered over all groups, each with so many samples;
    the last has what is left over as well.
    """
    cells, number = torch.zeros_like(which), 0
    for rows in torch.split(torch.arange(len(which)), groups.sizes.tolist()):
        counts, cell, filled = torch.bincount(which[rows], minlength=1).tolist(), [], 0
        first = number
        for many in counts:
            cell.append(number)
            filled += many
            if filled >= least:
                number, filled = number + 1, 0
        if filled and number > first:  # too few are left over for a cell of their own
            cell = [min(c, number - 1) for c in cell]
        elif filled or number == first:
            number += 1
        cells[rows] = torch.tensor(cell)[which[rows]]
    return cells


def ece(p: Tensor, y: Tensor, bins: int = BINS, groups: Groups | None = None) -> Tensor:
    return reliability(p, y, bins, groups).ece


def mce(p: Tensor, y: Tensor, bins: int = BINS, groups: Groups | None = None) -> Tensor:
    return reliability(p, y, bins, groups).mce


def brier(p: Tensor, y: Tensor, groups: Groups | None = None) -> Tensor:
    """mean_x Σ_c (p(c|x) - 1[y = c])² = mean_x (Σ_c p(c|x)² - 2 p(y|x) + 1), between 0 and 2: [group]"""
    p = p.double()
    return whole(groups, y).mean(p.square().sum(dim=1) - 2 * at_label(p, y) + 1)


def nll(logits: Tensor, y: Tensor) -> Tensor:
    """-log p(y|x) of each sample [n], from logits: a probability too small for a float still counts.

    Of probabilities, give the logarithms.
    """
    return -at_label(softmax(logits)[1], y)


def normalised_nll(logits: Tensor, y: Tensor, groups: Groups | None = None) -> Tensor:
    """mean_x (-log p(y|x)): [group]"""
    return whole(groups, y).mean(nll(logits, y))


def at_label(values: Tensor, y: Tensor) -> Tensor:
    """Of values [n, class], those of the labels: [n]."""
    return values.gather(1, y.unsqueeze(1)).squeeze(1)


def entropy(p: Tensor) -> Tensor:
    """H(x) = -Σ_c p(c|x) log p(c|x) of each sample [n], in nats"""
    terms: Tensor = torch.special.entr(p.double())
    return terms.sum(dim=1)


def tally(place: Tensor, scores: Tensor, right: Tensor, groups: Groups, bins: int = BINS) -> Tally:
    """Sums over the bins of `place`."""
    return _sums_by(_bins_of(place, bins), bins, scores, right, groups)


def _sums_by(which: Tensor, bins: int, scores: Tensor, right: Tensor, groups: Groups) -> Tally:
    """Sums over samples [n] of which it is known in which bin they are: [group, bin]."""
    by_bin = groups.by(which, bins)
    return Tally(by_bin.counts().double(), by_bin.sum(scores), by_bin.sum(right))


def _bins_of(place: Tensor, bins: int) -> Tensor:
    """m - 1 of the bin ((m-1)/M, m/M] that each is in; what is 0 is in the first."""
    return torch.bucketize(
        place.contiguous(), _inner_edges(bins, place.dtype)
    )  # the first edge that is not below


@functools.cache
def _inner_edges(bins: int, dtype: torch.dtype) -> Tensor:
    """1/M, ..., (M-1)/M"""
    return (torch.arange(1, bins, dtype=torch.float64) / bins).to(dtype)
