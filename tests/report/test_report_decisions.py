"""Decision curves from counts, and what stays in a narrow terminal where an outcome is rare."""

from __future__ import annotations

import io

import pytest
import torch
from rich.console import Console

from coterie.core.groups import Groups
from coterie.features.calibration import shown as charts
from coterie.metrics.calibration import Calibration, Tally, calibration
from coterie.report import summary
from coterie.report.page import render_page
from coterie.report.paper_figures import draw
from coterie.report.summary import print_table
from coterie.show import views
from coterie.show.parts import Runs as Section

P = torch.tensor([0.9, 0.3, 0.1, 0.6, 0.2, 0.15, 0.1, 0.05, 0.05, 0.01], dtype=torch.float64)
ILL = torch.tensor([1, 1, 1, 0, 0, 0, 0, 0, 0, 0])
RARE = {"labels": [[90, 10], [0, 0], [5, 5]]}
COMMON = {"labels": [[70, 30], [0, 0], [5, 5]]}


def counted() -> Calibration:
    """Ten rows of two clients, three ill: at 0.2 two of these and two of the well are called so."""
    return calibration(torch.stack([1 - P, P], dim=1).log(), ILL, Groups.of(torch.tensor([4, 6])))


@pytest.fixture
def run(make_known):
    def make(label: str = "fedavg", clients: dict = RARE, found=counted, **scores):
        given = {"accuracy": [0.9, 0.9], "ece": [0.1, 0.1], "nll": [0.3, 0.3], "auc": [0.8, 0.8]}
        given |= {"sensitivity": [0.1, 0.1], "specificity": [0.9, 0.9], "net_benefit": [0.05, 0.05]}
        record = make_known({**given, **scores}, label, names=("north", "south"))
        for client in record.about["clients"]:
            client |= clients
        record.calibration = found
        return record

    return make


def printed(records, width: int) -> str:
    out = io.StringIO()
    print_table(records, Console(file=out, width=width))
    return out.getvalue()


def test_the_curve_by_hand(run):
    by_label = views.groups([run("local"), run()])
    (chart,) = [c for c in charts.charts(charts.counted(by_label)) if c.key == "decision"]
    line = chart.lines[0]
    at = {round(x): (y, below) for x, y, below in zip(line.x, line.y, line.below, strict=True)}
    assert at[20] == pytest.approx((2 / 10 - 2 / 10 / 4, 40))
    assert at[50] == pytest.approx((0.0, 20))
    assert 0 not in at
    assert 100 not in at
    everybody = {round(x): y for x, y in chart.guides["treat all"]}
    assert everybody[30] == pytest.approx(0)
    assert everybody[20] == pytest.approx(0.3 - 0.7 / 4)
    assert [y for _, y in chart.guides["treat none"]] == [0, 0]


def test_the_table_by_hand(run):
    whole = charts.pooled(charts.counted(views.groups([run()])))
    header, rows = charts.decision_cells(whole)
    assert header == ["method", "from 5 % on", "from 10 % on", "from 20 % on", "from 30 % on", "from 50 % on"]
    assert [row[0] for row in rows] == ["fedavg", "treat all"]
    # 3/10 - 6/10 / 19; 3/10 - 4/10 / 9; 2/10 - 2/10 / 4; 2/10 - 1/10 · 3/7; 0
    assert rows[0][1:] == ["0.268", "0.256", "0.150", "0.157", "0.000"]
    assert rows[1][1:4] == ["0.263", "0.222", "0.125"]


def test_page_and_figures_have_it_where_it_was_counted(run):
    page = render_page([Section("made", [run()])])
    assert "decision curve" in page
    assert "Net benefit of acting from a probability on" in page
    assert "From which probability of 1 on one would act" in page
    assert "calibration-decision" in draw([run()])
    none = counted()._replace(positive=Tally(*(torch.zeros(2, 101) for _ in range(3))))
    kept = run(found=lambda: none)  # sites that keep their counts of classes to themselves
    assert "Net benefit of acting" not in render_page([Section("made", [kept])])
    assert "calibration-decision" not in draw([kept])
    earlier = run(found=lambda: Calibration(*counted()[:3]))  # a run of an earlier version
    assert "Net benefit of acting" not in render_page([Section("made", [earlier])])
    both = charts.pooled(charts.counted(views.groups([earlier, run("local")])))
    assert charts.counts_of(both["fedavg"].positive) is None
    assert charts.counts_of(both["local"].positive) is not None


def test_the_class_that_figures_are_of_is_said(run):
    record = run()
    said = " ".join(printed([record], 200).split())
    assert "net benefit: of 1, said from a probability of one half on" in said
    record.about |= {"classes": ["ill", "well"], "positive": 0}
    assert "net benefit: of ill, said" in " ".join(printed([record], 200).split())


@pytest.mark.parametrize("width", [60, 45, 30])
def test_a_rare_outcome_keeps_what_sees_it(run, width):
    head = printed([run("local"), run("weight-erosion")], width).split("─")[0]
    assert "AUC" in head
    assert "NLL" in head


def test_nobody_knows_how_rare_it_is(run):
    assert "AUC" in printed([run("local", {"labels": None}), run(clients={"labels": None})], 45).split("─")[0]


def test_where_accuracy_sees_the_order_stays(run):
    records = [run("local", COMMON), run(clients=COMMON)]
    head = printed(records, 45).split("─")[0]
    assert "accuracy" in head
    assert "gain" in head
    assert "AUC" not in head
    assert summary.seeing_metrics(records) == ()


def test_one_rare_site_is_enough(run):
    record = run(clients=COMMON)
    record.about["clients"][1] |= RARE
    assert summary.seeing_metrics([record]) == ("auc", "nll")


def test_wide_terminals_have_all_three(run):
    head = printed([run("local"), run()], 220).split("─")[0]
    assert all(name in head for name in ("sensitivity", "specificity", "net benefit"))
