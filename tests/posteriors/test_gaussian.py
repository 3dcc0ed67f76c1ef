"""Products of Gaussians by hand and against dense algebra; the three forms agree; what is refused."""

from __future__ import annotations

import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.errors import BadInput
from coterie.core.seeds import Key
from coterie.posteriors import (
    covariance,
    densified,
    diagonal,
    from_collected,
    full,
    isotropic,
    log_density,
    low_rank,
    mean,
    product,
    sample,
    variances,
)
from coterie.posteriors.gaussian import FULL
from coterie.posteriors.slots import flat

FORMS = ("diagonal", "low-rank", "full")
EXACT = {"rtol": 1e-5, "atol": 1e-5}  # the bound that is promised
seeds = st.integers(0, 2**32)
forms = st.sampled_from(FORMS)


def one(mu, variance):
    """N(mu, variance) on the line."""
    return diagonal({"w": torch.tensor([mu]).double()}, {"w": torch.tensor([variance]).double()})


def drawn(seed, form, columns=3):
    """A posterior of 2 x 2 weights and 2 biases, with its mean and covariance as dense algebra has them."""
    g = torch.Generator().manual_seed(seed)

    def of(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    mu = {"weight": of(2, 2), "bias": of(2)}
    var = {"weight": of(2, 2).square() + 0.1, "bias": of(2).square() + 0.1}
    D = {"weight": of(columns, 2, 2), "bias": of(columns, 2)}
    vector = torch.cat([mu["bias"], mu["weight"].flatten()])  # coordinates go by name
    Sigma = torch.cat([var["bias"], var["weight"].flatten()]).diag()
    if form == "diagonal":
        return diagonal(mu, var), vector, Sigma
    flat_D = torch.cat([D["bias"], D["weight"].flatten(1)], dim=1).T
    Sigma = Sigma + flat_D @ flat_D.T / (columns - 1)
    return (full(mu, Sigma) if form == "full" else low_rank(mu, var, D)), vector, Sigma


def close(posterior, vector, Sigma):
    torch.testing.assert_close(flat(posterior.slots, mean(posterior)), vector, **EXACT)
    torch.testing.assert_close(covariance(posterior), Sigma, **EXACT)
    torch.testing.assert_close(flat(posterior.slots, variances(posterior)), Sigma.diagonal(), **EXACT)


# by hand


def test_two_on_the_line():
    """N(0, 1) · N(3, 1/2): precisions 1 + 2 = 3, mean (0 + 2 · 3) / 3 = 2."""
    both = product([one(0.0, 1.0), one(3.0, 0.5)])
    assert mean(both)["w"].item() == pytest.approx(2)
    assert variances(both)["w"].item() == pytest.approx(1 / 3)


def test_the_prior_counts_once():
    """With N(0, 1) in both: precision 3 - 1 = 2, shift 6, mean 3."""
    both = product([one(0.0, 1.0), one(3.0, 0.5)], prior=one(0.0, 1.0))
    assert mean(both)["w"].item() == pytest.approx(3)
    assert variances(both)["w"].item() == pytest.approx(1 / 2)


def test_weights_are_powers():
    """Twice the first, half the second: precision 2 + 1 = 3, shift 3; a prior N(0, 2) goes 3/2 times."""
    pair, weights = [one(0.0, 1.0), one(3.0, 0.5)], [2, 0.5]
    assert mean(product(pair, weights=weights))["w"].item() == pytest.approx(1)
    with_prior = product(pair, one(0.0, 2.0), weights)
    assert variances(with_prior)["w"].item() == pytest.approx(1 / (3 - 0.75))
    assert mean(with_prior)["w"].item() == pytest.approx(3 / (3 - 0.75))


def test_moments_of_two_models():
    """Models 1 and 3: mean 2, variance 1; deviations ±1, so ½ · 1 + (1 + 1) / (2 · 1) = 3/2."""
    m, s = {"w": torch.tensor([2.0])}, {"w": torch.tensor([1.0])}
    D = {"w": torch.tensor([[-1.0], [1.0]])}
    for form, variance in (("diagonal", 1.0), ("low-rank", 1.5), ("full", 1.5)):
        found = from_collected(m, s, D, 2, form)
        assert found.form == form
        assert mean(found)["w"].item() == 2
        assert mean(found)["w"].dtype == torch.float32
        assert variances(found)["w"].item() == pytest.approx(variance)


def test_floor_lifts_only_what_is_below():
    m, s = {"w": torch.tensor([1.0, 1.0])}, {"w": torch.tensor([0.0, 4.0])}
    found = from_collected(m, s, {}, 3, floor=1e-6)
    assert variances(found)["w"].tolist() == pytest.approx([1e-6, 4.0])


# against dense algebra


@settings(max_examples=25)
@given(seeds, forms)
def test_each_form_is_its_dense_matrix(seed, form):
    posterior, vector, Sigma = drawn(seed, form)
    assert posterior.form == form
    close(posterior, vector, Sigma)
    points = torch.randn(4, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    dense = torch.distributions.MultivariateNormal(vector, Sigma)
    tensors = {"bias": points[:, :2], "weight": points[:, 2:].reshape(4, 2, 2)}
    torch.testing.assert_close(log_density(posterior, tensors), dense.log_prob(points), **EXACT)


@settings(max_examples=25)
@given(seeds, st.lists(forms, min_size=1, max_size=4), st.booleans(), st.booleans())
def test_products_of_any_forms(seed, mixture, with_prior, weighted):
    parts = [drawn(seed + i, form, columns=2 + i) for i, form in enumerate(mixture)]
    weights = [0.5 + i for i in range(len(parts))] if weighted else None
    powers = weights or [1.0] * len(parts)
    prior = isotropic(mean(parts[0][0]), 1e4) if with_prior else None
    Lambda = sum(w * Sigma.inverse() for w, (_, _, Sigma) in zip(powers, parts, strict=True))
    eta = sum(w * Sigma.inverse() @ v for w, (_, v, Sigma) in zip(powers, parts, strict=True))
    if with_prior:
        Lambda = Lambda - (sum(powers) - 1) * torch.eye(6).double() / 1e4
    close(product([p for p, _, _ in parts], prior, weights), Lambda.inverse() @ eta, Lambda.inverse())


def test_no_column_is_the_diagonal_form():
    posterior, *_ = drawn(3, "diagonal")
    nothing = {name: t.new_zeros(0, *t.shape) for name, t in mean(posterior).items()}
    same = low_rank(mean(posterior), variances(posterior), nothing)
    assert same.form == "diagonal"
    torch.testing.assert_close(same.precision.diagonal, posterior.precision.diagonal)
    for name, t in sample(same, 3, Key(0)).items():
        torch.testing.assert_close(t, sample(posterior, 3, Key(0))[name])


@pytest.mark.parametrize("form", FORMS)
def test_full_form_of_any_other(form):
    posterior, vector, Sigma = drawn(4, form)
    assert densified(posterior).form == "full"
    close(densified(posterior), vector, Sigma)


def test_more_columns_than_parameters():
    close(*drawn(0, "low-rank", columns=20))


def test_a_large_model_stays_small():
    """40,000 parameters: a p x p matrix would take 12 GB."""
    g = torch.Generator().manual_seed(0)
    p = 40_000
    d = torch.rand(p, generator=g, dtype=torch.float64) + 0.5
    u = torch.randn(2, p, generator=g, dtype=torch.float64)
    posterior = low_rank({"w": torch.zeros(p).double()}, {"w": d}, {"w": u})
    torch.testing.assert_close(variances(posterior)["w"], d + u.square().sum(dim=0), **EXACT)


# sampling


@pytest.mark.parametrize("form", FORMS)
def test_samples_have_the_mean_and_the_covariance(form):
    n = 20_000
    posterior, vector, Sigma = drawn(1, form)
    samples = flat(posterior.slots, sample(posterior, n, Key(0)), (n,))
    spread = Sigma.diagonal().sqrt()
    assert ((samples.mean(dim=0) - vector).abs() < 5 * spread / math.sqrt(n)).all()
    # the variance of a sample covariance is (Σ_ii Σ_jj + Σ_ij²) / n
    bound = 5 * ((spread.outer(spread).square() + Sigma.square()) / n).sqrt()
    assert ((samples.T.cov() - Sigma).abs() < bound).all()


def test_samples_come_from_the_key_alone():
    posterior, *_ = drawn(0, "low-rank")
    a, b, c = (sample(posterior, 2, key)["bias"] for key in (Key(0), Key(0), Key(1)))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


# refusals


def test_a_prior_surer_than_its_posteriors(refused):
    with refused(
        BadInput,
        "the product of 2 posteriors has precision -1 at w[0], must be above 0: "
        "take a prior of larger variance",
    ):
        product([one(0.0, 1.0), one(0.0, 0.5)], prior=one(0.0, 0.25))


@pytest.mark.parametrize("form", ["low-rank", "full"])
def test_indefinite_off_the_axes(form):
    """Covariance [[1, .9], [.9, 1]] has variance 1.9 along (1, 1): twice its precision less 1.5 is -0.447.

    Every entry of the product's diagonal is positive: 2 / 0.19 - 1.5.
    """
    Sigma = torch.tensor([[1.0, 0.9], [0.9, 1.0]]).double()
    zero = {"w": torch.zeros(2).double()}
    tenth = {"w": torch.full((2,), 0.1).double()}
    D = {"w": torch.full((2, 2), math.sqrt(0.45)).double()}
    client = full(zero, Sigma) if form == "full" else low_rank(zero, tenth, D)
    torch.testing.assert_close(covariance(client), Sigma)
    with pytest.raises(BadInput, match=r"^the product of 2 posteriors has precision -0\.447 at w\[[01]\], "):
        product([client, client], prior=isotropic(zero, 2 / 3))


def test_a_low_rank_part_that_drowns_its_diagonal():
    """Variances 1e-16 beside 2: the difference of precisions is lost in rounding."""
    zero, tiny = {"w": torch.zeros(2).double()}, {"w": torch.full((2,), 1e-16).double()}
    with pytest.raises(BadInput, match=r"^next to its low-rank part .*: raise the smallest variances$"):
        low_rank(zero, tiny, {"w": torch.ones(2, 2).double()})


ONES = {"w": torch.ones(2)}


def collect(variance=2.0, columns=0, count=2, **more):
    D = {"w": torch.ones(columns, 2)} if columns else {}
    return from_collected(ONES, {"w": torch.tensor([2.0, variance])}, D, count, **more)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: collect(count=1), "1 collected models: a variance needs at least 2: collect more often"),
        (lambda: collect(count=5, form="low-rank"), "0 deviations of 5 collected models: need at least 2"),
        (lambda: collect(columns=1, form="full"), "1 deviations of 2 collected models: need at least 2"),
        (lambda: collect(columns=3, form="full"), "3 deviations of 2 collected models: need at least 2"),
        (lambda: collect(variance=0.0), "variance of w[1] is 0, must be above 0: that weight did not move"),
        (lambda: collect(form="diag"), "unknown form 'diag': did you mean diagonal?"),
        (lambda: collect(floor=-1), "floor=-1 must be at least 0 and finite: try 1e-6"),
        (lambda: one(math.nan, 1.0), "the mean of w[0] is nan, must be finite: its training diverged; lower"),
        (lambda: from_collected(ONES, ONES | {"v": torch.ones(1)}, {}, 2), "only one has 'v'"),
        (lambda: product([isotropic({"w": torch.zeros(n)}, 1.0) for n in (2, 3)]), "shapes [2] and [3]"),
        (lambda: product([isotropic({n: torch.zeros(2)}, 1.0) for n in "wv"]), "only one has 'v'"),
        (lambda: product([]), "a product of 0 posteriors: give at least 1"),
        (lambda: product([one(0.0, 1.0)], weights=[1, 2]), "2 weights for 1 posteriors: give one for each"),
        (lambda: product([one(0.0, 1.0)], weights=[0]), "weight 0 must be above 0 and finite: leave that"),
        (lambda: sample(one(0.0, 1.0), 0, Key(0)), "samples=0 must be at least 1: try 30"),
        (lambda: isotropic(ONES, 0.0), "prior variance=0.0 must be above 0 and finite: try 1"),
        (lambda: isotropic({"n": torch.zeros(1, dtype=torch.int64)}, 1.0), "'n' holds torch.int64"),
        (lambda: isotropic({}, 1.0), "a posterior of 0 parameters: give a model that has some"),
        (lambda: full(ONES, torch.eye(3)), "a covariance of shape [3, 3]: this model needs [2, 2]"),
        (lambda: full(ONES, torch.tensor([[1.0, 1.0], [0.0, 1.0]])), "not symmetric: give (C + Cᵀ) / 2"),
        (lambda: full(ONES, torch.ones(2, 2)), "singular: add a small variance to its diagonal"),
        (lambda: full({"w": torch.zeros(FULL + 1)}, torch.eye(1)), "at most 4096: use form=low-rank"),
        (lambda: full(ONES, torch.full((2, 2), math.inf)), "the covariance of w[0] is inf, must be finite"),
        (
            lambda: low_rank(
                *(ONES | {"v": torch.ones(2)},) * 2, {"v": torch.ones(3, 2), "w": torch.ones(2, 2)}
            ),
            "'w' has [2] rows where others have [3]: cut it",
        ),
        (lambda: low_rank(ONES, ONES, {"w": torch.ones(1, 2)}), "1 deviation: a covariance"),
    ],
)
def test_refusals(call, said):
    with pytest.raises(BadInput, match=re.escape(said)) as refusal:
        call()
    assert "\n" not in str(refusal.value)
