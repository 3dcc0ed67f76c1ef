"""A site keeps its own part of a run's record, as a run's folder, and nothing of other sites."""

from __future__ import annotations

import copy
import json
import math
import os

import numpy as np
import pytest
from room import Room

from coterie.cli.main import main
from coterie.core.errors import CoterieError
from coterie.core.wire import pack, unpack
from coterie.features.live.live import read_live
from coterie.federation.policy.keys import Policy
from coterie.federation.site import views
from coterie.federation.site.views import Seat, ViewStore
from coterie.runs import site_view
from coterie.runs.folder import read_record
from coterie.runs.site_view import ViewPublisher
from coterie.storage.locks import held, locked
from coterie.storage.rounds import written

NAMES = ("a", "b", "c")
PENS = {"method": "pens", "options": {"pens": {"rounds_step1": 1, "samplings": 2, "neighbours": 1}}}


def parts(room, name):
    """The folders of a site's shown runs, the first first."""
    folder = room.states[name] / "shown"
    return sorted(folder.iterdir(), key=lambda path: path.stat().st_ctime) if folder.exists() else []


def as_json(value):
    return json.loads(json.dumps(value))


def hold_against(lead, folder, number):
    """A site's folder is its part of the lead's record."""
    found, me = read_record(folder), lead.clients[number]
    assert found.metrics == as_json([site_view.line_for(line, number, lead.clients) for line in lead.metrics])
    assert found.timings == as_json(lead.timings)
    assert found.config == as_json(site_view.config_for(lead.config, me))
    about = as_json(site_view.about_for(lead.about, number))
    own = {"lead", "site", "rows", "times", "notes"}
    assert {k: v for k, v in found.about.items() if k not in own} == {
        k: v for k, v in about.items() if k != "notes"
    }
    assert (found.about["lead"], found.about["site"]) == ("lead", me)
    assert (found.finished, found.done) == (lead.finished, lead.done)
    others = [i for i in range(len(lead.clients)) if i != number]
    assert set(found.weights) == set(lead.weights)
    for r, weights in lead.weights.items():
        mine = np.array(found.weights[r])
        assert (mine[number] == weights[number]).all()
        assert (mine[:, number] == weights[:, number]).all()
        assert not mine[np.ix_(others, others)].any()
        ends = (lead.passed[r][:, :2] == number).any(axis=1)
        assert (found.passed[r] == lead.passed[r][ends]).all()
    assert {n: set(m) for n, m in found.matrices.items()} == {n: set(m) for n, m in lead.matrices.items()}
    for name, by_round in lead.matrices.items():
        for r, matrix in by_round.items():
            np.testing.assert_array_equal(found.matrices[name][r][number], matrix[number])
            assert np.isnan(found.matrices[name][r][others]).all()
    return found


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    policies = {name: Policy(label_counts=True) for name in NAMES}
    return Room(tmp_path_factory.mktemp("room"), policies, names=NAMES, rows=40)


@pytest.fixture(scope="module")
def ran(room, tmp_path_factory):
    """A run of two rounds in which peers find each other; where each site keeps its model is told."""
    folder = tmp_path_factory.mktemp("run") / "run"
    for name in NAMES:
        room.stations[name].keep = lambda *told, name=name: str(room.states[name] / "models" / "pens")
    with pytest.MonkeyPatch.context() as patch:
        return room.play(patch, folder, rounds=2, **PENS)


