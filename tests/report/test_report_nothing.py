"""A report says when a method is worse than knowing nothing of the inputs."""

from __future__ import annotations

import html

import numpy as np
import pytest

from coterie.report.learnable import most_frequent, worse_than_nothing
from coterie.report.page import report_blocks
from coterie.show.html import blocks_to_html
from coterie.show.parts import Runs as Section

BOTH = np.array([True, True])


def record(make_known, task, figures, labels=None):
    """Two clients; `labels` [train, validation, test] of each, by class."""
    run = make_known(figures, label="local", task=task)
    for client, of in zip(run.about["clients"], labels or (None, None), strict=True):
        client["labels"] = of
    return run


LABELS = ([[8, 2], [0, 0], [7, 3]], [[1, 9], [0, 0], [5, 5]])
"""Most frequent in training: class 0 of a, right in 7 of 10 test rows; class 1 of b, right in 5 of 10."""


def test_the_most_frequent_class_by_hand(make_known):
    told, untold = (record(make_known, "classification", {"accuracy": [1, 1]}, of) for of in (LABELS, None))
    assert most_frequent(told, BOTH) == pytest.approx(0.6)
    assert most_frequent(told, np.array([True, False])) == pytest.approx(0.7)
    assert most_frequent(untold, BOTH) is None


@pytest.mark.parametrize(
    ("task", "figures", "labels", "worse"),
    [
        (
            "regression",
            {"rmse": [1.0, 1.0], "r2": [-3.0, 0.5]},
            None,
            "always saying the mean of the targets",
        ),
        ("regression", {"rmse": [1.0, 1.0], "r2": [-0.1, 0.5]}, None, ""),
        ("survival", {"concordance": [0.4, 0.5]}, None, "an order by chance"),
        ("survival", {"concordance": [0.6, 0.5]}, None, ""),
        ("classification", {"accuracy": [0.6, 0.5]}, LABELS, "which is right in 60.0 %"),
        ("classification", {"accuracy": [0.7, 0.5]}, LABELS, "no better than always saying"),
        ("classification", {"accuracy": [0.75, 0.5]}, LABELS, ""),
        ("survival", {"concordance": [0.4, 0.6]}, None, "no better than an order by chance"),
        ("regression", {"rmse": [1.0, 1.0], "r2": [0.0, 0.0]}, None, "no better than always"),
        ("classification", {"accuracy": [0.1, 0.1]}, None, ""),  # labels are not told: nothing is claimed
    ],
)
def test_what_is_worse_than_knowing_nothing_is_in_the_first_lines(make_known, task, figures, labels, worse):
    run = record(make_known, task, figures, labels)
    said = worse_than_nothing([run], BOTH)
    assert worse in said
    assert bool(said) == bool(worse)
    page = blocks_to_html(report_blocks([Section("", [run])])[0])
    page = html.unescape(page)
    assert (f'<p class="warning">local: {said}.</p>' in page) == bool(worse)
    assert ("worse than" in page or "no better than" in page) == bool(worse)
