"""Targets in a scale of their own: what is learnt does not depend on their unit, and comes out in it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import coterie
from coterie.core.errors import BadInput
from coterie.core.learner import Batch, Learner
from coterie.core.target_scale import Scale, scale_of
from coterie.kernels.recalibrate import Recalibrate
from coterie.models import MODELS
from coterie.runs.settings import Settings
from coterie.runs.target_scales import options_with_scale, scale_of_targets


def sites(unit: float = 1.0, centre: float = 0.0) -> list[coterie.Client]:
    rng, made = np.random.default_rng(2), []
    for i in range(2):
        x = rng.normal(size=(40, 3))
        y = centre + unit * (x @ [1.0, -1.0, 0.5] + 0.3 * rng.normal(size=40))
        made.append(coterie.Client.from_arrays(x, y, name=f"s{i}", task="regression", seed=0))
    return made


def predictions(result: coterie.Result, clients: list[coterie.Client]) -> torch.Tensor:
    with torch.no_grad():
        return torch.cat([result.models[c.name](c.test.x).flatten() for c in clients])


@pytest.mark.parametrize(("model", "method"), [("mlp", "fedavg"), ("linear", "apfl"), ("linear", "fedadam")])
def test_what_is_learnt_does_not_depend_on_the_unit(model, method):
    plain, far = sites(), sites(700.0, 5000.0)
    small = coterie.train(model, plain, method, rounds=4, seed=0, init="common")
    large = coterie.train(model, far, method, rounds=4, seed=0, init="common")
    wanted = 5000 + 700 * predictions(small, plain)
    assert torch.allclose(predictions(large, far), wanted, atol=700 * 2e-3)
    centre, unit = scale_of_targets(c.train.y for c in far)
    assert large.record.config["targets"] == "scaled"
    assert large.record.config[model] == {"centre": centre, "unit": unit}


def test_a_step_goes_down_the_loss_in_its_unit_and_scores_are_in_that_of_the_targets():
    scaled = MODELS.make("linear", centre=10.0, unit=4.0).build((2,), 1, 0)
    plain = MODELS.make("linear").build((2,), 1, 0)
    assert scale_of(scaled) == Scale(10.0, 4.0)
    x, u = torch.randn(5, 2), torch.randn(5)
    belief, seed = dict(plain.named_parameters()), torch.tensor(0)
    one, other = Learner(plain, "regression"), Learner(scaled, "regression")
    first = one.gradient(belief, Batch(x, u, torch.ones(5)), seed)
    second = other.gradient(belief, Batch(x, 10 + 4 * u, torch.ones(5)), seed)
    for name, grad in first.grads.items():
        assert torch.allclose(second.grads[name], grad, atol=1e-5)
    raw = other.losses(other.outputs(belief, x), 10 + 4 * u)
    assert torch.allclose(raw, 16 * one.losses(one.outputs(belief, x), u), atol=1e-4)


def test_a_run_goes_on_and_its_models_are_read_with_their_scale(tmp_path):
    far = sites(700.0, 5000.0)
    result = coterie.train("mlp", far, "fedavg", rounds=2, seed=0, out=tmp_path / "r")
    one = coterie.load(tmp_path / "r", client="s0")
    with torch.no_grad():
        assert torch.equal(one.model(far[0].test.x), result.models["s0"](far[0].test.x))
    assert scale_of(one.model) == Scale(*result.record.config["mlp"].values())
    again = coterie.train("mlp", far, "fedavg", rounds=2, seed=0, out=tmp_path / "r", resume=True)
    assert again.record.done == 2


def far_apart(centre: float) -> list[coterie.Client]:
    """Sites whose inputs lie far apart, so that a common mean of targets looks like slopes."""
    rng, made = np.random.default_rng(3), []
    for i in range(8):
        x = 3 * rng.normal(size=6) + 0.3 * rng.normal(size=(10, 6))
        y = centre + x @ [0.2, -0.2, 0.1, 0, 0, 0] + 0.3 * rng.normal(size=10)
        made.append(coterie.Client.from_arrays(x, y, name=f"s{i}", task="regression", seed=0))
    return made


@pytest.mark.parametrize("method", ["fedavg", "pens", "fedper", "finetune", "recalibrated"])
def test_a_mean_of_targets_that_is_far_from_0_does_not_matter_where_models_are_solved(method):
    options = {"home": "*bias"} if method == "fedper" else {}
    near, far = far_apart(0.0), far_apart(1000.0)
    small = coterie.train("linear", near, method, rounds=10, seed=0, init="common", **options)
    large = coterie.train("linear", far, method, rounds=10, seed=0, init="common", **options)
    assert torch.allclose(predictions(large, far), 1000 + predictions(small, near), atol=5e-3)


@pytest.mark.parametrize("scale", [{}, {"centre": 5000.0, "unit": 700.0}])
def test_what_is_put_right_lies_where_targets_do(scale):
    """Of a model with a scale of its targets too: a level and a slope are in the targets' own unit."""
    model = MODELS.make("linear", **scale).build((2,), 1, 0)
    learner, rng = Learner(model, "regression"), np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(8, 2)), dtype=torch.float32)
    belief = {n: p.detach() for n, p in model.named_parameters()}
    before = learner.outputs(belief, x)
    y = 5000 + 2 * (before[:, 0] - before.mean())
    after = Recalibrate(trust=1e-6).solve(learner, belief, Batch(x, y, torch.ones(8)))
    assert torch.allclose(learner.outputs(after, x)[:, 0], y, atol=0.01)