def test_every_sites_folder_is_its_part_of_the_leads_record(room, ran):
    assert set(ran.matrices) >= {"history", "circle"}
    for number, name in enumerate(NAMES):
        (folder,) = parts(room, name)
        found = hold_against(ran, folder, number)
        assert found.finished
        assert json.loads((folder / "model.json").read_text()) == {"model": "models/pens"}
        assert found.about["times"]["started"]
        mine, theirs = found.calibration(), ran.calibration()
        assert mine is not None
        for kind, tally in theirs._asdict().items():
            for sums, all_sums in zip(getattr(mine, kind), tally, strict=True):
                assert (sums[number] == all_sums[number]).all()
                assert not any(row.any() for i, row in enumerate(sums) if i != number)
        assert folder.stat().st_mode & 0o777 == 0o700
        assert folder.parent.stat().st_mode & 0o777 == 0o700
        assert not [e for e in room.diary(name) if "not kept" in e["outcome"]]
    marks = {name: read_record(parts(room, name)[0]).about["rows"] for name in NAMES}
    assert len(set(marks.values())) == 3


def test_there_is_nothing_of_other_sites_in_it(room, ran):
    """Whatever number the lead's record has of another site alone is nowhere in a site's files."""
    for number, name in enumerate(NAMES):
        told = [figures_of(ran, i) for i in range(len(NAMES))]
        foreign = set.union(*(told[i] for i in range(len(NAMES)) if i != number)) - told[number]
        assert len(foreign) > 20
        (folder,) = parts(room, name)
        text = "".join(path.read_text() for path in folder.iterdir() if path.suffix in (".json", ".jsonl"))
        text += (folder / "config.toml").read_text()
        assert not [figure for figure in foreign if figure in text]
        assert str(room.kits["lead"].folder) not in text
        record = read_record(folder)
        assert all(
            (c["train"], c["test"], c["labels"], c["notes"]) == (0, 0, None, [])
            for i, c in enumerate(record.about["clients"])
            if i != number
        )


def figures_of(record, number):
    """Scores, losses and drifts of one client, as files spell them."""
    found = set()
    for line in record.metrics:
        for metrics in [*(line["scores"] or {}).values(), {"loss": line["train_loss"]}]:
            # without a sign: a net benefit may be minus another's, and its digits are then in both
            found |= {json.dumps(abs(v[number])) for v in metrics.values() if v[number] is not None}
    return {figure for figure in found if len(figure) > 8}  # others are fractions that anybody may have


def test_a_site_reads_it_like_any_run(room, ran, capsys):
    (folder,) = parts(room, "b")
    record = read_record(folder)
    assert np.isnan(record.final("accuracy")).tolist() == [True, False, True]
    assert set(record.given_away()[["sender", "receiver"]].stack()) <= {*NAMES, "coordinator"}
    assert (record.given_away()[["sender", "receiver"]] == "b").any(axis=1).all()
    assert record.collected()[1].tolist() == ran.collected()[1].tolist()
    assert len(record.history().dropna()["client"].unique()) == 1
    assert not record.reliability().empty
    assert main(["report", str(folder), "--csv"]) == 0
    said = capsys.readouterr().out
    assert "figures of b alone" in said
    page = (folder / "report.html").read_text()
    assert "This is b&#x27;s part of a run that lead leads." in page
    assert "Started from Python" not in page
    assert main(["watch", str(folder)]) == 0
    assert main(["energy", str(folder)]) == 0
    assert main(["contributions", str(folder)]) == 0
    assert "gave to b" in capsys.readouterr().out
    for words in (["resume", str(folder)], ["contributions", str(folder), "--requester", "a"]):
        assert main(words) == 2
    assert "lead, who leads it, can go on with it" in capsys.readouterr().err


def test_another_run_on_the_same_rows_has_the_same_mark(room, ran, tmp_path, monkeypatch):
    room.play(monkeypatch, tmp_path / "again", rounds=1)
    first, second = map(read_record, parts(room, "a"))
    assert first.about["rows"] == second.about["rows"] != ""
    assert (first.config["method"], second.config["method"]) == ("pens", "fedavg")


