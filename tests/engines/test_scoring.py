"""How scoring passes over rows: whoever goes side by side, each pair's figures are those of a plain loop."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call

from coterie.core.client import Client, Samples
from coterie.core.held import at_coordinator, hold
from coterie.core.learner import Learner
from coterie.core.net import edges_of, to_own
from coterie.core.seeds import Key
from coterie.engines import Stacked, passage, replay, scoring
from coterie.kernels import Calibrate, Crowd, Score
from coterie.nets import InProcess

EMPTY = Samples(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))
KEY = Key(0)


def samples(n, seed=0):
    draws = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 3, generator=draws, dtype=torch.float64)
    return Samples(x, torch.randint(3, (n,), generator=draws))


def net_of(module, parts, task="classification"):
    clients = tuple(Client(f"c{i}", part, part, EMPTY) for i, part in enumerate(parts))
    return InProcess(Stacked(), Learner(module, task), clients)


def beliefs_of(module, n):
    """Models unlike each other, all of whose numbers are above 0, as variances have to be."""
    draws = torch.Generator().manual_seed(n)
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    made = {
        name: torch.rand(n, *t.shape, generator=draws, dtype=torch.float64) + 0.1
        if t.is_floating_point()
        else t.expand(n, *t.shape).clone()
        for name, t in named.items()
    }
    return hold(made, at_coordinator(n))


def plain(module, beliefs, guest, x):
    module.eval()
    with torch.no_grad():
        return functional_call(module, {n: t[guest] for n, t in beliefs.tensors.items()}, (x,))


def checked(net, module, beliefs, edges):
    """Loss and accuracy of every edge, by a loop."""
    found = net.visit(Score(), beliefs, edges, KEY).numbers
    for e, (guest, host) in enumerate(edges.tolist()):
        part = net.clients[host].test
        out = plain(module, beliefs, guest, part.x)
        assert found["loss"][e] == pytest.approx(float(nn.functional.cross_entropy(out, part.y)))
        assert found["accuracy"][e] == pytest.approx(float((out.argmax(1) == part.y).double().mean()))


class Seen(nn.Module):
    """Notes how many rows go through it; the size is the same with a further axis of guests."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.rows = inner, []

    def forward(self, x):
        self.rows.append(len(x))
        return self.inner(x)


def linear():
    return nn.Linear(3, 3, dtype=torch.float64)


class Peeking(nn.Linear):
    """Looks at its values, for which there is no batched form."""

    def forward(self, x):
        return super().forward(x if self.weight.sum() > 0 else -x)


class Centred(nn.Linear):
    """A row's outputs depend on the rows beside it."""

    def forward(self, x):
        return super().forward(x - x.mean(dim=0))


@pytest.mark.parametrize(
    "module",
    [
        linear(),
        nn.Sequential(linear(), nn.BatchNorm1d(3, dtype=torch.float64), nn.Tanh(), linear()),
        nn.Sequential(linear(), nn.Dropout(0.5), linear()),
        Peeking(3, 3, dtype=torch.float64),
        Centred(3, 3, dtype=torch.float64),
        nn.Sequential(linear(), nn.BatchNorm1d(3, track_running_stats=False, dtype=torch.float64), linear()),
    ],
    ids=["linear", "batch norm", "dropout", "no batched form", "coupled rows", "norm of the batch"],
)
@pytest.mark.parametrize("sizes", [(6, 6, 6), (5, 9, 2), (40, 2, 3)], ids=str)
def test_own_models_on_own_rows(module, sizes):
    net = net_of(module, [samples(n, i) for i, n in enumerate(sizes)])
    checked(net, module, beliefs_of(module, 3), to_own(3))


def test_pairs_that_repeat_in_any_order(monkeypatch):
    monkeypatch.setattr(passage, "ROWS", 20)  # several passes, of guests and of one guest's hosts
    monkeypatch.setattr(scoring, "MEASURED", 30)  # measured in several parts
    module = linear()
    net = net_of(module, [samples(n, i) for i, n in enumerate((5, 9, 2, 33, 1, 7))])
    edges = [(3, 2), (0, 5), (3, 0), (1, 1), (4, 3), (0, 5), (3, 1), (2, 4), (0, 0), (4, 0), (3, 2)]
    checked(net, module, beliefs_of(module, 5), edges_of(edges))


