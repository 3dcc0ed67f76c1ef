"""How far a liar can pull a requester's model: docs/methods/weight-erosion.md, "Liars"."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.kernels import SGD
from coterie.methods import WeightErosion
from coterie.methods.server.weight_erosion import (
    distance_per_step,
    erode,
    mixing_weights,
    relative_distance,
)


def bound(p_d: float, times: float = 1.0) -> float:
    """(1 - ln(1 + b) / b) / p_d of the longest g_0, for a liar with b times the requester's weight β."""
    return (1 - math.log1p(times) / times) / p_d


def pulls(lies: torch.Tensor, p_d: float, others: torch.Tensor, beta: float = 1.0, p_s: float = 0.0):
    """Summed ‖share (g_i - g_0)‖ of liars [liar] with d_i [liar, round] and g_0 of length 1, by our own
    functions; `others` is what all honest ones weigh together.
    """
    alpha, total = torch.ones(len(lies), dtype=torch.float64), torch.zeros(len(lies), dtype=torch.float64)
    for r in range(lies.shape[1]):
        alpha = erode(alpha, lies[:, r], p_d, p_s, torch.full((len(lies),), r))
        rows = torch.stack([torch.ones_like(alpha), alpha, others], dim=1)
        sizes = torch.tensor([1.0, beta, 1.0], dtype=torch.float64)
        shares = torch.stack([mixing_weights(row, sizes) for row in rows])
        total += shares[:, 1] * lies[:, r]
    return total


def test_by_hand():
    # p_d = 1/4 and d = 1 four times: α = 3/4, 1/2, 1/4, 0 and shares 3/7, 1/3, 1/5, 0
    found = pulls(torch.ones(1, 4, dtype=torch.float64), 0.25, torch.zeros(1).double())
    assert float(found) == pytest.approx(3 / 7 + 1 / 3 + 1 / 5, abs=1e-12)
    assert bound(0.25) == pytest.approx(1.2274, abs=1e-4)  # 4 (1 - ln 2)
    # one lie that costs all weight moves nothing
    assert float(pulls(torch.full((1, 3), 9.0).double(), 0.25, torch.zeros(1).double())) == 0


@pytest.mark.parametrize("p_d", [0.02, 0.05])
def test_many_small_lies_reach_it_and_none_goes_beyond(p_d):
    small = torch.full((1, 1000), 0.001 / p_d, dtype=torch.float64)
    most = float(pulls(small, p_d, torch.zeros(1).double()))
    assert 0.998 * bound(p_d) < most < bound(p_d)
    # before they are shared out, lies of α_i d_i come to 1 / (2 p_d)
    alpha = 1 - torch.arange(1, 1001).double() / 1000
    assert 0.998 / (2 * p_d) < float((alpha * 0.001 / p_d).sum()) < 1 / (2 * p_d)
    draws = torch.Generator().manual_seed(0)
    scale = 10 ** (4 * torch.rand(300, 1, generator=draws, dtype=torch.float64) - 2)
    lies = scale * torch.rand(300, 40, generator=draws, dtype=torch.float64)
    found = pulls(lies, p_d, torch.rand(300, generator=draws, dtype=torch.float64))
    assert bool((found <= bound(p_d)).all())
    assert float(found.max()) > 0.5 * bound(p_d)


numbers = st.lists(st.floats(0, 30), min_size=1, max_size=12)


@settings(max_examples=30)
@given(numbers, st.floats(0.01, 1), st.floats(0, 9), st.sampled_from([0.1, 1.0, 20.0]), st.floats(0, 2))
def test_whatever_it_says_and_however_many_rows_it_claims(lies, p_d, others, beta, p_s):
    said = torch.tensor([lies], dtype=torch.float64)
    found = float(pulls(said, p_d, torch.tensor([others]).double(), beta, p_s))
    assert found <= bound(p_d, beta) * (1 + 1e-12)
    assert bound(p_d, beta) < 1 / p_d  # however many


@settings(max_examples=30)
@given(st.lists(st.floats(-3, 3), min_size=6, max_size=6), st.sampled_from([0.2, 1.0, 5.0]))
def test_with_more_steps_it_is_what_lies_beside_the_requester_s_way(ways, steps):
    """(1') measures g_i from ρ g_0: the rest of g_i, (ρ - 1) g_0, goes the requester's own way."""
    g = torch.tensor(ways, dtype=torch.float64).reshape(2, 3)
    if g[0].norm() < 0.1:
        return
    plain = relative_distance((g - g[0]).norm(dim=1), g[0].norm())
    distance = distance_per_step(plain, g.norm(dim=1) / g[0].norm(), torch.tensor([1.0, steps]).double())
    beside = (g[1] - steps * g[0]).norm()
    assert float(steps * distance[1] * g[0].norm()) == pytest.approx(float(beside), abs=1e-6)


def test_k_liars_that_take_turns_have_k_times_as_much():
    """Whoever does not answer is not in the sum: each in its turn has the requester for itself."""
    p_d, k, steps = 0.05, 3, 400
    alpha, total = torch.ones(k, dtype=torch.float64), 0.0
    for liar in range(k):
        for _ in range(steps):
            said = torch.tensor([1 / (steps * p_d)], dtype=torch.float64)
            alpha[liar] = erode(alpha[liar : liar + 1], said, p_d, 0, torch.zeros(1))[0]
            shares = mixing_weights(
                torch.stack([torch.ones(()).double(), alpha[liar]]), torch.ones(2).double()
            )
            total += float(shares[1] * said)
    assert 0.99 * k * bound(p_d) < total < k * bound(p_d)


@pytest.mark.parametrize("step", [1.0, 0.5])
def test_in_a_run(pull, play, step):
    """c1 pulls to 30, the requester to 4; what it moved the model by is below the bound, and is then over."""
    net, p_d = pull([4, 30, 4]), 0.05
    method = WeightErosion(SGD(lr=0.25, batch=1000), "c0", p_d=p_d, server_step=step)
    first = {"weight": torch.zeros(1, 1, 1, dtype=torch.float64)}
    states, infos = play(method, net, first, 12)
    moved, longest = 0.0, 0.0
    for state, info in zip(states, infos, strict=False):
        way = abs(float(state.beliefs.tensors["weight"]) - 4) / 2  # ‖g_0‖: a full step is half the way
        distance = float(info.matrices["relative distance"][0, 1])
        if not math.isnan(distance):
            moved += step * float(info.weights[0, 1]) * distance * way
            longest = max(longest, way)
    assert 0 < moved < step * bound(p_d) * longest
    assert float(states[-1].alpha[0, 1]) == 0
