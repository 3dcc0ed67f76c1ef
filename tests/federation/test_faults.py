"""Faults that a federation of real processes lives through, and what a person sees of each."""

from __future__ import annotations

import contextlib
import re
import time

import hosts
import pytest
from ward import COTERIE, LONG, Proxy, Ward, other_port, rounds_of, wait_until

from coterie.features.live.live import KILLED, read_live
from coterie.runs.folder import read_record
from coterie.runs.site_view import line_for
from coterie.storage.events import read_events

PENS = ("--method", "pens", "--rounds", 12)


@pytest.fixture(scope="module")
def calm(ward):
    """What a run says that nobody disturbs."""
    assert ward.run("calm", *PENS).wait(LONG) == 0
    return ward.numbers("calm")


def sites_have_seen(ward, out):
    """Whether every site has its own part of all rounds of the run that it was shown last."""
    lead = read_record(ward.folder / out)
    for number, name in enumerate(ward.names):
        shown = (ward.kits[name] / "state" / "shown").iterdir()
        found = read_record(max(shown, key=lambda path: (path / "run.json").stat().st_mtime))
        if found.metrics != [line_for(line, number, lead.clients) for line in lead.metrics]:
            return False
    return True


def test_the_driver_is_killed_in_the_middle_of_a_round(ward, calm):
    driver = ward.run("driver", *PENS)
    ward.halt("b", 5)
    driver.kill()
    ward.sites["b"].thaw()
    live = read_live(ward.folder / "driver")
    assert (live.state, live.done, live.why) == ("stopped", 4, KILLED)
    again = ward.resume("driver")
    assert again.wait(LONG) == 0
    assert again.wait_for("12 of 12 rounds: it went on after round 4")
    assert ward.numbers("driver") == calm
    told = [(event.round, event.what) for event in read_events(ward.folder / "driver", 20)]
    assert told == [(0, "begun"), (4, "resumed"), *[(5, "back")] * 4, (12, "finished")]
    assert sites_have_seen(ward, "driver")


@pytest.mark.slow  # daily without a federation around it: test_a_relay_killed_and_started_again_loses_nothing
def test_the_relay_is_killed_in_the_middle_of_a_round(ward, calm):
    driver = ward.run("relay", *PENS)
    ward.halt("b", 5)
    ward.relay.kill()
    ward.sites["b"].thaw()
    driver.wait_for("no line to the relay", LONG)
    ward.open_relay()
    assert driver.wait(LONG) == 0
    driver.wait_for("the line to the relay is back")
    for name in "abcd":
        ward.sites[name].wait_for("the line to the relay is back")
    assert ward.numbers("relay") == calm


def test_a_site_is_killed_in_the_middle_of_a_round_and_comes_back(ward):
    driver = ward.run("site", "--method", "pens", "--rounds", 30, net=["--federation.patience", 1])
    ward.halt("b", 5)
    ward.sites["b"].kill()
    driver.wait_for("b is left out: b is not connected", LONG)
    ward.halt("a", 8)  # the run waits
    path = ward.folder / "site"
    wait_until(lambda: "a" in read_live(path, time.time() + LONG).late)  # and who waits for its model
    live = read_live(path)
    assert (live.state, live.round, live.here) == ("running", 8, ("a", "c", "d"))
    assert live.away == {"b": "b is not connected"}
    ward.open_site("b")
    ward.connected("b")
    ward.sites["a"].thaw()
    assert driver.wait(LONG) == 0
    driver.wait_for("b is back")
    lines, away = ward.lines("site"), ward.away("site", "b")
    assert rounds_of(lines) == list(range(31))
    assert (min(away), set(away.values())) == (5, {"b is not connected"})
    assert max(away) < 12
    told = [(event.what, event.who, event.why) for event in read_events(path, 20)]
    assert told[-3:] == [("left-out", "b", "b is not connected"), ("back", "b", ""), ("finished", None, "")]
    assert [e.round - 1 for e in read_events(path, 2)] == [max(away), 29]
    assert sites_have_seen(ward, "site")
    assert lines[-1]["scores"]["own/test"]["accuracy"][1] is not None


@pytest.mark.slow
@pytest.mark.parametrize("how", ["flip", "cut"])
def test_bytes_are_changed_or_lost_on_the_way(ward, calm, how):
    proxy = Proxy(ward.port)
    ward.sites["b"].stop()
    kit, ward.kits["b"] = ward.kits["b"], other_port(ward.kits["b"], ward.folder / f"kit-{how}", proxy.here)
    try:
        ward.open_site("b")
        ward.connected("b")
        driver = ward.run(how, *PENS)
        ward.asked("b", 5)
        proxy.spoil(how)
        assert driver.wait(LONG) == 0
        assert proxy.spoilt.is_set()
        ward.sites["b"].wait_for("no line to the relay")
        ward.sites["b"].wait_for("the line to the relay is back")
        assert ward.numbers(how) == calm
    finally:
        ward.kits["b"] = kit
        ward.sites["b"].stop()
        proxy.close()
        ward.open_site("b")
        ward.connected("b")