def test_rows_that_hosts_share_are_passed_once_by_each_guest(monkeypatch):
    monkeypatch.setattr(replay, "PATIENCE", 100)  # recording passes some times more
    shared, module = samples(8), Seen(linear())
    net = net_of(module, [shared, samples(3, 1), shared, shared])
    everyone = edges_of([(g, h) for h in range(4) for g in range(2)])
    beliefs = beliefs_of(module, 2)
    checked(net, module, beliefs, everyone)
    seen = net.learner.scoring.rows
    seen.clear()
    for guests, rows in ((edges_of([(0, h) for h in range(4)]), 11), (everyone, 11)):
        net.visit(Score(), beliefs, guests, KEY)
        assert seen == [rows]
        seen.clear()


class Noisy(nn.Linear):
    def forward(self, x):
        return super().forward(x) + torch.randn(len(x), 1)


def test_what_draws_draws_for_each_guest_from_its_own_seed():
    module = Noisy(3, 1, bias=False)
    rows = Samples(torch.zeros(4, 3), torch.zeros(4))
    net = net_of(module, [rows, rows], "regression")
    beliefs = hold({"weight": torch.zeros(2, 1, 3)}, at_coordinator(2))
    before = torch.get_rng_state()
    both = net.visit(Score(), beliefs, edges_of([(0, 0), (1, 0), (1, 1)]), KEY).numbers["loss"]
    alone = net.visit(Score(), beliefs, edges_of([(1, 1)]), KEY).numbers["loss"]
    assert torch.equal(torch.get_rng_state(), before)
    assert both[0] != both[1]
    assert both[1] == both[2] == alone[0]


@given(st.lists(st.integers(1, 9000), min_size=1, max_size=40), st.integers(1, 12), st.booleans())
def test_chunks_have_every_guest_once_and_little_filling(rows, most, in_order):
    found = list(passage.chunks(rows, most, in_order))
    flat = [turn for some in found for turn in some]
    assert sorted(flat) == list(range(len(rows)))
    assert not in_order or flat == sorted(flat)
    for some in found:
        lengths = [rows[turn] for turn in some]
        assert len(some) <= most
        assert len(some) == 1 or max(lengths) * len(some) <= min(passage.ROWS, 2 * sum(lengths))


def test_one_huge_guest_does_not_fill_up_the_small_ones():
    assert list(passage.chunks([10, 3000, 12, 11, 9], 100, False)) == [[1], [2, 3, 0, 4]]
    assert list(passage.chunks([10, 12, 11, 9], 100, False)) == [[0, 1, 2, 3]]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_crowd_is_the_average_of_its_guests_probabilities(shared, weighted, monkeypatch):
    monkeypatch.setattr(passage, "ROWS", 16)
    module, common = linear(), samples(6, 9)
    parts = [common if shared else samples(n, n) for n in (6, 11, 3)]
    net, beliefs = net_of(module, parts), beliefs_of(module, 4)
    pairs = [(2, 1), (0, 0), (3, 0), (1, 1), (2, 2), (2, 0), (2, 0)]
    alike, apart = [0.5, 0.25, 0.25, 0.5, 1, 0.25, 0.25], [0.25, 0.5, 0.125, 0.75, 1, 0.25, 0.125]
    shares = apart if weighted else alike
    beside = {"share": hold({"share": torch.tensor(shares)}, at_coordinator(7))} if weighted else {}
    replies = net.visit(Crowd(Calibrate()), beliefs, edges_of(pairs), KEY, beside=beside)
    assert replies.edges.tolist() == [[0, 0], [2, 1], [2, 2]]
    for i, host in enumerate((0, 1, 2)):
        part = net.clients[host].test
        p = sum(
            share * plain(module, beliefs, guest, part.x).softmax(dim=1)
            for (guest, at), share in zip(pairs, shares, strict=True)
            if at == host
        )
        hit = p.gather(1, part.y[:, None]).squeeze(1)
        assert replies.numbers["nll"][i] == pytest.approx(float(-hit.log().mean()))
        assert replies.numbers["loss"][i] == pytest.approx(float(-hit.log().mean()))
        assert replies.numbers["accuracy"][i] == float((p.argmax(dim=1) == part.y).double().mean())
        assert replies.numbers["samples"][i] == len(part)
