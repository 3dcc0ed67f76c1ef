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

M is 20. Bins are closed at the right, as in the authors' program; the text of Makni closes them at the left,
which leaves out a confidence of 1. "Normalised" in nNLL is the division by n.

Sums over samples are kept (`Tally`), not means: those of several clients or seeds are added before anything
is divided.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

BINS = 20
LEAST = 1e-300  # probability of which there is a logarithm
STEPS = 20  # τ = 0, 1/20, ..., 1


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

    def pooled(self) -> Tally:
        """Those of all clients as one: [bin]."""
        return Tally(*(t.reshape(-1, t.shape[-1]).sum(dim=0) for t in self))


class Calibration(NamedTuple):
    """All that the report draws, of one client [bin] or of several [client, bin].

    confidence   samples by confidence: a reliability diagram
    entropy      samples by H(x) / log C, its share of the greatest possible
    above        D_τ for each of `taus()`: [..., τ]
    """

    confidence: Tally
    entropy: Tally
    above: Tally


def probabilities(logits: Tensor) -> Tensor:
    """Softmax in float64; log-probabilities are logits too."""
    return logits.double().softmax(dim=1)


def logits_of(p: Tensor) -> Tensor:
    """Logits with these probabilities, finite also where one has vanished."""
    return p.clamp(min=LEAST).log()


def taus(steps: int = STEPS) -> Tensor:
    """Divided, not summed up: the τ of 0.15 is the number one writes."""
    return torch.arange(steps + 1, dtype=torch.float64) / steps


def reliability(p: Tensor, y: Tensor, bins: int = BINS) -> Tally:
    """B_m by confidence."""
    confidence, guess = p.max(dim=1)
    return tally(confidence, confidence, guess == y, bins)


def by_entropy(p: Tensor, y: Tensor, bins: int = BINS) -> Tally:
    """The same by H(x) / log C; the sums are of H(x) itself."""
    h = entropy(p)
    return tally(h / math.log(p.shape[1]) if p.shape[1] > 1 else h, h, p.argmax(dim=1) == y, bins)


def abstention(p: Tensor, y: Tensor, steps: int = STEPS) -> Tally:
    """D_τ for τ = 0, 1/steps, ..., 1. The first holds all: coverage is samples / samples[0]."""
    confidence, guess = p.max(dim=1)
    answered = (confidence >= taus(steps).to(p)[:, None]).double()  # [τ, sample]
    right = (guess == y).double()
    return Tally(answered.sum(dim=1), answered @ confidence.double(), answered @ right)


def calibration(logits: Tensor, y: Tensor) -> Calibration:
    """Everything of one client's samples."""
    p = probabilities(logits)
    return Calibration(reliability(p, y), by_entropy(p, y), abstention(p, y))


def ece(p: Tensor, y: Tensor, bins: int = BINS) -> float:
    """Σ_m |B_m|/n · |acc(B_m) - conf(B_m)| = Σ_m |Σ_{B_m} (right - conf)| / n"""
    confidence, guess = p.max(dim=1)
    gaps = bins_of(confidence, bins).bincount((guess == y).double() - confidence)
    return float(gaps.abs().sum() / len(y))


def mce(p: Tensor, y: Tensor, bins: int = BINS) -> float:
    """max_m |acc(B_m) - conf(B_m)|"""
    return float(mce_of(reliability(p, y, bins)))


def ece_of(tally: Tally) -> Tensor:
    """The same from a tally [..., bin]."""
    return (tally.right - tally.total).abs().sum(dim=-1) / tally.samples.sum(dim=-1)


def mce_of(tally: Tally) -> Tensor:
    """The same from a tally [..., bin]."""
    gaps = (tally.accuracy - tally.mean).abs()
    worst = torch.where(tally.samples > 0, gaps, 0.0).amax(dim=-1)
    return torch.where(tally.samples.sum(dim=-1) > 0, worst, math.nan)


def brier(p: Tensor, y: Tensor) -> float:
    """mean_x Σ_c (p(c|x) - 1[y = c])² = mean_x (Σ_c p(c|x)² - 2 p(y|x) + 1), between 0 and 2"""
    p = p.double()
    return float((p.square().sum(dim=1) - 2 * p.gather(1, y[:, None]).squeeze(1) + 1).mean())


def nll(logits: Tensor, y: Tensor) -> Tensor:
    """-log p(y|x) of each sample [n], from logits: a probability too small for a float still counts.

    Of probabilities, give the logarithms.
    """
    return -logits.double().log_softmax(dim=1).gather(1, y[:, None]).squeeze(1)


def normalised_nll(logits: Tensor, y: Tensor) -> float:
    """mean_x (-log p(y|x))"""
    return float(nll(logits, y).mean())


def entropy(p: Tensor) -> Tensor:
    """H(x) = -Σ_c p(c|x) log p(c|x) of each sample [n], in nats"""
    terms: Tensor = torch.special.entr(p.double())
    return terms.sum(dim=1)


def tally(place: Tensor, scores: Tensor, right: Tensor, bins: int) -> Tally:
    """Sums over the bins of `place`."""
    which = bins_of(place, bins)
    total, hits = (which.bincount(w.double(), minlength=bins) for w in (scores, right))
    return Tally(which.bincount(minlength=bins).double(), total, hits)


def bins_of(place: Tensor, bins: int) -> Tensor:
    """m - 1 of the bin ((m-1)/M, m/M] that each is in; what is 0 is in the first."""
    inner = (torch.arange(1, bins, dtype=torch.float64, device=place.device) / bins).to(place.dtype)
    return torch.bucketize(place, inner)  # the first edge that is not below
