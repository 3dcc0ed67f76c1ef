"""A split's two pictures: what they are of, and that they show it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from coterie.core.seeds import Key
from coterie.data.dataset import label_counts
from coterie.data.partition import Interests
from coterie.data.sources import SOURCES
from coterie.report.splits import draw, portions, shares, sizes
from coterie.show import figures

COUNTS = np.array([[3, 1], [0, 4], [0, 0]])


def test_portions_by_hand():
    assert portions(COUNTS).tolist() == [[0.75, 0.25], [0, 1], [0, 0]]


@given(arrays(np.int64, (4, 3), elements=st.integers(0, 1000)))
def test_portions_are_shares_of_each_client(counts):
    found = portions(counts)
    assert found.sum(axis=1) == pytest.approx((counts.sum(axis=1) > 0).astype(float))
    assert portions(7 * counts) == pytest.approx(found)
    assert found[:, ::-1] == pytest.approx(portions(counts[:, ::-1]))


def test_shares_show_percent_by_client_and_class():
    figure = shares(["a", "b", "c"], ["died", "survived"], COUNTS)
    axes = figure.axes[0]
    assert axes.images[0].get_array().tolist() == [[75, 25], [0, 100], [0, 0]]
    assert [t.get_text() for t in axes.texts] == ["75", "25", "0", "100", "0", "0"]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["a", "b", "c"]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["died", "survived"]


def test_sizes_show_rows_of_each_client():
    axes = sizes(["a", "b", "c"], 1000 * COUNTS).axes[0]
    assert [bar.get_height() for bar in axes.patches] == [4000, 4000, 0]
    assert [t.get_text() for t in axes.texts] == ["4,000", "4,000", "0"]


def test_of_many_clients_there_are_no_numbers(tmp_path):
    counts = np.ones((60, 5), dtype=int)
    names, classes = [f"client-{i}" for i in range(60)], list("abcde")
    made = {"shares": shares(names, classes, counts), "sizes": sizes(names, counts)}
    assert [len(f.axes[0].texts) for f in made.values()] == [0, 0]
    assert [p.name for p in figures.write(tmp_path, lambda: made, "svg")] == ["shares.svg", "sizes.svg"]


def test_of_a_record_the_training_rows_are_drawn(make_known):
    # two clients of 10 and 20 rows to train on, one of each of the second class; 5 to test on, of the first
    found = draw(make_known({"accuracy": [0.5, 0.6]}))
    assert list(found) == ["shares"]
    drawn = np.asarray(found["shares"].axes[0].images[0].get_array())
    assert drawn == pytest.approx(np.array([[90, 10], [95, 5]]))


def test_numbers_to_predict_have_no_shares(make_known):
    assert draw(make_known({"rmse": [0.5, 0.6]}, task="regression")) == {}


def test_interests_are_seen():
    data = SOURCES.make("digits").load()
    deal = Interests().deal(data, data.train, 10, Key(0))
    counts = label_counts(data.train.y, deal.owner, 10, 10)
    of_class = counts / counts.sum(axis=0)  # Algorithm 4 is about who gets which part of a class
    size = counts.sum(axis=1)
    # p = 1/4: of its favourite a client gets four times what its size alone would say
    relative = of_class / size[:, None]
    assert (relative.argmax(axis=1) == np.arange(10)).all()
    assert (portions(counts).argmax(axis=1) == np.arange(10)).all()
