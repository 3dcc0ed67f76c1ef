"""Whom clients found, how far models part, who collected from whom: on the page, in tables and figures."""

from __future__ import annotations

import base64
import io
import json
import math
import re

import numpy as np
import pytest
from rich.console import Console

from coterie.core.method import CIRCLE
from coterie.report import close_ups, curves, matrices
from coterie.report.page import render_page
from coterie.report.paper_figures import draw
from coterie.report.summary import print_table
from coterie.report.tables import summary_frame
from coterie.show import views
from coterie.show.inks import inks
from coterie.show.parts import Runs as Section

NAMES = ["a", "b", "c", "d"]
# a and c are of one kind; after round 1, a chose c, b chose a, c chose both others and d nobody
ROUND_1 = [[0.5, 0, 0.5, 0], [0.5, 0.5, 0, 0], [0.25, 0.25, 0.5, 0], [0, 0, 0, 1]]
ROUND_2 = [[0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5], [0.5, 0, 0.5, 0], [0, 0, 0, 1]]


@pytest.fixture
def choosy(make_known):
    """A run of two rounds on clients of two kinds, which also says whom it found in round 1."""

    def make(label: str = "pens", seed: int = 0):
        run = make_known({"accuracy": [0.5] * 4}, label, seed, names=NAMES)
        for client, cluster in zip(run.about["clients"], (1, 0, 1, 0), strict=True):
            client["cluster"] = cluster
        run.weights = {1: np.array(ROUND_1), 2: np.array(ROUND_2)}
        run.metrics[0]["measures"] = {"drift": [0.0] * 4}
        run.metrics[1]["measures"] = {
            "precision": [1.0, 0.0, 0.5, None],
            "recall": [1.0, 0.0, 1.0, 0.0],
            "circle_precision": [1.0, 1.0, 0.5, 0.5],
            "circle_recall": [1.0, 0.0, 0.0, 0.0],
            "drift": [1.0, 2.0, 3.0, 4.0],
        }
        run.metrics[2]["measures"] = {"precision": [1.0, 1.0, 1.0, None], "recall": [1.0, 1.0, 1.0, 0.0]}
        return run

    return make


def frames(plot, run: int = 0) -> np.ndarray:
    n, packed = len(plot["names"]), plot["runs"][run]
    steps = np.frombuffer(base64.b64decode(packed["packed"]), dtype="<u2").reshape(-1, n, n)
    values = packed["low"] + steps / 65534 * (packed["high"] - packed["low"])
    return np.where(steps == 65535, np.nan, values)


def test_who_collected_from_whom_is_counted_and_stands_by_group(choosy):
    run = choosy()
    plot = matrices.collected_plot(views.groups([run]))
    assert plot["names"] == ["b", "d", "a", "c"]
    assert plot["edges"] == [1.5]
    none = math.nan
    counted = [[none, 1, 1, 0], [0, none, 0, 0], [0, 0, none, 2], [1, 0, 2, none]]
    np.testing.assert_allclose(frames(plot), [counted], atol=1e-4)
    assert plot["runs"][0]["of"] == 2
    assert matrices.matrix_plot(views.groups([run]))["edges"] == [1.5]


def test_there_are_no_borders_without_groups(make_known):
    run = make_known({"accuracy": [0.5, 0.6]})
    plot = matrices.collected_plot(views.groups([run]))
    assert plot["edges"] == []
    np.testing.assert_allclose(frames(plot), [[[math.nan, 2], [2, math.nan]]])
    run.weights = {}
    assert matrices.collected_plot(views.groups([run])) is None


def test_many_clients_are_means_of_whom_they_could_collect_from(make_likely):
    run = make_likely("greedy", clients=6, rounds=2)
    run.weights = {1: np.ones((6, 6)), 2: np.eye(6)}
    found = matrices.collected("greedy", [run], views.client_order(run), side=2)
    # once from each of the others; oneself does not count
    assert found.values.tolist() == [[[1, 1], [1, 1]]]
    assert found.edges == [0.5]


