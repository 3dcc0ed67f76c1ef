"""Columns out of step with their rows: shuffled, shifted or sorted by themselves, so that values stand beside
other patients.

A shuffled column keeps its values and loses its company. With z_j = artanh of its rank correlation with
column j (the target is one of them) and n_j rows that have both, the company it keeps is T = Σ_j n_j z_j². It
is out of step where T is no larger than in 95 of 100 shuffles of the column, though with the other sites' z_j
it would be: their λ = Σ_j n_j z̄_j² lies three deviations above that. All sites' rows must be at hand.

What cannot be found: a column that keeps no company anywhere; a few rows that were swapped; and whole rows in
another order, which does no harm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from coterie.core.seeds import Key
from coterie.data.quality.check import Check, Finding, register
from coterie.data.quality.site_rows import SiteRows
from coterie.show.words import said

SHUFFLES = 199
QUANTILE = 0.95
SURE = 3.0
FEWEST, MOST = 40, 5_000  # rows of a site
MUCH = 10.8  # for each column: beyond it one chi-squared lies once in a thousand times
CLOSEST = 0.999  # correlations beyond it count as that


class _Company(NamedTuple):
    """Of a site, [column, column] with the target last: artanh of rank correlations, and rows behind them.

    even [column] is the deviation of ranks as a share of the rows: a class that is rare, or values that are
    mostly the same, leave little to go with, and correlations are smaller in that proportion.
    """

    z: np.ndarray
    rows: np.ndarray
    even: np.ndarray


def across(sites: Sequence[SiteRows], seed: int = 0) -> list[Finding]:
    large = [thinned(rows, seed) for rows in sites if len(rows) >= FEWEST]
    kept = [_company_of(rows) for rows in large]
    found = list[Finding]()
    for i, rows in enumerate(large):
        others = [c for k, c in enumerate(kept) if k != i]
        if not others:
            continue
        # the others' median z, less where columns vary less here
        usual, even = np.median([c.z for c in others], axis=0), np.median([c.even for c in others], axis=0)
        less = np.divide(kept[i].even, even, out=np.zeros_like(even), where=even > 0).clip(max=1.0)
        usual = usual * less[:, None] * less[None, :]
        ranked = ranks(rows)
        for c in range(ranked.shape[1]):
            draws = Key(seed).at("quality-order", i, c).numpy()
            if _out_of_step(ranked, c, kept[i], usual, draws):
                name = rows.columns[c].name if c < len(rows.columns) else ""
                says = said("check.order.column", column=name) if name else said("check.order.target")
                words = "no relation", "as elsewhere", says, said("check.order.remedy")
                found.append(Finding(rows.site, name, "order", "look", None, None, *words))
    return found


def thinned(rows: SiteRows, seed: int) -> SiteRows:
    """At most so many rows, drawn: more of them only take longer."""
    if len(rows) <= MOST:
        return rows
    kept = np.sort(Key(seed).at("quality-thinned", len(rows)).numpy().permutation(len(rows))[:MOST])
    return replace(rows, raw=rows.raw[kept], y=rows.y[kept], lines=rows.lines[kept])


def ranks(rows: SiteRows) -> np.ndarray:
    """[row, column] centred ranks, the target last, 0 where unknown; categories and several classes, whose
    order means nothing, are 0 everywhere.
    """
    from scipy.stats import rankdata

    ordered = [c.of.ranked for c in rows.columns]
    ordered.append(rows.task == "regression" or len(np.unique(rows.y)) == 2)
    table = np.column_stack([rows.raw, np.asarray(rows.y, dtype=np.float64)])
    made = np.zeros_like(table)
    for i, use in enumerate(ordered):
        known = ~np.isnan(table[:, i])
        if use and known.sum() > 2:
            made[known, i] = rankdata(table[known, i]) - (known.sum() + 1) / 2
    return made


def _company_of(rows: SiteRows) -> _Company:
    ranked = ranks(rows)
    known = (ranked != 0).astype(float)
    many = np.maximum(known.sum(axis=0), 1)
    even = np.sqrt((ranked**2).sum(axis=0) / many) / many
    return _Company(_artanh(correlations(ranked, ranked)), np.asarray(known.T @ known), even)


def correlations(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[column of a, column of b], over rows that know both; 0 where one does not vary."""
    known_a, known_b = (a != 0).astype(float), (b != 0).astype(float)
    both = np.sqrt(((a**2).T @ known_b) * (known_a.T @ (b**2)))
    return np.asarray(np.divide(a.T @ b, both, out=np.zeros_like(both), where=both > 0))


def _artanh(r: np.ndarray) -> np.ndarray:
    return np.asarray(np.arctanh(np.clip(r, -CLOSEST, CLOSEST)))


def _out_of_step(
    ranked: np.ndarray, c: int, own: _Company, usual: np.ndarray, draws: np.random.Generator
) -> bool:
    others = [j for j in range(ranked.shape[1]) if j != c]
    n = own.rows[c, others]
    expected = float((n * usual[c, others] ** 2).sum())
    known, own_company = np.flatnonzero(ranked[:, c]), float((n * own.z[c, others] ** 2).sum())
    # shuffles are slow, and most columns are plain without: too little expected to be sure, or far more
    # company than even columns that are all the same would have by chance
    plain = expected < (2 * SURE) ** 2 or own_company > MUCH * len(others)
    if len(known) < FEWEST or plain:
        return False
    shuffled = np.zeros((len(ranked), SHUFFLES))
    for k in range(SHUFFLES):
        shuffled[known, k] = draws.permutation(ranked[known, c])
    chance = (n * _artanh(correlations(shuffled, ranked[:, others])) ** 2).sum(axis=1)
    bound, mean, deviation = float(np.quantile(chance, QUANTILE)), float(chance.mean()), float(chance.std())
    # of a non-central sum of squares; how far it scatters more than 2 J, as columns go together
    scatter = deviation**2 / max(2 * len(others), 1)
    sure = mean + expected - SURE * math.sqrt(deviation**2 + 4 * expected * max(scatter, 1.0)) > bound
    return sure and own_company <= bound


register(Check(name="order", place=80, with_rows=across))
