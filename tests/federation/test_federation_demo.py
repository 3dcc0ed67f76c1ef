"""coterie federation demo and rehearse: all of it, and nothing of it afterwards."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from hosts import Here, Hosts, Running, left_behind, look
from safetensors.numpy import save_file

from coterie.cli.main import main
from coterie.core.errors import BadData, BadRun
from coterie.data.preparation import Column
from coterie.data.sources.heart_disease import HeartDisease
from coterie.federation.demo import rehearsal
from coterie.federation.demo import ward as parties
from coterie.federation.demo.ward import Study, Ward

LONG = 180.0  # seconds for what takes fifteen on a machine that has nothing else to do
NOWHERE = "http://127.0.0.1:9"
IN_BACKGROUND = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]  # as shells start jobs: with SIGINT ignored
DEMO = [sys.executable, "-m", "coterie", "federation", "demo", "--rounds", "2"]


@pytest.fixture
def demo(tmp_path):
    """Starts the demo on a fresh machine: nothing is at hand, there is no network, and a home to spoil."""
    before = look(tmp_path)
    empty = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp")}
    offline = {"COTERIE_DATA": "", "XDG_CACHE_HOME": "", "HTTPS_PROXY": NOWHERE, "https_proxy": NOWHERE}
    (tmp_path / "tmp").mkdir()
    (tmp_path / "log").mkdir()
    started = []

    def start(*words, env=(), by=()):
        log = tmp_path / "log" / f"{len(started)}.log"
        env = {**empty, **offline, "NO_PROXY": "", **dict(env)}
        started.append(Running([*by, *DEMO, *words], log, env, cwd=tmp_path))
        return started[-1]

    yield start
    for running in started:
        running.stop()
        assert not [*Path("/run/netns").glob(f"cot-{running.pid}-*")]
    own = (f"file {tmp_path}/runs/federation-demo", f"file {tmp_path}/log/")
    assert [line for line in left_behind(before) if not line.startswith(own)] == []


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
def test_the_demo(demo, tmp_path, times):
    """The second time with hosts of their own, where there can be some, and real data where it is at hand."""
    data = {"COTERIE_DATA": os.environ.get("COTERIE_DATA", "")}
    hosts = [] if Hosts.possible() else ["--hosts"]
    both = [([], {}, "federation-demo"), (hosts, data, "federation-demo-2")]
    for i, (words, env, folder) in enumerate(both[:times]):
        running = demo(*words, env=env)
        assert running.wait(LONG) == 0, running.lines[-10:]
        said = "\n".join(running.lines)
        assert (parties.INSTEAD in said) is (i == 0 or not HeartDisease().at_hand())
        assert re.search(r"a relay and 4 sites, .+: all connected after \d+\.\d s", said)
        for method in parties.METHODS:
            assert re.search(rf"^{method} +\d\d\.\d", said, re.MULTILINE), said
        assert re.search(r"^2,\w+,0\.\d+,0\.\d+,", said, re.MULTILINE), "a prediction for the first row"
        assert re.search(r"looked for (569|920) rows and 12 models .+: none there", said)
        assert running.lines[-1] == f"everything is ended; what it left is in runs/{folder}"
        assert (tmp_path / "runs" / folder / "people/lead/comparison/report.html").exists()


@pytest.mark.parametrize(
    ("sign", "at", "by"),
    [
        (signal.SIGINT, "in runs/federation-demo", []),
        (signal.SIGINT, "in runs/federation-demo", IN_BACKGROUND),
        pytest.param(signal.SIGTERM, "lead: coterie compare", [], marks=pytest.mark.slow),
    ],
    ids=["SIGINT", "SIGINT in the background", "SIGTERM"],
)
def test_the_demo_is_stopped(demo, sign, at, by):
    running = demo(by=by)
    running.wait_for(at, LONG)
    running.process.send_signal(sign)
    assert running.wait(30) == 130
    assert running.lines[-1].startswith("coterie: stopped")


def test_a_demo_whose_sites_cannot_start_says_why(tmp_path, monkeypatch):
    data = study()
    monkeypatch.setattr(Study, "recipe", lambda self, files: "target = 1\n")
    with Here(["coordinator", *data.sites, "lead"], tmp_path) as place:
        ward = Ward(place, tmp_path / "ward", data)
        ward.found()
        ward.start("a")
        with pytest.raises(BadRun, match=r"^a did not get ready .+; it said .+: see .+sites/a/output.log$"):
            ward.ready("a")


# refusals and help


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("demo", "--out", "full"), "full is there and not empty: give the name of a new folder"),
        (("demo", "--rounds", "0"), "--rounds 0 must be at least 1: try 15"),
        (("demo", "--hosts"), "network namespaces need root; leave --hosts out to see it on loopback"),
        (("rehearse", "--times", "0"), "--times 0 must be at least 1: try 1"),
        (("rehearse",), "network namespaces need root; rehearse where there are some"),
        (("rehears",), "unknown federation command 'rehears': did you mean rehearse?"),
    ],
)
def test_refusals_are_one_line(words, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "coterie.federation.demo.hosts.Hosts.possible", lambda: "network namespaces need root"
    )
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    assert main(["federation", *words]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert says in said[0]
    assert [p.name for p in tmp_path.rglob("*")] == ["full", "file"]


def test_help(capsys):
    for words, says in [
        ([], "coterie federation demo [--out DIR] [--hosts] [--rounds N]"),
        ([], "coterie federation rehearse [--out DIR] [--times N]"),
        (["demo"], "Each host in a network namespace of its own"),
        (["rehearse"], "How many times"),
    ]:
        assert main(["federation", *words, "--help"]) == 0
        assert says in capsys.readouterr().out


# what is looked at


def study():
    rows = {site: [[f"{i}.{n}5", "yes"] for n in range(3)] for i, site in enumerate("abcd", 1)}
    return Study("a study", (Column("age"),), "ill", ("no", "yes"), rows)


def test_a_table_and_its_recipe():
    data = dataclasses.replace(study(), columns=(Column("sex", "flag"),))
    assert data.table("a", slice(1)) == "sex,ill\n1.05,yes\n"
    assert data.table("a", slice(1), target=False) == "sex\n1.05\n"
    assert data.recipe({"a": "a.csv"}).splitlines()[-8:] == [
        "",
        '[columns."sex"]',
        'use = "flag"',
        'values = ["0", "1"]',
        "",
        "[columns.ill]",
        'use = "flag"',
        'values = ["no", "yes"]',
    ]


def test_damaged_data_is_no_reason_for_other_data(monkeypatch):
    def fetch(self):
        raise BadData("it is damaged")

    said = []
    monkeypatch.setattr(HeartDisease, "fetch", fetch)
    monkeypatch.setattr(HeartDisease, "at_hand", lambda self: True)
    with pytest.raises(BadData, match="damaged"):
        parties.study(said.append)
    monkeypatch.setattr(HeartDisease, "at_hand", lambda self: False)
    assert sum(map(len, parties.study(said.append).rows.values())) == 569
    assert said == [parties.INSTEAD]


@pytest.mark.parametrize(
    ("party", "content", "says"),
    [
        ("coordinator", b"something", ""),
        ("coordinator", b"... 2.15 ...", "file holds a row of b"),
        ("lead", b"... 4.25", "file holds a row of d"),
        ("lead", b"-" + np.full(5, 3.5, np.float32).tobytes(), "file holds a model of c"),
    ],
)
def test_what_is_in_the_wrong_place_is_found(tmp_path, party, content, says):
    ward = Ward(Here(["x"], tmp_path), tmp_path, study())
    for i, site in enumerate("abcd", 1):
        for method in parties.PERSONAL:
            folder = ward.models(site) / method
            folder.mkdir(parents=True)
            arrays = {"small": np.zeros(1, np.float32), "large": np.full(5, i + 0.5, np.float32)}
            save_file(arrays, folder / "weights.safetensors")
    ward.home(party).mkdir(parents=True)
    (ward.home(party) / "file").write_bytes(content)
    if says:
        with pytest.raises(BadRun, match=says):
            parties.search(ward)
    else:
        assert parties.search(ward).startswith(
            "looked for 12 rows and 12 models of sites' own in all 1 files"
        )


def line(round, accuracy=0.5, **more):
    return {"round": round, "scores": {"own/test": {"accuracy": [accuracy, None]}}, **more}


PLAIN = [line(0), line(1), line(2)]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (PLAIN, []),
        ([line(0, measures={"drift": 1}), *PLAIN[1:]], []),
        (PLAIN[:2], ["rounds 0 to 2 must be recorded once each: found [0, 1]"]),
        ([*PLAIN[:2], *PLAIN[1:]], ["rounds 0 to 2 must be recorded once each: found [0, 1, 1, 2]"]),
        ([line(0), line(1, 0.51), line(2)], ["round 1 differs from the undisturbed run"]),
        ([line(0), line(1, 0.9, away={"a": "cut"}), line(2, 0.51)], []),
        (
            [line(0), line(1, away={"a": "cut"}), line(2, 0.53)],
            ["accuracy 0.530 is not within 0.02"],
        ),
        ([line(0), line(1, away={"a": "cut"}), line(2, None)], ["accuracy nan is not within"]),
    ],
)
def test_what_a_rehearsal_checks_of_the_record(lines, says, monkeypatch):
    monkeypatch.setattr(rehearsal, "ROUNDS", 2)
    found = rehearsal.record_faults(lines, PLAIN, lambda line: None)
    assert len(found) == len(says), found
    assert all(text in fault for text, fault in zip(says, found, strict=True))


@pytest.mark.slow
def test_the_rehearsal(tmp_path, capsys):
    if why := Hosts.possible():
        pytest.skip(why)
    before = look()
    assert main(["federation", "rehearse", "--out", str(tmp_path / "all")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "passed"
    assert left_behind(before) == []
