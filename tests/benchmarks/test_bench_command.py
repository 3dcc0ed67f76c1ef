"""`coterie bench` in its quick version, and what the programs for peers share."""

from __future__ import annotations

import csv
import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from coterie.core.errors import BadInput, UnknownName
from coterie.core.seeds import Key
from coterie.studies.bench import scaling, table
from coterie.studies.bench.command import bench
from coterie.studies.bench.contenders import engines_to_run, prepare
from coterie.studies.bench.measure import Timing
from coterie.studies.bench.workloads import WORKLOADS, quick

PEERS = Path(__file__).parents[2] / "benchmarks" / "peers"


@pytest.fixture(autouse=True)
def in_empty_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def read(path):
    with open(path) as file:
        return list(csv.DictReader(file))


def test_quick_measures_loops_and_engines(tmp_path, capsys):
    chosen = ["linear-1000", "titanic-4"]
    words = ["--quick", "--engines", "loop", "--repeats", "1", "--workloads", *chosen]
    assert bench([*words, "--csv", "made/bench.csv"]) == 0
    printed = capsys.readouterr().out
    rows = read(tmp_path / "made" / "bench.csv")
    assert [r["contender"] for r in rows] == ["plain", "lean", "loop"] * 2
    assert list(dict.fromkeys(r["workload"] for r in rows)) == chosen
    assert tuple(rows[0]) == table.COLUMNS
    for name in chosen:
        assert f"{name}: 1 repeats of" in printed
        losses = [float(r["loss"]) for r in rows if r["workload"] == name]
        assert losses == pytest.approx([losses[0]] * 3, rel=0.05)
    assert all(float(r[column]) > 0 for r in rows for column in table.COLUMNS[2:])


def test_every_engine_takes_part_by_default_and_markdown(capsys):
    assert bench(["--quick", "--workloads", "titanic-4", "--repeats", "1", "--loops", "--markdown"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("| workload | contender |")
    assert ", commit " in printed
    names = [line.split("|")[2].strip() for line in printed.splitlines() if line.startswith("|")]
    assert names[2:] == list(engines_to_run([]))


@pytest.mark.slow
def test_scaling_writes_a_table_and_a_figure(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(scaling, "QUICK_CLIENTS", (2,))
    monkeypatch.setattr(scaling, "QUICK_SAMPLES", (5,))
    words = ["scaling", "--quick", "--engines", "loop", "--loops", "lean", "--repeats", "1", "--out", "cost"]
    assert bench(words) == 0
    rows = read(tmp_path / "cost" / "scaling.csv")
    assert [(r["axis"], int(r["clients"]), int(r["samples"])) for r in rows[::2]] == list(scaling.sizes(True))
    assert [r["contender"] for r in rows[:2]] == ["lean", "loop"]
    assert (tmp_path / "cost" / "scaling.svg").read_text().startswith("<?xml")
    assert capsys.readouterr().out == "table: cost/scaling.csv\nfigure: cost/scaling.svg\n"


def test_scaling_sizes():
    found = list(scaling.sizes(quick=False))
    assert [n for axis, n, _ in found if axis == "clients"] == [10, 100, 1000, 10_000]
    assert {m for axis, _, m in found if axis == "clients"} == {50}
    assert [m for axis, _, m in found if axis == "samples"] == [10, 30, 100, 300, 1000]


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        (["--repeats", "0"], BadInput, "repeats=0 must be at least 1: try 5"),
        (["--workloads", "linear-10"], UnknownName, "did you mean linear-100"),
        (["--engines", "lop"], UnknownName, "did you mean loop"),
        (["scaling", "--csv", "a.csv"], BadInput, "leave out --workloads, --csv and --markdown"),
        (["--loops", "fast"], BadInput, "choose one of plain, lean"),
    ],
)
def test_refusals_in_one_line(words, kind, message):
    with pytest.raises(kind, match=message) as caught:
        bench(words)
    assert "\n" not in str(caught.value)


def test_a_peer_is_put_beside_the_plain_loop(monkeypatch):
    spec = importlib.util.spec_from_file_location("side_by_side", PEERS / "side_by_side.py")
    side_by_side = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(side_by_side)
    monkeypatch.setattr(side_by_side, "sgemm_rate", lambda *given, **more: 1e9)
    assert set(side_by_side.SUPPORTED) <= set(WORKLOADS)

    def peer(workload, clients):
        beliefs = prepare("plain", workload, clients)(Key(0, ("bench", workload.name)))
        return Timing(5.0, (1.0,) * (workload.rounds - 1), 2**20, beliefs)

    workload = replace(quick(WORKLOADS["linear-1000"]), rounds=4)
    plain, ours, other = side_by_side.compare("peer", peer, workload)
    assert (plain.contender, ours.contender, other.contender) == ("plain", "auto", "peer")
    assert plain.repeats == ours.repeats == other.repeats == 3
    assert other.samples == 100
    assert other.median == 100
    assert other.loss == pytest.approx(plain.loss)


@pytest.mark.parametrize("program", sorted(str(p.relative_to(PEERS)) for p in PEERS.rglob("*.py")))
def test_programs_for_peers_are_whole(program):
    compile((PEERS / program).read_text(), program, "exec")
