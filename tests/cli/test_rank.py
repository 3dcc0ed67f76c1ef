"""coterie rank: what it prints and writes, and what it refuses."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from coterie.cli.main import COMMANDS
from coterie.features.ranking.shown import ranking_frame, screen_table
from coterie.runs.folder import read_record
from coterie.runs.record import Record

QUICK = ("rank", "--data", "breast-cancer", "--clients", "3", "--figures", "none")


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(COMMANDS, "rank", COMMANDS.get("rank", "rank"))


@pytest.fixture
def done(coterie):
    def run(*words: str) -> str:
        code, printed, said = coterie(*words)
        assert code == 0, said
        return printed

    return run


def lines_of(path: str) -> list[dict[str, str]]:
    with Path(path).open() as file:
        return list(csv.DictReader(file))


class TestPrints:
    def test_one_requester(self, done):
        words = ("--requester", "client-1", "--ndoye.best", "1", "--ndoye.bar", "none", "--out", "here")
        printed = done(*QUICK, *words, "--figures", "svg")
        assert "breast-cancer, split by iid, by transfer loss (lower is better)" in printed
        assert "held out: 5-fold cross-validation on training rows" in printed
        assert printed.splitlines()[-2:] == ["table: here/ranking.csv", "figure: here/ranking.svg"]
        assert Path("here/ranking.svg").read_text().startswith("<?xml")
        first, second = lines_of("here/ranking.csv")
        assert {first["requester"], second["requester"]} == {"client-1"}
        assert {first["participant"], second["participant"]} == {"client-0", "client-2"}
        assert [row["rank"] for row in (first, second)] == ["1", "2"]
        assert [row["chosen"] for row in (first, second)] == ["True", "False"]
        assert float(first["transfer loss"]) <= float(second["transfer loss"])
        rows = [line.split() for line in printed.splitlines() if "client-" in line]
        assert [row[1] for row in rows[:2]] == [first["participant"], second["participant"]]
        assert [row[-1] == "*" for row in rows[:2]] == [True, False]
        assert rows[0][2] == f"{float(first['transfer loss']):+.4f}"
        assert f"client-1: {first['participant']}; because {first['participant']} comes first" in printed

    def test_the_bar_beside_the_ranking(self, done):
        printed = done(*QUICK, "--requester", "client-1", "--out", "here")
        for row in lines_of("here/ranking.csv"):
            above, error = (float(row[name]) for name in ("loss above own", "error of loss above own"))
            line = next(line for line in printed.splitlines() if f" {row['participant']} " in line)
            assert f"{above:.3f} ± {error:.3f}" in line
            assert ("*" in line) == (row["chosen"] == "True") == (above <= error)
            assert row["reason"].startswith(f"the model of {row['participant']} does ")
        assert "\nclient-1: " in printed
        assert "* chosen to train with" in printed

    def test_all_requesters(self, done):
        printed = done(*QUICK, "--by", "influence", "--out", "here")
        assert "by influence (higher is better)" in printed
        assert printed.splitlines()[-1] == "table: here/ranking.csv"
        assert not list(Path("here").glob("ranking.svg"))
        found = lines_of("here/ranking.csv")
        assert len(found) == 6
        for row in found:
            above = float(row["influence"]) > float(row["error of influence"])
            suits = float(row["loss above own"]) <= float(row["error of loss above own"])
            assert (row["chosen"] == "True") == (above and suits)
            assert f"{float(row['influence']):+.3f}" in printed

    def test_settings_from_a_file(self, done):
        Path("my.toml").write_text(
            'by = "influence"\nrequester = "client-0"\n\n[influence]\nestimate = "first-order"\n'
        )
        done(*QUICK, "--config", "my.toml", "--out", "here")
        config = read_record(Path("here")).config
        assert (config["method"], config["rounds"]) == ("influence", 1)
        assert config["influence"]["estimate"] == "first-order"
        assert config["influence"]["requester"] == "client-0"


def test_a_ranking_is_a_run_of_one_round_like_any_other(done, coterie):
    flags = ("--ndoye.requester", "client-2", "--ndoye.folds", "3")
    done(*QUICK, *flags, "--out", "here")
    done("run", *QUICK[1:-2], "--method", "ndoye", *flags, "--rounds", "1", "--out", "run")
    for name in ("metrics.jsonl", "models.safetensors", "config.toml"):
        assert Path("here", name).read_bytes() == Path("run", name).read_bytes()
    code, _, said = coterie("resume", "here")
    assert code == 0
    assert "1 of 1 rounds: it was finished" in said


def test_training_goes_by_the_same_ranking(done):
    flags = ("--influence.best", "1", "--influence.threshold=-inf", "--influence.bar", "none")
    done(*QUICK, "--by", "influence", *flags, "--out", "here")
    done("run", *QUICK[1:-2], "--method", "influence", *flags, "--rounds", "3", "--out", "run")
    ranked, trained = read_record(Path("here")), read_record(Path("run"))
    assert (ranked.matrices["influence"][1] == trained.matrices["influence"][1])[~np.eye(3, dtype=bool)].all()
    assert sorted(trained.matrices["influence"]) == [1]
    for round in (1, 2, 3):
        assert (trained.weights[round] == ranked.weights[1]).all()
        assert (np.count_nonzero(trained.weights[round], axis=1) == 2).all()
    Path("run/models.safetensors").unlink()
    done("resume", "run")


def test_a_run_says_who_trains_alone_and_why(coterie):
    words = ("--method", "ndoye", "--ndoye.threshold=-inf", "--rounds", "2", "--out", "run")
    code, _, said = coterie("run", *QUICK[1:-2], *words)
    assert code == 0
    why = "ndoye: client-0 trains alone: nobody; because "
    assert f"· {why}" in said
    page = Path("run/report.html").read_text()
    assert "<h3>Who trains alone, and why</h3>" in page
    assert why in page
    extras = read_record(Path("run")).metrics[1]["extras"]
    assert extras["nobody"] == ["client-0", "client-1", "client-2"]


class TestRefuses:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--by", "ndoy"], "unknown ranking 'ndoy': did you mean ndoye?"),
            (["--requester", "client-7"], "unknown requester 'client-7': did you mean client-2?"),
            (["--clients", "1"], "a ranking needs at least 2 clients; got 1: add clients, or use local"),
            (["--rounds", "5"], "rounds=5: a ranking takes one round"),
            (["--ndoye.folds", "5000"], "too few to hold out folds=5000 parts of them: lower --ndoye.folds"),
            (
                ["--ndoye.folds", "0"],
                "has no validation samples to score on: hold some out with --validation",
            ),
            (["--wrap", "absent=1"], "nobody could be ranked: the requester or all others did not answer"),
            (["--by", "influence", "--wrap", "absent=1"], "absent=1): lower absent, or take another seed"),
            (["--model", "mlp", "--sgd.lr", "1e12"], "lower the learning rate"),
        ],
    )
    def test_in_one_line_and_leaves_nothing(self, refused, words, said):
        assert said in refused(*QUICK, *words)

    def test_a_folder_that_was_there_stays(self, refused, tmp_path):
        (tmp_path / "here").mkdir()
        assert "nobody could be ranked" in refused(*QUICK, "--wrap", "absent=1", "--out", "here")

    def test_a_folder_that_others_use_stays_too(self, refused, done, tmp_path):
        done(*QUICK, "--out", "runs/mine")
        assert "nobody could be ranked" in refused(*QUICK, "--wrap", "absent=1", "--out", "runs/deep/er")
        assert (tmp_path / "runs" / "mine" / "ranking.csv").exists()

    def test_stopped(self, coterie, monkeypatch, tmp_path):
        def stop(record):
            raise KeyboardInterrupt

        monkeypatch.setattr("coterie.features.ranking.ranking.refuse_empty", stop)
        code, _, said = coterie(*QUICK, "--out", "here")
        assert code == 130
        assert said.splitlines()[-1] == "coterie: stopped"
        assert not (tmp_path / "here").exists()


def record_of(values, weights, method="ndoye") -> Record:
    name = {"ndoye": "transfer loss", "influence": "influence"}[method]
    clients = [{"name": f"site {i}", "train": 10 * (i + 1)} for i in range(len(values))]
    return Record(
        label=method,
        config={"method": method},
        about={"clients": clients},
        weights={1: np.array(weights, dtype=float)},
        matrices={name: {1: np.array(values, dtype=float)}},
    )


def on_screen(record: Record, width: int = 80) -> list[str]:
    console = Console(width=width, highlight=False)
    with console.capture() as captured:
        console.print(screen_table(record, width))
    return [line.strip() for line in captured.get().splitlines()]


NAN = float("nan")
THREE = [[NAN, 0.5, -0.25], [0.125, NAN, 0.0], [NAN, NAN, NAN]]
CIRCLES = [[0.5, 0, 0.5], [0, 1, 0], [0, 0, 1]]


class TestTables:
    def test_best_first_whichever_way_is_better(self):
        low = ranking_frame(record_of(THREE, CIRCLES))
        assert list(low["participant"]) == ["site 2", "site 1", "site 2", "site 0"]
        assert list(low["rank"]) == [1, 2, 1, 2]
        assert list(low["chosen"]) == [True, False, False, False]
        high = ranking_frame(record_of(THREE, CIRCLES, "influence"))
        assert list(high["participant"]) == ["site 1", "site 2", "site 0", "site 2"]
        assert list(high["chosen"]) == [False, True, False, False]

    def test_who_did_not_answer_is_said(self):
        values = [[NAN, 0.5, NAN], [NAN] * 3, [NAN] * 3]
        lines = on_screen(record_of(values, [[0.5, 0.5, 0], [0, 1, 0], [0, 0, 1]]))
        first, gone = lines[-3:-1]
        assert first.split() == ["1", "site", "1", "+0.5000", "20", "*"]
        assert gone.split() == ["site", "2", "did", "not", "answer", "30"]

    def test_a_matrix_where_it_fits(self):
        lines = on_screen(record_of(THREE, CIRCLES))
        assert lines[1].split() == ["site", "0", "·", "+0.500", "-0.250", "*"]
        assert lines[3].split() == ["site", "2", "·", "·", "·"]
        assert lines[4] == "* chosen to train with"

    def test_else_a_line_for_each(self):
        lines = on_screen(record_of(THREE, CIRCLES), width=36)
        text = " ".join(" ".join(lines).split())
        assert "site 2 -0.250" in text
        assert "chosen" in text
        assert "site 2 -0.250 *" in text
