"""Seconds by part, worked out by hand."""

from __future__ import annotations

import threading

from coterie.core.clock import CLOCK, PARTS, Clock


class Hands:
    """A clock's hands that are moved by the test."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def test_a_second_counts_for_the_innermost_part():
    hands = Hands()
    clock = Clock(hands)
    hands.time += 1  # for nobody
    with clock.part("training"):
        hands.time += 2
        with clock.part("tracing"):
            hands.time += 4
            halfway = clock.read()
        hands.time += 8
    hands.time += 16
    assert halfway["tracing"] == 4
    assert halfway["training"] == 2
    assert clock.read() == dict.fromkeys(PARTS, 0.0) | {"training": 10.0, "tracing": 4.0}


def test_an_error_ends_a_part():
    hands = Hands()
    clock = Clock(hands)
    try:
        with clock.part("writing"):
            hands.time += 1
            raise OSError
    except OSError:
        hands.time += 2
    assert clock.read()["writing"] == 1


def test_other_threads_count_for_where_the_first_one_waits():
    hands = Hands()
    clock = Clock(hands)

    def elsewhere() -> None:
        with clock.part("writing"):
            hands.time += 4

    with clock.part("training"):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert clock.read() == dict.fromkeys(PARTS, 0.0) | {"training": 4.0}


def test_what_an_earlier_run_alone_entered_is_no_part_of_a_later_one():
    CLOCK.add({"contributions of an earlier run": 2.0})
    before = CLOCK.read()
    assert tuple(CLOCK.since(before)) == PARTS
    CLOCK.add({"contributions of an earlier run": 0.5})
    assert CLOCK.since(before)["contributions of an earlier run"] == 0.5
