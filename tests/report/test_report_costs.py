"""Figures against cost: totals, curves, equal cost and what is said of a budget, by hand."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from rich.console import Console

from coterie.core.method import UNTRAINED
from coterie.features.budgets import shown as costs
from coterie.report.page import render_page
from coterie.report.tables import summary_frame, write_csv
from coterie.show import numbers, views
from coterie.show.inks import inks
from coterie.show.parts import Runs as Section
from coterie.show.terminal import renderables

ACCURACY = "accuracy"


@pytest.fixture
def priced(make_known):
    """`priced("fedavg", [0.2, 0.5, 0.9, 0.7], steps=10)`: a mean accuracy by round, at so many steps a round;
    one client is 0.1 below the mean, the other above.
    """

    def make(label, means, steps, seed=0, size=100, **config):
        record = make_known({ACCURACY: [0.5, 0.5]}, label, seed, rounds=len(means) - 1)
        for line, mean in zip(record.metrics, means, strict=True):
            own = None if mean is None else {"own/test": {ACCURACY: [mean - 0.1, mean + 0.1]}}
            first = line["round"] == 0
            line |= {"scores": own, "spent": {"steps": 0 if first else steps, "bytes": 0 if first else size}}
        cpu = [
            {"round": r, "seconds": 0.25, "evaluate_seconds": 0, "cpu_seconds": 3.0}
            for r in range(len(means))
        ]
        record.timings = cpu
        record.config = {**record.config, **config}
        return record

    return make


@pytest.fixture
def pair(priced):
    """fedavg takes 10 steps a round and 40 in all, pens 30 a round and 60 in all."""
    fedavg = priced("fedavg", [0.2, 0.5, 0.8, 0.9, 0.7], 10)
    return [fedavg, priced("pens", [0.2, 0.6, 0.95], 30, size=0)]


def test_totals_and_kwh_by_hand(pair):
    fedavg, pens = pair
    assert costs.total(fedavg) == pytest.approx(
        {"steps": 40, "bytes": 400, "seconds": 1.25, "kwh": 15 * 12 / 3.6e6}
    )
    assert costs.total(pens)["bytes"] == 0
    assert costs.counted(pair) == ["steps", "bytes", "seconds", "kwh"]
    assert costs.smallest(pair, "steps") == 40
    assert costs.smallest(pair, "bytes") == 400  # of those that spent any


def test_at_equal_cost_each_has_what_it_had_reached(pair):
    """Within 40 steps pens has had one round of 30, and fedavg four, of which the third was best."""
    fedavg, pens = (costs.within([r], "steps", 40) for r in pair)
    assert (fedavg.last.mean, fedavg.best.mean) == pytest.approx((0.7, 0.9))
    assert (pens.last.mean, pens.best.mean) == pytest.approx((0.6, 0.6))
    header, rows = costs.equal_cells(pair, ["steps", "bytes"])
    assert header == ["method", "within 40 steps", "within 400\u00a0B"]
    assert rows == [
        ["fedavg", "70.0 ± — (best 90.0)", "70.0 ± — (best 90.0)"],
        ["pens", "60.0 ± — (best 60.0)", "95.0 ± — (best 95.0)"],
    ]


def test_rounds_that_were_not_scored_are_passed_over(priced):
    record = priced("fedavg", [None, 0.4, None, 0.9], 10)
    assert costs.within([record], "steps", 25).last.mean == pytest.approx(0.4)
    assert math.isnan(costs.within([record], "steps", 5).last.mean)


def test_lower_is_better_for_an_error(make_known):
    record = make_known({"rmse": [4.0, 2.0]}, task="regression")  # from half of it, 1.5
    assert costs.within([record], "bytes", 1e9).best.mean == pytest.approx(1.5)


def test_curves_have_spent_in_the_place_of_rounds(pair):
    by_label = views.groups(pair)
    plot = costs.curves_plot(by_label, inks(list(by_label)))
    names = [choice["name"] for choice in plot["choices"]]
    assert len(names) == 2 * 5  # mean and worst; steps, bytes, seconds, kWh, rounds
    lines = {
        choice["name"]: {t["name"]: (t["x"], t["y"]) for t in choice["data"] if "name" in t}
        for choice in plot["choices"]
    }
    mean = lines["mean over clients, against gradient steps of all clients"]
    assert mean["pens"] == ([0, 30, 60], [20, 60, 95])
    worst = lines["worst client, against bytes that passed"]
    assert worst["fedavg"] == ([0, 100, 200, 300, 400], [10, 40, 70, 80, 60])


def test_over_seeds_costs_are_means(priced):
    runs = [priced("fedavg", [0.2, 0.4], 10, seed=0), priced("fedavg", [0.2, 0.8], 20, seed=1)]
    curve = costs.against(views.curve("fedavg", runs, "seeds", ACCURACY), runs, "steps")
    assert curve.rounds == [0, 15]
    assert curve.mean == pytest.approx([0.2, 0.6])
    assert costs.mean_total(runs, "steps") == 15


def test_what_a_budget_ended_is_said(priced):
    def over(label, **more):
        record = priced(label, [0.2, 0.4], 30, budget=["steps=20"], **more)
        record.config["rounds"] = 9
        record.metrics[-1]["ended"] = "steps"
        return record

    ranked = over("ndoye")
    ranked.metrics[-1]["extras"] = {"note": UNTRAINED}
    falling = over("pens", sgd={"schedule": "cosine"})
    said = "the budget is spent after round 1 of 9 (30 of 20 steps)"
    assert costs.ended([over("local"), over("fedavg"), ranked, falling, priced("dac", [0.1, 0.2], 1)]) == [
        f"local, fedavg: {said}",
        f"ndoye: {said}; {UNTRAINED}",
        f"pens: {said}; its learning rate was to fall until the last of all rounds, and did not get there",
    ]


@pytest.mark.parametrize(
    ("kwh", "said"),
    [(0.0000021, "2.1\u00a0mWh"), (0.5, "500\u00a0Wh"), (12.0, "12\u00a0kWh"), (1e-9, "0.001\u00a0mWh")],
)
def test_energy_is_said_in_a_unit_that_suits(kwh, said):
    assert numbers.energy(kwh) == said


def test_energy_has_a_range_unless_power_is_given(priced):
    plain = priced("fedavg", [0.2, 0.4], 10)  # 6 CPU seconds x 12 W are 20 mWh
    (row,) = costs.spent_cells(views.groups([plain]))[1]
    assert row[-1] == "20\u00a0mWh (6.3\u00a0mWh to 40\u00a0mWh)"
    measured = priced("fedavg", [0.2, 0.4], 10, power=6.0)
    (row,) = costs.spent_cells(views.groups([measured]))[1]
    assert row[-1] == "10\u00a0mWh"


def test_page_terminal_and_csv_have_it(pair, tmp_path):
    page = render_page([Section("made", pair)])
    for text in ("Against cost", "At equal cost", "within 40 steps", "chosen on test rows and so flatters"):
        assert text in page
    assert costs.on_screen(Section("", pair)) == []  # without a budget, the page has it
    for record in pair:
        record.config["budget"] = ["steps=40"]
    shown = io.StringIO()
    Console(width=100, file=shown).print(*renderables(costs.on_screen(Section("", pair)), 100))
    assert "70.0 ± — (best 90.0)" in shown.getvalue()
    pd = pytest.importorskip("pandas")
    write_csv(tmp_path, pair)
    frame = pd.read_csv(tmp_path / "costs.csv")
    assert list(frame.columns) == [
        *("label", "seed", "round", "steps", "bytes", "seconds", "kwh"),
        *(ACCURACY, "worst_accuracy"),
    ]
    last = frame[frame.label == "pens"].iloc[-1]
    assert (last["steps"], last[ACCURACY], last["worst_accuracy"]) == pytest.approx((60, 0.95, 0.85))
    assert summary_frame(pair)["steps"].tolist() == [40, 60]


def test_runs_of_earlier_versions_have_what_they_counted(make_known):
    """No steps and no CPU seconds: bytes of models and seconds are there."""
    old = make_known({ACCURACY: [0.5, 0.5]})
    for line in old.metrics:
        line.pop("spent", None)
    assert costs.counted([old]) == ["bytes", "seconds"]
    assert np.isnan(summary_frame([old])["steps"]).all()
    assert "Against cost" in render_page([Section("made", [old])])
