"""Equations 7 to 10 by hand, the simple metrics, a metric of one's own, and what is refused."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coterie.core.errors import BadInput, UnknownName
from coterie.metrics import layers
from coterie.metrics.layers import (
    LAYER_METRICS,
    Layer,
    asked,
    chained,
    layer_metric,
    similarities,
    stable_rank,
    stable_ranks,
    unfoldings,
    uniqueness,
    wants,
)
from coterie.metrics.low_rank import factorise

NAN = math.nan


def numbers(*values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def layer_of(weights, start=None, losses=None, raw=False) -> Layer:
    weights = torch.as_tensor(weights, dtype=torch.float64)
    start = torch.zeros(weights.shape[1:]) if start is None else torch.as_tensor(start)
    losses = torch.full((len(weights),), NAN) if losses is None else losses
    return Layer("conv.weight", weights, start, losses, raw)


def said(name, layer, memory=None):
    memory = torch.full((len(layer.weights),), NAN, dtype=torch.float64) if memory is None else memory
    return asked(name, LAYER_METRICS.make(name), layer, memory)


def noisy(*shape, seed=0):
    """Clients' layers of low rank with some noise."""
    generator = torch.Generator().manual_seed(seed)
    clients, rows, columns = shape
    left = torch.randn(clients, rows, 2, generator=generator, dtype=torch.float64)
    right = torch.randn(clients, 2, columns, generator=generator, dtype=torch.float64)
    return left @ right + 0.1 * torch.randn(shape, generator=generator, dtype=torch.float64)


@pytest.fixture
def registry():
    known = dict(LAYER_METRICS._known)
    yield LAYER_METRICS
    LAYER_METRICS._known.clear()
    LAYER_METRICS._known.update(known)


class TestStableRank:
    def test_by_hand(self):
        # (16 + 4 + 1) / (4 · 16): four directions, three of them kept
        assert stable_rank(numbers(4, 2, 1, 0)).item() == 21 / 64
        assert stable_rank(numbers(3, 3)).item() == 1
        assert stable_rank(numbers(7, 0, 0)).item() == pytest.approx(1 / 3)

    def test_rank_0_gives_0(self):
        assert stable_rank(torch.zeros(2, 3)).tolist() == [0, 0]
        assert said("stable-rank", layer_of(torch.zeros(2, 3, 4)))[0].tolist() == [0, 0]

    def test_of_a_matrix_by_hand(self):
        # raw: singular values 2 and 1 of two directions: (4 + 1) / (2 · 4), whichever side is longer
        matrix = [[2.0, 0, 0], [0, 1, 0]]
        assert said("stable-rank", layer_of([matrix], raw=True))[0].item() == pytest.approx(5 / 8)
        flipped = torch.tensor(matrix).mT.unsqueeze(0)
        assert said("stable-rank", layer_of(flipped, raw=True))[0].item() == pytest.approx(5 / 8)

    def test_a_convolution_is_unfolded_both_ways_and_averaged(self):
        # [out 1, in 2, 1, 2]: by output one row, s = 1; by input (3, 0) and (0, 1), s = (9 + 1) / (2 · 9)
        weights = torch.tensor([[[[[3.0, 0.0]], [[0.0, 1.0]]]]])
        assert [list(m.shape) for m in unfoldings(weights)] == [[1, 1, 4], [1, 2, 2]]
        assert stable_ranks(weights, raw=True).item() == pytest.approx((1 + 5 / 9) / 2)

    def test_is_of_the_low_rank_part(self):
        weights = noisy(3, 20, 30)
        for found, matrix in zip(stable_ranks(weights).tolist(), weights, strict=True):
            S = factorise(matrix).S
            assert found == pytest.approx(float(S.square().sum() / (20 * S[0] ** 2)))
            assert len(S) == 2

    @given(st.lists(st.floats(0, 1e6), min_size=1, max_size=6))
    def test_lies_between_0_and_1(self, values):
        found = stable_rank(numbers(*sorted(values, reverse=True))).item()
        assert 0 <= found <= 1 + 1e-12
        if max(values) > 0:
            assert found >= 1 / len(values) - 1e-12


