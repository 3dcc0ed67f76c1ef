"""What linear models weigh: matrices worked out by hand, then models that were trained."""

from __future__ import annotations

import base64

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import coterie
from coterie.report import close_ups
from coterie.report.page import render_page
from coterie.runs.folder import read_record
from coterie.show import views
from coterie.show.inks import inks
from coterie.show.parts import Runs as Section

W = torch.tensor([[1.0, 2.0], [4.0, -3.0]])
B = torch.tensor([0.5, 1.5])


def test_a_linear_map_is_one_matrix_and_perhaps_a_bias():
    np.testing.assert_array_equal(close_ups.linear_map({"w": W}, 2), [[1, 2], [4, -3]])
    np.testing.assert_array_equal(close_ups.linear_map({"b": B, "w": W}, 2), [[1, 2, 0.5], [4, -3, 1.5]])


@pytest.mark.parametrize(
    "belief",
    [
        {"w": torch.zeros(2, 3)},  # other columns
        {"w": W, "v": W},  # two layers
        {"w": W, "b": torch.zeros(3)},  # a bias of something else
        {"w": W, "b": B, "scale": B},
        {"b": B},
        {"w": torch.zeros(2, 1, 2)},
    ],
)
def test_other_models_are_no_linear_map(belief):
    assert close_ups.linear_map(belief, 2) is None


def test_contrasts_by_hand():
    rows = np.array([[1.0, 2.0], [4.0, -3.0], [1.0, 7.0]])
    assert close_ups.contrasts(rows[:1], classes=0).tolist() == [[1, 2]]
    assert close_ups.contrasts(rows[:2], classes=2).tolist() == [[3, -5]]
    assert close_ups.contrasts(rows, classes=2).tolist() == [[3, -5]]  # an output too many
    assert close_ups.contrasts(rows, classes=3).tolist() == [[-1, 0], [2, -5], [-1, 5]]


@given(
    arrays(float, (4, 3), elements=st.floats(-5, 5)),
    arrays(float, (3,), elements=st.floats(-5, 5)),
    st.integers(2, 4),
)
def test_contrasts_see_no_more_than_softmax(rows, shift, classes):
    """The same row added for every class changes no probability, and no figure."""
    plain, moved = (close_ups.contrasts(r, classes) for r in (rows, rows + shift))
    np.testing.assert_allclose(plain, moved, atol=1e-12)


def test_the_largest_keep_their_order():
    values = np.array([[1.0, -9.0, 2.0, 0.0], [0.0, 0.0, -3.0, 1.5]])
    assert close_ups.largest(values, 2) == [1, 2]
    assert close_ups.largest(values, 3) == [1, 2, 3]
    assert close_ups.largest(values) == [0, 1, 2, 3]


@pytest.fixture
def linear(make_known):
    """Runs on two features whose models are W, b for client a and twice that for b, times a factor."""

    def make(label, seed=0, factor=1.0, **about):
        run = make_known({"accuracy": [0.5, 0.6]}, label, seed, parameters=6, **about)
        one = {"w": factor * W, "b": factor * B}
        run.models = lambda: {"a": one, "b": {name: 2 * t for name, t in one.items()}}
        return run

    return make


def test_methods_side_by_side_by_hand(linear):
    runs = [linear("local"), linear("fedavg", 0, 1.0), linear("fedavg", 1, 3.0)]
    by_label = views.groups(runs)
    found = close_ups.weighed(by_label)
    assert found.features == ["a", "b", "(intercept)"]
    assert found.outputs == ["log-odds of 1 against 0"]
    np.testing.assert_allclose(found.values["local"][0, :, 0], [[3, -5, 1], [6, -10, 2]])
    mean, low, high = close_ups.spread(found.values["fedavg"])[:, 0, 0]
    np.testing.assert_allclose([mean, low, high], [[6, -10, 2], [3, -15, 1], [9, -5, 3]])
    assert len(close_ups.spread(found.values["local"])) == 1

    plot = close_ups.features_plot(found, inks(list(by_label), "local"))
    assert [m["spread"] for m in plot["methods"]] == [False, True]
    packed = plot["clients"][1]["methods"][1]
    steps = np.frombuffer(base64.b64decode(packed["packed"]), dtype="<u2").reshape(3, 1, 3)
    values = packed["low"] + steps / 65534 * (packed["high"] - packed["low"])
    np.testing.assert_allclose(values[:, 0], [[12, -20, 4], [6, -30, 2], [18, -10, 6]], atol=1e-3)
    said = close_ups.features_caption(plot, found)
    assert "adds to the log-odds of 1 against 0. Mean over seeds" in said
    assert "To keep the page small" not in said


