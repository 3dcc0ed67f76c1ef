"""What report and terminal say of sealed runs."""

from __future__ import annotations

from coterie.report import sealed, views
from coterie.report.terminal import render_sealed


def told(make_known, *rounds):
    record = make_known({"accuracy": [0.5, 0.6]}, "a <b>", 0)
    for entry in record.metrics:
        entry["extras"] = {}
    if rounds:
        record.metrics = [{**record.metrics[-1], "extras": {"sealed": r}} for r in rounds]
    return record


def test_rounds_are_added_up_and_the_largest_leverage_is_told(make_known):
    first = {"replies": 3, "bytes": 1000, "leverage": 0.25, "shown": 1}
    record = told(make_known, first, {**first, "leverage": 0.5})
    assert sealed.told(record) == {"replies": 6, "bytes": 2000, "leverage": 0.5, "shown": 2}
    _, rows = sealed.cells(views.groups([record]))
    assert rows == [["a <b>", "6", "2.0\u00a0kB", "0.50", "2"]]
    assert render_sealed([record], 100) is not None


def test_nothing_is_said_of_a_run_in_the_clear(make_known):
    record = told(make_known)
    assert sealed.few([record]) is None
    assert render_sealed([record], 100) is None
    assert sealed.part(views.groups([record]), {}) == ""