@pytest.mark.parametrize("method", ["nothing", "local", "pooled", "partial", "recalibrated"])
def test_what_is_solved_is_the_same_in_any_unit(method):
    far = sites(700.0, 5000.0)
    plain = coterie.train("linear", far, method, rounds=4, seed=0, init="common")
    given = coterie.models.MODELS.make("linear", centre=4000.0, unit=50.0).build((3,), 1, 0)
    scaled = coterie.train(given, far, method, rounds=4, seed=0, init="common", **work_of(method))
    assert torch.allclose(predictions(scaled, far), predictions(plain, far), atol=0.05)


def work_of(method: str) -> dict[str, str]:
    """The work that is natural for a linear model, which one's own module does not say it is."""
    return {"local": {"kernel": "ridge"}, "recalibrated": {"kernel": "newton"}}.get(method, {})


@pytest.mark.parametrize(
    ("model", "candidate"), [("linear", "partial"), ("linear", "fedavg"), ("mlp", "fedavg")]
)
def test_advice_tries_ways_with_and_without_a_scale_side_by_side(model, candidate):
    options = {"candidates": [candidate], "folds": 2, "rounds": 2, "seed": 0}
    result = coterie.train(model, sites(700.0, 5000.0), "advised", **options)
    assert result.record.config["targets"] == "scaled"
    advice = coterie.advise(model, sites(700.0, 5000.0), inner=0, **options)
    assert advice.table()["rmse"].between(150, 2000).all()
    assert "Is there anything to learn here?" in advice.words("s0")[0]


def test_a_network_of_a_regression_is_put_right_as_it_comes():
    result = coterie.train("mlp", sites(700.0, 5000.0), "recalibrated", rounds=2, seed=0)
    assert result.record.config["targets"] == "scaled"


def test_where_no_model_is_gone_on_from_nothing_is_scaled():
    for method in ("local", "pooled", "recalibrated"):
        assert "targets" not in coterie.train("linear", sites(), method, rounds=1, seed=0).record.config
    averaged = coterie.train("linear", sites(), "fedavg", rounds=1, seed=0).record.config
    assert averaged["targets"] == "scaled"
    named = coterie.train("mlp", sites(), "fedavg", kernel="sgd", rounds=1, seed=0)
    assert "mlp" not in named.record.config
    assert Settings(data="diabetes", method="local").resolved().targets == "auto"
    assert Settings(data="diabetes", method="fedavg").resolved().targets == "scaled"
    assert Settings(data="diabetes", method="fedavg", model="mlp").resolved().targets == "scaled"
    assert Settings(data="diabetes", model="mlp", targets="raw").resolved().targets == "raw"


def test_refused_in_one_line():
    with pytest.raises(BadInput, match="has no centre and unit: take linear or mlp"):
        options_with_scale("scaled", "regression", "resnet18", {}, sites())
    with pytest.raises(BadInput, match=r"unit=0.0 must be above 0 and finite"):
        MODELS.make("mlp", unit=0.0)
    with pytest.raises(BadInput, match="centre=nan must be finite"):
        MODELS.make("linear", centre=float("nan"))


@pytest.mark.parametrize(
    ("method", "work"),
    [("nothing", {}), ("local", {"kernel": "ridge"}), ("pooled", {}), ("partial", {})],
)
def test_a_scale_of_targets_changes_no_prediction_of_what_is_solved(method, work):
    """As in advice, where all ways stand on one model."""
    clients, asked = sites(20.0, 300.0), {"method": method, "rounds": 5, "progress": False, **work}
    here, there = (
        predictions(
            coterie.train(MODELS.make("linear", **scale).build((3,), 1, 0), clients, **asked), clients
        )
        for scale in ({}, {"centre": 290.0, "unit": 25.0})
    )
    assert torch.allclose(there, here, atol=0.2)
    assert float(here.mean()) == pytest.approx(300, abs=20)


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_advice_on_a_regression_knows_whether_there_is_anything_to_learn(model):
    advice = coterie.advise(
        model, sites(20.0, 300.0), candidates=["fedavg"], inner=0, folds=2, rounds=2, progress=False
    )
    assert not advice.words("s0")[0].endswith("cannot be told from these figures.")
