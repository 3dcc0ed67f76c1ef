"""coterie audit: what a person sees, what is written, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from audit_runs import DIGITS
from torch import nn

import coterie as package
from coterie.cli.main import main
from coterie.features.audit.command import ATTACKS, plain
from coterie.features.audit.mixes import directly
from coterie.features.audit.shown import read_audit, render_audit
from coterie.features.audit.subject import read_subject
from coterie.show.words import Words

TITLE = Words("en")("audit.title")


@pytest.fixture
def run(run_of, hospitals, tmp_path, monkeypatch):
    """A copy of the run of two hospitals, in an empty folder."""
    shutil.copytree(run_of(*hospitals), tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


@pytest.fixture
def coterie(capsys):
    def call(*words):
        code = main(list(words))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def refused(coterie, tmp_path):
    """Exit code 2, these lines, nothing left behind."""

    def call(*words):
        before = sorted(tmp_path.rglob("*"))
        code, _, said = coterie(*words)
        assert code == 2, said
        assert sorted(tmp_path.rglob("*")) == before
        return [line.removeprefix("coterie: ") for line in said.splitlines()]

    return call


def test_all_of_it(coterie, run):
    code, printed, said = coterie("audit", "run", "--canaries", "20")
    assert code == 0, said
    for name in ATTACKS:
        assert re.search(rf"^{name} ", printed, re.M)
    assert "A failed attack proves nothing." in printed
    assert printed.splitlines()[-3:] == [
        "audit: run/audit.json",
        "page: run/audit.html",
        "report: run/report.html",
    ]
    table = json.loads((run / "audit.json").read_text())
    assert table["asked"] == list(ATTACKS)
    assert table["skipped"] == {}
    assert all(table[name]["proves"] and table[name]["proves_not"] for name in ATTACKS)
    for name in ("audit.json", "audit.html"):
        assert (run / name).stat().st_mode & 0o777 == 0o600, "rows of patients are their owner's"


def test_byte_for_byte(coterie, run):
    first = ("audit", "run", "--canaries", "20", "--client", "north")
    assert coterie(*first, "--out", "a")[0] == coterie(*first, "--out", "b")[0] == 0
    for name in ("audit.json", "audit.html"):
        assert Path("a", name).read_bytes() == Path("b", name).read_bytes()
    assert coterie(*first, "--out", "c", "--seed", "1")[0] == 0
    a, c = (json.loads(Path(place, "audit.json").read_text()) for place in "ac")
    assert a["canaries"] != c["canaries"]
    assert not (run / "audit.json").exists()


def test_one_client_and_some_attacks(coterie, run):
    code, printed, _ = coterie("audit", "run", "--attacks", "mixes", "membership", "--client", "north")
    assert code == 0
    table = json.loads((run / "audit.json").read_text())
    assert table["asked"] == ["membership", "mixes"]
    assert {e["client"] for e in table["membership"]["clients"]} == {"north"}
    assert [h["client"] for h in table["mixes"]["hosts"]] == ["north"]
    assert "inversion" not in printed


def test_the_page_escapes_what_people_wrote(coterie, run):
    assert coterie("audit", "run", "--canaries", "20", "--client", "<b>south")[0] == 0
    table = read_audit(run)
    table["inversion"]["cases"][0]["shown"][0]["columns"][0]["column"] = "<script>alert(1)</script>"
    for page in (render_audit(table, {}), (run / "report.html").read_text()):
        assert TITLE in page
        assert "<b>south" not in page.replace("\\u003cb>south", "")
        assert "&lt;b&gt;south" in page
        assert "<script>alert(1)" not in page


def test_rows_are_in_the_audit_alone(coterie, run):
    assert coterie("audit", "run", "--canaries", "20", "--client", "north")[0] == 0
    shown = read_audit(run)["inversion"]["cases"][0]["shown"][0]["columns"]
    assert f"<td>{shown[0]['original']}</td>" in (run / "audit.html").read_text()
    report = (run / "report.html").read_text()
    part = report[report.index('id="s0-audit"') : report.index('id="s0-data"')]
    assert f"<td>{shown[0]['original']}</td>" not in part
    assert "audit.html" in part
    assert "proves nothing" in part


def test_the_part_stays_when_a_report_is_written_again(coterie, run):
    assert coterie("audit", "run", "--attacks", "mixes")[0] == 0
    for command in ("report", "resume"):
        (run / "report.html").unlink()
        assert coterie(command, "run")[0] == 0
        assert TITLE in (run / "report.html").read_text()


def test_no_audit_no_part(coterie, run):
    assert coterie("report", "run")[0] == 0
    assert TITLE not in (run / "report.html").read_text()


def test_what_does_not_apply_says_why(coterie, run_of, tmp_path, monkeypatch):
    shutil.copytree(run_of(*DIGITS, "--clients", "4", "--method", "local", "--rounds", "1"), tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    code, printed, _ = coterie("audit", "run", "--attacks", "mixes")
    assert code == 0
    assert "Not tried: nobody listened to anybody else: there were no mixes." in " ".join(printed.split())


def test_rows_that_are_elsewhere(coterie, tmp_path, monkeypatch, client_of):
    """Of a run started from Python, and of a federation's, only the record is there: mixes alone."""
    monkeypatch.chdir(tmp_path)
    clients = [client_of(torch.randn(12, 3), torch.arange(12) % 2, name=n) for n in "abc"]
    package.train(nn.Linear(3, 2), clients, rounds=2, out=tmp_path / "run", progress=False)
    code, printed, _ = coterie("audit", "run")
    said = " ".join(printed.split())
    assert code == 0
    assert said.count("Not tried: this run was started from Python and its rows are not in its folder") == 3
    assert "No receiver can solve for a single reply" in said
    assert json.loads(Path("run/audit.json").read_text())["mixes"]["really"] is None