def test_who_was_away_catches_up_when_it_is_back(tmp_path, monkeypatch):
    room = Room(tmp_path, names=NAMES, rows=40)

    def watch(record):
        room.gone = {"c"} if record.done == 1 else set()
        if record.done == 2:
            (folder,) = parts(room, "c")
            assert read_record(folder).done == 1
            (mine,) = parts(room, "a")
            with locked(mine.parents[1]):  # as a site's process has it, while the run goes on
                live = read_live(mine)
            assert (live.state, live.done, live.of) == ("running", 2, 3)
            assert (live.here, set(live.away)) == (("a", "b"), {"c"})
            room.boots["c"] = 2
            room.open("c")

    lead = room.play(monkeypatch, tmp_path / "run", watch, rounds=3)
    for number, name in enumerate(NAMES):
        found = hold_against(lead, parts(room, name)[0], number)
        assert "c" in found.metrics[2]["away"]
        assert read_live(parts(room, name)[0]).state == "finished"
        assert held(parts(room, name)[0]) is None
    got = [[one["line"]["round"] for one in m["shown"]["rounds"]] for m in room.asked("c", "ledger")]
    assert got == [[0], [1], [2, 3], []]
    assert [("config" in m["shown"], "end" in m["shown"]) for m in room.asked("c", "ledger")] == [
        (True, False),
        (False, False),
        (False, False),
        (False, True),
    ]


def test_a_lead_that_goes_on_does_rounds_again_and_sites_drop_what_they_had(tmp_path, monkeypatch):
    room, folder = Room(tmp_path, names=("a", "b"), rows=40), tmp_path / "run"

    class Cut(BaseException):
        pass

    def watch(record):
        if record.done == 3:
            raise Cut

    with pytest.raises(Cut):
        room.play(monkeypatch, folder, watch, rounds=4, checkpoint=2)
    assert [written(parts(room, name)[0]) for name in ("a", "b")] == [3, 3]
    started = read_record(parts(room, "a")[0]).about["times"]
    (parts(room, "b")[0] / "collaboration.jsonl").unlink()  # and one has lost some of it
    room.open("b")
    room.boots["b"] = 2
    lead = room.play(monkeypatch, folder, rounds=4, checkpoint=2)
    for number, name in enumerate(("a", "b")):
        found = hold_against(lead, parts(room, name)[0], number)
        assert [line["round"] for line in found.metrics] == [0, 1, 2, 3, 4]
    assert read_record(parts(room, "a")[0]).about["times"] == started


def test_what_does_not_fit_is_said_at_both_ends_and_the_run_goes_on(tmp_path, monkeypatch, caplog):
    """Who leads tells one site of another's figures, in every round."""
    room = Room(tmp_path, names=("a", "b"), rows=40)
    line_for = site_view.line_for
    monkeypatch.setattr(
        site_view,
        "line_for",
        lambda line, number, names: line if number == 0 else line_for(line, number, names),
    )
    lead = room.play(monkeypatch, tmp_path / "run", rounds=2)
    assert lead.finished
    assert not parts(room, "a")
    assert read_record(parts(room, "b")[0]).finished
    odd = [e for e in room.diary("a") if "not kept" in e["outcome"]]
    assert len(odd) == 4
    assert "scores must be a table by name of a table by name of a list of 2 with null" in odd[0]["outcome"]
    assert not [figure for figure in figures_of(lead, 1) if figure in json.dumps(room.diary("a"))]
    assert any("what lead shows of its run is not kept" in line for line in room.said["a"])
    said = [r.message for r in caplog.records if "does not keep its part" in r.message]
    assert said == ["a does not keep its part of the record: its own screen says why"]


# a site by itself


SEAT = Seat("0" * 32, "lead", "b", 1, frozenset({"a", "c"}), "mark")


@pytest.fixture(scope="module")
def told(ran):
    """All that site b is shown of the run, in one message."""
    showing = ViewPublisher(ran)
    showing.have[1], showing.over = -1, True
    showing.begin()
    return as_json(showing.order(1))


@pytest.fixture
def seen(tmp_path):
    made = ViewStore(tmp_path, 1000)
    yield made
    made.let_go()


