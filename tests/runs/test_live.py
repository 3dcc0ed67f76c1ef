"""How a run is, read from its folder by others: every state, from files written by hand and by runs."""

from __future__ import annotations

import contextlib
import json
import os
import time
from datetime import datetime

import pytest
from rich.console import Console

from coterie.core.errors import BadRun, Diverged, Refused
from coterie.features.live.command import of_run, progress
from coterie.features.live.hook import Now, observing, read_now
from coterie.features.live.live import ALONE, GONE, KILLED, NO_LINE, heard, late_after, read_live, read_study
from coterie.features.live.shown import missing
from coterie.report.progress import bar_of
from coterie.runs.folder import Folder
from coterie.runs.loop import run
from coterie.storage import locks
from coterie.storage.atomic import append_line
from coterie.storage.events import Events, event_of, read_events

T0 = datetime.fromisoformat("2026-03-01T12:00:00.000+01:00")
SITES = ("east", "north", "west")


@pytest.fixture
def made(tmp_path):
    """`made(done=2, seconds=4.0)`: the folder of a run of ten rounds, of which some are over."""

    def make(done: int, seconds: float = 1.0, name: str = "run", **files):
        path = tmp_path / name
        about = {"clients": [{"name": name} for name in SITES], "task": "classification", "notes": []}
        Folder.create(path, {"method": "fedavg", "rounds": 10}, about).close()
        for r in range(done + 1):
            scores = {"own/test": {"accuracy": [0.5, 0.6, 0.7 + r / 100]}}
            append_line(path / "metrics.jsonl", {"round": r, "scores": scores})
            append_line(path / "timings.jsonl", {"round": r, "seconds": seconds, "evaluate_seconds": 0.0})
        for file, text in files.items():
            (path / file.replace("_", ".")).write_text(text)
        return path

    return make


def now_of(pid: int | None = None, **told) -> str:
    usual = {"pid": os.getpid() if pid is None else pid, "since": T0.isoformat(), "round": 3, "of": 10}
    usual |= {"doing": "training", "asked": {}, "here": [], "away": {}}
    return json.dumps({"time": T0.isoformat(), **usual, **told})


