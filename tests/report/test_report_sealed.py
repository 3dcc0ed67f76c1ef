"""What report and terminal say of sealed runs."""

from __future__ import annotations

from coterie.features.sealed import shown as sealed
from coterie.show import views
from coterie.show.parts import Runs


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
    assert sealed.totals(record) == {"replies": 6, "bytes": 2000, "leverage": 0.5, "shown": 2}
    _, rows = sealed.cells(views.groups([record]))
    assert rows == [["a <b>", "6", "2.0\u00a0kB", "0.50", "2"]]
    assert sealed.sealed_part(Runs("", [record]))


def test_nothing_is_said_of_a_run_in_the_clear(make_known):
    record = told(make_known)
    assert sealed.sealed_part(Runs("", [record])) == []
