"""What a run measures of collaboration, by hand: whom clients found, and how far their models part."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from coterie.core.errors import BadRun
from coterie.core.method import CIRCLE, Info
from coterie.metrics.table import COLLABORATION
from coterie.report.page import render_page
from coterie.report.tables import summary_frame
from coterie.runs.builder import prepare
from coterie.runs.folder import read_record
from coterie.runs.loop import run
from coterie.runs.scoring import measure
from coterie.runs.settings import Settings
from coterie.show.parts import Runs as Section

KINDS = [0, 0, 1, 1]


def info(weights, **matrices) -> Info:
    return Info(torch.tensor(weights, dtype=torch.float64), torch.zeros(4), {}, matrices)


CHOSEN = info(
    [
        [0.5, 0.5, 0, 0],  # its one kin
        [0, 0.5, 0.5, 0],  # a stranger
        [0, 0, 1, 0],  # nobody
        [0, 0, 0, 0],  # not reached
    ]
)


def told(given: Info) -> dict[str, list[float | None]]:
    found = measure(given, None, None, KINDS, ["w"])
    return {k: [None if math.isnan(x) else x for x in v.tolist()] for k, v in found.items()}


def test_precision_and_recall_of_the_chosen():
    assert told(CHOSEN) == {"precision": [1, 0, None, None], "recall": [1, 0, 0, None]}


def test_a_circle_is_measured_beside_the_weights():
    circle = torch.tensor([[0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 0, 1], [0, 0, 1, 0]], dtype=torch.float64)
    found = told(info(CHOSEN.weights.tolist(), **{CIRCLE: circle}))
    assert found["circle_precision"] == [0.5, None, 1 / 3, 1]
    assert found["circle_recall"] == [1, 0, 1, 1]
    assert found["precision"] == [1, 0, None, None]


def test_without_clusters_there_is_no_precision_and_without_models_no_drift():
    models = ({"w": torch.tensor([[0.0], [2.0]])}, torch.tensor([0, 0, 1, 1]))
    found = measure(CHOSEN, *models, [0, 0, 1, None], ["w"])
    assert {k: v.tolist() for k, v in found.items()} == {"drift": [1] * 4}
    assert list(measure(None, *models, KINDS, ["w"])) == ["drift"]
    assert measure(CHOSEN, None, None, [None] * 4, ["w"]) == {}


def test_a_run_writes_them_down(tiny, two_clients):
    clients = [replace(c, cluster=0) for c in two_clients()]
    fedavg, local = (run(tiny(way, clients=clients), None, "x").record for way in ("fedavg", "local"))
    # alone, a gets to 1 and b to 0.2: 0.4 from their mean each
    assert local.metrics[1]["measures"]["drift"] == pytest.approx([0.4, 0.4])
    assert local.metrics[1]["measures"]["recall"] == [0, 0]
    assert local.metrics[1]["measures"]["precision"] == [None, None]
    assert fedavg.metrics[1]["measures"] == {"precision": [1, 1], "recall": [1, 1], "drift": [0, 0]}
    assert fedavg.metrics[0]["measures"] == {"drift": [0, 0]}
    assert run(tiny(), None, "x").record.metrics[1]["measures"] == {"drift": [0, 0]}


def test_drift_is_measured_when_models_are_scored(tiny):
    record = run(tiny("local", rounds=5, evaluate=3), None, "x").record
    assert [m["round"] for m in record.metrics if "drift" in m["measures"]] == [0, 3, 5]


PENS = Settings(
    data="digits", split="clusters", clients=6, rounds=4, method="pens", engine="stacked",
    options={"pens": {"rounds_step1": 2, "samplings": 3, "sampled": 3}},
)  # fmt: skip


def test_pens_says_whom_it_found_while_it_looks(run_in, tmp_path):
    run_in(tmp_path / "run", prepare(PENS, None))
    record = read_record(tmp_path / "run")
    named = [list(m["measures"]) for m in record.metrics]
    chosen = ["precision", "recall"]
    circle = ["circle_precision", "circle_recall"]
    step1 = [*chosen, *circle, "drift"]
    assert named == [["drift"], step1, step1, [*chosen, "drift"], [*chosen, "drift"]]
    history, found = record.matrices["history"][2], record.matrices[CIRCLE][2]
    # nine picks a round among five others: more than 18 / 5 of two rounds' picks
    np.testing.assert_array_equal(found, history > history.sum(axis=1, keepdims=True) / 5)
    kin = np.equal.outer([0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1]) & ~np.eye(6, dtype=bool)
    assert record.metrics[2]["measures"]["circle_recall"] == ((found * kin).sum(axis=1) / 2).tolist()
    # whom it averages with in step 2 are of the circle
    assert not (record.weights[4] > 0)[(found == 0) & ~np.eye(6, dtype=bool)].any()


def as_before(path) -> None:
    """Takes out of a folder what earlier versions did not write."""
    lines = [json.loads(x) for x in (path / "metrics.jsonl").read_text().splitlines()]
    kept = [{k: v for k, v in line.items() if k != "measures"} for line in lines]
    (path / "metrics.jsonl").write_text("".join(json.dumps(x) + "\n" for x in kept))


def test_old_runs_are_read_and_reported(tiny, run_in, tmp_path, two_clients):
    clients = [replace(c, cluster=0) for c in two_clients()]
    run_in(tmp_path / "run", tiny(clients=clients, rounds=3))
    as_before(tmp_path / "run")
    old = read_record(tmp_path / "run")
    assert not {*COLLABORATION} & {*summary_frame([old])}
    page = render_page([Section("old", [old])])
    assert "Neighbours, and distance to the average model" not in page
    assert "Who collected from whom" in page
    beside = run(tiny("local", clients=clients, rounds=3), None, "local").record
    both = summary_frame([old, beside]).set_index("method")
    assert math.isnan(both.loc["fedavg", "drift"])
    assert both.loc["local", "recall"] == 0


def test_old_runs_go_on_and_are_measured_from_there(tiny, run_in, tmp_path):
    run_in(tmp_path / "run", tiny("local", rounds=3), cut=1)
    as_before(tmp_path / "run")
    after = run_in(tmp_path / "run", tiny("local", rounds=3)).record
    whole = run(tiny("local", rounds=3), None, "x").record
    assert [m.get("measures") for m in after.metrics] == [
        None,
        None,
        *(m["measures"] for m in whole.metrics[2:]),
    ]
    assert after.final("loss") == whole.final("loss")
    assert after.collaboration()["drift"].notna().tolist() == [False] * 4 + [True] * 4


def test_runs_from_before_bytes_were_counted_are_refused_in_one_line(tiny, run_in, tmp_path):
    run_in(tmp_path / "run", tiny("local", rounds=1))
    path = tmp_path / "run" / "metrics.jsonl"
    lines = [json.loads(x) for x in path.read_text().splitlines()]
    path.write_text(
        "".join(json.dumps({k: v for k, v in x.items() if "bytes" not in k}) + "\n" for x in lines)
    )
    with pytest.raises(BadRun, match="run it anew"):
        read_record(tmp_path / "run")
