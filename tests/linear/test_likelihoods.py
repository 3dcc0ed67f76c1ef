"""Slopes and curvatures against automatic differentiation, optima against scikit-learn, or by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge

from coterie.core.survival import cox
from coterie.linear.design import design_of, names_in, read_linear, written_linear
from coterie.linear.families import family_of
from coterie.linear.newton import minimise
from coterie.linear.strength import FIRM, chosen_strength, dealt, fitted, narrowed


def rows(task: str, n: int = 40, d: int = 3, classes: int = 2, seed: int = 0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    eta = x @ rng.normal(size=(d, classes))
    if task == "regression":
        y = eta[:, 0] + rng.normal(size=n)
    elif task == "survival":
        times = np.ceil(5 * rng.exponential(np.exp(-eta[:, 0])))  # many ties
        y = np.where(rng.random(n) < 0.6, times, -times)
    else:
        y = (eta + rng.gumbel(size=eta.shape)).argmax(1)
    return torch.tensor(x), torch.tensor(y)


CASES = [("regression", 1), ("classification", 2), ("classification", 3), ("survival", 1)]


@pytest.mark.parametrize(("task", "outputs"), CASES)
def test_slope_and_curvature_are_derivatives_of_the_loss(task, outputs):
    x, y = rows(task, classes=max(outputs, 1))
    family = family_of(task, outputs)
    z = torch.cat([x, torch.ones(len(x), 1).double()], 1) if family.intercept else x
    theta = torch.linspace(-0.5, 0.7, family.outputs * z.shape[1]).double()
    mask = torch.ones(2, len(x)).double()
    mask[1, ::3] = 0  # a second problem without every third row
    both = torch.stack([theta, theta + 0.1])
    point = family.at(both, z, y.double(), mask)
    for p in range(2):

        def loss(t, p=p):
            return family.loss(t.unsqueeze(0), z, y.double(), mask[p : p + 1])[0]

        assert point.loss[p] == pytest.approx(float(loss(both[p])))
        slope = torch.autograd.functional.jacobian(loss, both[p])
        assert torch.allclose(point.slope[p], slope, atol=1e-8)
        assert torch.allclose(point.curvature[p], torch.autograd.functional.hessian(loss, both[p]), atol=1e-7)


def test_losses_by_hand():
    one = torch.tensor([[1.0]]).double()
    assert family_of("regression", 1).loss(one, one * 2, torch.tensor([5.0]).double(), one) == 4.5  # (2-5)²/2
    said = family_of("classification", 2).loss(one, one * 2, torch.tensor([1.0]).double(), one)
    assert float(said) == pytest.approx(math.log(1 + math.exp(-2)))


def test_the_partial_likelihood_is_that_which_networks_are_trained_by():
    x, y = rows("survival")
    theta = torch.tensor([[0.3, -0.2, 0.5]]).double()
    mine = family_of("survival", 1).loss(theta, x, y, torch.ones(1, len(x)).double())
    assert float(mine) == pytest.approx(float(cox(x @ theta.T, y).sum()))


@pytest.mark.parametrize("strength", [0.1, 3.0, 100.0])
def test_optima_are_those_of_scikit_learn(strength):
    mask, level = torch.ones(1, 40).double(), torch.tensor([strength]).double()
    x, y = rows("regression")
    design = design_of("regression", 1, x, y)
    weights, bias = design.weights(fitted(design, level, mask)[0])
    z = design.z[:, :-1].numpy()
    there = Ridge(alpha=strength).fit(z, y)
    assert np.allclose(z @ there.coef_ + there.intercept_, (x @ weights.T + bias)[:, 0], atol=5e-3)
    for classes in (2, 3):
        x, y = rows("classification", classes=classes)
        design = design_of("classification", classes, x, y)
        theta = fitted(design, level, mask)[0]
        z = design.z[:, :-1].numpy()
        there = LogisticRegression(C=1 / strength, tol=1e-10, max_iter=10_000).fit(z, y)
        table = theta.view(design.family.outputs, -1).numpy()
        assert np.allclose(table[:, :-1], there.coef_, atol=2e-3)
        assert np.allclose(table[:, -1] - table[:, -1].mean() * (classes > 2), there.intercept_, atol=6e-3)


def test_a_problem_does_not_depend_on_those_beside_it():
    x, y = rows("classification")
    design = design_of("classification", 2, x, y)
    levels = torch.tensor([0.01, 1.0, 1e4]).double()
    mask = torch.ones(3, 40).double()
    mask[1, :20] = 0
    together = fitted(design, levels, mask)
    for p in range(3):
        alone = fitted(design, levels[p : p + 1], mask[p : p + 1])
        assert torch.allclose(together[p], alone[0], atol=1e-8)


def test_rows_that_are_parted_by_a_column_have_an_optimum_all_the_same():
    x = torch.linspace(-1, 1, 20).double().unsqueeze(1)
    design = design_of("classification", 2, x, (x[:, 0] > 0).long())
    theta = fitted(design, torch.tensor([1e-4]).double(), torch.ones(1, 20).double())
    assert torch.isfinite(theta).all()
    assert 5 < float(theta[0, 0]) < 50


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_more_columns_than_rows_have_the_optimum_of_scikit_learn_and_cost_what_rows_do(classes):
    x, y = rows("classification" if classes else "regression", n=30, d=400, classes=classes or 1)
    design = design_of("classification" if classes else "regression", classes or 1, x, y)
    level, mask = torch.tensor([2.0]).double(), torch.ones(1, 30).double()
    assert narrowed(design)[0].z.shape[1] == 31
    z = design.z[:, :-1].numpy()
    table = fitted(design, level, mask).view(design.family.outputs, -1).numpy()
    if classes:
        there = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000).fit(z, y)
    else:
        there = Ridge(alpha=2.0).fit(z, design.u.numpy())
    assert np.allclose(table[:, :-1], there.coef_, atol=1e-4)


@pytest.mark.parametrize(("n", "d"), [(8, 12), (12, 60)])
def test_strengths_are_judged_by_rows_of_which_nothing_is_known(n, d):
    """Leave one out, by hand, of rows that are centred without the one that is left out."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n, d)), rng.normal(size=n)
    design = design_of("regression", 1, torch.tensor(x), torch.tensor(y))
    found = chosen_strength(design, None, 0)
    z, u = design.z[:, :-1].numpy(), design.u.numpy()
    for strength in (1e-4, 0.1, 10.0):
        off = [
            Ridge(alpha=strength, solver="svd")
            .fit(np.delete(z, i, 0), np.delete(u, i))
            .predict(z[i : i + 1])[0]
            - u[i]
            for i in range(n)
        ]
        assert found.losses[strength] == pytest.approx(np.square(off).mean() / 2, rel=1e-3)


