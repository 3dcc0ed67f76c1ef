"""Why somebody is chosen to train with, and why nobody is, in words."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from coterie.features.ranking.shown import (
    alone,
    alone_in_short,
    alone_lines,
    draw_ranking,
    ranking_frame,
    sentences,
)
from coterie.runs.record import Record

NAN = float("nan")
VALUES = {"ndoye": "transfer loss", "influence": "influence"}


def record_of(matrices, weights, method="ndoye", labels=None, options=None, **config) -> Record:
    clients = [{"name": f"site {i}", "train": 10, "labels": labels} for i in range(len(weights))]
    return Record(
        label=method,
        config={"method": method, method: options or {}, **config},
        about={"clients": clients, "task": "classification"},
        weights={1: np.array(weights, dtype=float)},
        matrices={name: {1: np.array(values, dtype=float)} for name, values in matrices.items()},
    )


def pair(
    value, chosen=False, method="ndoye", there=None, above=None, error=NAN, spread=None, **more
) -> Record:
    """Two sites of which the first asks; the figures are of the second, for the first."""
    figures = {VALUES[method]: value, f"error of {VALUES[method]}": None if math.isnan(error) else error}
    figures |= {"loss at the requester": there, "loss above own": above, "error of loss above own": spread}
    matrices = {name: [[NAN, v], [NAN, NAN]] for name, v in figures.items() if v is not None}
    return record_of(matrices, [[0.5, 0.5] if chosen else [1, 0], [0, 1]], method, **more)


WORSE = {"there": 0.9, "above": 0.4, "spread": 0.1}
NEAR = {"there": 0.5, "above": 0.01, "spread": 0.02}
HELPS = {"method": "influence", "options": {"threshold": 0.0}, "error": 0.1, **NEAR}
EVEN = [[5, 5], [0, 0], [3, 3]]  # guessing loses log 2 = 0.69
SHARES = "does worse on the rows of site 0 than guessing from its class shares (loss 0.9, guessing 0.693)"


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (pair(0.1, True), "site 1 comes first for site 0, and no bar was set (transfer loss 0.1)"),
        (
            pair(0.1, True, **NEAR),
            "the model of site 1 does about as well on the rows of site 0 as its own model, or better "
            "(loss 0.5, own 0.49, standard error 0.02)",
        ),
        (
            pair(0.3, True, **HELPS),
            "with site 1 the average does better on the rows of site 0, by more than a standard error "
            "(influence 0.3, standard error 0.1)",
        ),
        (
            pair(0.1, **WORSE),
            "the model of site 1 does worse on the rows of site 0 than its own model by more than a standard "
            "error (loss 0.9, own 0.5, standard error 0.1)",
        ),
        (pair(0.1, **WORSE, labels=EVEN), f"the model of site 1 {SHARES}"),
        # with a loss of one's own nobody knows what guessing would lose
        (pair(0.1, **WORSE, labels=EVEN, loss="mine"), "than its own model by more than a standard error ("),
        (
            pair(-0.1, True, **NEAR, options={"bar": "better"}),
            "does better on the rows of site 0 than its own",
        ),
        (pair(0.1, **NEAR, options={"bar": "better"}), "of site 1 is not better on the rows of site 0 than"),
        (pair(0.1, **(WORSE | {"spread": NAN})), "site 0 has too few rows to tell"),
        (
            pair(0.1, **NEAR, options={"threshold": 0.05}),
            "site 1 does not pass the threshold for site 0 (transfer loss 0.1, threshold 0.05)",
        ),
        (
            pair(-0.1, **HELPS),
            "with site 1 the average does no better on the rows of site 0 (influence −0.1,",
        ),
        (
            pair(0.05, **HELPS),
            "the average does better on the rows of site 0 by less than a standard error (",
        ),
        (pair(0.1, **NEAR, options={"best": 1}), "site 1 is not chosen for site 0 (transfer loss 0.1)"),
    ],
)
def test_a_reason_for_each_pair_and_requester(record, said):
    told = sentences(record)
    assert list(told) == ["site 0"]  # the other did not ask
    (reason,) = ranking_frame(record)["reason"]
    assert said in reason
    who = "site 1" if record.weights[1][0, 1] else "nobody"
    assert told["site 0"] == f"{who}; because {reason.partition(' (')[0]}"
    assert alone(record) == (told if who == "nobody" else {})


def test_who_comes_after_the_best_is_not_called_bad():
    values = [[NAN, 0.1, 0.2], [NAN] * 3, [NAN] * 3]
    record = record_of({"transfer loss": values}, [[0.5, 0.5, 0], [0, 1, 0], [0, 0, 1]], options={"best": 1})
    assert list(ranking_frame(record)["reason"]) == [
        "site 1 comes first for site 0, and no bar was set (transfer loss 0.1)",
        "others come before site 2 for site 0 (best=1)",
    ]


def test_several_of_one_reason_are_named_together():
    n, off = 10, 1.0
    values = np.where(np.eye(n, dtype=bool), NAN, off)
    matrices = {"transfer loss": values, "loss above own": values, "error of loss above own": values / 2}
    record = record_of(matrices, np.eye(n))
    told = sentences(record)["site 0"]
    named = "site 1, site 2, site 3, site 4, site 5, site 6 and 3 more"
    assert told.startswith(f"nobody; because the models of {named} do worse on the rows of site 0")
    lines = alone_lines({"ndoye": [record, replace(record, config=record.config | {"seed": 3})]})
    assert lines[0] == f"ndoye: site 0 trains alone in 2 of 2 seeds (here: seed 0): {told}"
    assert len(lines) == 10
    assert alone_in_short({"ndoye": [record]}) == alone_lines({"ndoye": [record]})
    two = alone_in_short({"ndoye": [record, replace(record, config=record.config | {"seed": 3})]})
    assert two == [
        "ndoye: nobody was worth it for site 0 (2 of 2 seeds), site 1 (2 of 2 seeds), site 2 (2 of 2 seeds), "
        "site 3 (2 of 2 seeds), site 4 (2 of 2 seeds), site 5 (2 of 2 seeds) and 4 more: alone then; the "
        "report says why"
    ]
    assert alone_lines({"local": [replace(record, config={"method": "local"})]}) == []


@pytest.mark.parametrize(
    ("record", "because"),
    [
        (pair(0.1, there=0.5, above=0.1), "too few rows to tell who is worth it for"),  # no standard error
        (pair(0.5, **WORSE), "nobody was worth it for"),
        (pair(0.1, **NEAR, options={"best": 1}), "nobody was chosen for"),
    ],
)
def test_in_short_nobody_is_called_worthless_for_want_of_rows(record, because):
    lines = alone_in_short({"ndoye": [record], "local": [replace(record, config={"method": "local"})]})
    assert lines == [f"ndoye: {because} site 0: alone then; the report says why"]


def test_who_withdrew_is_said_to_have():
    record = pair(0.1, **NEAR)
    told = [{"site": "site 1", "receiver": "site 0", "of": "circle", "why": "share 0.5 above 0.4"}]
    record.metrics.append({"round": 1, "extras": {"withdrawals": told}})
    assert sentences(record)["site 0"] == "nobody; because site 1 withdrew from the circle of site 0"


@pytest.mark.parametrize("requesters", [1, 2])
def test_the_figure_says_nobody(requesters):
    values = [[NAN, 0.5], [0.1 if requesters == 2 else NAN, NAN]]

    def texts(first):
        record = record_of({"transfer loss": values}, [first, [0.5, 0.5]])
        axes = draw_ranking(record).axes[0]
        return [axes.get_title(loc="left"), *(t.get_text() for t in axes.texts)]

    assert sum("nobody" in text for text in texts([1, 0])) == requesters
    assert not any("nobody" in text for text in texts([0.5, 0.5]))
