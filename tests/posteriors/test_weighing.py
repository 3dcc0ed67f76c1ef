"""What moved, faded or raised, and means weighed by variance: by hand."""

from __future__ import annotations

import pytest
import torch

from coterie.core.errors import BadInput, UnknownName
from coterie.core.seeds import Key
from coterie.posteriors import by_variance, diagonal, from_collected, mean, product, variances
from coterie.posteriors.weighing import faded, raised
from coterie.studies.makni_2022 import why


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


def client(mu, v, **more):
    """One that collected three models of these moments."""
    return from_collected({"w": numbers(*mu)}, {"w": numbers(*v)}, {}, 3, **more)


def test_faded_by_hand():
    """f = 0.01. Nothing moved: λ. v = f: r = 1/2, so 1/2 / 0.02 + 1/2. v = 3 f: r = 3/4, 3/4 / 0.04 + 1/4."""
    assert (1 / faded(numbers(0, 0.01, 0.03), 0.01)).tolist() == pytest.approx([1, 25.5, 19])
    assert (1 / faded(numbers(0, 0.01), 0.01, unknown=0.1)).tolist() == pytest.approx([0.1, 25.05])
    # far beyond the floor it is itself
    assert faded(numbers(4), 1e-6).item() == pytest.approx(4, rel=1e-5)


def test_the_say_is_greatest_about_the_floor_and_falls_to_both_sides():
    v = torch.logspace(-8, 0, 81, dtype=torch.float64)  # the floor is the 51st
    say = 1 / faded(v, 1e-3, unknown=1e-9)
    assert int(say.argmax()) == 50
    assert bool((say[:50].diff() > 0).all())
    assert bool((say[50:].diff() < 0).all())
    # as steep below as above: a hundredth and a hundredfold are alike
    assert say[30].item() == pytest.approx(say[70].item())


def test_a_floor_of_0_leaves_what_moved_and_what_did_not_is_refused():
    v = numbers(1e-9, 4)
    assert torch.equal(faded(v, 0.0), v)
    assert torch.equal(raised(v, 0.0), v)
    assert raised(v, 1e-6).tolist() == [1e-6, 4]
    with pytest.raises(BadInput, match=r"the variance of w\[0\] is 0, must be above 0"):
        client([1], [0], below="fade")
    with pytest.raises(UnknownName, match="unknown below 'fad': did you mean fade"):
        client([1], [1], below="fad")


def test_who_did_not_move_a_weight_has_next_to_no_say_in_it():
    """Precisions 19 and 1: (19 · 1 + 1 · 3) / 20. Nobody moved the second: the plain mean of 1 and 3."""
    knows, rests = (
        client([1, 1], [0.03, 0], floor=0.01, below="fade"),
        client([3, 3], [0, 0], floor=0.01, below="fade"),
    )
    both = product([knows, rests])
    assert mean(both)["w"].tolist() == pytest.approx([1.1, 2])
    assert (1 / variances(both)["w"]).tolist() == pytest.approx([20, 2])
    # raised, who rests has three times the say of who knows, as 1 / 0.01 to 1 / 0.03
    clamped = product([client([1], [0.03], floor=0.01), client([3], [0], floor=0.01)])
    assert mean(clamped)["w"].item() == pytest.approx((1 * 1 + 3 * 3) / 4)


@pytest.mark.parametrize("form", ["low-rank", "full"])
def test_other_forms_fade_their_diagonal(form):
    """½ · 1/19 + ½ (1 + 1), and ½ · 1 of a weight that did not move."""
    D = {"w": numbers([-1, 0], [1, 0])}
    found = from_collected({"w": numbers(0, 0)}, {"w": numbers(0.03, 0)}, D, 3, form, 0.01, "fade")
    assert variances(found)["w"].tolist() == pytest.approx([1 / 38 + 1, 1 / 2])


def test_by_variance_by_hand():
    """1 to 3; one that did not move has a millionth; nobody moved: the plain mean."""
    found = by_variance(
        [{"w": numbers(0, 0, 0), "running": numbers(9)}, {"w": numbers(1, 1, 1), "running": numbers(9)}],
        [{"w": numbers(1, 1, 0)}, {"w": numbers(3, 0, 0)}],
    )
    assert list(found) == ["w"]
    assert found["w"].tolist() == pytest.approx([3 / 4, 1e-6 / (1 + 1e-6), 1 / 2])


def test_by_variance_is_what_the_study_of_the_paper_found_better():
    generator = torch.Generator().manual_seed(0)
    means = [{"w": torch.randn(5, generator=generator).double()} for _ in range(3)]
    v = [{"w": torch.rand(5, generator=generator).double() * 1e-3 + 1e-5} for _ in range(3)]
    study = why.taken_apart([diagonal(m, s) for m, s in zip(means, v, strict=True)], Key(0))["by variance"]
    torch.testing.assert_close(by_variance(means, v)["w"], study["w"])