def test_all_of_it_in_one_message_is_kept(ran, told, seen, tmp_path):
    assert seen.take(SEAT, {"rounds": []}) is None  # without the settings
    assert seen.take(SEAT, told) == 2
    found = hold_against(ran, seen.folder(SEAT.run), 1)
    assert found.calibration() is not None
    seen.let_go()
    again = ViewStore(tmp_path, 1000)  # the site was started anew, and is told the same once more
    assert again.take(SEAT, {"rounds": told["rounds"][1:]}) == 2
    hold_against(ran, seen.folder(SEAT.run), 1)
    again.let_go()


def test_what_a_kill_cut_short_is_told_again(ran, told, seen, tmp_path):
    killed = ViewStore(tmp_path, 1000)
    killed.take(SEAT, told)
    killed.let_go()
    folder = seen.folder(SEAT.run)
    path = folder / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    assert seen.take(SEAT, {"rounds": []}) == 1
    assert seen.take(SEAT, {"rounds": told["rounds"][2:]}) == 2
    hold_against(ran, folder, 1)


def test_rounds_that_leave_a_gap_wait_for_those_between(told, seen):
    assert seen.take(SEAT, {**told, "rounds": told["rounds"][:1], "end": None}) == 0
    assert seen.take(SEAT, {"rounds": told["rounds"][2:]}) == 0
    assert written(seen.folder(SEAT.run)) == 0


