"""One client round by round: its scores, and its row of a matrix that the method named."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from coterie.report import close_ups
from coterie.show import views
from coterie.show.inks import ALONE, COLOURS, inks

NAN = float("nan")


@pytest.fixture
def eroding(make_known):
    """Two clients, three rounds: in round r, a gives b the weight 1 / r and is at distance r from it."""

    def make(label="erosion", seed=0, rounds=3, **more):
        run = make_known({"accuracy": [0.6, 0.8]}, label, seed, rounds=rounds, **more)
        alpha = {r: np.array([[1, 1 / r], [NAN, NAN]]) for r in range(1, rounds + 1)}
        distance = {r: np.array([[0.0, r], [-r, 0.0]]) for r in range(2, rounds + 1)}
        run.matrices = {"alpha": alpha, "distance": distance}
        return run

    return make


def unpacked(packed, *shape) -> np.ndarray:
    steps = np.frombuffer(base64.b64decode(packed["packed"]), dtype="<u2").reshape(shape).astype(float)
    return np.where(steps == 65535, np.nan, packed["low"] + steps / 65534 * (packed["high"] - packed["low"]))


def test_a_trace_by_hand(eroding):
    alpha, distance = close_ups.traces(views.groups([eroding()]))
    assert (alpha.name, alpha.rounds, alpha.receivers, alpha.senders) == ("alpha", [1, 2, 3], [0], [0, 1])
    np.testing.assert_allclose(alpha.values[:, 0], [[1, 1], [1, 1 / 2], [1, 1 / 3]])
    assert (distance.rounds, distance.receivers, distance.of_receivers) == ([2, 3], [0, 1], 2)
    np.testing.assert_array_equal(distance.values, [[[0, 2], [-2, 0]], [[0, 3], [-3, 0]]])


def test_own_line_is_left_out_where_it_is_always_0(eroding):
    alpha, distance = close_ups.traces(views.groups([eroding()]))
    assert close_ups.has_own_line(alpha, 0)
    assert not close_ups.has_own_line(distance, 0)
    assert not close_ups.has_own_line(distance, 1)


def test_each_matrix_is_of_the_first_seed_that_has_it(eroding, make_known):
    late = eroding(seed=4)
    runs = [make_known({"accuracy": [0.5, 0.5]}, "erosion", 2), late, eroding(seed=7)]
    del late.matrices["distance"]
    alpha, distance = close_ups.traces(views.groups(runs))
    assert (views.seed(alpha.record), views.seed(distance.record)) == (4, 7)


def test_a_matrix_that_says_nothing_is_no_trace(make_known):
    run = make_known({"accuracy": [0.5, 0.5]})
    run.matrices = {"alpha": {1: np.full((2, 2), NAN)}}
    assert close_ups.traces(views.groups([run])) == []
    assert close_ups.traces_plot(views.groups([run]), inks(["fedavg"])) is None


def test_what_the_page_gets(eroding, make_known):
    runs = [make_known({"accuracy": [0.5, 0.7]}, "local", s) for s in (0, 1)]
    by_label = views.groups([*runs, eroding(seed=1)])
    plot = close_ups.traces_plot(by_label, inks(list(by_label), "local"))
    alpha, distance = plot["runs"]
    assert [r["client"] for r in alpha["receivers"]] == [0]
    assert [r["client"] for r in distance["receivers"]] == [0, 1]
    assert ([r["own"] for r in alpha["receivers"]], distance["receivers"][0]["own"]) == ([True], False)
    np.testing.assert_allclose(
        unpacked(alpha["receivers"][0], 3, 2), [[1, 1], [1, 1 / 2], [1, 1 / 3]], atol=1e-4
    )
    # only the seed that the matrix is of; accuracies in percent, half of the final one at round 0
    local, erosion, always = plot["scores"]
    assert (local["label"], local["seed"], local["rounds"]) == ("local", 1, [0, 1, 2])
    assert local["values"] == {"0": [25.0, 50.0, 50.0], "1": [35.0, 70.0, 70.0]}
    assert (erosion["rounds"], erosion["colour"], local["colour"]) == ([0, 1, 2, 3], COLOURS[0], ALONE)
    assert (always["rounds"], always["values"]["0"]) == ([0, 3], [100.0, 100.0])
    said = close_ups.traces_caption(plot, by_label)
    assert "Of several seeds, seed 1 is shown" in said
    assert "To keep the page small" not in said


def test_always_the_commonest_class_by_hand(make_known):
    run = make_known({"accuracy": [0.5, 0.5]})
    run.about["clients"][0]["labels"][2] = [3, 1]
    run.about["clients"][1]["labels"][2] = [0, 0]
    np.testing.assert_allclose(close_ups.commonest(run), [0.75, 0])
    assert close_ups.commonest(make_known({"rmse": [1.0, 1.0]}, task="regression")) is None


def test_a_regression_has_no_commonest_class(eroding):
    run = eroding(task="regression")
    run.metrics[-1]["scores"]["own/test"] = {"rmse": [2.0, 3.0]}
    plot = close_ups.traces_plot(views.groups([run]), inks(["erosion"]))
    (only,) = plot["scores"]
    assert (only["values"]["1"][-1], plot["metric"]) == (3.0, "test RMSE")


def test_what_is_left_out_is_counted(eroding, make_known, monkeypatch):
    long = eroding(rounds=100)
    plot = close_ups.traces_plot(views.groups([long]), inks(["erosion"]))
    assert (len(plot["runs"][0]["rounds"]), plot["runs"][0]["rounds"][-1]) == (60, 100)
    assert "60 of 100 rounds are here" in close_ups.traces_caption(plot, views.groups([long]))
    wide = make_known({"accuracy": [0.5] * 9}, names=list("abcdefghi"), rounds=1)
    wide.matrices = {"alpha": {1: np.arange(81.0).reshape(9, 9)}}
    monkeypatch.setattr(close_ups, "SENDERS", 5)
    (one,) = close_ups.traces(views.groups([wide]), cells=15)
    assert (one.receivers, one.senders, one.of_receivers) == ([0, 4, 8], [0, 2, 4, 6, 8], 9)
    np.testing.assert_array_equal(one.values[0, 1], [36, 38, 40, 42, 44])
    monkeypatch.setattr(close_ups, "traces", lambda by_label: [one])
    plot = close_ups.traces_plot(views.groups([wide]), inks(["fedavg"]))
    assert "3 of 9 clients, 5 of 9 senders are here" in close_ups.traces_caption(plot, views.groups([wide]))


def test_groups_colour_senders_if_there_are_colours(make_likely):
    run = make_likely("greedy", clients=4, rounds=1)
    assert close_ups.groups(run) == [0, 1, 0, 1]
    many = make_likely("greedy", clients=8, rounds=1)
    for i, client in enumerate(many.about["clients"]):
        client["cluster"] = i
    assert close_ups.groups(many) is None
    run.about["clients"][2]["cluster"] = None
    assert close_ups.groups(run) is None