def events_of(*entries) -> str:
    lines = [
        {"time": T0.isoformat(), "round": r, "what": w, "who": n, "why": why} for r, w, n, why in entries
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


BEGUN = (0, "begun", None, "")


@pytest.mark.parametrize(
    ("events", "state", "why"),
    [
        ((), "stopped", ""),  # of an earlier version
        ((BEGUN,), "stopped", KILLED),
        ((BEGUN, (2, "stopped", None, "")), "stopped", ""),
        ((BEGUN, (2, "diverged", None, "loss nan")), "failed", "loss nan"),
        ((BEGUN, (2, "refused", None, "no")), "failed", "no"),
        ((BEGUN, (2, "failed", None, "too few")), "failed", "too few"),
        ((BEGUN, (2, "failed", None, "too few"), (2, "resumed", None, "after round 2")), "stopped", KILLED),
        ((BEGUN, (2, "left-out", "west", "not connected")), "stopped", KILLED),
    ],
)
def test_a_run_that_nobody_has_in_hand(made, events, state, why):
    path = made(2, events_jsonl=events_of(*events), now_json=now_of(away={"west": "x"}))
    live = read_live(path)
    assert (live.state, live.why, live.done, live.round, live.of) == (state, why, 2, 2, 10)
    assert (live.here, live.late, live.away, live.doing) == ((), {}, {}, "")
    assert [(e.round, e.what, e.who, e.why) for e in live.events] == list(events)
    assert not live.goes_on


def test_a_run_is_finished_with_its_models(made):
    path = made(10)
    assert read_live(path).state == "stopped"
    (path / "models.safetensors").touch()
    assert read_live(path).state == "finished"
    early = made(4, name="early")
    (early / "models.safetensors").touch()
    assert read_live(early).state == "stopped", "of ten rounds four are over"
    append_line(early / "metrics.jsonl", {"round": 5, "scores": None, "ended": "seconds"})
    assert (read_live(early).state, read_live(early).done) == ("finished", 5)


def test_a_run_goes_on_while_its_folder_is_locked(made):
    asked = {"west": "2026-03-01T12:00:00+01:00", "north": "2026-03-01T12:00:09+01:00"}
    told = now_of(asked=asked, here=["north", "west"], away={"east": "east is not connected"})
    path = made(2, events_jsonl=events_of(BEGUN), now_json=told)
    with contextlib.closing(locks.locked(path)):
        live = read_live(path, clock=T0.timestamp() + 12)
        assert (live.state, live.done, live.round, live.of, live.doing) == ("running", 2, 3, 10, "training")
        assert (live.here, live.away) == (("north", "west"), {"east": "east is not connected"})
        assert live.late == {"west": 12.0}, "north has been asked 3 s ago"
        assert live.since == T0.isoformat()
        assert missing(live) == "late: west 12 s; away: east"
        (path / "now.json").write_text(now_of(doing="waiting"))
        assert read_live(path).state == "waiting"
        assert progress(read_live(path)) == "waiting for sites, round 3 of 10"
    assert read_live(path, clock=T0.timestamp() + 12).state == "stopped"


def test_who_is_late_depends_on_what_rounds_take(made):
    assert late_after([]) == 5.0
    assert late_after([0.1, 0.2, 9.0]) == 5.0
    assert late_after([3.0, 4.0, 50.0]) == 12.0
    asked = {"west": "2026-03-01T12:00:00+01:00"}
    path = made(2, seconds=4.0, now_json=now_of(asked=asked))
    with contextlib.closing(locks.locked(path)):
        for seconds, late in ((11.0, {}), (13.0, {"west": 13.0})):
            assert read_live(path, clock=T0.timestamp() + seconds).late == late


def test_what_an_earlier_process_told_does_not_count(made):
    """It was killed, and a new one has the folder but has not said anything yet."""
    told = now_of(pid=os.getpid() + 1, doing="waiting", away={"east": "x"}, asked={"west": T0.isoformat()})
    path = made(2, now_json=told)
    append_line(path / "metrics.jsonl", {"round": 3, "scores": None, "away": {"north": "absent"}})
    with contextlib.closing(locks.locked(path)):
        live = read_live(path)
        assert (live.state, live.done, live.round, live.doing) == ("running", 3, 4, "")
        assert (live.here, live.away, live.late) == (("east", "west"), {"north": "absent"}, {})


def test_short_rounds_are_ahead_of_what_is_told(made):
    path = made(5, now_json=now_of(round=3, doing="scoring"))
    with contextlib.closing(locks.locked(path)):
        assert (read_live(path).round, read_live(path).doing) == (6, "")
    over = made(10, name="over", now_json=now_of(round=10, doing="writing"))
    with contextlib.closing(locks.locked(over)):
        assert (read_live(over).round, read_live(over).doing) == (10, "writing")


@pytest.mark.parametrize("now", ["", "{", "[]", None])
def test_lines_cut_short_and_files_that_are_missing(made, now):
    path = made(2, events_jsonl=events_of(BEGUN) + '{"time": "2026')
    with (path / "metrics.jsonl").open("a") as file:
        file.write('{"round": 3, "sco')
    if now is not None:
        (path / "now.json").write_text(now)
    with contextlib.closing(locks.locked(path)):
        live = read_live(path)
    assert (live.state, live.done, live.round, len(live.events)) == ("running", 2, 3, 1)
    assert live.here == SITES


def test_looking_does_not_get_into_the_way_of_who_locks(tmp_path):
    assert locks.held(tmp_path) is None
    locks.locked(tmp_path).close()
    assert locks.held(tmp_path) is None
    with (tmp_path / locks.NAME).open() as file:
        locks._look(file)  # somebody looks at this very moment
        done = time.monotonic() + 0.03

        def sleep(seconds: float, real=time.sleep) -> None:
            real(seconds)
            if time.monotonic() > done:
                file.close()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(locks.time, "sleep", sleep)
            mine = locks.locked(tmp_path)
    assert locks.held(tmp_path) == os.getpid()
    mine.close()


def test_events_are_added_to_what_is_there(tmp_path):
    events = Events(tmp_path)
    assert events.last is None
    events.append(0, "begun")
    events.append(4, "left-out", "west", "west is not connected")
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write('{"time": "20')
    again = Events(tmp_path)
    assert again.last == "left-out"
    again.append(4, "resumed", None, "x" * 5000)
    found = read_events(tmp_path, 10)
    assert [(e.round, e.what, e.who) for e in found] == [
        (0, "begun", None),
        (4, "left-out", "west"),
        (4, "resumed", None),
    ]
    assert len(found[2].why) == 2000
    assert str(found[1]) == "west is left out: west is not connected"
    moment = datetime.fromisoformat(found[0].time)
    assert moment.tzinfo is not None
    assert abs(moment.timestamp() - time.time()) < 60
    assert event_of({"time": "t", "round": 1, "what": "sings", "who": None, "why": ""}) is None


@pytest.mark.parametrize(
    ("error", "what", "why"),
    [
        (Diverged("loss nan"), "diverged", "loss nan"),
        (Refused("policy"), "refused", "policy"),
        (BadRun("too few\nsites"), "failed", "too few sites"),
        (ZeroDivisionError(), "failed", "ZeroDivisionError"),
        (KeyboardInterrupt(), "stopped", ""),
    ],
)
def test_what_ends_a_run_is_its_last_event(tmp_path, error, what, why):
    def fail() -> None:
        with observing(tmp_path, 5) as seen:
            seen.begin(None)
            seen.round(3)
            raise error

    with pytest.raises(type(error)):
        fail()
    begun, last = read_events(tmp_path, 10)
    assert (begun.what, last.round, last.what, last.who, last.why) == ("begun", 3, what, None, why)


def test_now_is_replaced_when_something_has_changed(tmp_path, monkeypatch):
    monkeypatch.setattr("coterie.features.live.hook.EVERY", 0.01)
    now = Now(tmp_path, 0, 5)

    def until(**told):
        end = time.monotonic() + 10
        while not told.items() <= read_now(tmp_path).items():
            assert time.monotonic() < end
            time.sleep(0.005)
        return (tmp_path / "now.json").stat().st_mtime_ns

    first = until(round=0, doing="training", pid=os.getpid())
    now.set(round=0, doing="training")
    time.sleep(0.05)
    assert until(round=0) == first, "nothing has changed"
    now.set(doing="scoring")
    assert until(doing="scoring") > first
    now.set(round=1)
    now.close()
    assert read_now(tmp_path)["round"] == 1, "what was told last is written in the end"
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_a_run_writes_them_and_a_resumed_one_adds_to_them(restless, run_in, tmp_path):
    path, states, experiment = tmp_path / "run", [], restless(rounds=4)

    def look(record):
        live = read_live(path)
        states.append((live.state, live.done, live.round))
        if len(states) == 3:
            raise ZeroDivisionError("halt")

    folder = Folder.create(path, experiment.config, experiment.about)
    with contextlib.closing(folder), pytest.raises(ZeroDivisionError):
        run(experiment, folder, "x", look)
    assert states == [("running", 0, 1), ("running", 1, 2), ("running", 2, 3)]
    assert (read_live(path).state, read_live(path).why) == ("failed", "halt")
    run_in(path, restless(rounds=4))
    live = read_live(path)
    assert (live.state, live.done) == ("finished", 4)
    told = [(e.round, e.what, e.why) for e in read_events(path, 10)]
    assert told == [
        (0, "begun", ""),
        (2, "failed", "halt"),
        (2, "resumed", "after round 2"),
        (4, "finished", ""),
    ]
    before = (path / "events.jsonl").read_bytes()
    run_in(path, restless(rounds=4))  # only read again
    assert (path / "events.jsonl").read_bytes() == before
    now = read_now(path)
    assert (now["round"], now["of"], now["pid"]) == (4, 4, os.getpid())


def test_a_site_is_shown_its_part_of_a_run(made, tmp_path):
    """Its own process has the lock; of who leads the run it knows only what came."""
    path = made(2, name="state/shown/run", seconds=4.0)
    about = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps({**about, "lead": "anna", "site": "west"}))
    assert (read_live(path).state, read_live(path).why) == ("stopped", ALONE)
    with contextlib.closing(locks.locked(tmp_path / "state")):
        assert (read_live(path).state, read_live(path).here) == ("running", SITES)
        later = read_live(path, clock=heard(path) + 13)
        assert (later.state, dict(later.late)) == ("waiting", {"anna": pytest.approx(13)})
        assert (progress(later), missing(later)) == ("waiting, round 3 of 10", "late: anna 13 s")
        for r in range(3, 11):
            append_line(path / "metrics.jsonl", {"round": r, "scores": None})
        assert read_live(path).state == "finished"


