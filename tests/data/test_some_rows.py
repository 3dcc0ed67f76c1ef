"""A part of a data set's rows: drawn, in order, and told."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.core.errors import BadInput
from coterie.core.seeds import Key
from coterie.data.dataset import some_of
from coterie.data.sources import SOURCES
from coterie.runs.builder import Builder
from coterie.runs.settings import Settings


def test_rows_are_drawn_without_repeats_and_the_rest_is_untouched():
    data = SOURCES.make("digits").load()
    few, again, other = (some_of(data, 100, Key(seed)) for seed in (0, 0, 1))
    assert len(few.train) == 100
    assert (few.train.x == again.train.x).all()
    assert not (few.train.x == other.train.x).all()
    places = [int(np.flatnonzero((data.train.x == row).all(axis=(1, 2, 3)))[0]) for row in few.train.x]
    assert places == sorted(set(places))  # in their order, none twice
    assert few.notes[-1] == "100 of 1797 rows taken, drawn by the seed that deals them"
    assert some_of(data, None, Key(0)) is data


@pytest.mark.parametrize("rows", [1, 0, -3, 1798])
def test_more_rows_than_there_are_or_too_few_are_refused(rows):
    with pytest.raises(BadInput, match=r"rows=.* must lie between 2 and the 1797 rows of digits"):
        some_of(SOURCES.make("digits").load(), rows, Key(0))


def test_a_run_takes_so_many_rows_and_says_so():
    experiment = Builder().prepare(Settings(data="digits", rows=200, split="iid", clients=4, rounds=1))
    assert sum(m.train + m.test for m in experiment.roster.members) == 200
    assert any("200 of 1797 rows taken" in note for note in experiment.about["notes"])
    experiment.net.close()