def test_curves_of_measures_have_no_band_for_one_seed(choosy):
    by_label = views.groups([choosy()])
    choices = {c["name"]: c for c in curves.measures_plot(by_label, inks(list(by_label)))["choices"]}
    assert list(choices) == [
        "precision",
        "recall",
        "precision of the circle",
        "recall of the circle",
        "distance to the mean model",
    ]
    (line,) = choices["precision"]["data"]
    assert (line["x"], line["y"]) == ([1, 2], [50, 100])
    (line,) = choices["distance to the mean model"]["data"]
    assert (line["x"], line["y"]) == ([0, 1], [0, 2.5])
    two = views.groups([choosy(), choosy(seed=1)])
    assert len(curves.measures_plot(two, inks(list(two)))["choices"][0]["data"]) == 3


def test_the_page_shows_them(choosy, make_known):
    page = render_page([Section("x", [choosy(), choosy("random")])])
    assert "Who collected from whom" in page
    assert "Neighbours, and distance to the average model" in page
    assert "dark lines separate the groups" in page
    for name in ("s0-collected-plot", "s0-measures-plot"):
        data = re.search(f'id="{name}">(.*?)</script>', page).group(1)
        assert json.loads(data)
    table = page[page.index("s0-measures-plot") :]
    for cell in ("100.0 ± —", "75.0 ± —", "25.0 ± —", "2.500 ± —"):
        assert f"<td>{cell}</td>" in table
    # four clients sent and received one model in each of two rounds
    assert "<td>4<svg" in page[page.index("models per client") :]
    bare = render_page([Section("x", [make_known({"accuracy": [0.5, 0.6]})])])
    assert "Neighbours, and distance to the average model" not in bare


def test_summary_has_the_last_measured(choosy, make_known):
    row = summary_frame([choosy()]).iloc[0]
    found = [row[m] for m in ("precision", "recall", "circle_precision", "circle_recall", "drift")]
    assert found == [1, 0.75, 0.75, 0.25, 2.5]
    # four clients and a server: eight models in each of two rounds
    assert (row["models"], row["models_each"], row["bytes"]) == (16, 4, 16 * 2600)
    assert "recall" not in summary_frame([make_known({"accuracy": [0.5, 0.6]})])


def printed(records, width: int) -> str:
    out = io.StringIO()
    print_table(records, Console(file=out, width=width))
    return out.getvalue()


def test_a_second_table_on_the_terminal(choosy, make_known):
    wide = printed([choosy()], 140)
    assert "precision" in wide
    assert "2.500" in wide
    assert "Distance (drift): Euclidean" in wide
    narrow = printed([choosy()], 60)
    assert all(len(line) <= 60 for line in narrow.splitlines())
    assert "75.0 ± —" in narrow
    assert "2.500" not in narrow
    assert "Further columns need a wider" in narrow
    assert "precision" not in printed([make_known({"accuracy": [0.5, 0.6]})], 140)


def test_a_circle_makes_no_lines_of_a_client(choosy):
    run = choosy()
    run.matrices = {CIRCLE: {1: np.eye(4)}, "history": {1: np.ones((4, 4))}}
    assert [t.name for t in close_ups.traces(views.groups([run]))] == ["history"]


def test_figures_for_a_paper(choosy):
    pytest.importorskip("matplotlib")
    made = draw([choosy()])
    assert {"precision", "recall", "circle-precision", "circle-recall", "drift"} < set(made)
    assert made["precision"].axes[0].lines[0].get_ydata().tolist() == [50, 100]
    heat = made["collected-pens"].axes[0]
    assert heat.images[0].get_array()[2].tolist() == [0, 0, None, 2]
    assert [line.get_xdata()[0] for line in heat.lines] == [1.5, 0]
