"""Cox's loss and the concordance index: numbers worked out by hand, slow plain loops, what holds always."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import vmap

from coterie.core.errors import BadInput
from coterie.core.groups import Groups
from coterie.core.learner import Batch, Learner
from coterie.core.survival import cox
from coterie.kernels.fold import HeldOut
from coterie.kernels.noisy import Noisy
from coterie.kernels.relative import Relative
from coterie.kernels.score import Score
from coterie.metrics.survival import concordance

F64 = torch.float64
KNOWING = Relative()
LOG = math.log


def tensor(values) -> torch.Tensor:
    return torch.tensor(values, dtype=F64)


# risks as logarithms of 1, 2, 3, ...: a risk set's sum is then the sum of these
BY_HAND = {
    "one event, first of three": ([1, 2, 3], [1, -2, -3], [LOG(6 / 1), 0, 0]),
    "events in turn": ([1, 2, 3], [1, 2, 3], [LOG(6 / 1), LOG(5 / 2), LOG(3 / 3)]),
    "two events tie: each has both at risk": ([1, 2, 3], [2, 2, -5], [LOG(6 / 1), LOG(6 / 2), 0]),
    "who is censored at an event's time was at risk": ([1, 2, 3], [-1, 2, -2], [0, LOG(5 / 2), 0]),
    "no event": ([1, 2, 3], [-1, -2, -3], [0, 0, 0]),
    "an only row": ([5], [3], [0]),
}


@pytest.mark.parametrize(("hazards", "y", "expected"), BY_HAND.values(), ids=BY_HAND)
def test_the_loss_by_hand(hazards, y, expected):
    found = cox(tensor(hazards).log().unsqueeze(1), tensor(y))
    torch.testing.assert_close(found, tensor(expected))


rows = st.lists(
    st.tuples(st.integers(-4, 4), st.integers(1, 5), st.booleans(), st.booleans()), min_size=1, max_size=9
)


def drawn(values):
    """Risks [n, 1], signed times with many ties, and weights, of which at least one is 1."""
    risk, time, seen, real = (tensor([float(v[i]) for v in values]) for i in range(4))
    real[0] = 1.0
    return (risk / 2).unsqueeze(1), torch.where(seen > 0, time, -time), real


def plainly(outputs, y):
    """Row by row, as the equation is written."""
    found = []
    for i in range(len(y)):
        at_risk = [j for j in range(len(y)) if abs(y[j]) >= abs(y[i])]
        total = sum(outputs[j, 0].exp() for j in at_risk)
        found.append(total.log() - outputs[i, 0] if y[i] > 0 else outputs[i, 0] * 0)
    return torch.stack(found)


@settings(max_examples=60, deadline=None)
@given(rows)
def test_loss_and_gradient_are_those_of_a_plain_loop_over_the_real_rows(values):
    outputs, y, real = drawn(values)
    outputs.requires_grad_()
    keep = real > 0
    losses = cox(outputs, y, real)
    (slope,) = torch.autograd.grad((losses * real).sum(), outputs)
    wanted = plainly(outputs[keep], y[keep])
    (slope_wanted,) = torch.autograd.grad(wanted.sum(), outputs)
    torch.testing.assert_close(losses[keep], wanted)
    torch.testing.assert_close(slope, slope_wanted)


def test_many_edges_at_once_are_each_alone():
    generator = torch.Generator().manual_seed(0)
    outputs = torch.randn(4, 12, 1, generator=generator, dtype=F64)
    y = torch.randint(1, 5, (4, 12), generator=generator) * (
        1 - 2 * torch.randint(2, (4, 12), generator=generator)
    )
    weight = (torch.rand(4, 12, generator=generator) < 0.7).to(F64)
    together = vmap(cox)(outputs, y.to(F64), weight) * weight
    apart = torch.stack([cox(*edge) for edge in zip(outputs, y.to(F64), weight, strict=True)]) * weight
    assert torch.equal(together, apart)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_risks_far_apart_stay_finite_and_a_batch_without_events_says_nothing(dtype):
    outputs = torch.tensor([[1e4], [-1e4], [3e4], [0.0]], dtype=dtype, requires_grad=True)
    for y, losses, slope in (
        ([1.0, 2.0, -3.0, 4.0], [2e4, 4e4, 0, 0], [-1.0, -1.0, 2.0, 0.0]),
        ([-1.0, -2.0, -3.0, -4.0], [0, 0, 0, 0], [0.0, 0.0, 0.0, 0.0]),
    ):
        found = cox(outputs, torch.tensor(y, dtype=dtype))
        assert found.dtype == dtype
        torch.testing.assert_close(found, torch.tensor(losses, dtype=dtype))
        (got,) = torch.autograd.grad(found.sum(), outputs)
        torch.testing.assert_close(got.squeeze(1), torch.tensor(slope, dtype=dtype))


def test_the_mean_is_over_rows_so_that_an_event_counts_alike_in_every_batch():
    learner = Learner(torch.nn.Identity(), "survival")
    loss, _ = learner.loss(
        {}, Batch(tensor([[0.0], [0.0]]), tensor([1.0, -2.0]), torch.ones(2, dtype=F64)), tensor(0)
    )
    assert float(loss) == pytest.approx(LOG(2) / 2)
    padded = Batch(tensor([[0.0], [0.0], [9.0]]), tensor([1.0, -2.0, 9.0]), tensor([1.0, 1.0, 0.0]))
    assert torch.equal(learner.loss({}, padded, tensor(0))[0], loss)


def test_scores_never_compare_rows_of_two_clients_nor_of_two_folds():
    generator = torch.Generator().manual_seed(1)
    outputs, y = torch.randn(20, 1, generator=generator, dtype=F64), torch.arange(1.0, 21, dtype=F64)
    learner, groups = Learner(torch.nn.Identity(), "survival"), Groups.of(torch.tensor([12, 8]))
    losses = learner.losses_in(outputs, y, groups)
    assert torch.equal(losses, torch.cat([cox(outputs[:12], y[:12]), cox(outputs[12:], y[12:])]))
    held = HeldOut(3, 1, seed=4)
    (mine, _), looked = held.held(groups), held.apart(groups)
    losses = learner.losses_in(outputs, y, groups, looked)
    first = mine[mine < 12]
    told = held.measure("survival", outputs, losses, y, groups)["loss"][0]
    assert told == pytest.approx(float(cox(outputs[first], y[first]).mean()))
    assert told != pytest.approx(float(cox(outputs[:12], y[:12])[first].mean()))


# (risks, signed times) -> concordant, comparable, by hand
PAIRS = {
    "in order": ([3, 2, 1], [1, 2, 3], 3, 3),
    "the wrong way round": ([1, 2, 3], [1, 2, 3], 0, 3),
    "equal risks count half": ([1, 1], [1, 2], 0.5, 1),
    "a censored row is compared with earlier events alone": ([3, 9, 1], [1, -2, 3], 1, 2),
    "an event is earlier than who was censored at its time": ([2, 1], [5, -5], 1, 1),
    "two events at one time are not compared": ([2, 1, 0], [5, 5, -6], 2, 2),
}


@pytest.mark.parametrize(("risk", "y", "right", "pairs"), PAIRS.values(), ids=PAIRS)
def test_concordance_by_hand(risk, y, right, pairs):
    assert concordance(tensor(risk), tensor(y)).tolist() == [pytest.approx(right / pairs)]


@pytest.mark.parametrize("y", [[-1, -2, -3], [4, 4], [3, -1, -2], [7]])
def test_where_nobody_can_be_compared_there_is_no_figure(y):
    assert math.isnan(float(concordance(torch.zeros(len(y)), tensor(y))))


@settings(max_examples=60, deadline=None)
@given(rows)
def test_concordance_counts_pairs(values):
    outputs, y, _ = drawn(values)
    risk = outputs.squeeze(1)
    right = pairs = 0.0
    for i in range(len(y)):
        for j in range(len(y)):
            first = y[i] > 0 and (abs(y[j]) > y[i] or (abs(y[j]) == y[i] and y[j] < 0))
            if first:
                pairs += 1
                right += 1.0 if risk[i] > risk[j] else 0.5 if risk[i] == risk[j] else 0.0
    found = float(concordance(risk, y))
    assert math.isnan(found) if not pairs else found == pytest.approx(right / pairs)
    if pairs:  # only the order counts, and the other order is what is left
        assert float(concordance(3 * risk + 7, y)) == pytest.approx(found)
        assert float(concordance(-risk, y)) == pytest.approx(1 - found)


def test_the_relative_loss_by_hand_and_whatever_the_number_of_rows_and_events():
    def relative(hazards, y, scorer=KNOWING):
        outputs, groups = tensor(hazards).log().unsqueeze(1), Groups.one(len(y))
        return scorer.measure("survival", outputs, torch.zeros(len(y)), tensor(y), groups)

    # two events: log(6/1) - log 3 and log(5/2) - log 2
    wanted = (LOG(6 / 1) - LOG(3) + LOG(5 / 2) - LOG(2)) / 2
    assert float(relative([1, 2, 3], [1, 2, -3])["loss"]) == pytest.approx(wanted)
    # who is censored before any event changes nothing, nor does a model that knows nothing
    assert float(relative([9, 1, 2, 3], [-0.5, 1, 2, -3])["loss"]) == pytest.approx(wanted)
    assert float(relative([1, 1, 1, 1], [1, 2, 3, -4])["loss"]) == pytest.approx(0)
    assert math.isnan(float(relative([1, 2], [-1, -2])["loss"]))
    found = relative([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6], Relative(HeldOut(2, 0, seed=1)))
    rows, _ = HeldOut(2, 0, seed=1).held(Groups.one(6))
    mine = (rows + 1).tolist()
    assert found["samples"].tolist() == [3]
    assert float(found["loss"]) == pytest.approx(float(relative(mine, mine)["loss"]))


def test_figures_of_a_group_do_not_depend_on_the_others():
    risk, y = tensor([3, 2, 1, 1, 2]), tensor([1, 2, 3, 1, -2])
    figures = Score().measure(
        "survival", risk.unsqueeze(1), torch.zeros(5), y, Groups.of(torch.tensor([3, 2]))
    )
    assert figures["concordance"].tolist() == [1.0, 0.0]
    assert set(figures) == {"loss", "samples", "concordance"}


def test_what_works_row_by_row_is_refused():
    learner = Learner(torch.nn.Linear(2, 1), "survival")
    batch = Batch(torch.ones(2, 2), torch.tensor([1.0, -2.0]), torch.ones(2))
    belief = {n: p.detach() for n, p in learner.training.named_parameters()}
    with pytest.raises(BadInput, match=r"no row of a survival has a gradient of its own: .* use bounded"):
        learner.clipped(belief, batch, torch.tensor(0), 1.0)
    with pytest.raises(BadInput, match=r"noisy\(score\): scores of a survival compare rows"):
        Noisy().measure("survival", batch.y, batch.y, batch.y, Groups.one(2))
