"""Sketches of a client's training rows: a few numbers by which sites can be compared before anything trains.

    quantiles   of each column the 5 %, 10 %, ..., 95 % quantiles: 19 numbers
    moments     of each class the mean and the covariance of all columns

Columns are the inputs of the model, in whatever scale the sites agreed on. A picture has a column for each
tile of a 4 x 4 grid and channel, which is the tile's mean: where there is light and dark, not what is drawn.
Other inputs than tables and pictures are laid out flat.

For a regression there are no classes: the target is one more column of the moments, behind the inputs, so
that they tell how the two go together. A class with fewer than `least` rows is not told of at all, as the
mean of one row is that row.

With noise (`sigma` > 0) both are made of sums in which one row counts for a bounded amount (Dwork and Roth
2014, appendix A), and noise of σ times that amount is added; a data set with one row more or less is a
neighbour, and the number of rows is public.

    quantiles   counts in BINS bins from -reach to reach, of each of d columns: a row changes d counts by 1,
                √d in norm. The noisy counts are added up, and quantiles are read off
    moments     of each class (1, Σ x̃, Σ x̃²), x̃ = x min(1, R/|x|) / R with R = bound √d: a row changes each
                of the three by 1 at most, √3 in norm. Variances alone, as the noise of d² covariances would
                drown them; and inputs alone, as a target has no scale that all agreed on

The noise of a visit is its key's own; a site of its own puts a secret in the place of that key
(`federation/site/budget.py`), and charges its ledger.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from coterie.core.contract import Charge, Key, Part, Task
from coterie.core.errors import BadInput
from coterie.core.kernel import KERNELS

LEVELS = torch.arange(1, 20, dtype=torch.float64) / 20  # 5 %, 10 %, ..., 95 %
BINS = 16
GRID = 4  # tiles of a picture in each direction
DRAWS = 64  # by which the effect of noise is foreseen
SENSITIVITY = math.sqrt(3)  # of one class's (count, sum, sum of squares)


@KERNELS.register("quantiles")
@dataclass(frozen=True)
class Quantiles:
    """19 quantiles of each column."""

    columns: int = 1
    """How many columns an input has."""
    sigma: float = 0.0
    """Noise, in units of what one row can change; 0 adds none."""
    reach: float = 4.0
    """With noise, values are counted between minus this and this, and those beyond at the ends."""

    part: ClassVar[Part] = "train"

    def __post_init__(self) -> None:
        _check_noise("quantiles", self.sigma, reach=self.reach)

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"quantiles": self.columns * len(LEVELS)}

    def charges(self, samples: int) -> tuple[Charge, ...] | None:
        return (Charge(self.sigma),) if self.sigma else None

    def look(self, task: Task, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        table = columns_of(x, self.columns)
        if self.sigma:
            return {"counts": counts_of(table, self.reach).flatten()}
        return {"quantiles": quantiles_of(table).flatten()}

    def tell(
        self, figures: Mapping[str, Tensor], hosts: Sequence[int], keys: Sequence[Key]
    ) -> dict[str, Tensor]:
        """Quantiles [edge, column by level]; where there is noise, read off counts with each edge's own."""
        if not self.sigma:
            return dict(figures)
        counts = figures["counts"].reshape(len(keys), self.columns, BINS)
        noisy = counts + self.sigma * math.sqrt(self.columns) * _noise_like(counts, keys)
        return {"quantiles": read_off(noisy, self.reach).flatten(1)}


