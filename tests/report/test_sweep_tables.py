"""A sweep as a frame, as a picture and as a LaTeX table."""

from __future__ import annotations

import dataclasses
import json
import math
import re

import pytest

from coterie.metrics.summary import Interval
from coterie.report.curves import sweep_part, swept
from coterie.report.tables import escaped, is_tie, latex_table, sweep_frame
from coterie.show.html import blocks_to_html
from coterie.show.parts import Runs
from coterie.show.views import baseline, groups


def runs(make_known, by_label, metric="accuracy"):
    """One run for each label and seed: {label: [figures of all clients, a list for each seed]}."""
    made = []
    for label, seeds in by_label.items():
        for seed, figures in enumerate(seeds):
            record = make_known({metric: figures}, label=label, seed=seed)
            made.append(dataclasses.replace(record, config={**record.config, "method": label.split(":")[0]}))
    return made


def cell(text, label, column):
    line = next(line for line in text.splitlines() if line.strip().startswith(escaped(label) + " &"))
    return line.strip().removesuffix(r"\\").split(" & ")[column].strip()


# differences to the best, `far`: near -0.01 and 0 (the interval holds 0), local -0.3 and -0.32 (it does not)
STUDY = {
    "local": [[0.6, 0.6], [0.59, 0.59]],
    "near_1%": [[0.89, 0.89], [0.91, 0.91]],
    "far": [[0.90, 0.90], [0.91, 0.91]],
}


def test_the_best_and_its_ties_are_marked(make_known):
    text = latex_table(runs(make_known, STUDY), "three & more")
    assert cell(text, "far", 1).startswith(r"\textbf{90.5 $\pm$ ")
    assert cell(text, "near_1%", 1).endswith(r"$^{\dagger}$")
    assert cell(text, "local", 1).startswith("59.5 $\\pm$ ")
    assert "dagger" not in cell(text, "local", 1)
    assert r"three \& more. Test figures of 2 clients, means over clients and 2 seeds." in text
    assert (
        r"$^{\dagger}$: a tie, the 95 \% interval over seeds of its paired difference to the best holds 0."
        in text
    )
    assert r"near\_1\% & " in text
    assert cell(text, "far", 3).startswith("+31.0")  # the gain over local, which is not marked


def test_seeds_that_all_agree_prove_nothing(make_known):
    """A point apart in either seed: there is no interval, so the best is not told from the other."""
    text = latex_table(runs(make_known, {"a": [[0.90, 0.90]] * 2, "b": [[0.89, 0.89]] * 2}))
    assert cell(text, "a", 1) == r"\textbf{90.0}"
    assert cell(text, "b", 1) == r"89.0$^{\dagger}$"
    assert "Also where all seeds agree" in text


@pytest.mark.parametrize(
    ("gap", "tie"),
    [
        (Interval(-0.1, math.nan, 3), True),
        (Interval(-0.1, math.nan, 3, -0.2, -0.05), False),  # test rows tell them apart
        (Interval(-0.1, math.nan, 3, -0.2, 0.05), True),
        (Interval(-0.1, 0.05, 3, -0.3, 0.1), True),
        (Interval(-0.1, 0.05, 3), False),
        (Interval(-0.1, math.nan, 1), False),
        (Interval(0.0, math.nan, 1), True),
    ],
)
def test_what_is_a_tie(gap, tie):
    assert is_tie(gap) == tie


def test_one_seed_has_a_best_and_no_ties_but_equals(make_known):
    found = runs(make_known, {"a": [[0.9, 0.7]], "b": [[0.7, 0.9]], "c": [[0.79, 0.8]]})
    text = latex_table(found)
    assert cell(text, "a", 1) == cell(text, "b", 1) == r"\textbf{80.0}"
    assert cell(text, "c", 1) == "79.5"
    assert "With one seed ties cannot be told." in text
    assert "dagger" not in text


def test_methods_of_different_seeds_have_no_best(make_known):
    text = latex_table(runs(make_known, {"a": [[0.9, 0.7], [0.9, 0.8]], "b": [[0.7, 0.9]]}))
    assert r"\textbf" not in text
    assert "different clients or seeds, so none is marked" in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r"a_b & 5% {x}", r"a\_b \& 5\% \{x\}"),
        (r"\input{/etc/passwd}", r"\textbackslash{}input\{/etc/passwd\}"),
        ("x^2~y#$", r"x\textasciicircum{}2\textasciitilde{}y\#\$"),
        ("one\n\ntwo", "one two"),
        ("−1.0 ± 2", r"$-$1.0 $\pm$ 2"),
    ],
)
def test_latex_shows_what_is_written(text, shown):
    assert escaped(text) == shown


SWEEP = {
    "local:sgd.lr=0.1": [[0.5, 0.5]],
    "local:sgd.lr=1": [[0.8, 0.8]],
    "ft:mu=0.01,sgd.lr=0.1": [[0.6, 0.6]],
    "ft:mu=1,sgd.lr=0.1": [[0.7, 0.7]],
    "ft:mu=0.1,sgd.lr=0.1": [[0.9, 0.9]],
    "ft:kind=x": [[0.9, 0.9]],
}


def test_lines_against_each_number():
    lines = swept(list(SWEEP))
    assert list(lines) == ["sgd.lr", "mu"]
    (mu,) = lines["mu"]
    assert (mu.name, mu.values) == ("ft:sgd.lr=0.1", [0.01, 0.1, 1])
    assert mu.labels[1] == "ft:mu=0.1,sgd.lr=0.1"
    assert [line.name for line in lines["sgd.lr"]] == ["local"]
    assert swept(["fedavg", "a:b", "a:b=1"]) == {}


def test_the_picture_of_a_sweep(make_known):
    html = blocks_to_html(sweep_part(Runs("", runs(make_known, SWEEP))))
    found = re.search(r'<script type="application/json" id="s0-sweep-plot">(.*?)</script>', html)
    drawn = json.loads(found[1])
    assert [c["name"] for c in drawn["choices"]] == ["sgd.lr", "mu"]
    (trace,) = drawn["choices"][1]["data"]
    assert (trace["x"], trace["y"]) == ([0.01, 0.1, 1], pytest.approx([60, 90, 70]))
    assert drawn["choices"][1]["layout"]["xaxis"]["type"] == "log"
    assert sweep_part(Runs("", runs(make_known, STUDY))) == []


def test_the_frame_of_a_sweep_has_options_as_columns(make_known):
    frame = sweep_frame(runs(make_known, SWEEP))
    assert list(frame.columns[:5]) == ["label", "name", "sgd.lr", "mu", "kind"]
    best = frame[(frame["name"] == "ft") & (frame["mu"] == 0.1)]
    assert best["accuracy"].tolist() == [0.9, 0.9]


def test_gains_are_over_the_best_of_several_that_train_alone(make_known):
    assert baseline(groups(runs(make_known, SWEEP))) == "local:sgd.lr=1"
