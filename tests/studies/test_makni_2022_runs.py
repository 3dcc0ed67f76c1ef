"""makni-2022: tiny runs from the shell, killed, resumed, read again."""

from __future__ import annotations

import csv
import dataclasses
import json
import shutil

import pytest

from coterie.api.folders import read_record
from coterie.cli.main import main
from coterie.studies import makni_2022 as m
from coterie.studies.base import Asked, place, run_jobs
from coterie.studies.makni_2022 import aggregates, report
from coterie.studies.makni_2022 import claims as said

pytestmark = pytest.mark.slow  # three small studies from start to end

CELLS = ("logistic/digits", "common/digits", "lenet/digits", "psgld/digits")


def words(out):
    end = ["--seeds", "1", "--preset", "both", "--out", str(out)]
    return ["reproduce", "makni-2022", "--scale", "tiny", "--cells", ",".join(CELLS), *end]


@pytest.fixture(scope="module", autouse=True)
def whole(tmp_path_factory):
    """All cells under both presets, from the shell; what the server made is kept beside them.

    Clients train 1 and 2 epochs, the server 5, samplers 4, and five draws are averaged.
    """
    home = tmp_path_factory.mktemp("makni")
    (home / "data").mkdir()
    given = dataclasses.replace(m.SETTINGS["tiny"], epochs=(1, 2), server=5, chain=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(m.SETTINGS, "tiny", given)
        patch.setattr(aggregates, "SAMPLES", 5)
        patch.setenv("COTERIE_DATA", str(home / "data"))
        assert main(words(home / "out")) == 0
        yield home / "out"


def path_of(out, cell, preset="text"):
    return place(out, preset, "tiny", cell, 0)


def figures_of(out, cell, preset="text"):
    return json.loads((path_of(out, cell, preset) / m.SCORES).read_text())["figures"]


def line_of(table, *first):
    (found,) = [line for line in table.splitlines() if line.startswith("| " + " | ".join(first) + " |")]
    return found


def test_tables_and_figures_are_written(whole):
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
        accuracy = 100 * figures_of(whole, "logistic/digits", preset)["FedAvg"]["accuracy"]
        assert line_of(logistic, "FedAvg") == f"| FedAvg | – | {accuracy:.2f} |"
        everybody = read_record(path_of(whole, "common/digits", preset)).final("accuracy")
        assert len(set(everybody)) == 1
        line = line_of(logistic, "all data in one place")
        assert line == f"| all data in one place | – | {100 * everybody[0]:.2f} |"
        psgld = read_record(path_of(whole, "psgld/digits", preset))
        values = [f * psgld.final(name)[0] for name, f in said.FACTORS.items()]
        line = line_of(lenet, "digits", "pSGLD")
        assert line == "| digits | pSGLD | " + " | ".join(f"– | {v:.2f}" for v in values) + " |"


def test_a_line_of_the_spreadsheet_is_a_model(whole):
    with (whole / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    wanted = ("as-run", "lenet/digits", "wBayAvg")
    (mine,) = [r for r in rows if (r["preset"], r["cell"], r["model"]) == wanted]
    ours = figures_of(whole, "lenet/digits", "as-run")["wBayAvg"]
    assert {name: float(mine[name]) for name in said.FACTORS} == ours
    pairs = [(f"{kind}/digits", p) for kind in ("logistic", "lenet") for p in ("text", "as-run")]
    # beside what is scored: the server alone, all data in one place and psgld, under both presets
    assert len(rows) == sum(len(figures_of(whole, *pair)) for pair in pairs) + 2 * 3


@pytest.mark.parametrize(("cell", "preset"), [(c, p) for c in CELLS[::2] for p in ("text", "as-run")])
def test_the_mean_of_low_rank_is_what_the_run_itself_ends_with(whole, cell, preset):
    # two collected epochs give two columns, all of which the method uses
    record = read_record(path_of(whole, cell, preset))
    ours = figures_of(whole, cell, preset)["low rank 2, mean"]
    for metric in said.FACTORS:
        assert ours[metric] == pytest.approx(record.final(metric)[0], rel=1e-5)


def test_what_is_read_of_the_server_and_of_a_sampler(whole):
    abouts = [read_record(path_of(whole, "lenet/digits", p)).about for p in ("text", "as-run")]
    kept, all_of = (sum(sum(c["labels"][0]) for c in about["clients"]) for about in abouts)
    fifths = sum(round(len(c.train) / 5) for c in m.clients_of("digits", "tiny", 0))
    assert (kept, all_of) == (1297 - fifths, 1297)
    found = report.read_cell(path_of(whole, "lenet/digits"), "lenet/digits")
    (note,) = [n for n in found.origin["notes"] if "the server's model alone" in n]
    told = float(note.split("alone: ")[1].split(" %")[0])
    assert found.figures[said.SERVER] == {"accuracy": pytest.approx(told / 100)}
    assert found.counts.shape == (10, 10)
    found = report.read_cell(path_of(whole, "psgld/digits"), "psgld/digits")
    tally = report.unpacked(found.tallies["psgld"]).confidence
    assert float(tally.samples.sum()) == 500  # of the one test set
    assert float(tally.right.sum()) / 500 == pytest.approx(found.figures["psgld"]["accuracy"])


def test_a_second_call_runs_nothing(whole, capsys):
    before = (whole / "results.csv").read_bytes()
    assert main([*words(whole), "--figures", "none"]) == 0
    assert "all of it was finished before" in capsys.readouterr().err
    assert (whole / "results.csv").read_bytes() == before


@pytest.mark.parametrize(("cell", "preset"), [("lenet/digits", "text"), ("lenet/digits", "as-run")])
def test_scores_are_made_again_without_training(whole, tmp_path, monkeypatch, cell, preset):
    shutil.copytree(path_of(whole, cell, preset), path_of(tmp_path, cell, preset))
    kept = path_of(tmp_path, cell, preset) / m.SCORES
    before = kept.read_bytes()
    kept.unlink()
    monkeypatch.setattr(m, "train", None)
    asked = Asked((preset,), "tiny", (cell,), 1, tmp_path)
    assert report.REPORT.read(asked, m.PAPER) == {}  # what is not scored is left out
    assert run_jobs(m.PAPER.jobs(asked), lambda share, said: None) == 1
    assert kept.read_bytes() == before


def test_a_kill_between_rounds_loses_nothing(whole, tmp_path, monkeypatch):
    cell, preset = "lenet/digits", "as-run"
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path / "data"))  # so that the server trains, the first time

    def stop(share, said):
        if "round 2" in said:
            raise KeyboardInterrupt

    asked, heard = Asked((preset,), "tiny", (cell,), 1, tmp_path), []
    with pytest.raises(KeyboardInterrupt):
        run_jobs(m.PAPER.jobs(asked), stop)
    assert read_record(path_of(tmp_path, cell, preset)).done == 2
    run_jobs(m.PAPER.jobs(asked), lambda share, said: heard.append(said.partition("seed 0")[2]))
    assert heard == [" round 2", " round 3", " scoring", ""]
    for name in ("metrics.jsonl", m.SCORES):
        mine, theirs = (path_of(out, cell, preset) / name for out in (tmp_path, whole))
        assert mine.read_bytes() == theirs.read_bytes()
