"""Preparing a table from what clients tell: what they tell, and that it is all that is needed."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.errors import BadData
from coterie.data.dataset import Arrays
from coterie.data.preparation import Column, coded, numbers
from coterie.data.tabular import TabularPrepare

NaN = np.nan
COLUMNS = (Column("n", center=1, spread=2), Column("f", "flag"), coded("c", (3, 5, 7)))
HERE = [[1, 0, 3], [2, 1, 5], [6, 1, 5], [NaN, 1, NaN]]
MOMENTS = (3, 3.0, np.sqrt(14 / 3))  # of 1, 2, 6


def pool(rows) -> Arrays:
    return Arrays(np.array(rows, dtype=np.float64).reshape(len(rows), -1), np.zeros(len(rows)))


def rows_lacking(*columns: int):
    rows = np.array(HERE)
    rows[:, columns] = NaN
    return rows


@pytest.mark.parametrize(
    ("scale", "absent", "lacking", "told"),
    [
        # nobody lacks a column: a shared scale alone needs something
        ("site", "flag", (), [None, None, None]),
        ("shared", "flag", (), [MOMENTS, None, None]),
        ("constants", "flag", (), [None, None, None]),
        # the other lacks all three: the mean of the others' inputs needs counts
        ("site", "flag", (0, 1, 2), [None, (1, 3), (1, 2, 0)]),
        ("shared", "flag", (0, 1, 2), [MOMENTS, (1, 3), (1, 2, 0)]),
        ("constants", "flag", (0, 1, 2), [MOMENTS[:2], (1, 3), (1, 2, 0)]),
        ("constants", "mask", (0, 1, 2), [None, None, None]),
        ("shared", "mask", (0, 2), [MOMENTS, None, None]),
        ("shared", "common", (0, 2), [None, None, None]),
        ("shared", "refuse", (0, 2), [MOMENTS, None, None]),
    ],
)
def test_no_more_is_told_than_the_others_need(scale, absent, lacking, told):
    prepare = TabularPrepare(COLUMNS, "drop" if absent == "refuse" else "median", scale, absent)
    mine, other = pool(HERE[:3] if absent == "refuse" else HERE), pool(rows_lacking(*lacking))
    gaps = prepare.gaps([prepare.lacks(mine), prepare.lacks(other)])
    found = prepare.sums(mine, gaps)
    assert [s is None for s in found] == [t is None for t in told]
    assert [len(s) for s in found if s is not None] == [n for n in prepare.tells(gaps) if n]
    for one, expected in zip(found, told, strict=True):
        assert one is None or one == pytest.approx(expected)


def test_who_lacks_a_column_tells_nothing_of_it():
    prepare = TabularPrepare(COLUMNS, "median", "shared", "flag")
    lacking = pool(rows_lacking(0, 2))
    gaps = prepare.gaps([prepare.lacks(pool(HERE)), prepare.lacks(lacking)])
    assert [s is None for s in prepare.sums(lacking, gaps)] == [True, True, True]


tables = st.lists(
    st.lists(
        st.tuples(
            st.one_of(st.just(NaN), st.floats(-1e3, 1e3)),
            st.sampled_from([0.0, 1.0, NaN]),
            st.sampled_from([3.0, 5.0, 7.0, NaN]),
        ),
        min_size=1,
        max_size=6,
    ),
    min_size=1,
    max_size=4,
)
RULES = st.tuples(
    st.sampled_from(["drop", "median", "refuse"]),
    st.sampled_from(["site", "shared", "constants"]),
    st.sampled_from(["flag", "mask", "common", "refuse"]),
)


@given(tables, RULES)
@settings(max_examples=100, deadline=None)
def test_each_by_itself_fits_what_all_in_one_place_do(rows, rules):
    """With nothing but JSON between them."""
    prepare, trains = TabularPrepare(COLUMNS, *rules), [pool(r) for r in rows]
    try:
        expected = prepare.fitted(trains)
    except BadData:
        return
    lacks = json.loads(json.dumps([prepare.lacks(t) for t in trains]))
    sums = json.loads(json.dumps([prepare.sums(t, prepare.gaps(lacks)) for t in trains], allow_nan=False))
    for train, one in zip(trains, expected, strict=True):
        gaps = prepare.gaps(lacks)
        assert prepare.prepared(train, gaps, prepare.agreed(gaps, sums)) == one


@given(tables, RULES)
@settings(max_examples=100, deadline=None)
def test_what_stands_for_a_lacking_column_is_the_mean_of_the_others_inputs(rows, rules):
    """As rows in one place have it, but for the last bits."""
    missing, scale, _ = rules
    prepare, trains = TabularPrepare(COLUMNS, missing, scale, "flag"), [pool(r) for r in rows]
    try:
        ways = prepare.fitted(trains)
    except BadData:
        return
    for i in range(len(COLUMNS)):
        parts = [way.parts[i] for way in ways]
        having = [
            (p, t.x[complete(t.x, p_, missing), i]) for p, p_, t in zip(parts, ways, trains, strict=True)
        ]
        inputs = [p.column.of.encoded(p.column, v[~np.isnan(v)]) for p, v in having if not p.absent]
        known = np.concatenate(inputs) if inputs else np.zeros((0, 1))
        expected = known.mean(axis=0) if len(known) else 0.0
        for part in parts:
            if part.absent:
                assert np.allclose(part.instead, expected, atol=1e-6)


def complete(x, way, missing):
    """[row] which ones count."""
    here = [i for i, p in enumerate(way.parts) if p.read]
    return ~np.isnan(x[:, here]).any(axis=1) if missing == "drop" else np.ones(len(x), dtype=bool)


def test_one_client_with_all_there_is_needs_nobody():
    prepare = TabularPrepare(numbers("ab"), scale="shared")
    (way,) = prepare.fitted([pool([[1, 2], [3, 4]])])
    assert [(p.column.center, p.column.spread) for p in way.parts] == [(2, 1), (3, 1)]
    assert prepare.fitted([]) == []
