"""Layer by layer: what the page gets of methods that weigh each layer for itself."""

from __future__ import annotations

import numpy as np

from coterie.report import matrices
from coterie.report.page import render_page
from coterie.show import views
from coterie.show.parts import Runs
from coterie.show.parts import Runs as Section


def caption(records):
    (plot,) = matrices.layers_part(Runs("", records))
    return plot.said


def layered(record, rounds=2):
    """Round r gives client a the weight r / 10 in `conv` and r / 5 in `head`; b is away in round 2."""
    for line in record.metrics[1 : rounds + 1]:
        r = line["round"]
        away = r == 2
        line["extras"]["layer_weights"] = {
            "conv": [1.0 if away else r / 10, None if away else 1 - r / 10],
            "head": [1.0 if away else r / 5, None if away else 1 - r / 5],
        }
    return record


def test_weights_by_hand(make_known):
    record = layered(make_known({"accuracy": [0.5, 0.7]}, "fedkg"))
    rounds, names, values = matrices.layer_weights(record)
    assert (rounds, names) == ([1, 2], ["conv", "head"])
    np.testing.assert_array_equal(values, [[[0.1, 0.9], [0.2, 0.8]], [[1, np.nan], [1, np.nan]]])


def test_what_the_page_gets(make_known):
    by_label = views.groups([layered(make_known({"accuracy": [0.5, 0.7]}, "fedkg"))])
    last, a, b = matrices.layers_plot(by_label)["choices"]
    assert [c["name"] for c in (last, a, b)] == ["round 2", "a", "b"]
    assert last["data"][0]["z"] == [[1.0, None], [1.0, None]]
    assert last["data"][0]["x"] == ["a", "b"]
    assert a["data"][0]["x"] == [1, 2]
    assert a["data"][0]["y"] == ["conv", "head"]
    assert a["data"][0]["z"] == [[0.1, 1.0], [0.2, 1.0]]
    assert b["data"][0]["z"] == [[0.9, None], [0.8, None]]


def test_methods_without_layers_have_no_such_part(make_known):
    plain = make_known({"accuracy": [0.5, 0.7]})
    assert matrices.layers_plot(views.groups([plain])) is None
    assert "Layer by layer" not in render_page([Section("", [plain])])
    both = [plain, layered(make_known({"accuracy": [0.5, 0.7]}, "fedkg"))]
    page = render_page([Section("", both)])
    assert "Layer by layer" in page
    assert "Each layer is averaged with weights of its own." in page


def test_several_methods_are_named_and_large_runs_thinned(make_known, monkeypatch):
    monkeypatch.setattr(matrices, "LAYER_CELLS", 4)
    two = [layered(make_known({"accuracy": [0.5, 0.7]}, name)) for name in ("fedkg", "fedunique")]
    names = [c["name"] for c in matrices.layers_plot(views.groups(two))["choices"]]
    assert names == ["fedkg: round 2", "fedkg: b", "fedunique: round 2", "fedunique: b"]
    assert "first is shown" not in caption(two)
    seeds = [layered(make_known({"accuracy": [0.5, 0.7]}, "fedkg", s)) for s in (0, 1)]
    assert "Of several seeds, the first is shown" in caption(seeds)
