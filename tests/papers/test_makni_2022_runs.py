"""makni-2022: tiny runs from the shell, killed, resumed, read again."""

from __future__ import annotations

import csv
import dataclasses
import json
import shutil

import pytest

from coterie.cli.main import main
from coterie.core.errors import BadData
from coterie.data.sources.mnist import Mnist
from coterie.methods import FLSWAG
from coterie.papers.base import Asked, run_jobs
from coterie.papers.makni_2022 import aggregates, figures
from coterie.papers.makni_2022 import paper as m
from coterie.papers.makni_2022 import results as said
from coterie.papers.places import place
from coterie.runs import features
from coterie.runs.folder import read_record

CELLS = ("logistic/digits", "common/digits", "lenet/digits", "psgld/digits")


def words(out, cells=CELLS):
    end = ["--seeds", "1", "--preset", "both", "--out", str(out)]
    return ["reproduce", "makni-2022", "--scale", "tiny", "--cells", ",".join(cells), *end]


def shrink(patch):
    """Clients train 1 and 2 epochs, the server 10, samplers 4, and five draws are averaged."""
    given = dataclasses.replace(m.SETTINGS["tiny"], epochs=(1, 2), server=10, chain=4)
    patch.setitem(m.SETTINGS, "tiny", given)
    patch.setattr(aggregates, "SAMPLES", 5)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("makni")


@pytest.fixture(scope="module")
def whole(home):
    """All cells under both presets, from the shell; what the server made is kept beside them."""
    (home / "data").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        patch.setenv("COTERIE_DATA", str(home / "data"))
        assert main(words(home / "out")) == 0
    return home / "out"


class Stop(Exception):
    pass


def quietly(share, said):
    pass


def line_of(table, *first):
    (found,) = [line for line in table.splitlines() if line.startswith("| " + " | ".join(first) + " |")]
    return found


