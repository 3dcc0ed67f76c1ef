"""How alike the sites of a run are, read from its record: measures by pair, and column by column.

The method `similar` writes down matrices [site, other] and the quantiles that left the sites; everything that
tables and figures show is worked out from these, so that a folder tells it again at any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from coterie.core.errors import BadData, BadInput, BadRun
from coterie.data.tabular import SCALED
from coterie.methods.ranking.sketched import (
    CHANCE,
    DISTANCES,
    NDOYE,
    NOISE,
    SIZE,
    SKETCHES,
    quantile_variance,
)
from coterie.metrics import alike

if TYPE_CHECKING:
    import pandas as pd

    from coterie.runs.record import Record

MEASURES = {"quantiles": DISTANCES["quantiles"], "transport": DISTANCES["transport"], "ndoye": NDOYE}
SIZES = "size"
FILLED = "missing values filled"  # how notes on data begin that tell of it


@dataclass(frozen=True, eq=False)
class Similarity:
    """What sketches say of sites before training.

    sites, rows     names, and numbers of training rows
    columns         names of what was sketched
    measures        by name [site, other]: quantiles and transport in deviations, ndoye as a loss; NaN for
                    oneself and where nothing is known
    chance, noise   of the first two: what a distance would be by chance (noise included), and by noise alone
    quantiles       [site, column, level], NaN for a site that did not answer; None if they were not asked for
    apart           terms and expected, where a site was told how far its own columns lie from others', and
                    not their quantiles
    epsilon, delta  of the sketches' noise; 0: there is none
    sigma, reach    that noise, and between which values counts were made
    drowned         by measure, sites of whose distances noise alone makes half or more
    own_scales      whether each site scales its columns by its own rows, which hides shifts
    fitted          whether figures of the rows, in scales or in the place of gaps, went into the inputs
    """

    sites: list[str]
    rows: np.ndarray
    columns: list[str]
    measures: Mapping[str, np.ndarray]
    chance: Mapping[str, np.ndarray]
    noise: Mapping[str, np.ndarray]
    quantiles: np.ndarray | None
    epsilon: float
    delta: float
    sigma: float
    reach: float
    drowned: Mapping[str, list[str]]
    own_scales: bool
    fitted: bool
    requester: str
    apart: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def terms(self) -> np.ndarray:
        """[site, other, column] by how many deviations a column differs; without a column if there are no
        quantiles.
        """
        return self._by_column[0]

    @property
    def expected(self) -> np.ndarray:
        """[site, other, column] what that would be between two samples of the same rows, noise included."""
        return self._by_column[1]

    @cached_property
    def _by_column(self) -> tuple[np.ndarray, np.ndarray]:
        n = len(self.sites)
        if self.apart is not None:
            return self.apart
        if self.quantiles is None:
            return np.zeros((n, n, 0)), np.zeros((n, n, 0))
        here = np.flatnonzero(np.isfinite(self.quantiles).all(axis=(1, 2)))
        found, sizes = torch.as_tensor(self.quantiles[here]), torch.as_tensor(self.rows[here])
        deviation = alike.pooled_deviation(found, sizes)
        variance, _ = quantile_variance(found, sizes, self.sigma, self.reach)
        chance = alike.by_chance(variance, deviation)
        terms, expected = (np.full((n, n, len(self.columns)), np.nan) for _ in range(2))
        terms[np.ix_(here, here)] = alike.column_terms(found, deviation).numpy()
        expected[np.ix_(here, here)] = chance.numpy()
        return terms, expected

    def asking(self) -> list[int]:
        """The numbers of the sites that want to know."""
        return [i for i, name in enumerate(self.sites) if self.requester in ("all", name)]

    def apart_from(self, site: int) -> dict[str, dict[str, list[float]]]:
        """How far each column of one site that asks lies from those of each other that answered, and what
        chance would make of it, to three digits: what it is told of others' sketches.
        """
        known = [j for j in range(len(self.sites)) if np.isfinite(self.terms[site, j]).all() and j != site]
        if site not in self.asking() or not self.terms.shape[2]:
            return {}
        return {
            name: {self.sites[j]: [float(f"{v:.3g}") for v in matrix[site, j]] for j in known}
            for name, matrix in (("differs", self.terms), ("by_chance", self.expected))
        }

    def pairs(self) -> pd.DataFrame:
        """A row for each site that asks and each other: every measure, what chance would make of it, and the
        other's rows.
        """
        import pandas as pd  # only here: it takes a while to import

        found: list[dict[str, Any]] = []
        for i in self.asking():
            for j in (j for j in range(len(self.sites)) if j != i):
                row: dict[str, Any] = {"site": self.sites[i], "other": self.sites[j]}
                for name, matrix in self.measures.items():
                    row[MEASURES[name]] = matrix[i, j]
                    if name in self.chance:
                        row[CHANCE.format(MEASURES[name])] = self.chance[name][i, j]
                found.append({**row, SIZE: int(self.rows[j])})
        return pd.DataFrame(found)

    def drift(self) -> pd.DataFrame:
        """A row for each pair and column, those that differ most first: site, other, column, difference (in
        deviations), by_chance.
        """
        import pandas as pd  # only here: it takes a while to import

        found = [
            (self.sites[i], self.sites[j], self.columns[c], self.terms[i, j, c], self.expected[i, j, c])
            for i in self.asking()
            for j in range(len(self.sites))
            if j != i and (self.requester != "all" or i < j)
            for c in np.argsort(-self.terms[i, j], kind="stable").tolist()
        ]
        return pd.DataFrame(found, columns=["site", "other", "column", "difference", "by_chance"])


def similarity_of(record: Record) -> Similarity | None:
    """Of a run that measured anything beside sizes; None of any other, and before it did."""
    told = next(
        (m["extras"]["similar"] for m in record.metrics if "similar" in (m.get("extras") or {})), None
    )
    if told is None:
        return None
    try:
        return _similarity(record, told)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadRun(f"what {record.label} says of sketches is damaged ({error}): measure again") from None


def _similarity(record: Record, told: Mapping[str, Any]) -> Similarity | None:
    last = {name: np.asarray(by_round[max(by_round)]) for name, by_round in record.matrices.items()}
    measures = {name: last[label] for name, label in MEASURES.items() if label in last}
    if not measures:
        return None
    clients = record.about["clients"]
    sites, columns = [c["name"] for c in clients], list(told["columns"])
    quantiles = None
    if "quantiles" in told:
        quantiles = np.full((len(sites), len(columns), 19), np.nan)
        for name, values in told["quantiles"].items():
            quantiles[sites.index(name)] = values
    apart = None
    if "apart" in told:  # the inverse of `apart_from`, as [site, other, column]
        terms, expected = (np.full((len(sites), len(sites), len(columns)), np.nan) for _ in range(2))
        me = sites.index(record.about["site"])
        for name, matrix in (("differs", terms), ("by_chance", expected)):
            for other, values in told["apart"][name].items():
                matrix[me, sites.index(other)] = values
        apart = terms, expected
    options, notes = record.config.get("similar", {}), [note for c in clients for note in c["notes"]]
    sketched = {name: label for name, label in DISTANCES.items() if label in last}
    return Similarity(
        sites=sites,
        rows=np.array([c["train"] for c in clients]),
        columns=columns,
        measures=measures,
        chance={name: last[CHANCE.format(label)] for name, label in sketched.items()},
        noise={n: last[NOISE.format(x)] for n, x in sketched.items() if NOISE.format(x) in last},
        quantiles=quantiles,
        epsilon=float(told.get("epsilon", 0.0)),
        delta=float(told.get("delta", 0.0)),
        sigma=float(told.get("sigma", 0.0)),
        reach=float(options.get("reach", 4.0)),
        drowned=told.get("drowned", {}),
        own_scales=any(note.startswith(SCALED["site"]) for note in notes),
        fitted=any(note.startswith((SCALED["site"], SCALED["shared"], FILLED)) for note in notes),
        requester=str(record.about.get("site") or options.get("requester", "all")),
        apart=apart,
    )


def options_for(measures: Sequence[str] | None, epsilon: float, delta: float) -> dict[str, Any]:
    """Options of the method; without measures, all that go with the noise."""
    if measures is not None and not measures:
        raise BadInput(f"measures=() measures nothing: name some of {', '.join(MEASURES)}")
    asked = tuple(measures) if measures is not None else (SKETCHES if epsilon else tuple(MEASURES))
    by = next((name for name in SKETCHES if name in asked), "size")
    return {"by": by, "also": asked, "train": False, "epsilon": epsilon, "delta": delta}


def refuse_unknown(record: Record) -> None:
    """A look that compares nobody with anybody is none, though their sizes are known."""
    found = similarity_of(record)
    if found is None or not any(np.isfinite(m).any() for m in found.measures.values()):
        away = record.metrics[-1].get("away") or {}
        said = "; ".join(f"{name}: {text}" for name, text in away.items())
        why = said or "fewer than two answered, or had enough rows of any class"
        raise BadData(f"no two sites could be compared ({why}): ask for less, or when they are there")


VIEWS = {"similarity": similarity_of}
