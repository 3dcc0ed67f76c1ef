"""What the page hands to plotly: the numbers of the views, rounded and packed."""

from __future__ import annotations

import base64

import numpy as np

from coterie.report import clients, curves, matrices
from coterie.show import plotly, views
from coterie.show.inks import inks


def test_curves_hold_the_numbers_of_the_views(two_seeds):
    by_label = views.groups(two_seeds)
    plot = curves.curves_plot(by_label, inks(list(by_label), "local"))
    assert [c["name"] for c in plot["choices"]] == ["test accuracy", "test loss", "training loss"]
    low, high, line = plot["choices"][0]["data"][3:]
    assert line["name"] == "fedavg"
    assert (line["x"], line["y"]) == ([0, 1, 2], [41.25, 82.5, 82.5])
    assert (low["y"][2], high["y"][2]) == (41.49, 123.5)
    assert line["customdata"][2] == "82.5 (41.5 to 123.5, 2 seeds)"


def test_bars_hold_the_numbers_of_the_views(two_seeds):
    by_label = views.groups(two_seeds)
    plot = clients.clients_plot(by_label, inks(list(by_label), "local"))
    values, gains = plot["choices"][:2]
    assert [t["y"] for t in values["data"]] == [[65.0, 85.0], [75.0, 90.0]]
    assert values["data"][1]["error_y"]["array"] == [89.85, 155.6]
    assert gains["name"] == "gain over local in test accuracy"
    assert [t["y"] for t in gains["data"]] == [[10.0, 5.0]]


def test_packed_matrices_come_back(make_likely):
    run = make_likely("greedy", rounds=5)
    plot = matrices.matrix_plot(views.groups([run]))
    (packed,) = plot["runs"]
    assert packed["rounds"] == [1, 2, 3, 4, 5]
    steps = np.frombuffer(base64.b64decode(packed["packed"]), dtype="<u2").reshape(5, 10, 10)
    values = packed["low"] + steps / 65534 * (packed["high"] - packed["low"])
    order = views.client_order(run)
    np.testing.assert_allclose(values[-1], run.weights[5][np.ix_(order, order)], atol=1e-5)
    assert plot["names"][:2] == ["agent 0", "agent 2"]


def test_packing_holds_negative_weights_and_gaps():
    made = plotly.pack(np.array([[[-1.0, np.nan], [0.0, 1.0]]]))
    steps = np.frombuffer(base64.b64decode(made["packed"]), dtype="<u2")
    assert (made["low"], made["high"], steps.tolist()) == (-1.0, 1.0, [0, 65535, 32767, 65534])
    assert plotly.pack(np.zeros((1, 2, 2)))["high"] == 0


def test_dots_of_many_clients_keep_their_intervals(make_likely):
    by_label = views.groups([make_likely("fedavg", seed, clients=31, rounds=2) for seed in (0, 1)])
    (trace,) = clients.clients_plot(by_label, inks(list(by_label)))["choices"][0]["data"]
    assert (trace["type"], len(trace["x"]), len(trace["error_y"]["array"])) == ("scatter", 31, 31)


def test_the_matrix_shown_first_is_the_one_with_a_choice(make_likely):
    runs = [make_likely(label, rounds=2) for label in ("local", "fedavg", "greedy", "central")]
    assert matrices.matrix_plot(views.groups(runs))["first"] == 2
    assert matrices.matrix_plot(views.groups([make_likely("fedavg", clients=1)]))["first"] == 0


def test_names_are_shortened_only_while_they_stay_apart():
    assert plotly.ticks(["hospital of the north-east", "b"]) == ["hospital of …-east", "b"]
    alike = ["hospital of the north-east", "hospital of the south-east"]
    assert plotly.ticks(alike) == alike
    assert plotly.ticks(["a & b\n<c>"]) == ["a &amp; b &lt;c&gt;"]
