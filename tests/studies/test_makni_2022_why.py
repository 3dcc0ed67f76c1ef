"""makni-2022: the product's weights taken apart, by hand."""

from __future__ import annotations

import pytest
import torch

from coterie.core.seeds import Key
from coterie.posteriors import diagonal
from coterie.posteriors.slots import slots_of
from coterie.studies.makni_2022 import why


def client(value, first, second):
    """Two parameters with this mean and these precisions."""
    mu = {"a": torch.tensor([value]), "b": torch.tensor([value])}
    return diagonal(mu, {"a": torch.tensor([1 / first]), "b": torch.tensor([1 / second])})


def test_each_part_by_hand():
    """Means 0 and 1: a mean model is the second client's weight. Shares (1/2 + 3/4) / 2 and 3/8."""
    found = why.taken_apart([client(0.0, 1.0, 3.0), client(1.0, 1.0, 1.0)], Key(0))
    both = {name: [float(model["a"]), float(model["b"])] for name, model in found.items()}
    assert tuple(both) == why.PARTS
    assert both["levels alone"] == pytest.approx([3 / 8, 3 / 8])
    # 8/5 to 8/3, and 24/5 to 8/3
    assert both["coordinates alone"] == pytest.approx([5 / 8, 5 / 14])
    for value, kept in zip(both["coordinates shuffled"], (5 / 8, 5 / 14), strict=True):
        assert value == pytest.approx(kept) or value == pytest.approx(1 - kept)
    assert both["by variance"] == pytest.approx([1 / 2, 3 / 4])
    assert all(t.shape == (1,) and t.dtype == torch.float32 for m in found.values() for t in m.values())


def test_shuffled_are_the_same_numbers_parameter_by_parameter():
    weights = torch.arange(4000.0).reshape(4, 1000)
    slots = slots_of({"a": torch.zeros(10, 60), "b": torch.zeros(400)})
    found, again, other = (why.shuffled(weights, slots, Key(seed)) for seed in (1, 1, 2))
    assert torch.equal(found.sort(dim=0).values, weights)
    # a quarter of the places keep their client, as by chance
    assert float((found == weights).double().mean()) == pytest.approx(0.25, abs=0.04)
    assert torch.equal(found, again)
    assert not torch.equal(found, other)
