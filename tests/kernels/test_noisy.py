"""Scores with noise, and scorers of which only choices leave."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from coterie.core.charge import Charge
from coterie.core.errors import BadInput
from coterie.core.groups import Groups
from coterie.core.held import at_coordinator, hold
from coterie.core.net import edges_of
from coterie.core.seeds import Key
from coterie.core.wire import pack, unpack
from coterie.kernels import (
    Calibrate,
    Choice,
    Crowd,
    HeldOut,
    Noisy,
    Score,
    Tallied,
    kernel_of,
    kernel_to_dict,
)
from coterie.kernels.choice import lowest
from coterie.methods import METHODS
from coterie.nets import InProcess
from coterie.nets.site import Site

KEY = Key(3).at_round(2, 5)
LOSS = Score("train", ("loss",))


@pytest.fixture
def clients(client_of):
    draws = torch.Generator().manual_seed(1)
    return [
        client_of(torch.randn(n, 2, generator=draws), torch.arange(n) % 2, name=f"c{n}") for n in (10, 20, 40)
    ]


@pytest.fixture
def three():
    """Models at the coordinator, each worse than the last."""
    weights = torch.stack([torch.tensor([[1.0, 0.0], [0.0, 1.0]]) * s for s in (1.0, 3.0, 9.0)])
    return hold({"weight": weights, "bias": torch.zeros(3, 2)}, at_coordinator(3))


def figures(kernel, losses, right, sizes):
    """What is measured of rows with these losses, predicted right or not, by client."""
    y = torch.zeros(len(losses), dtype=torch.int64)
    outputs = torch.tensor([[1.0, 0.0] if r else [0.0, 1.0] for r in right])
    return kernel.measure("classification", outputs, torch.tensor(losses), y, Groups.of(torch.tensor(sizes)))


def test_losses_are_cut_off_row_by_row_and_other_figures_stay():
    found = figures(Noisy(bound=2.0), [0.5, 3.0, -1.0, math.nan, math.inf], [1, 1, 0, 1, 1], [3, 2])
    assert {n: t.tolist() for n, t in found.items()} == {
        "loss": [2.5 / 3, 2.0],
        "accuracy": [pytest.approx(2 / 3), 1.0],
        "samples": [3.0, 2.0],
    }


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=8), st.floats(-10, 10), st.floats(0.1, 5))
def test_no_row_counts_for_more_than_what_is_paid(losses, other, bound):
    kernel, n = Noisy(bound=bound), len(losses)
    right = [i % 2 for i in range(n)]
    one = figures(kernel, losses, right, [n])
    two = figures(kernel, [other, *losses[1:]], [1 - right[0], *right[1:]], [n])
    assert abs(float(one["loss"] - two["loss"])) <= bound / n * (1 + 1e-5) + 1e-6
    assert abs(float(one["accuracy"] - two["accuracy"])) <= 1 / n + 1e-6


def test_the_noise_is_as_large_as_it_says():
    kernel, keys = Noisy(bound=4.0, sigma=5.0), [KEY.at(i) for i in range(4000)]
    rows = torch.full((4000,), 50.0)
    told = kernel.tell(
        {"loss": torch.ones(4000), "accuracy": torch.full((4000,), 0.5), "samples": rows}, [0] * 4000, keys
    )
    for values, mean, wide in ((told["loss"], 1, 5 * 4 / 50), (told["accuracy"], 0.5, 5 / 50)):
        assert float(values.mean()) == pytest.approx(mean, abs=4 * wide / 4000**0.5)
        assert float(values.std()) == pytest.approx(wide, rel=0.05)
    beyond = Noisy(bound=4.0, sigma=1e6).tell(
        {"loss": torch.ones(40), "samples": rows[:40]}, [0] * 40, keys[:40]
    )
    assert set(beyond["loss"].tolist()) == {0.0, 4.0}
    assert abs(float(torch.corrcoef(torch.stack([told["loss"], told["accuracy"]]))[0, 1])) < 0.06


@pytest.mark.parametrize(
    ("inner", "times"), [(Score(), 2), (LOSS, 1), (HeldOut(5, 1), 1), (Calibrate(), 2), (Crowd(Score()), 2)]
)
def test_each_figure_is_paid_for(inner, times):
    assert Noisy(inner, sigma=3.0).charges(100) == (Charge(3.0, times=times),)


@pytest.mark.parametrize("engine", ["loop", "stacked", "pool", "auto"])
@pytest.mark.parametrize("kernel", [Noisy(Score("train")), Choice(Noisy(LOSS), 2), Choice(LOSS)], ids=repr)
def test_the_same_numbers_on_every_engine_and_at_a_site(net_of, clients, three, engine, kernel):
    model = nn.Linear(2, 2)
    edges = edges_of([(g, h) for h in range(3) for g in (2, 0, 1)])
    wanted = net_of(model, clients).visit(kernel, three, edges, KEY).numbers
    found = net_of(model, clients, engine).visit(kernel, three, edges, KEY).numbers
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        assert torch.equal(found[name], values)
    site = Site(clients[1], 1)
    site.net = InProcess(net_of(model, clients).engine, net_of(model, clients).learner, (clients[1],))
    message = {
        "do": "visit", "kernel": kernel_to_dict(kernel), "key": KEY.to_dict(), "slot": "", "rows": [0, 1, 2],
        "guests": [2, 0, 1], "beliefs": [[[g, ["weight", "bias"]]] for g in (2, 0, 1)], "beside": {},
        "replies": [],
    }  # fmt: skip
    tensors = {f"{g}/{n}": t[g] for n, t in three.tensors.items() for g in range(3)}
    _, numbers = unpack(site.answer(pack(message, tensors)))
    for name, values in wanted.items():
        assert torch.equal(numbers[name], values[3:6])


def test_a_crowd_gets_noise_once(net_of, clients, three):
    net, edges = net_of(nn.Linear(2, 2), clients), edges_of([(0, 0), (1, 0), (2, 1)])
    found = net.visit(Noisy(Crowd(Score("train")), bound=1e3, sigma=1e-9), three, edges, KEY)
    clear = net.visit(Crowd(Score("train")), three, edges, KEY)
    assert torch.equal(found.edges, clear.edges)
    assert torch.allclose(found.numbers["loss"], clear.numbers["loss"].double(), atol=1e-6)


def test_choices_by_hand():
    costs, hosts = torch.tensor([3.0, 1.0, 2.0, 5.0, math.nan, 5.0]), torch.tensor([0, 0, 0, 1, 1, 2])
    assert lowest(costs, hosts, 1).tolist() == [0, 1, 0, 1, 0, 1]
    assert lowest(costs, hosts, 2).tolist() == [0, 1, 1, 1, 1, 1]
    kernel = Choice(Score("train", ("accuracy",)))
    told = kernel.tell({"accuracy": torch.tensor([0.3, 0.9])}, [4, 4], [KEY, KEY])
    assert {n: t.tolist() for n, t in told.items()} == {"chosen": [0, 1]}


def test_a_choice_alone_has_no_bound():
    assert Choice(LOSS).charges(10) is None
    assert Choice(Noisy(LOSS, sigma=7.0)).charges(10) == (Charge(7.0),)
    assert kernel_of(kernel_to_dict(Choice(Noisy(LOSS, sigma=7.0), 3))) == Choice(Noisy(LOSS, sigma=7.0), 3)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (
            lambda: Noisy(Tallied()),
            r"noisy\(tallied\): its figures have no bound by row: take noisy\(score\)",
        ),
        (lambda: Noisy(Score("test", ("auc",))), r"noisy\(score\): its figures have no bound"),
        (lambda: Noisy(sigma=0), "sigma=0 must lie above 0"),
        (lambda: Noisy(bound=-1), "bound=-1 must lie above 0"),
        (lambda: Choice(keep=0), "keep=0 must be at least 1"),
        (lambda: Choice(Crowd()), "models that predict together cannot be ranked"),
        (
            lambda: METHODS.make("greedy", tell="choices"),
            "direction=mine-on-theirs: set it to theirs-on-mine",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make, line):
    with pytest.raises(BadInput, match=line):
        make()


@pytest.mark.parametrize("name", ["pens", "greedy"])
def test_choices_pick_whom_losses_would_pick(net_of, clients, three, name):
    """Peers end with the same models, and no loss has left."""
    options = {"direction": "theirs-on-mine", "sampled": 2, "selected": 1}
    ended, heard = [], []
    for tell in ("losses", "choices"):
        method = METHODS.make(name, tell=tell, **options)
        net = net_of(nn.Linear(2, 2), clients)
        state = method.init(three, net)
        for r in (1, 2, 3):
            state, info = method.round(state, net, Key(0).at_round(r, 3))
            heard.append(set(info.matrices) & {"loss", "chosen"})
        ended.append(state.beliefs.tensors["weight"])
    assert torch.equal(*ended)
    assert heard[0] == {"loss"}
    assert heard[3] == {"chosen"}
