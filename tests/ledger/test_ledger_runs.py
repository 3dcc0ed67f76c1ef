"""Ledgers of runs: killed, gone on with, changed, shown; and withdrawals after the fact."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from coterie.cli.main import main
from coterie.features.judgement.command import touched
from coterie.federation.kits.authority import found_federation
from coterie.runs.folder import read_record
from coterie.runs.record import Record
from coterie.storage import chain

WORDS = ["--data", "digits", "--clients", "4", "--rounds", "3", "--model", "logistic"]


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """A run of some rounds in which one client withdraws at times."""
    folder = tmp_path_factory.mktemp("ledger") / "run"
    assert (
        main(
            [
                "run",
                *WORDS,
                "--wrap",
                "absent=0.3",
                "ownership:share_at_most=0.3,sites=client-0",
                "--out",
                str(folder),
            ]
        )
        == 0
    )
    return folder


@pytest.fixture
def ran(once, tmp_path):
    """A copy of it, to be changed."""
    folder = tmp_path / "run"
    folder.mkdir()
    for path in once.iterdir():
        if path.is_file() and path.suffix != ".html":
            (folder / path.name).write_bytes(path.read_bytes())
    return folder


def said_of(words, capsys):
    capsys.readouterr()
    assert main(words) == 0
    return capsys.readouterr().out


def verify(folder, *words, capsys):
    capsys.readouterr()
    code = main(["ledger", "verify", str(folder), *words])
    return code, capsys.readouterr().out.splitlines()


def test_a_run_has_a_ledger_of_its_rounds(once, capsys):
    found = chain.read(once)
    assert [e.content["kind"] for e in found] == ["begin", "round", "round", "round", "end"]
    record = read_record(once)
    for entry, line in zip(found[1:4], record.metrics[1:], strict=True):
        assert entry.content.get("withdrawals") == line["extras"].get("withdrawals")
    assert any("withdrawals" in e.content for e in found)
    assert verify(once, capsys=capsys) == (
        0,
        ["5 entries; nobody signed: whoever has the folder could have written it anew"],
    )
    assert main(["ledger", "show", str(once)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 6
    assert "begins: fedavg, 4 clients" in shown[0]
    assert any("withdrew: client-0 from coordinator" in line for line in shown)


@pytest.mark.parametrize("left", [1, 3, 4])
def test_a_ledger_that_ends_before_its_run_was_cut_off(once, tmp_path, capsys, left):
    copy = shutil.copytree(once, tmp_path / "copy")
    lines = (once / "ledger.jsonl").read_text().splitlines(keepends=True)
    (copy / "ledger.jsonl").write_text("".join(lines[:left]))
    code, said = verify(copy, capsys=capsys)
    assert code == 2
    assert any("the chain was cut off" in line for line in said)


def test_the_same_run_has_the_same_ledger(once, tmp_path):
    assert (
        main(
            [
                "run",
                *WORDS,
                "--wrap",
                "absent=0.3",
                "ownership:share_at_most=0.3,sites=client-0",
                "--out",
                str(tmp_path / "x"),
            ]
        )
        == 0
    )
    assert (tmp_path / "x" / "ledger.jsonl").read_bytes() == (once / "ledger.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (
            "ledger.jsonl",
            '"round":2',
            '"round":7',
            "entry 2: it was changed: its hash is not that of what it says",
        ),
        (
            "ledger.jsonl",
            '"index":3',
            '"index": 3',
            "entry 3: it was changed: it is not spelled as it was written",
        ),
        ("config.toml", "rounds = 3", "rounds = 4", "config.toml is not what entry 0 says: it was changed"),
        (
            "metrics.jsonl",
            '"round": 2, ',
            '"round": 2, "x": 1, ',
            "metrics.jsonl, round 2, is not what entry 2 says: it was changed",
        ),
    ],
)
def test_what_was_changed_is_found(ran, capsys, file, old, new, said):
    text = (ran / file).read_text()
    assert old in text
    (ran / file).write_text(text.replace(old, new, 1))
    code, lines = verify(ran, capsys=capsys)
    assert code == 2
    assert lines[0] == said


def test_other_weights_models_and_lines_are_found(ran, capsys):
    lines = (ran / "collaboration.jsonl").read_text().splitlines()
    first, second = (json.loads(line) for line in lines[:2])
    (ran / "collaboration.jsonl").write_text(
        json.dumps({**first, "weights": second["weights"]}) + "\n" + "\n".join(lines[1:]) + "\n"
    )
    (ran / "models.safetensors").write_bytes((ran / "models.safetensors").read_bytes() + b" ")
    code, said = verify(ran, capsys=capsys)
    assert code == 2
    assert said == [
        "collaboration.jsonl, round 1, is not what entry 1 says: it was changed",
        "models.safetensors is not what entry 4 says: it was changed",
    ]
    kept = (ran / "ledger.jsonl").read_text().splitlines()
    (ran / "ledger.jsonl").write_text("\n".join(kept[:2]) + "\n")
    _, said = verify(ran, capsys=capsys)
    assert "metrics.jsonl has round 3, of which there is no entry: the chain was cut off" in said
    (ran / "ledger.jsonl").unlink()
    assert verify(ran, capsys=capsys)[1] == ["there is no entry: the ledger was removed, or never begun"]


def test_a_run_that_was_killed_goes_on_in_the_same_chain(tmp_path, capsys, monkeypatch):
    """The second round is lost with its checkpoint: it is done again, and written anew after a word on it."""
    from coterie.runs import loop

    folder, save, rounds = tmp_path / "run", loop._save, []

    def cut(run):
        rounds.append(run.done)
        if len(rounds) == 3:  # rounds 0 and 1 were saved
            raise OSError("killed")
        save(run)

    monkeypatch.setattr(loop, "_save", cut)
    assert main(["run", *WORDS, "--out", str(folder)]) != 0
    (folder / "ledger.jsonl").open("ab").write(b'{"content":')  # and in the middle of a line
    assert main(["resume", str(folder)]) == 0
    found = chain.read(folder)
    told = [(e.content["kind"], e.content.get("round", e.content.get("after"))) for e in found]
    assert told == [
        ("begin", None),
        ("round", 1),
        ("round", 2),
        ("resumed", 1),
        ("round", 2),
        ("round", 3),
        ("end", None),
    ]
    assert found[2].content == found[4].content  # to the same numbers
    assert verify(folder, capsys=capsys)[0] == 0
    before = (folder / "ledger.jsonl").read_bytes()
    assert main(["resume", str(folder)]) == 0  # of a run that is over
    assert (folder / "ledger.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["verify", "nowhere"], "nowhere is not a run folder"),
        (["show", "nowhere"], "nowhere is not a run folder"),
        (["verify", "RUN", "--heads", "nowhere"], "--heads nowhere is no file: give a site's heads.jsonl"),
        (["verify", "RUN", "--heads", "RUN/metrics.jsonl"], "is no signed head: give a site's heads.jsonl"),
        (["verify", "RUN", "--authority", "RUN/config.toml"], "is no certificate: give ca.crt of a kit"),
        (["look"], "unknown ledger command 'look'"),
    ],
)
def test_mistakes_in_one_line(once, capsys, words, said):
    assert main(["ledger", *(w.replace("RUN", str(once)) for w in words)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert said in lines[0]


# withdrawals after the fact


def test_what_a_client_has_touched_by_hand():
    weights = {
        1: np.full((4, 4), 0.25),  # a ranking's: nothing was mixed
        2: np.eye(4),
        3: np.array([[0.5, 0.5, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]]),
        4: np.array([[0.7, 0.3, 0, 0], [0, 1, 0, 0], [0.5, 0, 0.5, 0], [0, 0, 0, 1.0]]),
    }
    about, ranked = {"clients": [{"name": n} for n in "abcd"]}, {"round": 1, "extras": {"ranked_pairs": 3}}
    record = Record("x", {}, about, [ranked], weights=weights)
    found = touched(record, "b")
    assert (found.joined, found.rounds, found.later) == (3, {"a": [3, 4]}, ["c"])
    assert found.shares == {"a": pytest.approx(0.8)}
    assert touched(record, "d").joined is None


def test_training_again_without_a_client_begins_as_before(tmp_path, capsys):
    """Away at first, it joins late: the rounds before are the same to the last bit."""
    folder, again = tmp_path / "run", tmp_path / "again"
    words = [*WORDS, "--rounds", "5", "--wrap", "absent=0.6", "--seed", "3"]
    assert main(["run", *words, "--out", str(folder)]) == 0
    record = read_record(folder)
    late = {name: touched(record, name).joined or 9 for name in record.clients}
    name, joined = max(late.items(), key=lambda pair: pair[1] if pair[1] < 9 else 0)
    assert joined > 1, late
    capsys.readouterr()
    assert main(["withdraw", str(folder), name]) == 0
    said = capsys.readouterr().out
    assert "what was mixed cannot be taken back" in said
    assert f"it joined in round {joined}" in said
    assert not again.exists()
    assert main(["withdraw", str(folder), name, "--retrain", "--out", str(again)]) == 0
    other, i = read_record(again), record.clients.index(name)
    for old, new in zip(record.metrics[:joined], other.metrics[:joined], strict=True):
        for metric, values in (old["scores"] or {"own/test": {}})["own/test"].items():  # nobody was there
            mine = new["scores"]["own/test"][metric]
            assert mine[i] is None
            assert mine[:i] + mine[i + 1 :] == values[:i] + values[i + 1 :]
    assert all(name in m["away"] for m in other.metrics)
    assert all(w[:, i].sum() == 0 for w in other.weights.values())
    kept = tmp_path / "kept"  # with states that were kept, it goes on from the last before
    assert main(["run", *words, "--history", "1", "--out", str(kept)]) == 0
    assert f"goes on after round {joined - 1}" in said_of(["withdraw", str(kept), name], capsys)
    assert main(["withdraw", str(kept), name, "--retrain", "--out", str(tmp_path / "on")]) == 0
    on = read_record(tmp_path / "on")
    assert on.about["again"]["after"] == joined - 1
    for old, new in zip(other.metrics, on.metrics, strict=True):
        assert new["scores"] == old["scores"]
    assert all(torch.equal(t, on.models()[c][n]) for c, b in other.models().items() for n, t in b.items())
    assert main(["ledger", "verify", str(tmp_path / "on")]) == 0
    assert other.about["again"]["without"] == [name]
    assert other.about["again"]["run"] == str(folder)
    assert chain.read(again)[0].content["again"]["without"] == [name]
    assert main(["ledger", "verify", str(again)]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["RUN", "nobody"], "unknown client 'nobody'"),
        (["RUN", "client-0", "--out", "x"], "--out x is where a run without client-0 goes: add --retrain"),
        (["RUN", "client-0", "--retrain", "--out", "RUN"], "holds a run"),
        (["nowhere", "client-0"], "nowhere is not a run folder"),
    ],
)
def test_withdrawals_that_cannot_be(once, capsys, words, said):
    assert main(["withdraw", *(w.replace("RUN", str(once)) for w in words)]) == 2
    captured = capsys.readouterr()
    assert len(captured.err.splitlines()) == 1
    assert said in captured.err
    assert captured.out == ""


def test_wrappers_that_leave_out_refuse_what_cannot_be(capsys):
    for wrap, said in (
        ("without", "without names nobody to leave out"),
        ("without:names=x", "unknown client 'x'"),
        ("without:names=client-0+client-1+client-2+client-3", "leaves nobody"),
    ):
        assert main(["run", *WORDS, "--wrap", wrap, "--out", "never"]) == 2
        assert said in capsys.readouterr().err


def test_the_commands_of_the_page_work(tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "ownership.md"
    lines = re.findall(r"^ *(coterie .*)$", page.read_text(), re.MULTILINE)
    assert len(lines) == 9
    monkeypatch.chdir(tmp_path)
    found_federation(tmp_path / "ward", ["north", "south"], host="127.0.0.1")
    assert main(["run", "--data", "digits", "--rounds", "2"]) == 0
    for i, line in enumerate(lines):
        words = shlex.split(line)[1:]
        short = ["--rounds", "1", "--out", f"run-{i}"] if words[0] == "run" else []
        assert main([*words, *short]) == 0, line
