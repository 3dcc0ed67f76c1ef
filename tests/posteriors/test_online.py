"""Adding, updating and removing by hand and against the product of who is there; what is refused."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.errors import BadInput, UnknownName
from coterie.posteriors import (
    Pool,
    add,
    covariance,
    diagonal,
    full,
    isotropic,
    joint,
    low_rank,
    mean,
    pool_of,
    product,
    remove,
    update,
    variances,
)

EXACT = {"rtol": 1e-5, "atol": 1e-5}
TIGHT = {"rtol": 1e-10, "atol": 1e-10}
seeds = st.integers(0, 2**32)
forms = st.sampled_from(["diagonal", "low-rank", "full"])


def one(mu, variance):
    return diagonal({"w": torch.tensor([mu]).double()}, {"w": torch.tensor([variance]).double()})


def drawn(seed, form, p=4):
    g = torch.Generator().manual_seed(seed)
    mu, d = torch.randn(p, generator=g).double(), torch.rand(p, generator=g).double() + 0.1
    D = torch.randn(3, p, generator=g).double()
    if form == "diagonal":
        return diagonal({"w": mu}, {"w": d})
    return (
        low_rank({"w": mu}, {"w": d}, {"w": D}) if form == "low-rank" else full({"w": mu}, d.diag() + D.T @ D)
    )


def equal(a, b, bound):
    torch.testing.assert_close(mean(a)["w"], mean(b)["w"], **bound)
    torch.testing.assert_close(covariance(a), covariance(b), **bound)


def test_by_hand():
    """N(0, 1), then N(3, 1/2): mean 2, precision 3; the second turns N(6, 1): mean 3, precision 2."""
    pool = add(add(Pool(), "a", one(0.0, 1.0)), "b", one(3.0, 0.5))
    assert mean(joint(pool))["w"].item() == pytest.approx(2)
    assert variances(joint(pool))["w"].item() == pytest.approx(1 / 3)
    pool = update(pool, "b", one(6.0, 1.0))
    assert mean(joint(pool))["w"].item() == pytest.approx(3)
    assert variances(joint(pool))["w"].item() == pytest.approx(1 / 2)
    pool = remove(pool, "a")
    assert mean(joint(pool))["w"].item() == pytest.approx(6)
    assert list(pool.members) == ["b"]
    equal(joint(update(pool, "b", one(1.0, 5.0))), one(1.0, 5.0), TIGHT)


def test_prior_by_hand():
    """Prior N(0, 1), in two posteriors of precision 3 and shifts 3, 6: together 5 and 9."""
    prior = one(0.0, 1.0)
    pool = pool_of({"a": one(1.0, 1 / 3)}, prior)
    equal(joint(pool), one(1.0, 1 / 3), TIGHT)
    pool = add(pool, "b", one(2.0, 1 / 3))
    assert mean(joint(pool))["w"].item() == pytest.approx(9 / 5)
    pool = remove(remove(pool, "a"), "b")
    equal(joint(pool), prior, TIGHT)


@settings(max_examples=20)
@given(seeds, st.lists(forms, min_size=3, max_size=5), st.booleans())
def test_any_history_is_the_product_of_who_is_there(seed, kinds, with_prior):
    parts = [drawn(seed + i, form) for i, form in enumerate(kinds)]
    prior = isotropic({"w": torch.zeros(4).double()}, 1e4) if with_prior else None
    pool = pool_of({}, prior)
    for i, part in enumerate(parts):
        pool = add(pool, f"c{i}", part)
    equal(joint(pool), product(parts, prior), EXACT)
    pool = update(pool, "c1", parts[0])
    equal(joint(pool), product([parts[0], parts[0], *parts[2:]], prior), EXACT)
    pool = remove(pool, "c0")
    equal(joint(pool), product([parts[0], *parts[2:]], prior), EXACT)


@settings(max_examples=20)
@given(seeds, forms, forms)
def test_remove_after_add_restores(seed, form, other):
    before = pool_of({"a": drawn(seed, form), "b": drawn(seed + 1, form)})
    after = remove(add(before, "c", drawn(seed + 2, other)), "c")
    equal(joint(after), joint(before), TIGHT)
    assert after.members == before.members
    assert len(joint(after).precision.factors) == len(joint(before).precision.factors)


def test_updates_leave_nothing_behind():
    """Twenty updates of low rank: the rank is still that of the two members."""
    pool = pool_of({"a": drawn(0, "low-rank"), "b": drawn(1, "low-rank")})
    for i in range(20):
        pool = update(pool, "a", drawn(i, "low-rank"))
    assert len(joint(pool).precision.factors) == 2
    equal(joint(pool), product([drawn(19, "low-rank"), drawn(1, "low-rank")]), EXACT)


def test_the_last_client_leaves_nothing(refused):
    empty = remove(pool_of({"a": one(0.0, 1.0)}), "a")
    assert empty.total is None
    with refused(BadInput, "a pool of 0 clients has no posterior: add one"):
        joint(empty)


# refusals


def test_unknown_client(refused):
    pool = pool_of({"north": one(0.0, 1.0), "south": one(0.0, 1.0)})
    with refused(UnknownName, "unknown client 'nord': did you mean north?"):
        remove(pool, "nord")
    with refused(UnknownName, "unknown client 'x': known are north, south"):
        update(pool, "x", one(0.0, 1.0))


@pytest.mark.parametrize("change", [add, update])
def test_other_models(change, refused):
    pool = pool_of({"a": one(0.0, 1.0)})
    other = isotropic({"w": torch.zeros(2)}, 1.0)
    with refused(
        BadInput, "posteriors of different models: 'w' has shapes [1] and [2]: join those of one model"
    ):
        change(pool, "b" if change is add else "a", other)


def test_no_longer_positive_definite():
    """Prior precision 4; a and b have 1, c has 8. All: 1 + 1 + 8 - 8 = 2; without c: 1 + 1 - 4 = -2."""
    pool = pool_of({"a": one(0.0, 1.0), "b": one(0.0, 1.0), "c": one(0.0, 1 / 8)}, one(0.0, 1 / 4))
    assert variances(joint(pool))["w"].item() == pytest.approx(1 / 2)
    for change, said in (
        (lambda: remove(pool, "c"), "removing 'c' leaves precision -2 at w[0], must be above 0: update or"),
        (
            lambda: update(pool, "c", one(0.0, 1 / 5)),
            "updating 'c' leaves precision -1 at w[0], must be above 0",
        ),
        (
            lambda: add(pool, "d", one(0.0, 1.0)),
            "adding 'd' leaves precision -1 at w[0], must be above 0: take",
        ),
    ):
        with pytest.raises(BadInput, match=re.escape(said)):
            change()


def test_only_rounding_left(refused):
    pool = pool_of({"a": one(0.0, 1.0), "b": one(0.0, 2.0**-44)})
    with refused(
        BadInput,
        "removing 'b' leaves precision 1 of 1.76e+13 at w[0], which is rounding: join the others anew",
    ):
        remove(pool, "b")