class TestTinyRuns:
    @pytest.fixture(autouse=True)
    def small(self, whole, home, monkeypatch):
        shrink(monkeypatch)
        monkeypatch.setenv("COTERIE_DATA", str(home / "data"))

    def jobs(self, out, cells=CELLS, presets=("text", "as-run")):
        return m.PAPER.jobs(Asked(presets, "tiny", cells, 1, out))

    def path(self, out, cell, preset="text"):
        return place(out, preset, "tiny", cell, 0)

    def figures(self, out, cell, preset="text"):
        return json.loads((self.path(out, cell, preset) / m.SCORES).read_text())["figures"]

    def test_tables_and_figures_are_written(self, whole):
        assert {p.name for p in (whole / "figures").iterdir()} == {
            f"{name}-digits-{preset}.svg"
            for name in ("split-labels", "split-sizes", "calibration")
            for preset in ("text", "as-run")
        }
        text = (whole / "results.md").read_text()
        assert str(whole) not in text
        for preset in ("text", "as-run"):
            mine = text.split(f"\n## {preset}\n")[1].split("\n## ")[0]
            logistic, lenet = mine.split("### Section 8.3: LeNet")
            accuracy = 100 * self.figures(whole, "logistic/digits", preset)["FedAvg"]["accuracy"]
            assert line_of(logistic, "FedAvg") == f"| FedAvg | – | {accuracy:.2f} |"
            record = read_record(self.path(whole, "common/digits", preset))
            everybody = record.final("accuracy")
            assert len(set(everybody)) == 1
            line = line_of(logistic, "all data in one place")
            assert line == f"| all data in one place | – | {100 * everybody[0]:.2f} |"
            psgld = read_record(self.path(whole, "psgld/digits", preset))
            values = [f * psgld.final(name)[0] for name, f in said.FACTORS.items()]
            line = line_of(lenet, "digits", "pSGLD")
            assert line == "| digits | pSGLD | " + " | ".join(f"– | {v:.2f}" for v in values) + " |"

    def test_a_line_of_the_spreadsheet_is_a_model(self, whole):
        with (whole / "results.csv").open() as file:
            rows = list(csv.DictReader(file))
        (mine,) = [
            r for r in rows if (r["preset"], r["cell"], r["model"]) == ("as-run", "lenet/digits", "wBayAvg")
        ]
        figures = self.figures(whole, "lenet/digits", "as-run")
        assert {name: float(mine[name]) for name in said.FACTORS} == figures["wBayAvg"]
        scored = [
            self.figures(whole, f"{k}/digits", p) for k in ("logistic", "lenet") for p in ("text", "as-run")
        ]
        # beside what is scored: the server alone, all data in one place and psgld, under both presets
        assert len(rows) == sum(map(len, scored)) + 2 * 3

    def test_the_mean_of_low_rank_is_what_the_run_itself_ends_with(self, whole):
        # two collected epochs give two columns, all of which the method uses
        for cell in ("logistic/digits", "lenet/digits"):
            record = read_record(self.path(whole, cell))
            scored = self.figures(whole, cell)["low rank 2, mean"]
            for metric in said.FACTORS:
                assert scored[metric] == pytest.approx(record.final(metric, "point/test")[0], rel=1e-6)

    def test_the_server_has_a_fifth_of_the_rows_or_all(self, whole):
        def rows(preset):
            about = read_record(self.path(whole, "lenet/digits", preset)).about
            return sum(sum(c["labels"][0]) for c in about["clients"]), about["notes"]

        assert rows("as-run")[0] == 1297
        assert "the server trained on all 1297 training rows" in rows("as-run")[1][0]
        kept, notes = rows("text")
        fifths = [round(len(c.train) / 5) for c in m.clients_of("digits", "tiny", 0)]
        assert kept == 1297 - sum(fifths)
        assert any(f"{sum(fifths)} of the clients' 1297 training rows set aside" in n for n in notes)

    def test_the_servers_accuracy_is_found(self, whole):
        found = said.read_cell(self.path(whole, "lenet/digits"), "lenet/digits")
        (note,) = [n for n in found.origin["notes"] if "the server's model alone" in n]
        told = float(note.split(" has ")[1].split(" %")[0])
        assert found.figures[said.SERVER] == {"accuracy": pytest.approx(told / 100)}
        assert found.counts.shape == (10, 10)

    def test_tallies_of_a_sampler_are_of_the_one_test_set(self, whole):
        found = said.read_cell(self.path(whole, "psgld/digits"), "psgld/digits")
        tally = figures.unpacked(found.tallies["psgld"]).confidence
        assert float(tally.samples.sum()) == 500
        assert float(tally.right.sum()) / 500 == pytest.approx(found.figures["psgld"]["accuracy"])

    def test_a_second_call_runs_nothing(self, whole, capsys):
        before = (whole / "results.csv").read_bytes()
        assert all(job.finished for job in self.jobs(whole))
        assert main([*words(whole), "--figures", "none"]) == 0
        assert "all of it was finished before" in capsys.readouterr().err
        assert (whole / "results.csv").read_bytes() == before

    @pytest.mark.parametrize("preset", ["text", "as-run"])
    @pytest.mark.parametrize("cell", ["logistic/digits", "lenet/digits"])
    def test_scores_are_made_again_without_training(self, whole, tmp_path, monkeypatch, cell, preset):
        def trained(*args):
            raise AssertionError("it trained")

        out = tmp_path / "out"
        shutil.copytree(self.path(whole, cell, preset), self.path(out, cell, preset))
        kept = self.path(out, cell, preset) / m.SCORES
        before = kept.read_bytes()
        kept.unlink()
        monkeypatch.setattr(FLSWAG, "round", trained)
        monkeypatch.setattr(features, "pretrained", trained)
        jobs = self.jobs(out, (cell,), (preset,))
        assert [job.finished for job in jobs] == [False]
        assert run_jobs(jobs, quietly) == 1
        assert kept.read_bytes() == before

    @pytest.mark.parametrize(("cell", "preset"), [("logistic/digits", "text"), ("lenet/digits", "as-run")])
    def test_a_kill_between_rounds_loses_nothing(self, whole, tmp_path, monkeypatch, cell, preset):
        (tmp_path / "data").mkdir()
        monkeypatch.setenv(
            "COTERIE_DATA", str(tmp_path / "data")
        )  # so that the server trains, the first time

        def stop(share, said):
            if "round 2" in said:
                raise Stop

        asked = Asked((preset,), "tiny", (cell,), 1, tmp_path)
        with pytest.raises(Stop):
            run_jobs(m.PAPER.jobs(asked), stop)
        assert read_record(self.path(tmp_path, cell, preset)).done == 2
        assert said.read(asked, m.PAPER) == {}  # what is unfinished is left out
        heard = []
        run_jobs(
            m.PAPER.jobs(asked), lambda share, said: heard.append(said.removeprefix(f"{preset} {cell} "))
        )
        assert heard == ["seed 0 round 2", "seed 0 round 3", "seed 0 scoring", "seed 0"]
        for name in ("metrics.jsonl", m.SCORES):
            mine, theirs = (self.path(out, cell, preset) / name for out in (tmp_path, whole))
            assert mine.read_bytes() == theirs.read_bytes()

    def test_scores_that_are_missing_leave_a_run_out(self, whole, tmp_path):
        for cell in ("logistic/digits", "common/digits"):
            shutil.copytree(self.path(whole, cell), self.path(tmp_path, cell))
        (self.path(tmp_path, "logistic/digits") / m.SCORES).unlink()
        found = said.read(Asked(("text",), "tiny", CELLS, 1, tmp_path), m.PAPER)
        assert {preset: list(r.cells) for preset, r in found.items()} == {"text": ["common/digits"]}


def test_without_pictures_it_says_what_runs(monkeypatch, refused, tmp_path):
    def absent(self):
        raise BadData("no mnist here: fetch it")

    monkeypatch.setattr(Mnist, "fetch", absent)
    asked = Asked(("text",), "full", ("logistic/mnist",), 1, tmp_path)
    with refused(BadData, "no mnist here: fetch it; or see it run with --scale tiny"):
        m.PAPER.jobs(asked)
