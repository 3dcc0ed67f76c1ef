from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from coterie.core import belief as tree
from coterie.core.errors import BadInput


def two() -> dict[str, torch.Tensor]:
    """Two beliefs with a matrix, a scalar, a counter and a mask."""
    return {
        "w": torch.tensor([[1.0, 2.0], [3.0, 6.0]]),
        "scale": torch.tensor([10.0, 20.0]),
        "seen": torch.tensor([7, 9]),
        "mask": torch.tensor([[True, False], [False, False]]),
    }


class TestMix:
    def test_weighted_sums_by_hand(self):
        mixed = tree.mix(torch.tensor([[0.25, 0.75], [1.0, 0.0], [2.0, -1.0]]), two())
        assert mixed["w"].tolist() == [[2.5, 5.0], [1.0, 2.0], [-1.0, -2.0]]
        assert mixed["scale"].tolist() == [17.5, 10.0, 0.0]

    def test_integers_and_booleans_come_from_the_heaviest_sender(self):
        mixed = tree.mix(torch.tensor([[0.25, 0.75], [0.9, 0.1], [0.5, 0.5]]), two())
        assert mixed["seen"].tolist() == [9, 7, 7]
        assert mixed["seen"].dtype == torch.int64
        assert mixed["mask"].tolist() == [[False, False], [True, False], [True, False]]
        assert mixed["mask"].dtype == torch.bool

    def test_each_layer_by_its_own_matrix(self):
        weights = {
            "w": torch.tensor([[0.0, 1.0]]),
            "scale": torch.tensor([[0.5, 0.5]]),
            "seen": torch.tensor([[1.0, 0.0]]),
            "mask": torch.tensor([[0.0, 1.0]]),
        }
        mixed = tree.mix(weights, two())
        assert mixed["w"].tolist() == [[3.0, 6.0]]
        assert mixed["scale"].tolist() == [15.0]
        assert mixed["seen"].tolist() == [7]
        assert mixed["mask"].tolist() == [[False, False]]

    @pytest.mark.parametrize(
        ("dtype", "shape"), [(torch.float16, ()), (torch.bfloat16, (3,)), (torch.float64, (2, 1, 3, 2))]
    )
    def test_keeps_dtype_and_shape_whatever_the_weights_are(self, dtype, shape):
        mixed = tree.mix(
            torch.full((4, 2), 0.5, dtype=torch.float64), {"t": torch.ones(2, *shape, dtype=dtype)}
        )
        assert mixed["t"].dtype == dtype
        assert mixed["t"].shape == (4, *shape)
        assert bool((mixed["t"] == 1).all())

    @pytest.mark.parametrize("shape", [(2,), (1, 3), (1, 1, 2)])
    def test_refuses_weights_of_another_shape(self, shape, refused):
        message = f"weights of shape {list(shape)} for 2 senders: need [receiver, sender]"
        with refused(BadInput, message):
            tree.mix(torch.ones(shape), two())


def test_sums_in_turn_by_hand():
    # sender 1 takes (0 + 1) / 2; sender 2, after it, 0.4 of that and 0.6 of its own; sender 0 what 2 has then
    each = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.4, 0.6], [0.0, 0.0, 1.0]]).double()
    mixing, source = tree.in_turn(each, [1, 2, 0])
    after = torch.tensor([[0.5, 0.5, 0], [0.2, 0.2, 0.6], [0.2, 0.2, 0.6]]).double()
    torch.testing.assert_close(mixing, after)
    assert source.tolist() == [0, 2, 2]


def finite(low: float = -1e6, high: float = 1e6) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False, width=64)


@st.composite
def senders(draw) -> torch.Tensor:
    """Some senders' vectors [sender, entry], float64."""
    n, width = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    values = draw(st.lists(finite(), min_size=n * width, max_size=n * width))
    return torch.tensor(values, dtype=torch.float64).reshape(n, width)


@st.composite
def shares(draw, columns: int) -> torch.Tensor:
    """Rows of non-negative weights that add up to 1: [receiver, sender]."""
    receivers = draw(st.integers(1, 4))
    flat = draw(st.lists(finite(0.01, 1), min_size=receivers * columns, max_size=receivers * columns))
    parts = torch.tensor(flat, dtype=torch.float64).reshape(receivers, columns)
    return parts / parts.sum(dim=1, keepdim=True)


class TestMixLaws:
    @settings(max_examples=15)
    @given(st.data())
    def test_order_of_senders_and_receivers_does_not_matter(self, data):
        values = data.draw(senders())
        weights = data.draw(shares(len(values)))
        mixed = tree.mix(weights, {"t": values})["t"]
        order = torch.tensor(data.draw(st.permutations(range(len(values)))))
        reordered = tree.mix(weights[:, order], tree.rows({"t": values}, order))["t"]
        torch.testing.assert_close(reordered, mixed, rtol=1e-12, atol=1e-6)
        turned = torch.tensor(data.draw(st.permutations(range(len(weights)))))
        torch.testing.assert_close(tree.mix(weights[turned], {"t": values})["t"], mixed[turned])

    @settings(max_examples=15)
    @given(st.data())
    def test_mixing_twice_is_mixing_once_by_the_product(self, data):
        values = data.draw(senders())
        first = data.draw(shares(len(values)))
        second = data.draw(shares(len(first)))
        twice = tree.mix(second, tree.mix(first, {"t": values}))["t"]
        torch.testing.assert_close(twice, tree.mix(second @ first, {"t": values})["t"], rtol=1e-9, atol=1e-6)


