"""Which of two classes is the outcome: by its name, else the rare one, else the second."""

from __future__ import annotations

import pytest

from coterie.core.roster import Member, Roster
from coterie.runs.about import positive_class


def roster(classes, *counts, task="classification", outputs=2) -> Roster:
    members = [
        Member(f"s{i}", sum(c or (0, 0)), 0, 0, c and (c, (0, 0), (0, 0))) for i, c in enumerate(counts)
    ]
    return Roster(tuple(members), task, (3,), outputs, classes=tuple(classes))


@pytest.mark.parametrize(
    ("classes", "counts", "wanted"),
    [
        (("well", "ill"), [(10, 90)], 1),  # whatever is rare
        (("ill", "well"), [(90, 10)], 0),
        (("malignant", "Benign"), [(50, 50)], 0),
        (("0", "1"), [(5, 95)], 1),
        (("yes", "no"), [(50, 50)], 0),
        (("died", "survived"), [(60, 40)], 1),
        (("died", "survived"), [(10, 40)], 0),  # rare: four in five are of the other
        (("died", "survived"), [(11, 40)], 1),
        (("died", "survived"), [(1, 40), (90, 10)], 1),  # of all together
        (("died", "survived"), [None, None], 1),  # nobody knows
        (("no", "never"), [(50, 50)], 1),
        ((), [(50, 50)], 1),
        ((), [(5, 50)], 0),
    ],
)
def test_the_outcome(classes, counts, wanted):
    assert positive_class(roster(classes, *counts)) == wanted


def test_only_two_classes_have_one():
    assert positive_class(roster((), (1, 9), task="regression", outputs=1)) == 1
    assert positive_class(roster(("a", "b", "c"), (1, 9), outputs=3)) == 1