class TestKnowledgeGain:
    def test_first_against_the_model_it_began_from_then_against_its_last(self):
        # raw stable ranks: start diag(2, 1) 5/8; a: diag(2, 2) 1; b: diag(2, 0) 1/2
        start = torch.diag(numbers(2, 1))
        one = layer_of(torch.stack([torch.diag(numbers(2, 2)), torch.diag(numbers(2, 0))]), start, raw=True)
        scores, memory = said("knowledge-gain", one)
        torch.testing.assert_close(scores, numbers(3 / 8, -1 / 8))
        torch.testing.assert_close(memory, numbers(1, 1 / 2))
        # then a: diag(2, 1) 5/8; b: diag(1, 1) 1
        two = layer_of(torch.stack([torch.diag(numbers(2, 1)), torch.diag(numbers(1, 1))]), start, raw=True)
        scores, memory = said("knowledge-gain", two, memory)
        torch.testing.assert_close(scores, numbers(-3 / 8, 1 / 2))
        torch.testing.assert_close(memory, numbers(5 / 8, 1))

    def test_only_newcomers_are_compared_with_the_start(self):
        layer = layer_of(torch.stack([torch.diag(numbers(1, 1))] * 2), torch.diag(numbers(2, 0)), raw=True)
        scores, _ = said("knowledge-gain", layer, numbers(0.75, NAN))
        torch.testing.assert_close(scores, numbers(1 / 4, 1 / 2))


class TestUniqueness:
    def test_by_hand(self):
        # (1, 0), (1, 1), (0, 2): cosines 1/√2, 0 and 1/√2
        c = 1 / math.sqrt(2)
        found = similarities(numbers([1, 0], [1, 1], [0, 2]))
        torch.testing.assert_close(found, numbers([1, c, 0], [c, 1, c], [0, c, 1]))
        torch.testing.assert_close(uniqueness(found), numbers(2 - c, 2 - 2 * c, 2 - c))

    def test_of_low_rank_parts(self):
        weights = noisy(3, 12, 17)
        parts = [U * S @ V.mT for U, S, V, _ in map(factorise, weights)]
        by_hand = uniqueness(similarities(torch.stack(parts).flatten(1)))
        torch.testing.assert_close(said("uniqueness", layer_of(weights))[0], by_hand)
        assert not torch.allclose(by_hand, said("uniqueness", layer_of(weights, raw=True))[0], atol=1e-6)

    def test_opposite_is_twice_as_unique_as_orthogonal_and_equal_is_0(self):
        opposite, alike = numbers([1, 2], [-2, -4]), numbers([1, 2], [2, 4])
        torch.testing.assert_close(uniqueness(similarities(opposite)), numbers(2, 2))
        assert uniqueness(similarities(alike)).tolist() == pytest.approx([0, 0], abs=1e-15)
        assert bool((uniqueness(similarities(alike)) >= 0).all())

    def test_of_a_convolution_both_unfoldings_are_averaged(self):
        weights = noisy(3, 10, 8 * 9, seed=4).reshape(3, 10, 8, 3, 3)
        each = [said("uniqueness", layer_of(m))[0] for m in unfoldings(weights)]
        torch.testing.assert_close(said("uniqueness", layer_of(weights))[0], (each[0] + each[1]) / 2)


class TestSimpleMetrics:
    start = numbers([1, 1])
    weights = numbers([[4, 5]], [[1, 1]], [[1, -1]])  # updates (3, 4), (0, 0), (0, -2); mean (1, 2/3)

    def test_update_norm(self):
        assert said("update-norm", layer_of(self.weights, self.start))[0].tolist() == [5, 0, 2]

    def test_gradient_alignment(self):
        length = math.sqrt(13) / 3
        expected = [(3 + 8 / 3) / (5 * length), 0, -2 / 3 / length]
        found = said("gradient-alignment", layer_of(self.weights, self.start))[0]
        assert found.tolist() == pytest.approx(expected)

    def test_gradient_alignment_of_updates_that_cancel_out_is_0(self):
        layer = layer_of(numbers([[1.0]], [[-1.0]]), numbers([0.0]))
        assert said("gradient-alignment", layer)[0].tolist() == [0, 0]

    def test_validation_loss(self):
        layer = layer_of(self.weights, losses=numbers(0, 1, math.inf))
        assert said("validation-loss", layer)[0].tolist() == [1, 0.5, 0]
        assert wants(chained("constant*validation-loss"))
        assert not wants(chained("constant*stable-rank"))


