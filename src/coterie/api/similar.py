"""How alike sites are, from Python, before anything is trained."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from coterie.api import checks
from coterie.api.checks import split_settings
from coterie.api.train import asked_for
from coterie.core.checks import FILE, NUMBER, SEED, TEXT, checked, list_of, or_none
from coterie.core.client import Client
from coterie.core.errors import CoterieWarning
from coterie.engines.threads import narrow
from coterie.features.ranking.ranking import rank
from coterie.features.similarity.record import Similarity, options_for, refuse_unknown, similarity_of
from coterie.features.similarity.shown import sentences, write_page
from coterie.features.similarity.shown import warnings as cautions
from coterie.report.summary import lines_html
from coterie.runs.builder import Builder, Handed
from coterie.runs.folder import refuse_full
from coterie.runs.loop import run
from coterie.runs.record import Record
from coterie.storage.paths import given_file, given_folder

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Similar:
    """What sketches say of sites. `found` has the matrices; the frames here are for reading."""

    record: Record
    found: Similarity

    def __repr__(self) -> str:
        measured = ", ".join(self.found.measures)
        first = sentences(self.found)[:1]
        return f"Similar({len(self.found.sites)} sites, by {measured}: {' '.join(first)})"

    def _repr_html_(self) -> str:
        return lines_html("Similar", self.sentences)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """A row for each site that asks and each other: every measure, what chance would make of it, and the
        other's rows.
        """
        return self.found.pairs()

    @cached_property
    def columns(self) -> pd.DataFrame:
        """A row for each pair and column, those that differ most first: site, other, column, difference (in
        deviations), by_chance.
        """
        return self.found.drift()

    @property
    def matrices(self) -> dict[str, np.ndarray]:
        """By measure: [site, other], NaN for oneself and where nothing is known."""
        return dict(self.found.measures)

    @property
    def sentences(self) -> list[str]:
        """Who is near to whom, and in what they differ."""
        return sentences(self.found)

    @property
    def notes(self) -> list[str]:
        """What to know before trusting a distance."""
        return cautions(self.found)

    @checked(path=FILE)
    def report(self, path: str | Path) -> Path:
        """Writes one HTML page that opens offline."""
        target = given_file(str(path), "path")
        write_page(target, self.record)
        return target


@checked(
    clients=checks.CLIENTS,
    model=or_none(checks.MODEL),
    requester=TEXT,
    measures=or_none(list_of("measures", TEXT.fits, "['quantiles', 'transport']")),
    epsilon=NUMBER,
    delta=NUMBER,
    seed=SEED,
    **{name: checks.RUN[name] for name in ("net", "wrap", "out")},
)
@narrow()
def similar(
    clients: Sequence[Client],
    *,
    requester: str = "all",
    measures: Sequence[str] | None = None,
    epsilon: float = 0.0,
    delta: float = 1e-5,
    model: nn.Module | str | None = None,
    seed: int = 0,
    net: str = "in-process",
    wrap: Sequence[str] = (),
    out: str | Path | None = None,
    **options: Any,
) -> Similar:
    """Compares the training rows of sites, two by two, by a few numbers of each; nothing is trained together.

    clients     at least two, with the same columns and classes
    requester   the site that wants to know, or all
    measures    of quantiles (19 numbers a column), transport (mean and covariance of each class) and ndoye
                (models are trained alone and exchanged); by default all, without ndoye where there is noise
    epsilon     differential privacy of the sketches, with `delta`; 0 adds no noise
    model       what ndoye trains; by default a logistic or linear regression
    out         a folder to write the run into

    Further keywords are options of the method `similar` and of ndoye's local work (lr, epochs, batch, ...).
    """
    if model is None:
        model = "linear" if clients and clients[0].task == "regression" else "logistic"
    mine = {**options, **options_for(measures, epsilon, delta), "requester": requester}
    path = None if out is None else given_folder(str(out), "out")
    handed = Handed(model, clients, tested=False)
    given = {"rounds": 1, "seed": seed, "one_class": "allow", "net": net, "wrap": tuple(wrap)}
    settings, way = asked_for(handed, split_settings(given, "similar")[0], "similar", None, mine)
    experiment = Builder(handed).prepare(settings, method=way)
    if path is not None:  # the one round that measures, in a folder; one that fails leaves none behind
        refuse_full(path)
        record = rank(experiment, path, check=refuse_unknown)
    else:
        try:
            record = run(experiment, None, "similar").record
        finally:
            experiment.net.close()
        refuse_unknown(record)
    found = similarity_of(record)
    assert found is not None
    for said in cautions(found):
        warnings.warn(said, CoterieWarning, stacklevel=4)
    return Similar(record, found)
