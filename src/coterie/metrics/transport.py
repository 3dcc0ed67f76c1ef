"""How far sites are apart, class by class: what it takes to carry one's rows to where the other's lie.

Between two Gaussians that is the Bures-Wasserstein distance (Dowson and Landau 1982, "The Fréchet distance
between multivariate normal distributions"):

    W²(i, j) = |m_i - m_j|² + tr(S_i + S_j - 2 (S_i^½ S_j S_i^½)^½)              wasserstein
    D²(i, j) = 1/d Σ_c w_c W²(c at i, c at j),   w_c = (p_ic + p_jc) / 2          class_transport

m and S are mean and covariance of d columns in pooled deviations, p_ic is the share of class c at site i. So
D is in deviations of a column, and labels count: sites with the same inputs and other labels for them are far
apart. A class that only one of two sites tells of is compared with all rows of the other. Other shares of the
classes alone make no distance.

The covariance of n rows in d columns is drawn towards T, the mean within classes over all sites:

    S ← (n S + d T) / (n + d)                                                    shrunk

By chance alone, with the eigenvalues λ of T (the second term is the Bures metric, to second order, of a
sample's covariance):

    E W² = (1/n_i + 1/n_j) tr T + (f_i²/n_i + f_j²/n_j) ½ Σ_kl λ_k λ_l (1 + [k = l]) / (λ_k + λ_l)   by_chance

with f = n / (n + d). Labelled data as Gaussians by class: Alvarez-Melis and Fusi 2020, "Geometric dataset
distances via optimal transport", who let classes be matched to others; here a class keeps its name.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Classes:
    """Gaussians of sites' classes.

    means [site, class, column], covariances [site, class, column, column]
    counts [site, class]   rows of each; 0 for a class that is not told of
    """

    means: Tensor
    covariances: Tensor
    counts: Tensor

    @property
    def shares(self) -> Tensor:
        """p_ic"""
        return self.counts / self.counts.sum(dim=1, keepdim=True).clamp(min=TINY)


def scaled(found: Classes) -> tuple[Classes, Tensor]:
    """The same in pooled deviations of each column, and these deviations [column]."""
    weights = (found.counts / found.counts.sum().clamp(min=TINY)).unsqueeze(-1)
    mean = (weights * found.means).sum(dim=(0, 1))
    own = found.covariances.diagonal(dim1=-2, dim2=-1)
    deviation = (weights * (own + (found.means - mean) ** 2)).sum(dim=(0, 1)).sqrt()
    deviation = torch.where(deviation > TINY, deviation, torch.ones_like(deviation))
    around = deviation.unsqueeze(1) * deviation
    return Classes(found.means / deviation, found.covariances / around, found.counts), deviation


def within(found: Classes) -> Tensor:
    """T: the mean covariance within classes, over all sites."""
    weights = found.counts / found.counts.sum().clamp(min=TINY)
    return (weights.unsqueeze(-1).unsqueeze(-1) * found.covariances).sum(dim=(0, 1))


def shrunk(found: Classes, towards: Tensor) -> Classes:
    """Covariances drawn towards T, the more so the fewer rows there are."""
    many, d = found.counts.unsqueeze(-1).unsqueeze(-1), found.means.shape[-1]
    return Classes(found.means, (many * found.covariances + d * towards) / (many + d), found.counts)


def _of_all_rows(found: Classes) -> tuple[Tensor, Tensor]:
    """Mean [site, column] and covariance [site, column, column] of a site's classes together."""
    p = found.shares.unsqueeze(-1)
    mean = (p * found.means).sum(dim=1)
    apart = found.means - mean.unsqueeze(1)
    spread = found.covariances + apart.unsqueeze(-1) * apart.unsqueeze(-2)
    return mean, (p.unsqueeze(-1) * spread).sum(dim=1)


def class_transport(found: Classes) -> Tensor:
    """D² [site, site] of classes in pooled deviations, NaN for a site that tells of no class."""
    sites, classes, d = found.means.shape
    there, (mean, covariance) = found.counts > 0, _of_all_rows(found)
    known = there.unsqueeze(-1)
    means = torch.where(known, found.means, mean.unsqueeze(1))
    spreads = torch.where(known.unsqueeze(-1), found.covariances, covariance.unsqueeze(1))
    total = means.new_zeros(sites, sites)
    for c in range(classes):
        total += class_weights(found)[..., c] * wasserstein(means[:, c], spreads[:, c])
    nobody = ~there.any(dim=1)
    total[nobody], total[:, nobody] = torch.nan, torch.nan
    return total / d


def class_weights(found: Classes) -> Tensor:
    """w_c: [site, site, class]."""
    return (found.shares.unsqueeze(1) + found.shares.unsqueeze(0)) / 2


def wasserstein(means: Tensor, covariances: Tensor) -> Tensor:
    """W² [site, site] between Gaussians, one of each site."""
    sites = len(means)
    apart = (means.unsqueeze(1) - means.unsqueeze(0)).square().sum(dim=-1)
    traces = covariances.diagonal(dim1=-2, dim2=-1).sum(dim=-1)
    values, vectors = torch.linalg.eigh(covariances)
    roots = (vectors * values.clamp(min=0).sqrt().unsqueeze(-2)) @ vectors.mT  # S^½
    shared = means.new_zeros(sites, sites)
    for i in range(sites):
        inner = roots[i] @ covariances[i:] @ roots[i]
        trace = torch.linalg.eigvalsh((inner + inner.mT) / 2).clamp(min=0).sqrt().sum(dim=-1)
        shared[i, i:], shared[i:, i] = trace, trace
    found: Tensor = apart + (traces.unsqueeze(1) + traces.unsqueeze(0) - 2 * shared).clamp(min=0)
    return found.fill_diagonal_(0)


def by_chance(found: Classes, towards: Tensor) -> Tensor:
    """E D² [site, site] between two samples of the same rows."""
    d = found.means.shape[-1]
    values = torch.linalg.eigvalsh(towards).clamp(min=TINY)
    pairs = values.unsqueeze(1) * values / (values.unsqueeze(1) + values)
    bures = 0.5 * (pairs.sum() + pairs.diagonal().sum())
    whole = found.counts.sum(dim=1, keepdim=True)
    many = torch.where(found.counts > 0, found.counts, whole).clamp(min=1)
    each = (values.sum() + bures * (many / (many + d)) ** 2) / many  # [site, class]
    made: Tensor = (class_weights(found) * (each.unsqueeze(1) + each.unsqueeze(0))).sum(dim=-1) / d
    return made