@pytest.mark.slow
def test_the_same_site_is_started_twice(ward, calm, tmp_path):
    again = ward.start("a", [*COTERIE, "site", ward.kits["a"], "--recipe", ward.recipe])
    assert again.wait(LONG) == 2
    again.wait_for("state is in use: another coterie site runs with it: end that first")
    first = ward.sites["a"]
    other = ward.start("a", [*COTERIE, "site", ward.kits["a"], "--recipe", ward.recipe, "--state", tmp_path])
    other.wait_for(re.compile(r"refuses: a is already connected from .*: end that one first"), LONG)
    ward.relay.wait_for(re.compile(r"refused a from .*: a is already connected"))
    assert ward.run("twice", *PENS).wait(LONG) == 0
    other.stop()
    assert first.returncode is None
    assert ward.numbers("twice") == calm


@pytest.mark.slow
def test_the_disk_of_a_site_is_full(ward, small_disk):
    """It says so, and so does the run, which goes on without it; with room, it is back."""
    disk = small_disk(1)
    ward.sites["c"].stop()
    try:
        site = ward.open_site("c", "--state", disk)
        ward.connected("c")
        driver = ward.run("full", "--method", "pens", "--rounds", 40)
        ward.halt("c", 5)
        filler = disk / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        site.thaw()
        driver.wait_for(re.compile("c is left out: cannot write .*: No space left on device"), LONG)
        site.wait_for(re.compile("refused: cannot write .*: No space left on device: free space"), LONG)
        site.wait_for("asked.jsonl cannot be written: No space left on device: free space")
        ward.halt("a", 12)
        filler.unlink()
        ward.sites["a"].thaw()
        assert driver.wait(LONG) == 0
        driver.wait_for("c is back")
        lines = ward.lines("full")
        assert rounds_of(lines) == list(range(41))
        assert "away" not in lines[-1]
        assert min(ward.away("full", "c")) in (5, 6)
    finally:
        ward.sites["c"].stop()
        ward.open_site("c")
        ward.connected("c")


def test_a_clock_that_is_off_by_an_hour_does_no_harm(ward, calm, clock_off):
    ward.sites["d"].stop()
    try:
        check = ward.start("d", [*COTERIE, "site", "check", ward.kits["d"]], env=clock_off(3600))
        assert check.wait(LONG) == 2
        check.wait_for(re.compile(r"the relay's clock is 3\d{3} s behind this machine's: set whichever"))
        ward.open_site("d", env=clock_off(3600))
        ward.connected("d")
        assert ward.run("hour", *PENS).wait(LONG) == 0
        assert ward.numbers("hour") == calm
    finally:
        ward.sites["d"].stop()
        ward.open_site("d")
        ward.connected("d")


@pytest.mark.parametrize("words", [("site",), ("site", "check")])
def test_a_clock_that_is_off_by_three_years_is_said(ward, clock_off, words):
    recipe = [] if "check" in words else ["--recipe", ward.recipe]
    said = ward.start("d", [*COTERIE, *words, ward.kits["d"], *recipe], env=clock_off(3 * 365 * 86400.0))
    assert said.wait(LONG) == 2
    said.wait_for(re.compile(r"was valid until .* UTC; this machine's clock says .* UTC: .*set the clock"))


@pytest.fixture(scope="module")
def cable(tmp_path_factory):
    """Two sites on hosts whose cables can be cut, a relay and a person on hosts of their own."""
    if why := hosts.Hosts.possible():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("cables")
    with hosts.Hosts(["relay", "lead", "a", "b", "c"], folder) as apart:
        made = Ward(apart, folder, ("a", "b", "c"))
        made.open()
        yield made


@pytest.fixture(autouse=True)
def cable_settled(request):
    yield
    if "cable" in request.fixturenames:
        request.getfixturevalue("cable").settle()


@pytest.mark.slow
def test_a_cable_is_cut_for_five_seconds(cable):
    """Nobody is lost, and nothing differs."""
    assert cable.run("whole", *PENS).wait(LONG) == 0
    driver = cable.run("five", *PENS)
    cable.halt("b", 5)
    cable.hosts.cut("b")
    cable.sites["b"].thaw()
    time.sleep(5)
    cable.hosts.heal("b")
    assert driver.wait(LONG) == 0
    assert cable.numbers("five") == cable.numbers("whole")
    assert not any("away" in line for line in cable.lines("five"))


@pytest.mark.slow
def test_a_cable_is_cut_for_ninety_seconds(cable):
    """The run goes on without the site once it is missed, and has it back."""
    cable.restart(cable.names, 3000)
    driver = cable.run("ninety", "--method", "pens", "--rounds", 3000, net=["--federation.patience", 5])
    cable.halt("b", 5)
    cable.hosts.cut("b")
    cable.sites["b"].thaw()
    begun = time.monotonic()
    driver.wait_for("b is left out: b is not connected", LONG)
    gone = time.monotonic() - begun
    time.sleep(90 - gone)
    cable.hosts.heal("b")
    driver.wait_for("b is back", LONG)
    assert len(cable.lines("ninety")) < 3000, "the run was over before the cable was mended"
    cable.relay.wait_for("b has left")
    assert driver.wait(10 * LONG) == 0
    lines, away = cable.lines("ninety"), cable.away("ninety", "b")
    assert gone < 40
    assert min(away) == 5
    assert rounds_of(lines) == list(range(3001))
    assert "away" not in lines[-1]
