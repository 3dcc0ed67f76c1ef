"""Sites that come late, leave for good, are slow or are started anew again and again, with real processes."""

from __future__ import annotations

import json
import random
import re
import subprocess
import time

import pytest
import torch
from room import Room, told_scores
from ward import COTERIE, LONG, rounds_of

from coterie.federation.lead.net import Federated
from coterie.federation.lead.sites import Backoff
from coterie.runs.builder import prepare
from coterie.runs.folder import read_record
from coterie.runs.loop import run
from coterie.runs.settings import Settings


def matrix(path, name, round):
    """[receiver, sender] of one round, NaN where nothing is known."""
    return torch.tensor(read_record(path).matrices[name][round], dtype=torch.float64)


@pytest.mark.parametrize(
    "late", [pytest.param(late, marks=pytest.mark.slow) for late in ("mean", "median", "one")]
)
def test_a_late_joiner_has_the_weight_that_the_method_says(ward, late):
    """The mean or the median of those who were there, or one, less what its distance costs."""
    ward.sites["d"].stop()
    words = ("--method", "weight-erosion", "--weight-erosion.late", late, "--weight-erosion.p-d", 0.2)
    driver = ward.run(late, *words, "--rounds", 10, net=["--federation.wait", 1])
    driver.wait_for("site d is not there yet: it joins when it comes", LONG)
    ward.halt("a", 5)
    ward.open_site("d")
    ward.connected("d")
    ward.sites["a"].thaw()
    assert driver.wait(LONG) == 0
    driver.wait_for("d joins")
    away = ward.away(late, "d")
    assert set(away.values()) == {"not there yet"}
    joined = max(away) + 1
    assert joined in (6, 7)
    path = ward.folder / late
    before, now = matrix(path, "alpha", joined - 1), matrix(path, "alpha", joined)
    distance = matrix(path, "relative distance", joined)
    for requester in range(3):
        known = before[requester][:3]
        assert not bool(known.isnan().any())
        first = {"mean": known.mean(), "median": known.quantile(0.5), "one": torch.tensor(1.0)}[late]
        expected = max(0.0, float(first) - 0.2 * float(distance[requester, 3]))
        assert float(now[requester, 3]) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.slow
def test_a_site_leaves_for_good(ward):
    driver = ward.run("leaves", "--method", "fedavg", "--rounds", 150, net=["--federation.patience", 1])
    ward.halt("d", 4)
    ward.sites["d"].ask_to_end()
    driver.wait_for("d is left out: d is not connected", LONG)
    ward.relay.wait_for("d has left")
    assert driver.wait(LONG) == 0
    lines, away = ward.lines("leaves"), ward.away("leaves", "d")
    assert rounds_of(lines) == list(range(151))
    assert list(away) == list(range(min(away), 151))
    assert lines[-1]["scores"]["own/test"]["accuracy"][3] is None
    ward.open_site("d")
    ward.connected("d")


@pytest.mark.slow
def test_a_slow_site_is_skipped_and_comes_back(ward):
    driver = ward.run("slow", "--method", "pens", "--rounds", 60, net=["--federation.deadline", 6])
    ward.halt("b", 5)
    begun = time.monotonic()
    driver.wait_for("b is left out: b has not answered in time", LONG)
    assert time.monotonic() - begun < 30
    ward.asked("a", 6)
    ward.sites["b"].thaw()
    assert driver.wait(2 * LONG) == 0
    driver.wait_for("b is back")
    lines, away = ward.lines("slow"), ward.away("slow", "b")
    assert rounds_of(lines) == list(range(61))
    assert min(away) == 5
    assert set(away.values()) == {"b has not answered in time"}
    assert "away" not in lines[-1]


@pytest.mark.slow
def test_three_in_ten_sites_are_gone_in_each_round(ward):
    """By the wrapper that leaves sites out by chance, over a federation: it ends as well as a full one."""
    words = ("--method", "fedavg", "--rounds", 30)
    assert ward.run("nobody-absent", *words).wait(LONG) == 0
    assert ward.run("absent", *words, "--wrap", "absent=0.3").wait(LONG) == 0
    full, absent = (last_scores(ward.lines(out)) for out in ("nobody-absent", "absent"))
    assert any(None in line["train_loss"] for line in ward.lines("absent")[1:])
    assert abs(sum(full) - sum(absent)) / len(full) < 0.02


