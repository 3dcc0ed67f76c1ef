"""Holds, fails or undecided: intervals worked out by hand."""

from __future__ import annotations

import pytest

from coterie.studies.claims import Verdict, above_zero, every, near_zero, some

# three seeds have 2 degrees of freedom: t = 4.3027, so half = 4.3027 s / √3 = 2.4841 s
HOLDS, FAILS, OPEN = Verdict("holds", "+1"), Verdict("fails", "-1"), Verdict("undecided", "0")


@pytest.mark.parametrize(
    ("values", "word", "why"),
    [
        ([1.9, 2.0, 2.1], "holds", "+2.0 ± 0.2"),  # s = 0.1
        ([-1.9, -2.0, -2.1], "fails", "-2.0 ± 0.2"),
        ([1.0, 2.0, 3.0], "undecided", "+2.0 ± 2.5"),  # s = 1: from -0.5 to 4.5
        ([0.0, 0.0, 0.0], "undecided", "+0.0 ± 0.0"),
        ([5.0], "undecided", "+5.0, one seed"),
        ([], "undecided", "not run"),
        ([1.9, float("nan"), 2.0, 2.1], "holds", "+2.0 ± 0.2"),
    ],
)
def test_above_zero(values, word, why):
    assert above_zero(values) == (word, why)
    assert above_zero([0.19, 0.20, 0.21], 2).why == "+0.20 ± 0.02"


@pytest.mark.parametrize(
    ("values", "margin", "word"),
    [
        ([-0.1, 0.0, 0.1], 0.3, "holds"),  # ± 0.248
        ([-0.1, 0.0, 0.1], 0.2, "undecided"),
        ([0.9, 1.0, 1.1], 0.7, "fails"),  # from 0.75
        ([-0.9, -1.0, -1.1], 0.7, "fails"),
        ([0.9, 1.0, 1.1], 0.8, "undecided"),
        ([0.0], 1.0, "undecided"),
    ],
)
def test_near_zero(values, margin, word):
    assert near_zero(values, margin).word == word


@pytest.mark.parametrize(
    ("parts", "all_of", "one_of"),
    [
        ([HOLDS, HOLDS], "holds", "holds"),
        ([HOLDS, OPEN], "undecided", "holds"),
        ([HOLDS, FAILS], "fails", "holds"),
        ([OPEN, FAILS], "fails", "undecided"),
        ([FAILS, FAILS], "fails", "fails"),
        ([], "undecided", "undecided"),
    ],
)
def test_parts(parts, all_of, one_of):
    named = {f"part {i}": v for i, v in enumerate(parts)}
    assert every(named).word == all_of
    assert some(named).word == one_of


def test_every_names_all_parts_and_some_those_that_decide():
    parts = {"a": HOLDS, "b": FAILS}
    assert (every(parts).why, some(parts).why, every({}).why) == ("a +1; b -1", "a +1", "not run")
