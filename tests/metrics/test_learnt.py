"""Whether held-out rows speak for a model against always the same answer, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coterie.metrics.learnt import Figures, Held, enough, learnt, nats

TEN = [Held(10, (4, 6))]


@pytest.mark.parametrize(
    ("metric", "model", "same", "held", "expected"),
    [
        ("nll", [0.5], [0.7], TEN, 2.0),
        ("nll", [0.5, 0.9], [0.7, 0.8], [*TEN, Held(20)], 0.0),  # 10 * 0.2 - 20 * 0.1
        ("rmse", [1.0], [math.e], TEN, 10.0),
        ("rmse", [2.0], [1.0], TEN, -10 * math.log(2)),
        ("accuracy", [0.75] * 2, [0.25, 0.75], [Held(8)] * 2, 16 * (0.75 * math.log(1.5) - math.log(2) / 4)),
        ("accuracy", [0.5], [0.6], TEN, 0.0),
        ("auc", [0.75], [0.5], TEN, (0.25 / math.sqrt(11 / (12 * 24))) ** 2 / 2),
        ("auc", [0.25], [0.5], TEN, 0.0),
        ("concordance", [0.7], [0.5], [Held(30, (5, 25))], (0.2 * 3 * 5) ** 2 / 2),
        ("concordance", [0.7], [0.5], [Held(30)], math.nan),  # events are not known
    ],
)  # fmt: skip
def test_nats_by_hand(metric, model, same, held, expected):
    assert nats(metric, np.array(model), np.array(same), held) == pytest.approx(expected, nan_ok=True)


def test_clients_whose_figures_are_not_known_say_nothing():
    assert nats("nll", np.array([0.5, math.nan]), np.array([0.7, 0.1]), [*TEN, Held(99)]) == pytest.approx(
        2.0
    )
    assert math.isnan(nats("nll", np.array([math.nan]), np.array([0.7]), TEN))


def test_chance_brings_a_ratio_of_20_once_in_20_times():
    assert enough(1) == pytest.approx(math.log(20))
    assert enough(5) == pytest.approx(math.log(100))
    # ratios of always the same against a model that errs at random, on rows that follow the former
    draws = np.random.default_rng(0)
    truth, said = 0.5, 1 / (1 + np.exp(-draws.normal(size=(4000, 60))))
    y = draws.random((4000, 60)) < truth
    models = -np.log(np.where(y, said, 1 - said)).mean(axis=1)
    over = [nats("nll", np.array([m]), np.array([math.log(2)]), [Held(60)]) > enough(1) for m in models]
    assert np.mean(over) <= 1 / 20


def figures(**of):
    return {m: np.array([[v]]) for m, v in of.items()}


@pytest.mark.parametrize(
    ("alone", "other", "verdict", "way", "metric"),
    [
        ({"nll": 0.5}, {"nll": 0.4}, "yes", "local", "nll"),  # alone shows it: it is told of
        ({"nll": 0.69}, {"nll": 0.4}, "yes", "fedavg", "nll"),
        ({"nll": 0.75}, {"nll": 0.72}, "no", "fedavg", "nll"),
        ({"nll": 0.75}, {"nll": 0.69}, "no", "fedavg", "nll"),  # better, but not by more than chance brings
        ({"nll": 0.9, "accuracy": 0.8}, {"nll": 0.9, "accuracy": 0.5}, "partly", "local", "accuracy"),
        ({"nll": math.nan}, {"nll": math.nan}, "unknown", None, None),
    ],
)
def test_the_answer(alone, other, verdict, way, metric):
    same = figures(nll=0.7, accuracy=0.5)
    ways = {"local": Figures(figures(**alone), same), "fedavg": Figures(figures(**other), same)}
    found = learnt("classification", ways, [[Held(100, (50, 50))]], "local")
    assert found.verdict == verdict
    assert (found.by and found.by.way, found.by and found.by.metric) == (way, metric)
    assert (found.beside is not None) == (verdict == "partly")