def test_unfinished_runs_are_told(linear, make_known):
    runs = [linear("local"), make_known({"accuracy": [0.5, 0.6]}, "fedavg", parameters=6)]
    found = close_ups.weighed(views.groups(runs))
    assert (list(found.values), found.missing) == (["local"], ["fedavg"])
    plot = close_ups.features_plot(found, inks(["local"]))
    assert close_ups.features_caption(plot, found).endswith("Not finished, so without models: fedavg.")
    assert close_ups.weighed(views.groups(runs[1:])) is None


def test_no_names_no_linear_model_no_figure(linear):
    assert close_ups.weighed(views.groups([linear("local", features=[])])) is None
    assert close_ups.weighed(views.groups([linear("local", classes=["only"])])) is None
    other = linear("local", features=["x", "y", "z"])
    assert close_ups.weighed(views.groups([other])) is None


def test_large_models_are_not_read_for_nothing(linear):
    run = linear("local")
    run.about["parameters"] = 5  # neither n * 2 nor n * 3
    run.models = lambda: pytest.fail("read")
    assert close_ups.weighed(views.groups([run])) is None


def test_too_much_for_a_page_is_told(linear, monkeypatch):
    found = close_ups.weighed(views.groups([linear("local")]))
    monkeypatch.setattr(close_ups, "CELLS", 3)
    monkeypatch.setattr(close_ups, "DRAWN", 2)
    plot = close_ups.features_plot(found, inks(["local"]))
    said = close_ups.features_caption(plot, found)
    assert [client["name"] for client in plot["clients"]] == ["b"]
    assert "Of 3 parameters, the 2 largest are drawn" in said
    assert "1 of 2 clients are here" in said
    monkeypatch.setattr(close_ups, "MOST", 2)
    text = render_page([Section("x", [linear("local")])])
    assert "The models have 3 parameters for each output: more than 2 are not drawn." in text
    assert 'id="s0-features-plot"' not in text


def wards(target) -> list[coterie.Client]:
    rng = np.random.default_rng(0)
    made = []
    for name in ("north", "south"):
        X = rng.normal(size=(30, 3))
        frame = pd.DataFrame(X, columns=["age", "dose", "pulse"]).assign(y=target(X))
        made.append(coterie.Client.from_frame(frame, target="y", name=name))
    return made


@pytest.mark.parametrize("kept", ["folder", "memory"])
def test_trained_models_weigh_what_they_weigh(tmp_path, kept):
    clients = wards(lambda X: np.array(["low", "mid", "high"])[np.digitize(X[:, 0], [-0.4, 0.4])])
    out = tmp_path / "run" if kept == "folder" else None
    result = coterie.train("logistic", clients, "local", rounds=2, seed=0, init="common", out=out)
    record = result.record if out is None else read_record(out)
    found = close_ups.weighed(views.groups([record]))
    assert found.features == ["age", "dose", "pulse", "(intercept)"]
    assert found.outputs == ["high", "low", "mid"]
    for i, client in enumerate(clients):
        weight, bias = (p.detach().double().numpy() for p in result.models[client.name].parameters())
        expected = np.column_stack([weight - weight.mean(0), bias - bias.mean()])
        np.testing.assert_allclose(found.values["local"][0, i], expected, atol=1e-7)


def test_a_regression_shows_its_row():
    compared = coterie.compare(
        "linear", wards(lambda X: X[:, 1] * 2 + 1), ["local", "fedavg"], seeds=2, rounds=1
    )
    found = close_ups.weighed(views.groups(compared.records))
    assert found.outputs == ["prediction"]
    assert {label: v.shape for label, v in found.values.items()} == {
        "local": (2, 2, 1, 4),
        "fedavg": (2, 2, 1, 4),
    }
    np.testing.assert_array_equal(found.values["fedavg"][:, 0], found.values["fedavg"][:, 1])
    model = compared.results["local"][1].models["south"]
    np.testing.assert_allclose(found.values["local"][1, 1, 0, :3], model.head.weight[0].tolist(), rtol=1e-6)


def test_who_has_no_model_in_a_method_has_no_bars_there(make_known, telling):
    everybody, one = (telling(make_known({"accuracy": [0.5, 0.6]}, label)) for label in ("local", "erosion"))
    one.models = lambda: {"b": {"w": W}}
    found = close_ups.weighed(views.groups([everybody, one]))
    assert found.clients == ["a", "b"]
    assert found.values["erosion"][0, 1].tolist() == [[3, -5]]
    assert np.isnan(found.values["erosion"][0, 0]).all()
    assert close_ups.largest(found.values["erosion"], 1) == [1]
    alone = close_ups.weighed(views.groups([one]))
    assert alone.clients == ["b"]
    page = render_page([Section("x", [everybody, one])])
    assert "s0-features-plot" in page
