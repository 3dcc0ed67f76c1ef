"""A sentence for each client, from figures that are worked out by hand."""

import pytest

from coterie.metrics.summary import interval
from coterie.report import clients

T = 12.706  # Student's t for one degree of freedom


def runs(make_known, figures, metric="accuracy", **more):
    """{label: [figures of seed 0, figures of seed 1, ...]} as records."""
    return [
        make_known({metric: values}, label, seed, **more)
        for label, seeds in figures.items()
        for seed, values in enumerate(seeds)
    ]


def test_who_gains_who_loses_and_who_cannot_tell(make_known):
    records = runs(
        make_known,
        {
            "local": [[0.500, 0.900, 0.700]] * 2,
            "fedavg": [[0.600, 0.700, 0.760], [0.601, 0.701, 0.660]],
            "pens": [[0.550, 0.800, 0.720], [0.551, 0.801, 0.700]],
            "central": [[0.990, 0.990, 0.990]] * 2,
        },
        names=("a", "b", "c"),
    )
    # the halves are T times 0.05 points, but for c: pens gains 2 and 0 points, fedavg 6 and -4; two splits
    # of 10, 20, 30 rows beside 5 to test on make that √(1 + 2r) times as wide
    assert clients.client_sentences(records) == [
        "a: training together seems to pay: fedavg (the best of 2) gains 10.0 points (±0.9 over 2 seeds).",
        "b: stay alone: even pens (the best of 2) would cost 9.9 points (±0.8 over 2 seeds).",
        "c: no clear gain: fedavg (the best of 2) gains 1.0 point (±73.4 over 2 seeds).",
    ]
    assert interval([0.06, -0.04]).half == pytest.approx(T * 0.05, rel=1e-4)
    assert interval([0.06, -0.04], overlap=5 / 30).half == pytest.approx(0.734, rel=1e-3)
    assert clients.client_legend(records) == (
        "The best of 2 is chosen for each client by these very test rows, so it looks better than it is; "
        "of 6 comparisons with training alone some look clear by chance. ± is the 95 % interval over 2 "
        "splits of the same rows, corrected for the rows they share: it covers which rows were trained and "
        "tested on, and how models were trained."
    )


def test_what_would_cost_is_named(make_known):
    records = runs(
        make_known,
        {"local": [[0.9]] * 2, "pens": [[0.9]] * 2, "fedavg": [[0.7], [0.701]], "dac": [[0.8], [0.801]]},
        names=("a",),
    )
    assert clients.client_sentences(records) == [
        "a: no clear gain: pens (the best of 3) makes no difference on these rows; "
        "fedavg would cost 20.0 points (±0.9 over 2 seeds)."
    ]


def test_one_seed_has_no_verdict(make_known):
    records = runs(make_known, {"local": [[0.5, 0.9]], "fedavg": [[0.6, 0.8]]})
    assert clients.client_sentences(records) == [
        "a: fedavg has 10.0 points more than training alone in a single run, which only more seeds can tell "
        "from chance.",
        "b: fedavg has 10.0 points less than training alone in a single run, which only more seeds can tell "
        "from chance.",
    ]
    assert clients.client_legend(records) == ""


def test_of_an_error_less_is_better(make_known):
    figures = {"local": [[5.0]] * 2, "fedavg": [[3.0], [3.002]]}
    records = runs(make_known, figures, metric="rmse", names=("a",), task="regression")
    assert clients.client_sentences(records) == [
        "a: training together seems to pay: fedavg gains 1.999 (±0.018 over 2 seeds) in RMSE."
    ]


def test_who_did_not_ask_and_who_never_trained_alone(make_known):
    records = runs(make_known, {"local": [[0.5, 0.9]], "weight-erosion": [[0.6, None]]})
    assert clients.client_sentences(records)[1] == "b: no method to compare with training alone."
    assert clients.client_sentences(runs(make_known, {"fedavg": [[0.6, 0.8]]})) == []


def test_whom_each_listens_to(make_known):
    (record,) = runs(make_known, {"fedavg": [[0.6, 0.8, 0.7]]}, names=("a", "b", "c"))
    one, two = [[0.5, 0.5, 0], [0, 1, 0], [0.2, 0.3, 0.5]], [[0.5, 0, 0.5], [0, 1, 0], [0.2, 0.4, 0.4]]
    record.weights = {1: one, 2: two}
    assert clients.listened([record]) == [["b 0.25", "c 0.25"], [], ["b 0.35", "a 0.20"]]
    assert clients.listened([record], most=1) == [["b 0.25"], [], ["b 0.35"]]
