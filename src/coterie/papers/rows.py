"""The data of a reproduction: asked for before anything runs, and cut to the size of a scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from coterie.core.errors import BadData
from coterie.data.dataset import Dataset
from coterie.data.sources import SOURCES
from coterie.papers.base import Job, Scale


def fetch(names: Iterable[str], jobs: Sequence[Job], easier: Scale = "tiny") -> None:
    """What the jobs that are left will read; who cannot have it hears of a scale that needs none of it."""
    if all(job.finished for job in jobs):
        return
    for name in sorted(set(names)):
        try:
            SOURCES.make(name).fetch()
        except BadData as error:
            raise BadData(f"{error}; or see it run with --scale {easier}") from None


def at_hand(cells: Sequence[str], sources: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of cells STUDY/WAY those whose study has its data here or can get them, and a note on each other study;
    `sources` names the data of each.
    """
    there, notes = list[str](), list[str]()
    for study, source in sources.items():
        try:
            getattr(SOURCES.make(source), "fetch", lambda: None)()
            there.append(study)
        except BadData as error:
            notes.append(f"{study} is left out: {error}")
    return tuple(cell for cell in cells if cell.partition("/")[0] in there), tuple(notes)


def with_test(data: Dataset, test: int) -> Dataset:
    """Data that come without a test set: their last rows are."""
    rows = np.arange(len(data.train))
    return replace(data, train=data.train.take(rows[:-test]), test=data.train.take(rows[-test:]))


def cut(data: Dataset, wanted: tuple[int, int] | None, rng: np.random.Generator) -> Dataset:
    """So many rows to learn from, drawn by `rng`, and the first so many to test on; all, if None."""
    if wanted is None:
        return data
    learn, test = wanted
    if data.test is None:
        data = with_test(data, test)
    assert data.test is not None
    drawn = np.sort(rng.permutation(len(data.train))[:learn])
    return replace(data, train=data.train.take(drawn), test=data.test.take(np.arange(test)))
