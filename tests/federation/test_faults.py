"""Faults that a federation of real processes lives through, and what a person sees of each."""

from __future__ import annotations

import contextlib
import json

import hosts
import pytest
from ward import COTERIE, LONG, Ward, in_round, rounds_of, wait_until

PENS = ("--method", "pens", "--rounds", 12)
EVERY = list(range(13))


@pytest.fixture(scope="module")
def ward(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    with hosts.Here(["ward"], folder) as here:
        made = Ward(here, folder)
        made.open()
        yield made


@pytest.fixture(scope="module")
def calm(ward):
    """What a run says that nobody disturbs."""
    assert ward.run("calm", *PENS).wait(LONG) == 0
    return ward.numbers("calm")


def test_the_driver_is_killed_in_the_middle_of_a_round(ward, calm):
    driver = ward.run("driver", *PENS)
    ward.halt("b", 5)
    driver.kill()
    ward.sites["b"].thaw()
    again = ward.resume("driver")
    assert again.wait(LONG) == 0
    assert again.wait_for("12 of 12 rounds: it went on after round 4")
    assert ward.numbers("driver") == calm


def test_the_relay_is_killed_in_the_middle_of_a_round(ward, calm):
    driver = ward.run("relay", *PENS)
    ward.halt("b", 5)
    ward.relay.kill()
    ward.sites["b"].thaw()
    driver.wait_for("no line to the coordinator", LONG)
    ward.open_relay()
    assert driver.wait(LONG) == 0
    driver.wait_for("the line to the coordinator is back")
    for name in "abcd":
        ward.sites[name].wait_for("the line to the coordinator is back")
    assert ward.numbers("relay") == calm


def test_a_site_is_killed_in_the_middle_of_a_round_and_comes_back(ward):
    driver = ward.run("site", "--method", "pens", "--rounds", 40, net=["--federation.patience", 1])
    ward.halt("b", 5)
    ward.sites["b"].kill()
    ward.halt("a", 8)  # the run waits
    ward.open_site("b")
    ward.connected("b")
    ward.sites["a"].thaw()
    assert driver.wait(LONG) == 0
    driver.wait_for("b is back")
    lines = ward.lines("site")
    assert rounds_of(lines) == list(range(41))
    away = ward.away("site", "b")
    assert list(away)[0] == 5 and set(away.values()) == {"b is not connected"}
    assert "away" not in lines[-1]
    assert lines[-1]["scores"]["own/test"]["accuracy"][1] is not None