class TestRefused:
    def test_all_at_once(self, refused, run):
        assert refused(
            "audit", "run", "--attacks", "mixs", "--canaries", "9", "--client", "nort", "--seed", "-1"
        ) == [
            "unknown attack 'mixs': did you mean mixes?",
            "canaries=9 must be at least 10: try 200",
            "seed=-1 must lie between 0 and 2^63: try 0",
            "unknown client 'nort': did you mean north?",
        ]

    def test_no_run(self, refused, run):
        assert refused("audit", "nowhere") == ["nowhere is no run and no exported model: check the path"]

    def test_unfinished(self, refused, run):
        (run / "models.safetensors").unlink()
        (line,) = refused("audit", "run")
        assert line.startswith("run is not finished (3 of 3 rounds), an audit needs its models: go on with")

    def test_other_data(self, refused, run):
        about = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps({**about, "fingerprint": "0"}))
        (line,) = refused("audit", "run")
        assert line == (
            "run: the data or the first model differ from those it began with: run it anew, then audit it"
        )

    def test_into_another_run(self, refused, run, tmp_path):
        shutil.copytree(run, tmp_path / "other")
        assert refused("audit", "run", "--out", "other") == [
            "out=other holds another run: choose another --out"
        ]

    def test_damaged_audit(self, refused, run):
        (run / "audit.json").write_text("{}")
        (line,) = refused("report", "run")
        assert line.startswith("run/audit.json is damaged")

    def test_a_failure_leaves_nothing(self, refused, run, monkeypatch):
        def broken(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("coterie.features.audit.command._move", broken)
        line = refused("audit", "run", "--attacks", "mixes", "--out", "new")[-1]
        assert line.startswith("cannot write new: No space left on device")


def test_numbers_are_plain():
    found = plain({"a": 1 / 3, "b": [float("nan"), 1e-12], "c": True, "d": None})
    assert found == {"a": 0.333333, "b": [None, 1e-12], "c": True, "d": None}


def test_sealed_runs_are_read_as_such(run):
    """Nobody gets replies themselves where they are sealed."""
    subject = read_subject(run)
    assert directly(subject) == ["the coordinator"]
    config = {**subject.record.config, "wrap": ["sealed"]}
    assert directly(replace(subject, record=replace(subject.record, config=config))) == []