HERE = {
    "w": torch.tensor([[0.0, 0.0], [3.0, 4.0]]),
    "b": torch.tensor([0.0, 12.0]),
    "seen": torch.tensor([1, 100]),
}
THERE = {"w": torch.tensor([[0.0, 0.0]]), "b": torch.tensor([0.0]), "seen": torch.tensor([50])}


class TestDistances:
    def test_by_hand_over_the_named_tensors_only(self):
        assert tree.distances(HERE, THERE, ["w"]).tolist() == [[0.0], [5.0]]
        assert tree.distances(HERE, THERE, ["w", "b"]).tolist() == [[0.0], [13.0]]

    def test_importance_counts_squares_so_many_times(self):
        # 4 · 5² + 1 · 12² = 244, and 0 · 5² + 9 · 12² = 36²
        weighted = tree.distances(HERE, THERE, ["w", "b"], {"w": 4.0})
        assert weighted[1, 0].item() == pytest.approx(244**0.5, rel=1e-15)
        assert tree.distances(HERE, THERE, ["w", "b"], {"w": 0.0, "b": 9.0}).tolist() == [[0.0], [36.0]]

    def test_small_differences_of_large_float32_numbers_survive(self):
        near = {"w": torch.tensor([[4096.0, 4096.0]])}
        far = {"w": torch.tensor([[4096.0, 4096.0 + 2**-11]])}
        assert tree.distances(near, far, ["w"]).item() == 2**-11

    @settings(max_examples=15)
    @given(senders())
    def test_a_metric(self, values):
        d = tree.distances({"t": values}, {"t": values}, ["t"])
        assert torch.equal(d, d.T)
        assert d.dtype == torch.float64
        assert not d.diagonal().any()
        through = (d.unsqueeze(2) + d.unsqueeze(0)).min(dim=1).values
        assert bool((d <= through * (1 + 1e-12)).all())


class TestManyBeliefs:
    def test_stack_and_row_undo_each_other(self):
        one, other = tree.row(two(), 0), tree.row(two(), 1)
        assert one["seen"].shape == ()
        again = tree.stack([one, other])
        assert all(torch.equal(again[name], t) and again[name].dtype == t.dtype for name, t in two().items())

    def test_rows_come_in_the_given_order_with_repeats(self):
        some = tree.rows(two(), torch.tensor([1, 0, 1]))
        assert some["w"].tolist() == [[3.0, 6.0], [1.0, 2.0], [3.0, 6.0]]
        assert some["seen"].tolist() == [9, 7, 9]

    def test_put_replaces_those_at_the_index_in_a_copy(self):
        beliefs = tree.stack([tree.row(two(), 0)] * 3)
        new = {
            "w": torch.tensor([[8.0, 8.0], [5.0, 5.0]], dtype=torch.float64),
            "scale": torch.tensor([0.5, 0.25]),
            "seen": torch.tensor([4, 3]),
            "mask": torch.tensor([[True, True], [False, True]]),
        }
        changed = tree.put(beliefs, torch.tensor([2, 0]), new)
        assert changed["w"].tolist() == [[5.0, 5.0], [1.0, 2.0], [8.0, 8.0]]
        assert changed["w"].dtype == torch.float32
        assert changed["seen"].tolist() == [3, 7, 4]
        assert changed["mask"].tolist() == [[False, True], [True, False], [True, True]]
        assert beliefs["w"].tolist() == [[1.0, 2.0]] * 3

    def test_repeat_makes_equal_ones_that_do_not_share_memory(self):
        many = tree.repeat(tree.rows(two(), torch.tensor([0])), 3)
        assert many["w"].tolist() == [[1.0, 2.0]] * 3
        assert many["scale"].tolist() == [10.0] * 3
        many["w"][0] += 1
        assert many["w"].tolist() == [[2.0, 3.0], [1.0, 2.0], [1.0, 2.0]]

    def test_repeat_refuses_another_number(self, refused):
        with refused(BadInput, "2 initial beliefs for 5 clients: give one, or one for each"):
            tree.repeat(two(), 5)

    def test_size_in_bytes_by_hand(self):
        # float32: 2 · 4, 4; int64: 8; bool: 2
        assert tree.size_in_bytes(tree.row(two(), 0)) == 22
        assert tree.count(two()) == 2

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
    def test_the_first_tensor_that_is_not_finite_is_named(self, value):
        beliefs = two()
        assert tree.first_not_finite(beliefs) is None
        beliefs["scale"][1] = value
        assert tree.first_not_finite(beliefs) == "scale"


class TestModules:
    def test_a_belief_is_a_copy_of_parameters_and_buffers(self):
        module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        belief = tree.belief_of(module)
        assert set(belief) == set(module.state_dict())
        belief["0.weight"].zero_()
        assert not bool((module[0].weight == 0).all())
        assert not belief["0.weight"].requires_grad

    def test_load_brings_a_module_back(self):
        made, other = (nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)) for _ in range(2))
        made(torch.randn(5, 2))
        loaded = tree.load(other, tree.belief_of(made))
        assert loaded is other
        assert all(torch.equal(t, made.state_dict()[name]) for name, t in other.state_dict().items())
        assert other.state_dict()["1.num_batches_tracked"].item() == 1
        assert other[0].weight.requires_grad

    def test_load_refuses_a_belief_of_another_module(self, refused):
        with refused(BadInput, "belief and module differ in 'bias': use the module it was made from"):
            tree.load(nn.Linear(2, 1), tree.belief_of(nn.Linear(2, 1, bias=False)))

    def test_load_does_not_broadcast(self):
        module = nn.Linear(2, 3)
        belief = {**tree.belief_of(module), "bias": torch.tensor(7.0)}
        with pytest.raises(BadInput, match="bias"):
            tree.load(module, belief)
