"""Calibration on the page, in tables and figures, from counts that were worked out by hand."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pytest
import torch
from rich.console import Console

from coterie.features.calibration import shown as calibration
from coterie.metrics.calibration import Calibration, Tally
from coterie.report.page import render_page
from coterie.report.paper_figures import draw
from coterie.report.summary import print_table
from coterie.report.tables import calibration_frame, summary_frame, write_csv
from coterie.show import glossary, numbers, views
from coterie.show.inks import inks
from coterie.show.parts import Runs as Section
from coterie.show.words import LANGUAGES, Words


def tally(size: int, **held: tuple[list[float], list[float], list[float]]) -> Tally:
    """`b15=([samples of a, b], [their sums], [right])` fills the bin numbered 15."""
    sums = torch.zeros(3, 2, size, dtype=torch.float64)
    for name, rows in held.items():
        sums[:, :, int(name[1:])] = torch.tensor(rows, dtype=torch.float64)
    return Tally(*sums)


def counts() -> Calibration:
    """a: 4 samples sure by 0.8 (2 right); b: 4 by 0.8 (4 right) and 2 by 1 (2 right).

    Pooled: 8 samples by 0.8, 6 right; 2 by 1, 2 right.
    """
    every = ([4.0, 6.0], [3.2, 5.2], [2.0, 6.0])
    sure = ([0.0, 2.0], [0.0, 2.0], [0.0, 2.0])
    return Calibration(
        tally(20, b15=([4.0, 4.0], [3.2, 3.2], [2.0, 4.0]), b19=sure),
        # a: entropy 0.5 each; b: 0.5 of four, 0 of two
        tally(20, b0=([0.0, 2.0], [0.0, 0.0], [0.0, 2.0]), b14=([4.0, 4.0], [2.0, 2.0], [2.0, 4.0])),
        tally(21, **{f"b{i}": every if i <= 16 else sure for i in range(21)}),
    )


@pytest.fixture
def sure(make_known):
    def make(label: str = "fedavg", seed: int = 0, **more):
        scores = {"accuracy": [0.5, 1.0], "ece": [0.3, 0.1], "nll": [0.9, 0.1], "brier": [0.6, 0.2]}
        run = make_known(scores | {"loss": scores["nll"]}, label, seed, **more)
        run.calibration = counts
        return run

    return make


def counts_of(records) -> tuple[views.Groups, calibration.Counted]:
    by_label = views.groups(records)
    return by_label, calibration.counted(by_label)


def by_key(records) -> dict[str, calibration.Chart]:
    return {c.key: c for c in calibration.charts(counts_of(records)[1])}


def test_charts_pool_clients(sure):
    made = by_key([sure()])
    (line,) = made["reliability"].lines
    np.testing.assert_allclose([line.x, line.y, line.below], [[80, 100], [75, 100], [8, 2]])
    (line,) = made["gap"].lines
    np.testing.assert_allclose([line.x, line.y], [[80, 100], [-5, 0]], atol=1e-12)
    (line,) = made["gap-above"].lines
    assert line.x.tolist() == pytest.approx([5 * i for i in range(21)])
    # of ten, eight are right, sure by 0.84; above 0.8, two, both right and sure
    np.testing.assert_allclose(line.y[[0, 16, 17, 20]], [-4, -4, 0, 0], atol=1e-12)
    np.testing.assert_allclose(line.below[[0, 16, 17]], [100, 100, 20])
    (line,) = made["abstention"].lines
    np.testing.assert_allclose(line.y[[0, 16, 17]], [80, 80, 100])
    (line,) = made["entropy"].lines
    np.testing.assert_allclose([line.x, line.y, line.below], [[5, 75], [20, 100], [100, 75]])


def test_seeds_are_pooled_too_and_methods_are_not(sure):
    (one, two) = by_key([sure("local"), sure("fedavg"), sure("fedavg", 1)])["reliability"].lines
    assert (one.label, one.samples.tolist()) == ("local", [8, 2])
    assert (two.label, two.samples.tolist()) == ("fedavg", [16, 4])
    np.testing.assert_allclose(two.y, one.y)


def test_table_has_accuracy_and_calibration_side_by_side(sure):
    header, (row,) = calibration.cells(*counts_of([sure()]))
    assert dict(zip([" ".join(h.split()) for h in header], row, strict=True)) == {
        "method": "fedavg",
        "accuracy, %": "75.0 ± —",
        "ECE": "0.200 ± —",
        "ECE, pooled": "0.0400 ± —",  # |6 - 6.4| / 10
        "MCE, pooled": "0.0500 ± —",
        "Brier score": "0.400 ± —",
        "NLL": "0.500 ± —",
        "uncertainty (entropy)": "0.417 ± —",  # 0.5 and 1/3
    }


def test_the_page_has_a_part_for_it(sure, make_known):
    records = [sure("local"), sure(), make_known({"accuracy": [0.5, 0.6]}, "old")]
    page = render_page([Section("x", records)])
    plot = json.loads(re.search('id="s0-calibration-plot">(.*?)</script>', page).group(1))
    assert [c["name"] for c in plot["choices"]] == [
        "is it right as often as it is sure? (reliability)",
        "accuracy − confidence, by how sure it is",
        "accuracy − confidence, if it answers only when sure enough (above τ)",
        "accuracy, if it answers only when sure enough (above τ)",
        "how unsure its answers are (entropy)",
    ]
    guide, above, below, *_ = plot["choices"][0]["data"]
    assert (guide["x"], guide["y"]) == ([0, 100], [0, 100])
    assert (above["name"], above["y"], below["y"], below["yaxis"]) == ("local", [75, 100], [8, 2], "y2")
    assert above["customdata"] == ["8 samples", "2 samples"]
    assert "Not counted: old." in page
    table = page[page.index("s0-calibration-plot") : page.index('id="s0-matrix"')]
    assert "<td>0.0400 ± —</td>" in table
    assert table.count("<td>—</td>") == 6  # an old run has its accuracy alone


def test_without_scores_there_is_no_part(make_known):
    old = make_known({"accuracy": [0.5, 0.6], "loss": [1.0, 1.0]})
    assert 'id="s0-calibration"' not in render_page([Section("x", [old])])
    assert calibration.plot(counts_of([old])[1], inks(["fedavg"])) is None
    assert calibration_frame([old]).empty
    regression = make_known({"rmse": [1.0, 2.0]}, task="regression")
    assert 'id="s0-calibration"' not in render_page([Section("x", [regression])])


def test_a_run_that_goes_on_has_scores_without_counts(sure):
    run = sure(rounds=4, done=2)
    run.calibration = lambda: None
    page = render_page([Section("x", [run])])
    part = page[page.index('<section id="s0-calibration">') :]
    assert "s0-calibration-plot" not in page
    assert "<td>0.200 ± —</td>" in part[: part.index("</section>")]


def printed(records, width: int) -> str:
    out = io.StringIO()
    print_table(records, Console(file=out, width=width))
    return out.getvalue()


def test_terminal_has_them_as_far_as_there_is_room(sure, evenly):
    wide, some, narrow = (printed([evenly(sure())], width) for width in (120, 72, 56))
    assert all(word in wide for word in ("ECE", "NLL", "0.200 ± —", "0.500 ± —"))
    assert "loss" not in wide  # it is the NLL
    assert "Further columns" not in wide
    assert "0.200 ± —" in some
    assert "0.500 ± —" not in some
    assert "Further columns" in some
    assert "ECE" not in narrow
    assert "75.0 ± —" in narrow


def test_loss_stays_where_a_run_has_no_nll(sure, make_known):
    old = make_known({"accuracy": [0.5, 0.6], "loss": [1.0, 1.0]}, "old")
    assert views.metrics_to_show([sure()]) == ["accuracy", "ece", "nll", "brier"]
    assert views.metrics_to_show([sure(), old]) == ["accuracy", "ece", "nll", "brier", "loss"]
    assert summary_frame([sure()]).iloc[0][["ece", "nll", "brier", "loss"]].tolist() == [0.2, 0.5, 0.4, 0.5]


def test_counts_as_a_table(sure, tmp_path):
    written = write_csv(tmp_path, [sure(seed=3)])
    assert tmp_path / "calibration.csv" in written
    frame = calibration_frame([sure(seed=3)])
    assert list(frame) == ["label", "seed", "client", "by", "low", "high", "samples", "mean", "right"]
    assert len(frame) == 2 * (20 + 20 + 21)
    (row,) = frame[(frame["client"] == "b") & (frame["by"] == "confidence") & (frame["high"] == 0.8)].values
    assert row.tolist() == ["fedavg", 3, "b", "confidence", 0.75, 0.8, 4, 0.8, 4]
    above = frame[(frame["client"] == "b") & (frame["by"] == "above") & (frame["low"] == 0.85)]
    assert above[["samples", "right"]].values.tolist() == [[2, 2]]


def test_figures_for_a_paper(sure):
    pytest.importorskip("matplotlib")
    made = draw([sure("local"), sure()])
    names = ("reliability", "gap", "gap-above", "abstention", "entropy")
    assert {f"calibration-{name}" for name in names} < set(made)
    top, low = made["calibration-reliability"].axes
    np.testing.assert_allclose([line.get_ydata() for line in top.lines], [[0, 100], [75, 100], [75, 100]])
    assert low.get_yscale() == "log"
    assert low.yaxis.get_major_formatter()(100) == "100"
    assert low.lines[0].get_ydata().tolist() == [8, 2]


def test_who_averages_predictions_has_a_table_of_its_own_on_the_terminal(sure):
    averaging = sure("fl-swag")
    for m in averaging.metrics:
        m["scores"]["point/test"] = m["scores"]["own/test"]
    plain, both = printed([sure()], 80), printed([sure(), averaging], 80)
    assert "pooled" not in plain
    line = [text for text in both.splitlines() if text.startswith("fl-swag")][-1]
    # accuracy (0.5 + 1) / 2, ECE (0.3 + 0.1) / 2; pooled 0.8 · |0.75 - 0.8|, at most 0.05
    assert re.findall(r"[\d.]+", line)[:4] == ["75.0", "0.200", "0.0400", "0.0500"]


def test_the_range_of_the_brier_score_is_said_wherever_it_is_shown():
    """Some programs report one class alone, from 0 to 1; here it is the sum over classes."""
    assert numbers.called("brier") == numbers.unit("brier") == "Brier score (0 to 2)"
    assert "from 0 (best) to 2" in Words("en")("calibration.said")
    assert "from 0 (best) to 2" in Words("en")("calibration.screen")
    (term,) = [t for t in glossary.TERMS if t.name == "Brier score"]
    assert "0 is best, 2 the worst" in str(term)
    assert "from 0 to 1" in str(term)
    for language in LANGUAGES:
        assert re.search(r"classes|Klassen", said := Words(language).metric("brier"))
        assert re.search(r"0 (to|à|bis) 2", said)
