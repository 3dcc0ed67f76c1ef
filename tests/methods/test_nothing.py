"""Always the same answer: its numbers by hand, for every task and shape of model, on every net."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import coterie
from coterie.core.client import Client, Samples
from coterie.core.errors import BadInput
from coterie.core.roster import roster_of
from coterie.kernels.constant import Constant, answer_of
from coterie.methods import Nothing
from coterie.models import MODELS


def clients_of(ys, test, task, classes=()):
    """Rows as they are given: training and test rows [client]."""

    def part(y):
        y = torch.tensor(y, dtype=torch.int64 if task == "classification" else torch.float32)
        return Samples(torch.arange(2.0 * len(y)).reshape(len(y), 2), y)

    made = []
    for i, (train, held) in enumerate(zip(ys, test, strict=True)):
        made.append(
            Client(
                f"c{i}",
                part(train),
                part(held),
                part(train[:0]),
                classes=classes,
                censored=task == "survival",
            )
        )
    return made


def test_shares_with_half_a_row_more_by_hand():
    # 3 of 4 rows are of class 0, none is of class 2: (3.5, 1.5, 0.5) of 5.5
    found = answer_of("classification", torch.tensor([0, 0, 1, 0]), 3)
    assert found.exp().tolist() == pytest.approx([3.5 / 5.5, 1.5 / 5.5, 0.5 / 5.5])
    assert answer_of("regression", torch.tensor([1.0, 2.0, 6.0]), 1).tolist() == [3.0]
    assert answer_of("survival", torch.tensor([1.0, -2.0]), 1).tolist() == [0.0]


def test_a_run_scores_what_the_shares_of_training_rows_have_on_test_rows():
    ys, test = [[0, 0, 0, 1], [1, 1]], [[0, 1], [0, 0, 1, 1]]
    made = clients_of(ys, test, "classification", ("well", "ill"))
    found = coterie.train("logistic", made, "nothing", rounds=3, one_class="allow", progress=False)
    p = [3.5 / 5, 0.5 / 3]  # of being well, at each
    nll = [-(math.log(p[0]) + math.log(1 - p[0])) / 2, -(math.log(p[1]) + math.log(1 - p[1])) / 2]
    scores = [m["scores"]["own/test"] for m in found.record.metrics]
    assert scores[1]["nll"] == pytest.approx(nll, abs=1e-6)
    assert scores[1]["accuracy"] == [0.5, 0.5]
    assert scores[3] == scores[1]  # the first round is all there is
    assert found.record.metrics[1]["train_loss"] in ([None, None], pytest.approx([math.nan] * 2, nan_ok=True))
    assert all(sum(m["numbers"]) == 0 for m in found.record.metrics)


def test_the_mean_of_targets_in_their_own_unit():
    made = clients_of([[10.0, 20.0, 30.0], [-4.0, 4.0]], [[21.0, 19.0], [3.0, -3.0]], "regression")
    found = coterie.train("linear", made, "nothing", rounds=1, progress=False)
    assert found.record.final("rmse") == pytest.approx([1.0, 3.0], abs=1e-6)


def test_survival_has_one_risk_for_all():
    times = [[3.0, -2.0, 5.0, 1.0], [2.0, 4.0, -6.0]]
    made = clients_of(times, times, "survival")
    found = coterie.train("linear", made, "nothing", rounds=1, progress=False)
    assert found.record.final("concordance") == [0.5, 0.5]


PICTURES = ("erosion-cnn", "lenet5", "lenet5-small", "pens-cnn", "resnet18")


@pytest.mark.parametrize("model", [m for m in MODELS if m != "linear"])
def test_every_model_says_the_same_of_every_row(model):
    options = {"resnet18": {"width": 8}}.get(model, {})
    shape = (3, 22, 22) if model in PICTURES else (4,)
    module = MODELS.make(model, **options).build(shape, 3, 0)
    y, draws = torch.tensor([0, 0, 2]), torch.Generator().manual_seed(0)
    x = torch.randn(3, *shape, generator=draws)
    made = [Client("a", Samples(x, y), Samples(x, y), Samples(x[:0], y[:0]), classes=("a", "b", "c"))]
    found = coterie.train(module, made, "nothing", rounds=1, progress=False)
    with torch.no_grad():
        said = found.models["a"](torch.randn(5, *shape, generator=draws)).softmax(1)
    assert said.flatten().tolist() == pytest.approx([2.5 / 4.5, 0.5 / 4.5, 1.5 / 4.5] * 5)


class Squeezing(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(2, 2)

    def forward(self, x):
        return self.last(x).tanh()


@pytest.mark.parametrize(
    "module",
    [Squeezing(), nn.Sequential(nn.Linear(2, 2, bias=False)), nn.Sequential(nn.Linear(2, 2), nn.Tanh())],
)
def test_a_model_that_does_not_end_in_a_linear_layer_is_refused_and_compared_without(module):
    made = clients_of([[0, 1], [1, 0]], [[0, 1], [1, 0]], "classification", ("a", "b"))
    with pytest.raises(BadInput, match=r"let it return what an nn\.Linear gives"):
        coterie.train(module, made, "nothing", rounds=1, progress=False)
    with pytest.warns(coterie.CoterieWarning, match="nothing is left out"):
        found = coterie.compare(module, made, ["local"], seeds=1, rounds=1, kernel="sgd", progress=False)
    assert list(found.results) == ["local"]


def test_other_work_than_its_own_is_refused():
    made = clients_of([[0, 1], [1, 0]], [[0, 1], [1, 0]], "classification", ("a", "b"))
    with pytest.raises(BadInput, match="nothing does the work constant alone; got kernel sgd: leave it out"):
        coterie.train("logistic", made, "nothing", kernel="sgd")


def test_nobody_who_is_not_asked_for_has_a_model_and_nothing_is_told():
    assert Nothing("c1").requester == "c1"
    assert Nothing().reveals() == coterie.methods.METHODS.make("nothing").reveals()
    assert (Nothing().reveals().numbers, Constant().numbers) == ((), ())
    made = clients_of([[0, 1], [1, 0]], [[0, 1], [1, 0]], "classification", ("a", "b"))
    with pytest.raises(BadInput, match="requester"):
        Nothing("nobody").check(roster_of(made), {}, None)


def test_beside_others_it_changes_none_of_their_numbers():
    draws, made = np.random.default_rng(0), []
    for name in ("a", "b"):
        x = draws.normal(size=(40, 3))
        made.append(coterie.Client.from_arrays(x, (x[:, 0] > 0).astype(int), name=name))
    found = coterie.compare("logistic", made, ["fedavg"], seeds=1, rounds=2, lr=0.1, progress=False)
    alone = coterie.train("logistic", made, "fedavg", rounds=2, lr=0.1, init="common", progress=False)
    for name in ("a", "b"):
        for p, q in zip(
            found.results["fedavg"][0].models[name].parameters(), alone.models[name].parameters(), strict=True
        ):
            assert torch.equal(p, q)