@pytest.mark.parametrize(
    ("connected", "here", "late", "away", "why"),
    [
        (True, ["anna", *SITES], ["anna"], {}, ""),
        (True, ["anna", *SITES[1:]], ["anna"], {SITES[0]: GONE}, ""),
        (True, SITES, [], {"anna": GONE}, ""),
        (False, ["anna", *SITES], ["anna"], {}, NO_LINE),
    ],
)
def test_a_site_that_waits_says_who_is_not_connected(made, tmp_path, connected, here, late, away, why):
    """By what it knows itself: the relay tells every site who is there."""
    path = made(2, name="state/shown/run", seconds=4.0)
    about = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps({**about, "lead": "anna", "site": SITES[1]}))
    told = {"time": "", "connected": connected, "here": here}
    name = "presence.json" if connected else "here.json"  # as earlier versions call it
    (tmp_path / "state" / name).write_text(json.dumps(told))
    with contextlib.closing(locks.locked(tmp_path / "state")):
        assert read_live(path).away == {}  # while rounds come, who leads knows better
        live = read_live(path, clock=heard(path) + 13)
        assert (list(live.late), live.away, live.why) == (late, away, why)


# comparisons


def test_a_comparison_tells_which_of_its_runs_goes_on(made, tmp_path):
    table = 'methods = ["local", "fedavg:sample=0.5"]\nseeds = 2\nseed = 3\nrounds = 10\n'
    (tmp_path / "compare.toml").write_text(table)
    assert (read_study(tmp_path).state, read_study(tmp_path).done, read_study(tmp_path).of) == (
        "stopped",
        0,
        40,
    )
    (made(10, name="local/seed-3") / "models.safetensors").touch()
    with contextlib.closing(locks.locked(tmp_path)):
        assert read_study(tmp_path).state == "running", "between two runs"
    second = made(4, name="local/seed-4", events_jsonl=events_of(BEGUN, (4, "failed", None, "x")))
    study = read_study(tmp_path)
    assert (study.state, study.done, study.of, study.going) == ("failed", 14, 40, [])
    with contextlib.closing(locks.locked(second)):
        study = read_study(tmp_path)
        assert study.state == "running"
        assert [(cell.label, cell.seed, cell.place) for cell in study.going] == [("local", 4, second)]
        assert [cell.live and cell.live.done for cell in study.cells] == [10, 4, None, None]
        (second / "now.json").write_text(now_of(doing="waiting", round=5))
        assert read_study(tmp_path).state == "waiting"


