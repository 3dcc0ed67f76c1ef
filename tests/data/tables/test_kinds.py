import random

import pytest

from coterie.data.tables.profile import Profile

RNG = random.Random(0)
WEIGHTS = [str(RNG.randint(45, 120)) for _ in range(80)]


@pytest.mark.parametrize(
    ("name", "cells", "kind"),
    [
        ("weight", WEIGHTS, "number"),
        ("hb", ["12,4", "9,8", "1.234,5"] * 10, "number"),
        ("platelets", ["250,000", "1,250,000", "90"] * 10, "number"),
        ("smoker", ["Yes", "no", "Y", "N", ""] * 5, "flag"),
        ("ill", ["0.0", "1.0"] * 5, "flag"),
        ("ill", [0.0, 1.0] * 5, "flag"),
        ("sex", ["m", "f"] * 10, "category"),
        ("code", ["1", "2"] * 20, "category"),
        ("risk", ["low", "HIGH", "Medium"] * 5, "ordered"),
        ("pain", ["none", "mild", "severe"] * 5, "ordered"),
        ("grade", ["1", "2", "4"] * 5, "ordered"),
        ("seen", ["2024-01-31", "2024-02-01 12:30"] * 5, "date"),
        ("seen", ["31.01.2024", "1.2.2024"] * 5, "date"),
        ("dob", ["19800131", "19751224"] * 5, "date"),
        ("patient_no", [str(4000 + i) for i in range(30)], "identifier"),
        ("mrn", ["7", "7", "9"] * 10, "identifier"),
        ("who", [f"P{i:04}" for i in range(30)], "identifier"),
        ("column 1", [str(i) for i in range(30)], "identifier"),
        ("surname", ["Muster", "Beispiel"] * 5, "identifier"),
        ("age", [str(20 + i) for i in range(40)], "number"),
        ("remark", [f"felt unwell after {i} days of walking" for i in range(30)], "text"),
        ("ward", ["3b"] * 20, "constant"),
        ("ward", ["", "NA", " "], "empty"),
    ],
)
def test_kind(name, cells, kind):
    assert Profile.of_cells(name, [c.strip() if isinstance(c, str) else c for c in cells]).kind == kind


@pytest.mark.parametrize(
    ("cells", "marks"),
    [
        ([*WEIGHTS, "999", "999", "NA", "?"], ("?", "NA", "999")),
        ([*WEIGHTS, "-9"], ("-9",)),
        ([*WEIGHTS, "unknown"], ("unknown",)),
        ([*WEIGHTS, "99", "99"], ()),  # a weight like any other
        (["-9", "-3.5", "2.1", "4"] * 10, ()),  # a base excess
        (["0", "1", "-9", "-9"] * 5, ("-9",)),
        (["0", "1", "2", "9", "9"] * 5, ("9",)),
        (["none", "mild", "severe"] * 5, ()),
    ],
)
def test_codes_are_missing_only_if_they_cannot_be_values(cells, marks):
    assert Profile.of_cells("x", cells).marks == marks


def test_what_is_doubtful_is_asked_or_said():
    assert Profile.of_cells("x", [*WEIGHTS, "999"]).asks == (
        "999 stands in one row, far from all others (up to 120): is it missing?",
    )
    (said,) = Profile.of_cells("chol", [*WEIGHTS, "0", "0"]).says
    assert said.startswith("0 stands in 2 rows, the least other value is 45: if it means missing")
    (asked,) = Profile.of_cells("seen", ["03/04/2024", "05/06/2024"]).asks
    assert asked == "'03/04/2024' is read as day/month: if the month is first, write dates = \"%m/%d/%Y\""
    assert Profile.of_cells("crp", ["<5", *WEIGHTS]).odd == ("<5",)
    assert Profile.of_cells("hb", ["12,4", "9,8"]).decimal == ","
    assert Profile.of_cells("n", ["1,234", "5,678"]).grouped == "1,234"
