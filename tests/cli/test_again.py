"""coterie decide and coterie again, as a person uses them: decide, start again, look at the record."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from coterie.cli.main import main
from coterie.runs.folder import read_record
from coterie.use.cut import read_cut

SMALL = ["--data", "breast-cancer", "--clients", "4", "--rounds", "2", "--validation", "0.2"]


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def coterie(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    return lambda *words: Said(main([str(word) for word in words]), *capsys.readouterr())


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run of weight-erosion and one of fedavg, a ranking and a comparison."""
    home = tmp_path_factory.mktemp("kept")

    def made(*words):
        assert main([str(word) for word in words]) == 0

    made("run", *SMALL, "--method", "weight-erosion", "--out", home / "erosion")
    made("run", *SMALL, "--method", "fedavg", "--out", home / "fedavg")
    ranking = ["--by", "ndoye", "--ndoye.folds", "2", "--ndoye.passes", "1", "--ndoye.bar", "none"]
    made("rank", *SMALL[:4], *ranking, "--figures", "none", "--out", home / "rank")
    made("compare", *SMALL, "--methods", "local", "pens", "--seeds", "1", "--out", home / "compare")
    return home


@pytest.fixture
def home(kept, tmp_path):
    """Copies, of which nothing has been decided."""
    return shutil.copytree(kept, tmp_path / "runs")