def test_who_is_gone_in_each_round_is_gone_over_a_federation_as_on_one_machine(tmp_path, monkeypatch):
    """The same sites in the same rounds, to the last bit: what holds of either holds of the other."""
    room = Room(tmp_path, rows=40)
    far = room.play(monkeypatch, rounds=6, wrap=("absent=0.3",))
    table = {"table": {"recipe": str(room.recipe)}}
    asked = {"kernel": "sgd", "engine": "loop", "rounds": 6, "wrap": ("absent=0.3",)}
    alone = Settings(data="table", options=table, **asked)
    near = run(prepare(alone, None), None, "run").record
    assert sum(line["train_loss"].count(None) for line in far.metrics[1:]) >= 3
    for one, other in zip(far.metrics, near.metrics, strict=True):
        assert one["train_loss"] == other["train_loss"]
        assert told_scores(one) == told_scores(other)


@pytest.mark.slow
def test_three_in_ten_of_ten_sites_are_gone_in_each_round(tmp_path):
    """Without a network, where ten sites cost little: the means of five seeds are within two points."""
    words = ["--data", "digits", "--split", "shift", "--clients", 10, "--method", "fedavg", "--rounds", 100]
    means = {}
    for name, wrap in (("full", []), ("absent", ["--wrap", "absent=0.3"])):
        scores = []
        for seed in range(5):
            out = tmp_path / f"{name}-{seed}"
            run = [*COTERIE, "run", *words, "--seed", seed, "--out", out, *wrap]
            subprocess.run([str(word) for word in run], check=True, capture_output=True, timeout=300)
            lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
            scores += last_scores(lines)
        means[name] = sum(scores) / len(scores)
    assert abs(means["full"] - means["absent"]) < 0.02, means


def test_who_breaks_rounds_rests_for_longer_each_time():
    backoff, boots = Backoff(), {3: "x"}
    for stored, until in ((4, 5), (5, 7), (7, 11), (11, 19), (19, 27)):
        backoff.begin([3], boots, stored)
        backoff.over(until - 1)
        assert backoff.resting(3, "x"), until
        assert not backoff.resting(3, "y"), "one that was started anew is welcome"
        backoff.over(until)
        assert not backoff.resting(3, "x"), until
    backoff.begin([3], boots, 27)
    backoff.call(0.5)
    assert backoff.resting(3, "x")
    backoff.call(1.5)  # too few are there
    assert not backoff.resting(3, "x")
    backoff.begin([3], boots, 27)
    backoff.end(3)  # it went away
    assert not backoff.resting(3, "x")


def test_a_site_keeps_what_it_may_have_to_go_back_to():
    """A round that is lost after a site wrote it down does not count, nor one after the last checkpoint."""
    net = Federated.__new__(Federated)
    net.last, net.saved = [9, 3, -1, 8], [8, 3, -1, 2]
    assert [net._needed(site, 8) for site in range(4)] == [8, 3, 8, 2]


def last_scores(lines):
    """Of each site, when it was last scored."""
    seen = [line["scores"]["own/test"]["accuracy"] for line in lines if line["scores"]]
    return [[v for v in column if v is not None][-1] for column in zip(*seen, strict=True)]


@pytest.mark.slow
def test_sites_are_started_anew_two_hundred_times(ward):
    """At random moments of one run, up to three of four at a time: every round is there once, and it ends."""
    draws, rounds, restarts = random.Random(0), 2500, 0
    ward.restart(ward.names, rounds)
    bounds = ["--federation.patience", 1, "--federation.wait", LONG, "--federation.least", 3]
    driver = ward.run("restarts", "--method", "pens", "--rounds", rounds, net=bounds)
    ward.asked("a", 1)
    while restarts < 200:
        assert driver.returncode is None, f"the run was over after {restarts} restarts"
        some = draws.sample(ward.names, draws.randint(1, 3))
        ward.restart(some, rounds)
        restarts += len(some)
        time.sleep(draws.uniform(0, 0.5))
    assert driver.wait(1200) == 0
    lines = ward.lines("restarts")
    assert rounds_of(lines) == list(range(rounds + 1))
    assert any("away" in line for line in lines)
    assert not lines[-1].get("away"), "somebody was lost for good"
    assert not [line for line in driver.lines if re.search("unexpected|Error", line)]
