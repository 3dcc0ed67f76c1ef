"""From what sites told of their rows to how far they are apart: the measures of `similar`, pair by pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from coterie.core.kernel import Look
from coterie.core.net import Replies
from coterie.core.roster import Roster
from coterie.kernels.sketches import (
    LEVELS,
    Moments,
    Quantiles,
    noise_in_moments,
    noise_in_quantiles,
    unfolded,
)
from coterie.metrics import alike, transport

SIZE = "rows of the other"
NDOYE = "transfer loss"
DISTANCES = {"quantiles": "quantile distance", "transport": "transport distance"}
CHANCE, NOISE = "{} by chance", "{} by noise"
SKETCHES = tuple(DISTANCES)
DROWNED = 0.5  # of a distance that noise alone makes


class Measured(NamedTuple):
    """[requester, other] distances, and what chance (noise included) and noise alone make of them."""

    distance: Tensor
    chance: Tensor
    noise: Tensor


def told_by(sketch: str) -> tuple[str, ...]:
    """The numbers that leave for a sketch, by name."""
    kernels: dict[str, Look] = {"quantiles": Quantiles(), "transport": Moments()}
    return tuple(kernels[sketch].sizes)


def matrices_of(found: Mapping[str, Measured]) -> dict[str, Tensor]:
    """All of it by the names that records have."""
    made = dict[str, Tensor]()
    for name, label in DISTANCES.items():
        if name in found:
            made |= {label: found[name].distance, CHANCE.format(label): found[name].chance}
            if bool(found[name].noise.nan_to_num().any()):
                made[NOISE.format(label)] = found[name].noise
    if "ndoye" in found:
        made[NDOYE] = found["ndoye"].distance
    return made | {SIZE: found["size"].distance}


def size_of(sizes: Tensor, hosts: Tensor) -> Tensor:
    """n_j [requester, other] of who answers."""
    there = torch.zeros(len(sizes), dtype=torch.bool)
    there[hosts] = True
    rows = sizes.double().where(there, torch.nan)
    both = rows.expand(len(sizes), -1).where(there.unsqueeze(1), torch.nan)
    return both.clone().fill_diagonal_(torch.nan)


def sketch_distances(replies: Replies, kernel: Quantiles | Moments, roster: Roster) -> Measured:
    """Between all who answered such a sketch; NaN for the others and for oneself."""
    n, hosts = len(roster), replies.hosts

    def whole(some: Tensor) -> Tensor:
        out = torch.full((n, n), torch.nan, dtype=torch.float64)
        out[hosts.unsqueeze(1), hosts] = some
        return out.fill_diagonal_(torch.nan)

    if not len(replies):
        return Measured(*(torch.full((n, n), torch.nan, dtype=torch.float64) for _ in range(3)))
    if isinstance(kernel, Quantiles):
        return Measured(*map(whole, _by_quantiles(replies, kernel, roster)))
    return Measured(*map(whole, _by_transport(replies, kernel, roster)))


def _by_quantiles(replies: Replies, kernel: Quantiles, roster: Roster) -> Measured:
    found = replies.numbers["quantiles"].reshape(len(replies), kernel.columns, len(LEVELS))
    sizes = roster.sizes[replies.hosts]
    deviation = alike.pooled_deviation(found, sizes)
    variance, noise = quantile_variance(found, sizes, kernel.sigma, kernel.reach)
    return Measured(
        alike.column_terms(found, deviation).mean(dim=-1),
        alike.by_chance(variance, deviation).mean(dim=-1),
        alike.by_chance(noise, deviation).mean(dim=-1),
    )


def quantile_variance(found: Tensor, sizes: Tensor, sigma: float, reach: float) -> tuple[Tensor, Tensor]:
    """[site, column, level] of quantiles: by chance, noise included, and by noise alone."""
    each = zip(found, sizes.tolist(), strict=True)
    noise = torch.stack([noise_in_quantiles(q, int(n), sigma, reach) for q, n in each])
    return alike.sampling_variance(found, sizes) + noise, noise


def _by_transport(replies: Replies, kernel: Moments, roster: Roster) -> Measured:
    groups, d, n = max(1, kernel.classes), kernel.wide, len(replies)
    there = replies.numbers["there"].reshape(n, groups) > 0.5
    found, deviation = transport.scaled(
        transport.Classes(
            replies.numbers["means"].reshape(n, groups, d),
            unfolded(replies.numbers["covariances"].reshape(n, groups, -1), d),
            class_counts(roster, replies.hosts, groups) * there,
        )
    )
    towards = transport.within(found)
    square = transport.class_transport(transport.shrunk(found, towards))
    chance, noise = transport.by_chance(found, towards), torch.zeros_like(square)
    if kernel.sigma:
        scale = replace(kernel, bound=kernel.bound / float(deviation.mean()))
        each = noise_in_moments(d, found.counts, towards.diagonal(), scale).where(there, 0)
        both = each.unsqueeze(1) + each.unsqueeze(0)
        noise = (transport.class_weights(found) * both).sum(dim=-1) / d
    return Measured(square.sqrt(), (chance + noise).sqrt(), noise.sqrt())


def class_counts(roster: Roster, hosts: Tensor, groups: int) -> Tensor:
    """[host, class] training rows of each class, where all tell; else as if there were as many of each."""
    labels = [roster.members[i].labels for i in hosts.tolist()]
    if groups > 1 and all(some is not None for some in labels):
        return torch.tensor([some[0] for some in labels if some is not None]).double()
    return (roster.sizes[hosts].double() / groups).unsqueeze(1).expand(-1, groups)


def drowned(found: Measured) -> Tensor:
    """[site] whether noise alone makes half or more of its distances, by their median."""
    return (found.noise / found.distance).nanmedian(dim=1).values >= DROWNED


def sketch_told(replies: Replies, kernel: Quantiles, roster: Roster) -> dict[str, list[list[float]]]:
    """{site: [column, level]}, as it left."""
    found = replies.numbers["quantiles"].reshape(len(replies), kernel.columns, len(LEVELS))
    names = [roster.names[i] for i in replies.hosts.tolist()]
    rounded = [[[float(f"{v:.6g}") for v in column] for column in one] for one in found.tolist()]
    return dict(zip(names, rounded, strict=True))
