"""Every method with the local work that is natural for it, on three small tables: nothing diverges.

A classification, a regression whose targets have a mean of 5000 and a deviation of 700 with 30 columns that
all go together, and a survival. What a method cannot work on it refuses in one line.
"""

from __future__ import annotations

import numpy as np
import pytest

import coterie
from coterie.core.errors import CoterieError, UnknownName
from coterie.methods import METHODS

ROWS, COLUMNS, ROUNDS = 60, 30, 6
ELSEWHERE = {"fedper", "fedrep"}  # share all but the last layer, and a linear model has no other
NEEDS = {
    "oracle": "clusters",
    "advised": "trials",
    "nothing": "no work",
}  # tried elsewhere
OF_CLASSES = {"random-weighted"}
VALIDATION = {"fedfomo": 0.2, "random-weighted": 0.2}
SLOW = {"per-fedavg": 20, "fedavgm": 30}  # rounds: half as many steps, and momentum that has to settle
OPTIONS = {"per-fedavg": {"adapt_lr": 0.01}}  # its one plain step is as long as it is told


def sites(task: str, validation: float = 0.0) -> list[coterie.Client]:
    rng = np.random.default_rng(1)
    slopes, clients = rng.normal(size=COLUMNS) / COLUMNS**0.5, []
    for i in range(3):
        x = 0.8 * rng.normal(size=(ROWS, 1)) + 0.6 * rng.normal(size=(ROWS, COLUMNS))
        score = x @ slopes
        score = (score - score.mean()) / score.std() + 0.5 * rng.normal(size=ROWS)
        more = {"name": f"site-{i}", "test": 0.3, "validation": validation, "seed": 0}
        if task == "survival":
            y = np.exp(-score) * rng.exponential(size=ROWS)
            event = rng.random(ROWS) < 0.8
            clients.append(coterie.Client.from_arrays(x, y, event=event.astype(int), **more))
        else:
            y = (score > 0).astype(int) if task == "classification" else 5000 + 700 * score / 1.12
            clients.append(coterie.Client.from_arrays(x, y, task=task, **more))
    return clients


@pytest.fixture(scope="module")
def tables():
    made: dict[tuple[str, float], list[coterie.Client]] = {}

    def of(task: str, validation: float) -> list[coterie.Client]:
        if (task, validation) not in made:
            made[task, validation] = sites(task, validation)
        return made[task, validation]

    return of


def last(result: coterie.Result, metric: str) -> float:
    told = result.history.query(f"split == 'test' and metric == '{metric}' and model == 'own'")
    return float(told[told["round"] == told["round"].max()]["value"].mean())


FIGURES = {"classification": "accuracy", "regression": "rmse", "survival": "concordance"}
MODELS = {"classification": "logistic", "regression": "linear", "survival": "linear"}


THROUGHOUT = ("local", "fedavg", "ditto", "partial", "random-weighted")
"""Methods that are tried on all three tables; the others on one each, in turn."""
TRIED = [
    (method, task)
    for place, method in enumerate(sorted(set(METHODS) - set(NEEDS)))
    for task in (FIGURES if method in THROUGHOUT else [list(FIGURES)[place % 3]])
]


@pytest.mark.parametrize(("method", "task"), TRIED)
def test_natural_work_learns_and_does_not_diverge(method, task, tables):
    clients = tables(task, VALIDATION.get(method, 0.0))
    if method in ELSEWHERE or (method in OF_CLASSES and task != "classification"):
        with pytest.raises(CoterieError) as caught:
            coterie.train(MODELS[task], clients, method, rounds=ROUNDS, seed=0)
        assert "\n" not in str(caught.value)
        assert ": " in str(caught.value)  # and says what to do
        return
    rounds = SLOW.get(method, ROUNDS)
    result = coterie.train(
        MODELS[task], clients, method, rounds=rounds, evaluate=rounds, seed=0, **OPTIONS.get(method, {})
    )
    figure = last(result, FIGURES[task])
    if task == "regression":
        assert figure < 700 * 1.05  # the mean alone has about 700
    else:
        assert figure > 0.55  # chance has a half


@pytest.mark.parametrize(
    ("method", "task"),
    [
        *(("fedavg", task) for task in FIGURES),
        ("local", "regression"),
        ("ditto", "survival"),
        ("fedrep", "regression"),
        ("scaffold", "classification"),
    ],
)
def test_networks_learn_and_do_not_diverge(method, task, tables):
    result = coterie.train("mlp", tables(task, 0.0), method, rounds=ROUNDS, evaluate=ROUNDS, seed=0)
    figure = last(result, FIGURES[task])
    assert figure < 700 * 1.05 if task == "regression" else figure > 0.55


@pytest.mark.parametrize("partner", ["all", "nobody"])
def test_a_partner_is_one_of_the_clients(partner, refused):
    with refused(UnknownName, f"unknown partner '{partner}': known are site-0, site-1, site-2"):
        coterie.train("linear", sites("regression"), "recalibrated", partner=partner, rounds=1)