# as terminals show it


def test_the_bar_tells_who_is_late_or_away(made, monkeypatch):
    monkeypatch.setattr("coterie.report.progress.LOOK", -1.0)
    asked = {"west": "2026-03-01T12:00:00+01:00"}
    path = made(2, now_json=now_of(asked=asked, away={"east": "east is not connected"}))
    console = Console(width=40, force_terminal=True, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    with contextlib.closing(locks.locked(path)), bar_of(10, console) as bar:
        bar.start()
        assert bar.missing() == ""
        bar.follows = path.with_name("elsewhere")
        assert bar.missing() == "", "before it begins"
        bar.follows = path
        assert bar.missing().startswith("late: west ")
        assert bar.missing().endswith("; away: east")
        bar.refresh()
    assert "late: west " in console.export_text()


@pytest.mark.parametrize("width", [30, 80, 160])
def test_a_view_fits_the_terminal(made, width):
    events = events_of(BEGUN, (2, "left-out", "east", "east is not connected " * 5))
    asked, away = {"west": "2026-03-01T12:00:00+01:00"}, {"east": "[bold]no markup[/bold]"}
    path = made(2, events_jsonl=events, now_json=now_of(asked=asked, here=["north"], away=away))
    with contextlib.closing(locks.locked(path)):
        live = read_live(path, T0.timestamp() + 12)
    console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    console.print(of_run("run", live, "accuracy 60.7 %", "classification", lines, []))
    shown = console.export_text()
    assert all(len(line) <= width for line in shown.splitlines())
    flat = "".join(shown.split())
    for part in (
        "round 3 of 10, training",
        "60.7",
        "west, nothing from it for 12 s",
        "[bold]no markup[/bold]",
        "east is left out",
    ):
        assert "".join(part.split()) in flat
