"""Targets in a scale of their own: what is learnt does not depend on their unit, and comes out in it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import coterie
from coterie.core.errors import BadInput
from coterie.core.learner import Batch, Learner
from coterie.core.target_scale import Scale, scale_of
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


def test_where_nobody_goes_in_small_steps_nothing_is_scaled():
    assert "targets" not in coterie.train("linear", sites(), "fedavg", rounds=1, seed=0).record.config
    named = coterie.train("mlp", sites(), "fedavg", kernel="sgd", rounds=1, seed=0)
    assert "mlp" not in named.record.config
    assert Settings(data="diabetes", method="fedavg").resolved().targets == "auto"
    assert Settings(data="diabetes", method="fedavg", model="mlp").resolved().targets == "scaled"
    assert Settings(data="diabetes", model="mlp", targets="raw").resolved().targets == "raw"


def test_refused_in_one_line():
    with pytest.raises(BadInput, match="has no centre and unit: take linear or mlp"):
        options_with_scale("scaled", "regression", "resnet18", {}, sites())
    with pytest.raises(BadInput, match=r"unit=0.0 must be above 0 and finite"):
        MODELS.make("mlp", unit=0.0)
    with pytest.raises(BadInput, match="centre=nan must be finite"):
        MODELS.make("linear", centre=float("nan"))