@pytest.mark.parametrize("name", list(LAYER_METRICS))
def test_no_metric_depends_on_the_order_of_clients_or_changes_what_it_is_given(name):
    weights, start, losses = noisy(4, 6, 9), noisy(1, 6, 9, seed=9)[0], numbers(0.5, 2, 1, 0.25)
    given_, order = weights.clone(), torch.tensor([2, 0, 3, 1])
    scores, memory = said(name, layer_of(weights, start, losses))
    other, kept = said(name, layer_of(weights[order], start, losses[order]))
    torch.testing.assert_close(other, scores[order])
    torch.testing.assert_close(kept, memory[order], equal_nan=True)
    assert torch.equal(weights, given_)
    assert LAYER_METRICS[name].__doc__


@pytest.mark.parametrize("name", ["stable-rank", "uniqueness"])
def test_clients_measured_some_at_a_time_score_the_same(name, monkeypatch):
    layer = layer_of(noisy(4, 6, 9))
    together, _ = said(name, layer)
    monkeypatch.setattr(layers, "AT_ONCE", 6 * 9 * 3)
    torch.testing.assert_close(said(name, layer)[0], together)


class TestOwn:
    def test_a_function_is_a_metric(self, registry):
        @layer_metric("apart")
        def apart(layer):
            """How far a layer's weights lie apart."""
            return layer.weights.flatten(1).std(dim=1)

        found, memory = said("apart", layer_of([[[1.0, 3.0]], [[2.0, 2.0]]]))
        assert found.tolist() == pytest.approx([math.sqrt(2), 0])
        assert bool(memory.isnan().all())
        assert "apart" in registry
        assert registry["apart"].__doc__ == "How far a layer's weights lie apart."

    def test_a_class_may_remember(self, registry):
        @registry.register("rounds")
        @dataclass(frozen=True)
        class Rounds:
            """How often a client was there."""

            def score(self, layer, memory):
                times = memory.nan_to_num(0) + 1
                return times, times

        scores, memory = said("rounds", layer_of(torch.zeros(2, 3, 4)), numbers(NAN, 3))
        assert scores.tolist() == memory.tolist() == [1, 4]

    def test_chained_by_name(self):
        assert list(chained("stable-rank * update-norm")) == ["stable-rank", "update-norm"]

    def test_a_name_nobody_registered_is_refused(self, refused):
        with refused(UnknownName, "unknown layer metric 'stable-rnk': did you mean stable-rank?"):
            chained("constant*stable-rnk")

    def test_a_name_twice_is_refused(self, refused):
        message = "metric='constant*constant' names one twice: multiply different ones"
        with refused(BadInput, message):
            chained("constant*constant")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (numbers(1, NAN), "got a score of nan: return finite numbers, 0 where there is none"),
        (numbers(1, math.inf), "got a score of inf: return finite numbers, 0 where there is none"),
        (
            numbers(-1, -0.5),
            "got negative scores only, the highest -0.5: turn the sign, or say signed=True if it is meant",
        ),
        (numbers(1), "got scores of shape [1] for 2 clients: return [2]"),
        (numbers([1, 2]), "got scores of shape [1, 2] for 2 clients: return [2]"),
        ([1.0, 2.0], "got a list as scores: return a tensor [client]"),
    ],
)
def test_a_bad_answer_is_refused_with_the_metric_and_the_layer(registry, refused, answer, message):
    layer_metric("own")(lambda layer: answer)
    with refused(BadInput, f"layer metric 'own', layer 'conv.weight': {message}"):
        said("own", layer_of(torch.zeros(2, 3, 4)))


def test_negative_scores_are_fine_where_they_are_meant_or_not_alone(registry):
    layer_metric("meant", signed=True)(lambda layer: numbers(-1, -2))
    layer_metric("mixed")(lambda layer: numbers(-1, 0))
    assert said("meant", layer_of(torch.zeros(2, 3, 4)))[0].tolist() == [-1, -2]
    assert said("mixed", layer_of(torch.zeros(2, 3, 4)))[0].tolist() == [-1, 0]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (numbers(1, 2), "got a Tensor: return (scores, memory)"),
        ((numbers(1, 2), None), "got a NoneType as memory: return a tensor [client]"),
        ((numbers(1, 2), numbers(1)), "got memory of shape [1] for 2 clients: return [2]"),
    ],
)
def test_a_class_that_forgets_its_memory_is_refused(registry, refused, answer, message):
    @registry.register("own")
    @dataclass(frozen=True)
    class Own:
        """Wrong."""

        def score(self, layer, memory):
            return answer

    with refused(BadInput, f"layer metric 'own', layer 'conv.weight': {message}"):
        said("own", layer_of(torch.zeros(2, 3, 4)))