@KERNELS.register("moments")
@dataclass(frozen=True)
class Moments:
    """Mean and covariance of the columns, class by class; with noise, mean and variances."""

    columns: int = 1
    """How many columns an input has."""
    classes: int = 0
    """How many classes there are; 0 takes all rows together, with the target as one more column."""
    least: int = 5
    """A class with fewer rows is not told of."""
    sigma: float = 0.0
    """Noise, in units of what one row can change; 0 adds none."""
    bound: float = 1.5
    """With noise, rows longer than this times √columns are drawn in to that length."""

    part: ClassVar[Part] = "train"

    def __post_init__(self) -> None:
        _check_noise("moments", self.sigma, bound=self.bound)
        if self.least < 2:
            raise BadInput(f"moments: least={self.least} must be at least 2, or it tells single rows: try 5")

    @property
    def wide(self) -> int:
        """Columns of the moments, a target among them."""
        return self.columns + (not self.classes and not self.sigma)

    @property
    def sizes(self) -> Mapping[str, int]:
        groups, d = max(1, self.classes), self.wide
        spread = d if self.sigma else d * (d + 1) // 2
        return {"means": groups * d, "covariances": groups * spread, "there": groups}

    def charges(self, samples: int) -> tuple[Charge, ...] | None:
        return (Charge(self.sigma),) if self.sigma else None

    def look(self, task: Task, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        table = columns_of(x, self.columns)
        if self.classes:
            groups = [table[y == c] for c in range(self.classes)]
        elif self.sigma:
            groups = [table]
        else:
            groups = [torch.cat([table, y.double().reshape(len(y), -1)[:, :1]], dim=1)]
        if self.sigma:
            return {"sums": torch.stack([sums_of(rows, self.radius) for rows in groups]).flatten()}
        told = [moments_of(rows, self.least) for rows in groups]
        names = ("means", "covariances", "there")
        return {n: torch.cat(parts) for n, parts in zip(names, zip(*told, strict=True), strict=True)}

    def tell(
        self, figures: Mapping[str, Tensor], hosts: Sequence[int], keys: Sequence[Key]
    ) -> dict[str, Tensor]:
        """Means, spreads and which classes there are [edge, ...], of sums with noise where there is any."""
        if not self.sigma:
            return dict(figures)
        sums = figures["sums"].reshape(len(keys), max(1, self.classes), 1 + 2 * self.columns)
        noisy = sums + self.sigma * SENSITIVITY * _noise_like(sums, keys)
        count = noisy[..., :1]
        there = (count >= self.least).double()
        mean, square = (noisy[..., 1:] / count.clamp(min=1)).tensor_split(2, dim=-1)
        variance = (square - mean**2).clamp(min=0)
        told = (self.radius * mean * there, self.radius**2 * variance * there, there)
        return {n: t.flatten(1) for n, t in zip(("means", "covariances", "there"), told, strict=True)}

    @property
    def radius(self) -> float:
        """R"""
        return self.bound * math.sqrt(self.columns)


def _check_noise(name: str, sigma: float, **positive: float) -> None:
    if not 0 <= sigma < math.inf:
        raise BadInput(f"{name}: sigma={sigma} must be at least 0 and finite: try 2, or 0 for no noise")
    for option, value in positive.items():
        if not 0 < value < math.inf:
            raise BadInput(f"{name}: {option}={value} must lie above 0 and be finite: try 4")


def column_count(shape: Sequence[int]) -> int:
    """How many columns an input of this shape has."""
    if len(shape) == 3:
        return int(shape[0] * min(GRID, shape[1]) * min(GRID, shape[2]))
    return math.prod(shape)


def column_names(shape: Sequence[int], features: Sequence[str]) -> list[str]:
    """What columns are called: as the table's, or by place."""
    if len(shape) == 3:
        channels, rows, across = shape[0], min(GRID, shape[1]), min(GRID, shape[2])
        places = [f"tile {i + 1}, {j + 1}" for i in range(rows) for j in range(across)]
        return (
            places if channels == 1 else [f"{p} of channel {c + 1}" for c in range(channels) for p in places]
        )
    count = column_count(shape)
    return list(features) if len(features) == count else [f"column {i + 1}" for i in range(count)]


def columns_of(x: Tensor, columns: int) -> Tensor:
    """Inputs as a table [row, column]; refused where it has another width than was asked for."""
    table = x.double()
    if x.dim() == 4:
        table = F.adaptive_avg_pool2d(table, (min(GRID, x.shape[2]), min(GRID, x.shape[3])))
    table = table.reshape(len(x), -1).clone()
    if table.shape[1] != columns:
        raise BadInput(f"{table.shape[1]} columns here, asked for {columns}: is it another table?")
    return table


def quantiles_of(table: Tensor) -> Tensor:
    """[column, level], between neighbouring values by a straight line."""
    ordered = table.sort(dim=0).values
    place = LEVELS * (len(table) - 1)
    low = place.floor().long()
    high = place.ceil().long()
    return torch.lerp(ordered[low].T, ordered[high].T, place - low)


def counts_of(table: Tensor, reach: float) -> Tensor:
    """[column, bin] how many values lie in each bin."""
    bins = ((table + reach) / (2 * reach) * BINS).floor().clamp(0, BINS - 1).long()
    return F.one_hot(bins, BINS).sum(dim=0).double()


def read_off(counts: Tensor, reach: float) -> Tensor:
    """Quantiles [..., level] of counts [..., bin] that may have noise: below 0 counts as 0, and values lie
    evenly within their bin. Where nothing is left, they lie evenly in all.
    """
    kept = counts.clamp(min=0)
    kept = torch.where(kept.sum(dim=-1, keepdim=True) > 0, kept, torch.ones_like(kept))
    total = kept.cumsum(dim=-1)
    wanted = (LEVELS * total[..., -1:]).contiguous()
    found = torch.searchsorted(total, wanted).clamp(max=BINS - 1)
    inside = kept.gather(-1, found).clamp(min=torch.finfo(kept.dtype).tiny)
    part = 1 - (total.gather(-1, found) - wanted) / inside
    return (found + part.clamp(0, 1)) * (2 * reach / BINS) - reach


def moments_of(rows: Tensor, least: int) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, upper triangle of the covariance, and whether there are enough rows to tell them."""
    d = rows.shape[1]
    if len(rows) < least:
        return rows.new_zeros(d), rows.new_zeros(d * (d + 1) // 2), rows.new_zeros(1)
    mean = rows.mean(dim=0)
    apart = rows - mean
    covariance = apart.T @ apart / (len(rows) - 1)
    upper = torch.triu_indices(d, d)
    return mean, covariance[upper[0], upper[1]], rows.new_ones(1)


def sums_of(rows: Tensor, radius: float) -> Tensor:
    """(count, Σ x̃, Σ x̃²) of rows that are drawn in to length 1."""
    length = rows.norm(dim=1, keepdim=True)
    short = rows / length.clamp(min=radius)
    return torch.cat([rows.new_tensor([len(rows)]), short.sum(dim=0), (short**2).sum(dim=0)])


def _noise_like(figures: Tensor, keys: Sequence[Key]) -> Tensor:
    """Standard normal numbers in the shape of figures [edge, ...], each edge's from its own key."""
    drawn = [
        torch.randn(one.shape, generator=key.at("noise").torch(), dtype=torch.float64)
        for one, key in zip(figures, keys, strict=True)
    ]
    return torch.stack(drawn)


def noise_in_quantiles(quantiles: Tensor, rows: int, sigma: float, reach: float) -> Tensor:
    """The variance [column, level] that noise adds to quantiles [column, level] of so many rows, from DRAWS
    sets of counts that would have them.
    """
    if not sigma:
        return torch.zeros_like(quantiles)
    columns, ends = len(quantiles), torch.linspace(-reach, reach, BINS + 1, dtype=torch.float64)
    below = (quantiles.unsqueeze(-1) <= ends).double().sum(dim=1) / (len(LEVELS) + 1)
    below[:, 0], below[:, -1] = 0, 1
    counts = rows * below.diff(dim=-1)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(DRAWS, columns, BINS, generator=generator, dtype=torch.float64)
    return read_off(counts + sigma * math.sqrt(columns) * noise, reach).var(dim=0)


def noise_in_moments(columns: int, counts: Tensor, variances: Tensor, kernel: Moments) -> Tensor:
    """What noise is expected to add to W² of a class [...], with so many rows [...] and the variances
    [column] that classes have: |error of the mean|², and (√(v + error) - √v)² ≈ error² / 4v of each variance.
    """
    error = (kernel.sigma * SENSITIVITY / counts.clamp(min=1)) ** 2
    mean = columns * kernel.radius**2 * error
    spread = kernel.radius**4 * error * (1 / (4 * variances.clamp(min=0.05))).sum()
    return mean + spread


def unfolded(upper: Tensor, d: int) -> Tensor:
    """Covariances [..., d, d] from upper triangles; from variances alone where there are only d."""
    if upper.shape[-1] == d and d > 1:
        return torch.diag_embed(upper)
    rows, columns = torch.triu_indices(d, d)
    whole = upper.new_zeros(*upper.shape[:-1], d, d)
    whole[..., rows, columns] = upper
    whole[..., columns, rows] = upper
    return whole
