"""makni-2022: the product's weights taken apart, by hand."""

from __future__ import annotations

import pytest
import torch

from coterie.core.seeds import Key
from coterie.kernels.posterior import Collected
from coterie.papers.makni_2022 import aggregates, why
from coterie.posteriors import mean

# two clients with means 0 and 1, so that a mean model is the second one's weight; two parameters, one a name
MEANS = {"a": torch.tensor([[0.0], [1.0]]), "b": torch.tensor([[0.0], [1.0]])}
PRECISIONS = {"a": torch.tensor([[1.0], [1.0]]), "b": torch.tensor([[3.0], [1.0]])}


def both(model):
    return [float(model["a"]), float(model["b"])]


def test_shares_are_of_each_parameter_and_then_averaged():
    assert why.shares(PRECISIONS).tolist() == pytest.approx([(1 / 2 + 3 / 4) / 2, (1 / 2 + 1 / 4) / 2])


def test_each_part_by_hand():
    found = why.taken_apart(MEANS, PRECISIONS, Key(0))
    assert tuple(found) == why.PARTS
    assert all(t.shape == (1, 1) and t.dtype == torch.float32 for m in found.values() for t in m.values())
    assert both(found["levels alone"]) == pytest.approx([3 / 8, 3 / 8])
    # 8/5 to 8/3, and 24/5 to 8/3
    assert both(found["coordinates alone"]) == pytest.approx([5 / 8, 5 / 14])
    assert both(found["by variance"]) == pytest.approx([1 / 2, 3 / 4])


def test_shuffled_are_the_same_numbers_parameter_by_parameter():
    weights = torch.arange(4000.0).reshape(4, 10, 100)
    found = why.shuffled(weights, Key(1))
    assert torch.equal(found.sort(dim=0).values, weights)
    # a quarter of the places keep their client, as by chance
    assert float((found == weights).double().mean()) == pytest.approx(0.25, abs=0.04)
    assert torch.equal(found, why.shuffled(weights, Key(1)))
    assert not torch.equal(found, why.shuffled(weights, Key(2)))


def test_precisions_as_weights_give_the_products_mean():
    generator = torch.Generator().manual_seed(0)
    sent = [
        Collected(
            {"w": torch.randn(2, 3, generator=generator)},
            {"w": torch.rand(2, 3, generator=generator) + 0.1},
            {},
            {},
            5,
        )
        for _ in range(3)
    ]
    means = {"w": torch.stack([s.mean["w"] for s in sent])}
    precisions = {"w": torch.stack([1 / s.variance["w"].double() for s in sent])}
    wanted = mean(aggregates.products(sent)["FL-SWAG"])["w"]
    torch.testing.assert_close(why.weighted(means, precisions)["w"][0], wanted)
