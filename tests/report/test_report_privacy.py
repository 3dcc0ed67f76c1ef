"""The part of a report that says what looking at rows has cost."""

from __future__ import annotations

import math

import numpy as np

from coterie.features.privacy import shown as privacy
from coterie.nets.counting import nothing_passed
from coterie.report.page import render_page
from coterie.runs.record import Record, line
from coterie.show import views
from coterie.show.parts import Runs as Section
from coterie.show.terminal import renderables

CLEAR, NOISE = "fedavg", "fedavg:kernel=dp(sgd)"


def site(name, epsilon, everybody=0.0, by=None, **more):
    told = {"name": name, "rows": 50, "epsilon": epsilon, "units": {"row": epsilon}, "everybody": everybody}
    return {**told, "by": by or {}, "charges": [], **more}


def statement(*sites, method=None, **more):
    outside = {"evaluation": {"calibrate": 4}, "method": method or {}}
    return {
        "delta": 1e-5, "grid": 1e-4, "budget": None, "sites": list(sites), "outside": outside,
        "scores": "clear", **more,
    }  # fmt: skip


def record(label, kernel, accuracies, told=None, seed=0):
    clients = [{"name": name, "train": 50, "validation": 0, "test": 20} for name in ("<b>a</b>", "b")]
    about = {"clients": clients, "task": "classification", "notes": [], "belief_bytes": 8, "coterie": "0"}
    config = {"method": "fedavg", "rounds": 1, "seed": seed, "kernel": kernel, "fedavg": {"sample": 1.0}}
    made = Record(label, config, about, more={"privacy": lambda: told})
    for r, values in enumerate(([0.5, 0.5], accuracies)):
        scores = {"own/test": {"accuracy": values, "loss": [1.0, 1.0]}}
        made.metrics.append(line(r, scores, [None, None], nothing_passed(2), nothing_passed(2), {}))
        made.timings.append({"round": r, "seconds": 0.1, "evaluate_seconds": 0.1})
    made.weights = {1: np.full((2, 2), 0.5)}
    return made


TOLD = statement(
    site("<b>a</b>", 2.5, 0.5, {"coordinator": 2.0, "b": 1.0}, out={"coordinator": 3}), site("b", None, None)
)
RUNS = [record(CLEAR, "sgd", [0.9, 0.8]), record(NOISE, "dp(sgd)", [0.8, 0.7], TOLD)]


def test_cells_name_the_partner_who_could_learn_most():
    header, rows = privacy.cells(privacy.statements(views.groups(RUNS)))
    assert header[3:] == ["privacy spent (epsilon), all colluding", "most for one partner", "out of budget"]
    assert rows == [
        [NOISE, "<b>a</b>", "50", "2.5", "2, coordinator", "from round 3 for coordinator"],
        [NOISE, "b", "50", "no bound", "no bound, each", ""],
    ]


def test_partners_who_could_learn_as_much_are_counted():
    assert privacy.most(site("a", 2.0, 0.5, {"b": 1.0, "c": 1.0, "d": 0.7})) == "1, 2 partners"
    assert privacy.most(site("a", 2.0, 0.5, {"b": None, "c": 1.0})) == "no bound, b"


def test_of_very_many_sites_the_rest_is_one_line():
    many = {"m": statement(*(site(f"s{i}", i / 10) for i in range(100)))}
    rows = privacy.cells(many)[1]
    assert len(rows) == privacy.FEW + 1
    assert rows[-1][1:4] == ["70 more", "", "at most 9.9"]
    assert privacy.plot(many) is None


def test_the_map_has_each_partner_and_none_of_oneself():
    (choice,) = privacy.plot({NOISE: TOLD})["choices"]
    (heat,) = choice["data"]
    assert heat["z"] == [[None, 1.0, 2.0], [None, None, None]]
    assert heat["x"] == ["&lt;b&gt;a&lt;/b&gt;", "b", "coordinator"]
    assert privacy.partner(site("a", 2.5, 0.5), "c") == 0.5
    assert math.isnan(privacy.partner(site("a", 2.5, 0.5), "a"))


def test_what_noise_costs_beside_the_same_without():
    by_label = views.groups(RUNS)
    assert privacy.twins(by_label) == [(NOISE, CLEAR)]
    _header, rows = privacy.price(by_label, privacy.statements(by_label))
    assert rows == [[NOISE, "no bound", "75.00", CLEAR, "85.00", "−10.00"]]
    other = record("other", "sgd", [0.9, 0.8])
    other.config = {**other.config, "fedavg": {"sample": 0.5}}
    assert privacy.twins(views.groups([other, RUNS[1]])) == []


def test_what_is_outside_is_said():
    lines = privacy.legend({NOISE: statement(site("a", 1.0), method={"score": 3})})
    assert any(f"do not bound what clients of {NOISE} told" in text and "(score)" in text for text in lines)
    assert any(
        "left without noise, outside of these figures" in text and "4 visits" in text for text in lines
    )
    noise = {"scores": "noisy", "noise": {"sigma": 20.0, "bound": 4.0}}
    assert any("20 / n in an accuracy" in text for text in privacy.legend({NOISE: statement(**noise)}))
    budget = {"budget": {"epsilon": 3.0, "per_requester": 1.0}}
    assert f"Budget of {NOISE}: epsilon 3 a site, and 1 for one partner." in privacy.legend(
        {NOISE: statement(**budget)}
    )


def test_the_page_has_it_with_names_made_safe():
    page = render_page([Section("x", RUNS)])
    part = page[page.index('id="s0-privacy"') :].partition("</section>")[0]
    assert "Privacy budget" in part
    assert "What the noise costs" in part
    assert "&lt;b&gt;a&lt;/b&gt;" in part
    assert "<b>a</b>" not in part
    assert 'id="s0-privacy"' not in render_page([Section("x", RUNS[:1])])
    assert privacy.privacy_part(Section("", RUNS[:1])) == []


def test_the_terminal_has_it_where_there_is_something():
    assert privacy.on_screen(Section("", RUNS[:1])) == []
    (table,) = renderables(privacy.on_screen(Section("", RUNS)), 100)
    assert next(str(c.header).replace("\n", " ") for c in table.columns) == "site"
    assert table.row_count == 2
