"""Attackers who have scores of a site's rows, and what noise does to these: see `membership.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr
from sklearn.covariance import ledoit_wolf_shrinkage

from coterie.core.kernel import Scorer
from coterie.core.seeds import Key
from coterie.kernels.noisy import Noisy
from coterie.kernels.score import Score

SCORE = Score("train", ("loss", "accuracy"))
CLEAR = 1e-7  # what rounding to float32 leaves uncertain in a mean of losses


@dataclass(frozen=True)
class Told:
    """How figures leave a site: as they are, or with noise of the kernel `noisy`."""

    sigma: float = 0.0
    bound: float = Noisy.bound

    @property
    def kernel(self) -> Scorer:
        return Noisy(SCORE, self.bound, self.sigma) if self.sigma else SCORE

    def cut(self, figures: np.ndarray) -> np.ndarray:
        """Figures [..., 2] of single rows as they enter a mean."""
        return np.minimum(figures, [self.bound, np.inf]) if self.sigma else figures

    def most(self, numbers: int) -> np.ndarray:
        return np.tile([self.bound, 1.0], numbers // 2)

    def deviation(self, numbers: int, rows: int) -> np.ndarray:
        return self.sigma * self.most(numbers) / rows + CLEAR

    def moments(self, means: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of figures whose true means are these: expectation, its slope, variance."""
        s = self.deviation(len(means), rows)
        if not self.sigma:
            return means, np.ones_like(means), s**2
        most = self.most(len(means))
        a, b = -means / s, (most - means) / s
        low, high = (np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi) for t in (a, b))
        slope, above = ndtr(b) - ndtr(a), ndtr(-b)
        first = means * slope + s * (low - high) + most * above
        second = means**2 * slope + 2 * means * s * (low - high)
        second += s**2 * (slope + a * low - b * high) + most**2 * above
        return first, slope, second - first**2

    def log_ratio(self, told: np.ndarray, one: np.ndarray, other: np.ndarray, rows: int) -> np.ndarray:
        """[..., number] of the likelihoods of what was told, by means `one` and by means `other`."""
        s, most = self.deviation(len(told), rows), self.most(len(told))

        def likelihood(means: np.ndarray) -> np.ndarray:
            found = -(((told - means) / s) ** 2) / 2
            if self.sigma:
                for at, side in ((told <= 0, -means), (told >= most, means - most)):
                    found[..., at] = log_ndtr((side / s)[..., at])
            return np.asarray(found)

        return np.asarray(likelihood(one) - likelihood(other))


# attackers: [draw, target], above 0 where they say in


class Game(NamedTuple):
    """Rows by number: a list of people, targets first; who of them is in, by draw; rows of others."""

    people: np.ndarray
    inside: np.ndarray
    reference: np.ndarray
    rows: int

    @property
    def sites(self) -> list[np.ndarray]:
        return [self.people[who] for who in self.inside]


def games(total: int, targets: int, lists: int, draws: int, rng: np.random.Generator) -> list[Game]:
    """A third of the rows is at the site, a third on the list besides, a third known to the attacker."""
    n, order, found = total // 3, rng.permutation(total), []
    for _ in range(lists):
        rest = rng.permutation(order[targets:])
        people = np.concatenate([order[:targets], rest[: 2 * n - targets]])
        inside = np.array([rng.permutation(2 * n) < n for _ in range(draws)])
        found.append(Game(people, inside, rest[2 * n - targets :], n))
    return found


def flat(figures: np.ndarray, answers: int) -> np.ndarray:
    """The first so many answers as one axis of numbers."""
    return figures[:, :answers].reshape(len(figures), -1)


def knows_others(
    told: Told, game: Game, heard: np.ndarray, rows: np.ndarray, targets: int, grid: Sequence[int], key: Key
) -> np.ndarray:
    """[grid, draw, target]; whoever is there in the place of a target, or would be, is drawn by chance."""
    rng, own = key.numpy(), flat(rows, grid[-1])[game.people]
    out = np.empty((len(grid), len(heard), targets))
    for i, (a, who) in enumerate(zip(flat(heard, grid[-1]), game.inside, strict=True)):
        partner = np.where(
            who[:targets], rng.choice(np.flatnonzero(~who), targets), rng.choice(np.flatnonzero(who), targets)
        )
        here = own[who].mean(axis=0)
        change = (own[:targets] - own[partner]) / game.rows * np.where(who[:targets], -1, 1)[:, None]
        ratio = (
            told.log_ratio(a, here[None], here + change, game.rows) * np.where(who[:targets], 1, -1)[:, None]
        )
        out[:, i] = ratio.cumsum(axis=1)[:, [2 * k - 1 for k in grid]].T
    return out


def knows_list(told: Told, game: Game, heard: np.ndarray, rows: np.ndarray, targets: int) -> np.ndarray:
    """Best linear estimate of who is in, where each is with chance 1/2 and n are."""
    own = rows[game.people]
    first, slope, variance = told.moments(own.mean(axis=0), game.rows)
    weights = ((own - own.mean(axis=0)) * slope / game.rows / np.sqrt(variance)).T
    u, d, v = np.linalg.svd(weights, full_matrices=False)
    return np.asarray((heard - first) / np.sqrt(variance) @ u * (d / (d**2 + 4)) @ v)[:, :targets]


def knows_population(told: Told, game: Game, heard: np.ndarray, rows: np.ndarray, targets: int) -> np.ndarray:
    """(a - m)' C⁻¹ (z - m) of answers a, with mean m and covariance C of the reference rows.

    On average this is higher with z in; where the line is drawn is for `hindsight`.
    """
    known, many = rows[game.reference], len(game.reference)
    mean, scale = known.mean(axis=0), np.maximum(known.std(axis=0), 1 / many)
    first, slope, variance = told.moments(mean, game.rows)
    alone = (known - mean) / scale
    shrunk, spread = ledoit_wolf_shrinkage(alone, assume_centered=True), 1 / game.rows + 1 / many
    diagonal = spread * shrunk * slope**2 + variance / scale**2
    low = alone * slope * math.sqrt(spread * (1 - shrunk) / many)
    shift = (rows[game.people[:targets]] - mean) / scale * slope
    inner = np.eye(many) + low / diagonal @ low.T
    by = shift / diagonal - np.linalg.solve(inner, low / diagonal @ shift.T).T @ low / diagonal
    return np.asarray((heard - first) / scale @ by.T)


def hindsight(found: np.ndarray, true: np.ndarray) -> np.ndarray:
    """[draw, target] less the threshold by which, for this target, the larger of both errors is smallest: no
    attacker could know it, so that this flatters.
    """
    out = found.copy()
    for j, (column, inside) in enumerate(zip(found.T, true.T, strict=True)):
        marks = np.sort(column)
        missed = np.searchsorted(np.sort(column[inside]), marks, side="right") / inside.sum()
        taken = 1 - np.searchsorted(np.sort(column[~inside]), marks, side="right") / (~inside).sum()
        out[:, j] -= marks[np.maximum(missed, taken).argmin()]
    return out