LINE, HEARD, ABOUT = ("rounds", 1, "line"), ("rounds", 1, "heard"), ("about", "clients")


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ((), [], "must be a table"),
        (("rounds",), 3, "rounds is 3"),
        (("rounds",), [[]], "rounds is"),
        (("rounds",), [{}] * 65, "rounds is"),
        (("config",), [], "config is"),
        (("config", "rounds"), 1001, "max_rounds is 1000"),
        (("config", "method"), None, "method is"),
        (("config", "note"), None, "settings that are shown are none"),
        (("config", "note"), "\x1b[2J", "config is"),
        (("config", "note"), "x" * 5000, "config is"),
        (("about",), None, "must be a table"),
        (("about", "task"), "chess", "must be one of"),
        ((*ABOUT, 1, "name"), "d", "not the sites of the run"),
        (ABOUT, [], "not the sites of the run"),
        ((*ABOUT, 0, "train"), 5, "which is another site"),
        ((*ABOUT, 0, "labels"), [[3], [0], [2]], "which is another site"),
        ((*ABOUT, 2, "notes"), ["x"], "which is another site"),
        (("about", "small"), {"a": "few rows"}, "other sites"),
        ((*LINE, "round"), 7, "not of one round"),
        ((*LINE, "round"), -1, "round must be"),
        ((*LINE, "round"), True, "round must be"),
        ((*LINE, "scores"), {}, "with own/test"),
        ((*LINE, "scores", "own/test", "loss"), [0.5, 0.5, None], "null for others"),
        ((*LINE, "train_loss"), [None, math.nan, None], "null for others"),
        ((*LINE, "train_loss"), [None, 1.0], "null for others"),
        ((*LINE, "train_loss"), [None, "1.0", None], "null for others"),
        ((*LINE, "sent"), [1, 1, 0], "0 for others"),
        ((*LINE, "sent"), [0, -1, 0], "0 for others"),
        ((*LINE, "measures"), {"drift": [1.0, None, None]}, "null for others"),
        ((*LINE, "away"), {"x": "who?"}, "why, by site"),
        ((*LINE, "extras"), {"note": math.inf}, "extras must be"),
        ((*LINE, "extras"), {"note": [[[[[[[[[[1]]]]]]]]]]}, "extras must be"),
        ((*LINE, "ended"), "x\ny", "ended must be"),
        (("rounds", 1, "timing", "seconds"), None, "seconds is"),
        (("rounds", 1, "timing", "round"), 2, "not of one round"),
        (HEARD, None, "not of one round"),
        ((*HEARD, "row"), [0.5], "3 finite numbers"),
        ((*HEARD, "column"), [0.5, math.inf, 0.5], "3 finite numbers"),
        ((*HEARD, "named"), {"x": [1.0, None]}, "named must be"),
        ((*HEARD, "named"), {str(i): [None] * 3 for i in range(21)}, "named must be"),
        ((*HEARD, "passed"), [[0, 2, 1, 8, 0]], "with this site at an end"),
        ((*HEARD, "passed"), [[1, 9, 1, 8, 0]], "with this site at an end"),
        ((*HEARD, "passed"), [[1, 3, 1, 8]], "with this site at an end"),
        (("end", "calibration", "above"), [[1.0], [1.0, 2.0], [3.0]], "sums by bin"),
        (("end", "privacy"), {"delta": 1e-5, "sites": [{"name": "a"}]}, "it is of other sites"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(told, tmp_path, path, value, why):
    spoiled = copy.deepcopy(told)
    holder = {"": spoiled}
    for key in ("", *path[:-1]) if path else ():
        holder = holder[key]
    holder[path[-1] if path else ""] = value
    seen = ViewStore(tmp_path, 1000)
    with pytest.raises(CoterieError) as error:
        seen.take(SEAT, value if not path else spoiled)
    assert why in str(error.value)
    assert not list(tmp_path.rglob("*"))


def test_a_lead_cannot_fill_a_disk(told, seen, monkeypatch):
    monkeypatch.setattr(views, "MOST_BYTES", 2000)
    with pytest.raises(CoterieError, match="of one run's record: no more is kept of it"):
        seen.take(SEAT, told)
    assert seen.take(SEAT, {"rounds": []}) < 2
    with pytest.raises(CoterieError, match="at most 1,000"):
        seen.take(SEAT._replace(others=frozenset(map(str, range(1000)))), told)
    monkeypatch.setattr("coterie.federation.site.views.MOST_LETTERS", 1 << 10)
    with pytest.raises(CoterieError, match="at once"):
        seen.take(SEAT, told)


def test_the_last_runs_are_kept_and_older_ones_forgotten(told, seen, tmp_path, monkeypatch):
    monkeypatch.setattr(views, "KEPT", 3)
    for i in range(5):
        seen.take(SEAT._replace(run=f"{i:032x}"), told)
        for path in (seen.folder(f"{i:032x}"), *seen.folder(f"{i:032x}").iterdir()):
            os.utime(path, (1000 + i, 1000 + i))
    assert sorted(p.name[-1] for p in (tmp_path / "shown").iterdir()) == ["2", "3", "4"]


def test_a_run_belongs_to_who_began_it(told, seen):
    seen.take(SEAT, told)
    for message in (told, {"rounds": told["rounds"][:1]}):
        with pytest.raises(CoterieError, match="this run was led by 'lead', not by 'mate'"):
            seen.take(SEAT._replace(leader="mate"), message)
    assert written(seen.folder(SEAT.run)) == 2


def test_nonsense_in_the_place_of_a_part_ends_nothing(tmp_path, monkeypatch):
    """The station answers, says it, and is in the run as before."""
    room = Room(tmp_path, names=("a", "b"), rows=40)
    answers = []

    def watch(record):
        station, run = room.stations["a"], room.stations["a"].run
        for odd in (None, 3, "x", [], {}, {"rounds": [None]}, {"rounds": [{}]}, {"rounds": [{"line": {}}]}):
            message = {"do": "ledger", "run": run, "first": 0, "entries": [], "shown": odd}
            answers.append(unpack(station.answer(room.kits["lead"].card, {}, pack(message, {})))[0])

    lead = room.play(monkeypatch, tmp_path / "run", watch, rounds=1)
    assert all(answer == {"seen": "not kept"} for answer in answers)
    hold_against(lead, parts(room, "a")[0], 0)