def test_units_and_levels_do_not_matter():
    """A regression in other units is the same in those units."""
    x, y = rows("regression", n=60)
    plain = design_of("regression", 1, x, y)
    other = design_of("regression", 1, x * 1000 + 5, 700 * y + 5000)
    strength = chosen_strength(plain, None, 0).value
    assert chosen_strength(other, None, 0).value == strength
    mask, level = torch.ones(1, 60).double(), torch.tensor([strength]).double()
    a, b = plain.weights(fitted(plain, level, mask)[0])
    c, d = other.weights(fitted(other, level, mask)[0])
    assert torch.allclose(700 * (x @ a.T + b) + 5000, (x * 1000 + 5) @ c.T + d, atol=1e-6)


def test_a_column_that_never_changes_has_no_coefficient():
    x, y = rows("regression")
    x[:, 1] = 7.0
    design = design_of("regression", 1, x, y)
    weights, _ = design.weights(fitted(design, torch.tensor([1.0]).double(), torch.ones(1, 40).double())[0])
    assert weights[0, 1] == 0


def test_a_pull_and_a_tilt():
    """½ (θ - 2)² + ½ λ (θ - 1)² + 3 θ, of one row x = 1, y = 2: θ = (2 + λ - 3) / (1 + λ)."""
    one = torch.tensor([[1.0]]).double()
    family = family_of("regression", 1)
    found = minimise(family, one, 2 * one[0], one, 4 * one, 0 * one, one, 3 * one)
    assert float(found) == pytest.approx((2 + 4 - 3) / 5)