def test_decide_start_again_and_look_at_the_record(home, coterie):
    run, new = home / "erosion", home / "new"
    assert "nothing was decided for client-0" in coterie("decide", run, "--client", "client-0").out
    decided = ["--leave-out", "client-3", "--circle", "client-1", "--by", "ann"]
    words = ["client-0 leaves client-3 out", "client-0 approves a circle of client-1"]
    assert coterie("decide", run, "--client", "client-0", *decided).out.splitlines() == words
    coterie("decide", run, "--client", "client-1", "--refuse", "client-2")
    said = coterie("again", run, "--client", "client-0", "--out", new)
    words = [*words, "client-1 is in no circle of client-2"]
    assert all(f"{line}, as was decided" in said.err for line in words)
    record = read_record(new)
    assert record.config["wrap"] == [
        "without:names=client-3",
        "circle:of=client-0,among=client-0+client-1",
        "circle:of=client-2,without=client-1",
    ]
    again = record.about["again"]
    assert (again["run"], again["client"], again["decided"]) == (str(run), "client-0", words)
    assert [f"{line}, as was decided" for line in words] == record.about["notes"][-3:]
    for weights in record.weights.values():
        assert (weights[0] > 0).tolist() == [True, True, False, False]
        assert (weights[2] > 0).tolist() == [True, False, True, False]
        assert weights[:3].sum(axis=1).tolist() == pytest.approx([1, 1, 1])
    lines = [json.loads(line) for line in (run / "decisions.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["partner", "circle", "veto", "again"]
    assert (lines[0]["by"], lines[-1]["out"]) == ("ann", str(new))
    begin = json.loads((new / "ledger.jsonl").read_text().splitlines()[0])["content"]["again"]
    assert begin == {"config": again["config"], "client": "client-0", "decided": words}
    assert coterie("ledger", "verify", new).code == 0
    assert "again, decided: client-0 leaves client-3 out" in coterie("ledger", "show", new).out


def test_an_approved_circle_is_trained_with(home, coterie):
    run, new = home / "rank", home / "new"
    record = read_record(run)
    mine = [name for name, w in zip(record.clients, record.weights[1][0], strict=True) if w > 0][1:]
    coterie("decide", run, "--client", "client-0", "--circle", mine[0])
    said = coterie("again", run, "--client", "client-0", "--rounds", "3", "--out", new)
    assert f"{mine[1]} was kept out of what client-0 mixes in 1 of 3 rounds (1), as was decided" in said.err
    trained = read_record(new)
    assert (trained.config["method"], trained.done) == ("ndoye", 3)
    for weights in trained.weights.values():
        assert {name for name, w in zip(record.clients, weights[0], strict=True) if w > 0} == {
            "client-0",
            mine[0],
        }


def test_again_goes_on_from_what_was_decided_before(home, coterie):
    run, second, third = home / "fedavg", home / "second", home / "third"
    coterie("decide", run, "--client", "client-0", "--leave-out", "client-2", "client-3")
    coterie("again", run, "--client", "client-0", "--out", second)
    coterie("decide", second, "--client", "client-0", "--take-in", "client-2")
    coterie("again", second, "--client", "client-0", "--out", third)
    assert read_record(third).config["wrap"] == ["without:names=client-3"]
    assert (read_record(third).weights[2][0] > 0).tolist() == [True, True, True, False]


def test_columns_and_thresholds(home, coterie, tmp_path):
    """Titanic's inputs are made of columns of other names, which are those that people know."""
    run, new = home / "titanic", home / "new"
    assert coterie("run", "--data", "titanic", "--method", "local", "--rounds", "1", "--out", run).code == 0
    assert read_record(run).about["columns"] == ["sex", "age", "fare", "sibsp", "parch", "embarked", "pclass"]
    name = read_record(run).clients[0]
    ruled = ["--forbid", "sex", "age", "--threshold", "survived=0.3", "--by", "ann"]
    coterie("decide", run, "--client", name, *ruled)
    coterie("decide", run, "--client", name, "--free", "age")
    coterie("again", run, "--client", name, "--out", new)
    record = read_record(new)
    assert record.config["forbid"] == ["sex"]
    assert "male" not in record.about["features"]
    assert "column sex is forbidden" in " ".join(record.about["notes"])
    for folder in (run, new):
        cut = read_cut(folder, name)
        assert (cut.of, cut.at, cut.by) == ("survived", 0.3, "ann")
    assert coterie("decide", new, "--client", name, "--free", "sex").code == 0
    unknown = coterie("decide", run, "--client", name, "--forbid", "male")
    assert (unknown.code, "unknown column 'male'" in unknown.err) == (2, True)


def test_what_is_decided_of_a_comparison_counts_for_its_runs(home, coterie):
    place = home / "compare"
    coterie("decide", place, "--client", "client-1", "--leave-out", "client-0")
    assert coterie("decide", place / "pens" / "seed-0").out == "client-1 leaves client-0 out\n"
    coterie("again", place / "pens" / "seed-0", "--client", "client-1")
    assert read_record(home / "compare-again").config["wrap"] == ["without:names=client-0"]
    refused = coterie("again", place, "--client", "client-1")
    assert refused.code == 2
    assert f"name one of its runs, try {place / 'local' / 'seed-0'}" in refused.err


@pytest.mark.parametrize(
    ("decided", "again", "said"),
    [
        ([], [], "nothing was decided for client-0 yet: decide first, with coterie decide"),
        (
            ["--threshold", "benign=0.3"],
            [],
            "changes no training (client-0 says benign from a probability",
        ),
        (
            ["--circle", "client-1"],
            [],
            "fedavg makes one model of all, so that nobody has sums of its own",
        ),
        (
            ["--leave-out", "client-1", "client-2", "client-3"],
            [],
            "only client-0 would be left",
        ),
        (["--leave-out", "client-1"], ["--rounds", "-1"], "rounds=-1 must be at least 0"),
        (["--leave-out", "client-1"], ["--client", "x"], "unknown client 'x'"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing_behind(home, coterie, decided, again, said):
    if decided:
        assert coterie("decide", home / "fedavg", "--client", "client-0", *decided).code == 0
    before = sorted(home.rglob("*"))
    refused = coterie("again", home / "fedavg", "--client", "client-0", "--out", home / "new", *again)
    assert refused.code == 2
    assert len(refused.err.strip().splitlines()) == 1
    assert said in refused.err
    assert sorted(home.rglob("*")) == before


def test_what_cannot_be_decided(home, coterie):
    for words, said in (
        (["--leave-out", "client-1"], "whose decision is it? name a --client, such as client-0"),
        (["--client", "client-0", "--threshold", "benign"], "cut 'benign' is no class with a probability"),
        (["--client", "client-0", "--circle", "client-1", "--alone"], "are two circles: give one of them"),
    ):
        refused = coterie("decide", home / "fedavg", *words)
        assert (refused.code, said in refused.err) == (2, True), refused.err
    config = home / "fedavg" / "config.toml"
    config.write_text('given = ["clients"]\n' + config.read_text())
    coterie("decide", home / "fedavg", "--client", "client-0", "--leave-out", "client-1")
    refused = coterie("again", home / "fedavg", "--client", "client-0")
    assert "was started from Python: call coterie.train with what was decided" in refused.err
    assert refused.code == 2


def test_the_commands_of_the_page_work(coterie, tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "judgement.md").read_text()
    shell = [line for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) for line in block.splitlines()]
    for line in shell:
        said = coterie(*shlex.split(line)[1:])
        assert said.code == 0, (line, said.err)
    assert read_record(tmp_path / "runs" / "with-client-2").done == 10
    assert read_record(tmp_path / "runs" / "second").config["wrap"] == [
        "without:names=client-3",
        "circle:of=client-2,without=client-1",
    ]
