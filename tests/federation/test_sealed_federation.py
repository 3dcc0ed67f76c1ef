"""Sealed runs over a real federation: a relay, four sites and three helpers, each a process."""

from __future__ import annotations

import json

import hosts
import pytest
from room import told_scores
from ward import wait_until

from coterie.cli.main import main

HELPERS = ("ada", "ben", "tom")
WORDS = ["--model", "mlp", "--mlp.hidden", "6", "--validation", "0.2", "--sgd.lr", "0.1"]


@pytest.fixture(scope="module")
def ward(ward):
    """With helpers, of whom nothing is left."""
    before = hosts.look()
    for name in HELPERS:
        ward.open_helper(name)
    for name in HELPERS:
        ward.connected(name)
    yield ward
    ward.settle()
    for name in HELPERS:
        ward.sites.pop(name).stop()
    assert not [line for line in hosts.left_behind(before) if "coterie site" not in line]


def on_one_machine(ward, out, *words):
    start = ["run", "--data", "table", "--table.recipe", str(ward.recipe), "--engine", "loop"]
    assert main([*start, "--out", str(ward.folder / out), *words]) == 0


def close(left, right, most=1e-5):
    """Scores of two runs, round by round."""
    for one, other in zip(left, right, strict=True):
        for name, figures in told_scores(one).items():
            for metric, values in figures.items():
                pairs = zip(values, other["scores"][name][metric], strict=True)
                for x, y in pairs:
                    assert (x is None) == (y is None)
                    assert x is None or abs(x - y) < most, (one["round"], metric)


@pytest.mark.parametrize(
    ("method", "rounds"),
    [
        ("fedavg", 4),
        *(pytest.param(m, 15, marks=pytest.mark.slow) for m in ("fedavg", "weight-erosion", "robust")),
    ],
)
def test_sealed_over_a_federation_gives_the_numbers_of_one_machine(ward, method, rounds):
    """With 15 rounds, as the bound has it; nobody gets a model of a site, and the warning is said."""
    words, method = [*WORDS, "--method", method, "--rounds", str(rounds)], f"{method}-{rounds}"
    driver = ward.run(f"far-{method}", *words, "--wrap", "sealed=1")
    assert driver.wait(150) == 0, driver.lines[-5:]
    on_one_machine(ward, f"near-{method}", *words)
    far, near = ward.lines(f"far-{method}"), ward.lines(f"near-{method}")
    close(far, near)
    told = [line["extras"]["sealed"] for line in far[1:]]
    assert all(t["replies"] > 0 and t["bytes"] > 0 for t in told)
    if "weight-erosion" not in method:  # there, requesters send theirs out to be trained
        assert all(sum(line["sent"]) == 0 for line in far)
    assert any("are on one host" in line for line in driver.lines)


@pytest.mark.slow
def test_a_helper_and_a_site_go_and_come_back(ward):
    """Rounds are done again; every round is there once, and its numbers are those of nobody gone."""
    words = [*WORDS, "--method", "fedavg", "--rounds", "25"]
    driver = ward.run("gone", *words, "--wrap", "sealed", net=["--federation.patience", "3"])
    ward.asked("a", 6)
    ward.sites["ben"].kill()
    ward.open_helper("ben")
    ward.connected("ben")
    ward.asked("a", 14)
    ward.sites["c"].kill()
    ward.open_site("c")
    assert driver.wait(200) == 0, driver.lines[-5:]
    lines = ward.lines("gone")
    assert [line["round"] for line in lines] == list(range(26))
    assert all(line["extras"]["sealed"]["replies"] >= 3 for line in lines[1:])


@pytest.mark.slow
def test_a_driver_that_is_killed_goes_on(ward):
    words = [*WORDS, "--method", "fedavg", "--rounds", "12"]
    driver = ward.run("lead-cut", *words, "--wrap", "sealed")
    ward.asked("a", 5)
    driver.kill()
    again = ward.resume("lead-cut")
    assert again.wait(120) == 0, again.lines[-5:]
    on_one_machine(ward, "whole", *words)
    close(ward.lines("lead-cut"), ward.lines("whole"))


@pytest.mark.slow
def test_what_is_refused(ward):
    """A sum that gives a reply away, by the helpers; a clear run, by a site that wants seals; two helpers."""
    one = ward.run("away", *WORDS, "--method", "gossip", "--rounds", "3", "--wrap", "sealed")
    assert one.wait(100) == 2
    assert "1.00 of the reply of" in one.lines[-1]
    policy = ward.folder / "sealed.toml"
    policy.write_text("sealed = true\n")
    ward.sites["d"].kill()
    ward.open_site("d", "--policy", policy)
    ward.connected("d")
    clear = ward.run("clear", *WORDS, "--method", "fedavg", "--rounds", "2")
    assert clear.wait(100) == 2
    assert "would leave as they are, where the policy has sealed = true" in clear.lines[-1]
    sealed = ward.run("sealed", *WORDS, "--method", "fedavg", "--rounds", "2", "--wrap", "sealed")
    assert sealed.wait(100) == 0, sealed.lines[-5:]
    ward.sites["tom"].kill()
    wait_until(lambda: any("tom has left" in line for line in ward.relay.lines))
    few = ward.run("few", *WORDS, "--method", "fedavg", "--rounds", "2", "--wrap", "sealed")
    assert few.wait(100) == 2
    assert "sealed needs three helpers, two servers and a dealer; connected: ada, ben" in few.lines[-1]
    assert not (ward.folder / "few").exists()
    ward.sites["d"].stop()  # with its policy


def test_what_each_host_has(ward):
    """Helpers write nothing down; sites say what they sent."""
    for name in HELPERS:
        kit = {path.name for path in ward.kits[name].iterdir()}
        assert kit <= {"kit.toml", "ca.crt", f"{name}.crt", f"{name}.key", ".lock"}
    asked = [json.loads(line) for line in (ward.kits["a"] / "state" / "asked.jsonl").read_text().splitlines()]
    assert any(entry["asked"] == "send 1 sealed model(s) to two helpers" for entry in asked)