def test_rows_of_one_patient_are_in_one_fold():
    y, unit = np.arange(30) % 2, np.repeat(np.arange(10), 3)
    for fold in dealt(y, unit, 0):
        assert all(len(set(fold[unit == u])) == 1 for u in range(10))
    assert dealt(y, np.zeros(30), 0) is None  # one patient: nothing can be held out


def test_copies_of_patients_do_not_make_a_model_bold():
    """Each of 12 patients five times, targets by chance: held out row by row, what was learnt by heart looks
    right; patient by patient it does not.
    """
    rng = np.random.default_rng(1)
    x, y = torch.tensor(rng.normal(size=(12, 8))), torch.tensor(rng.integers(0, 2, 12))
    unit = np.repeat(np.arange(12), 5)
    design = design_of("classification", 2, x[unit], y[unit])
    assert chosen_strength(design, None, 0).value < 1 < 100 < chosen_strength(design, unit, 0).value


def test_noise_is_held_strongly_and_a_clear_signal_weakly():
    x, _ = rows("regression", n=100, d=5)
    rng = np.random.default_rng(3)
    noise = torch.tensor(rng.normal(size=100))
    assert chosen_strength(design_of("regression", 1, x, noise), None, 0).value >= 100
    clear = x @ torch.arange(1.0, 6).double() + 0.1 * noise
    assert chosen_strength(design_of("regression", 1, x, clear), None, 0).value <= 0.1


def test_the_strength_of_many_rows_is_found_on_some(monkeypatch):
    monkeypatch.setattr("coterie.linear.strength.MANY", 200)
    x, y = rows("classification", n=1000)
    few = design_of("classification", 2, x, y)
    assert 0.01 <= chosen_strength(few, None, 0).value <= 100
    unit = np.repeat(np.arange(250), 4)
    assert 0.01 <= chosen_strength(few, unit, 0).value <= 100


def test_intercepts_of_one_class_stay_finite():
    x = torch.zeros(20, 1).double()
    design = design_of("classification", 2, x, torch.ones(20).long())
    theta = fitted(design, torch.tensor([1.0]).double(), torch.ones(1, 20).double())[0]
    # 20 σ(-b) = FIRM b
    b = float(theta[-1])
    assert 20 / (1 + math.exp(b)) == pytest.approx(FIRM * b, rel=1e-3)


def test_weights_of_a_module_and_back():
    belief = {"a.weight": torch.tensor([[1.0, 2.0], [3.0, 5.0]]), "a.bias": torch.tensor([0.0, 1.0])}
    weights, bias = read_linear(belief)
    assert weights.tolist() == [[2.0, 3.0]]
    assert bias.tolist() == [1.0]
    back = written_linear(belief, weights, bias)
    assert back["a.weight"].tolist() == [[-1.0, -1.5], [1.0, 1.5]]
    assert names_in({"weight": torch.zeros(2, 2), "bias": torch.zeros(2), "more": torch.zeros(1)}) is None


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_rows_in_blocks_have_the_sums_of_all_at_once(monkeypatch, classes):
    task = "classification" if classes else "regression"
    x, y = rows(task, n=40, classes=classes or 1)
    family, mask = family_of(task, classes or 1), torch.ones(2, 40).double()
    theta = torch.randn(2, family.outputs * x.shape[1]).double()
    whole = family.at(theta, x.double(), y.double(), mask)
    monkeypatch.setattr("coterie.linear.families.AT_ONCE", 50)
    for one, other in zip(family.at(theta, x.double(), y.double(), mask), whole, strict=True):
        assert torch.allclose(one, other)
