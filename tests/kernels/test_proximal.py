"""Local work that is held near an anchor: g ← ∇L(θ) + μ (θ - θ_anchor)."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from coterie.core.belief import row
from coterie.core.errors import BadInput
from coterie.core.held import at_coordinator, hold
from coterie.core.net import edges_of, from_server, to_own
from coterie.core.seeds import Key
from coterie.kernels import SGD, SWAG, Adam, Fold, Gather, Proximal
from coterie.kernels.posterior import collected

ENGINES = ["loop", "stacked", "pool"]
KEY = Key(0).at_round(1, 1)


@pytest.fixture
def net(client_of, net_of):
    """Clients with x = 1 and targets 0, 10 and 20: the slope at w is 2 (w - y)."""

    def make(engine, sizes=(1, 1, 1)):
        clients = [
            client_of(torch.ones(n, 1), torch.full((n,), y), name=str(y))
            for y, n in zip((0.0, 10.0, 20.0), sizes, strict=True)
        ]
        return net_of(nn.Linear(1, 1, bias=False), clients, engine)

    return make


def weights(*values):
    return hold({"weight": torch.tensor(values).reshape(-1, 1, 1)}, at_coordinator(len(values)))


def opened(replies):
    return replies.beliefs.tensors["weight"].flatten().tolist()


@pytest.mark.parametrize("engine", ENGINES)
class TestByHand:
    def test_an_anchor_for_all_and_one_for_each(self, net, engine):
        work, edges = Proximal(SGD(lr=0.1, steps=2), strength=3.0), from_server(torch.arange(3))
        common = net(engine).visit(work, weights(4.0), edges, KEY, beside={"anchor": weights(2.0)})
        # w ← w - 0.1 (2 (w - y) + 3 (w - 2)) = 0.5 w + 0.2 y + 0.6, twice from 4: 1.9 + 0.3 y
        assert opened(common) == pytest.approx([1.9, 4.9, 7.9])
        own = {"anchor": weights(2.0, 0.0, 4.0)}
        each = net(engine).visit(work, weights(4.0), edges, KEY, beside=own)
        # w ← 0.5 w + 0.2 y + 0.3 a, twice from 4: 1 + 0.3 y + 0.45 a
        assert opened(each) == pytest.approx([1.9, 4.0, 8.8])
        # the loss is that of the data alone, before each step: (4 - 0)² and (2.6 - 0)²
        assert float(common.numbers["loss"][0]) == pytest.approx((16 + 6.76) / 2)

    def test_an_anchor_stays_with_its_edge_whatever_the_numbers_of_steps(self, net, engine):
        work, anchors = Proximal(SGD(lr=0.1, batch=1), strength=3.0), (2.0, 0.0, 4.0)
        own = {"anchor": weights(*anchors)}
        replies = net(engine, (1, 2, 3)).visit(
            work, weights(4.0), from_server(torch.arange(3)), KEY, beside=own
        )
        wanted = []
        for steps, y, a in zip((1, 2, 3), (0, 10, 20), anchors, strict=True):
            w = 4.0
            for _ in range(steps):
                w = 0.5 * w + 0.2 * y + 0.3 * a
            wanted.append(w)
        assert opened(replies) == pytest.approx(wanted)

    def test_momentum_and_what_is_kept_have_the_pull_in_them(self, net, engine):
        work = Proximal(SGD(lr=0.1, momentum=0.5, keep=True), strength=3.0)
        made, edges, beside = net(engine), edges_of([(0, 0)]), {"anchor": weights(2.0)}
        first = made.visit(work, weights(4.0), edges, Key(0).at_round(1, 2), beside=beside)
        second = made.visit(work, first.beliefs, edges, Key(0).at_round(2, 2), beside=beside)
        # 8 + 6 = 14: 4 → 2.6; 7 + 5.2 + 1.8 = 14: → 1.2
        assert (opened(first), opened(second)) == ([pytest.approx(2.6)], [pytest.approx(1.2)])

    def test_other_work_inside(self, net, engine):
        beside, start, made = {"anchor": weights(9.0)}, weights(4.0, 4.0, 4.0), net(engine)
        # at client 0 data pull down by 8, the anchor up by 5 μ = 10: Adam's first step is the rate, upwards
        adam = made.visit(Proximal(Adam(lr=0.5), 2.0), start, to_own(3), KEY, beside=beside)
        assert opened(adam) == pytest.approx([4.5, 4.5, 4.5])
        fold = made.visit(Fold(Proximal(SGD(lr=0.1), 2.0)), start, to_own(3), KEY, beside=beside)
        assert opened(fold) == pytest.approx([4 - 0.1 * (2 * (4 - y) - 10) for y in (0, 10, 20)])
        swag = Proximal(Gather(SWAG(lr=0.1, steps=2)), 2.0)
        found = made.visit(swag, start, to_own(3), KEY, beside=beside).beliefs.tensors
        # w ← 0.6 w + 1.8 at client 0: 4, 4.2, 4.32
        assert collected(row(found, 0)).mean["weight"].item() == pytest.approx((4 + 4.2 + 4.32) / 3)


@pytest.mark.parametrize("engine", ENGINES)
def test_no_anchor_is_refused(net, engine):
    with pytest.raises(BadInput, match="named 'anchor': give one to the visit"):
        net(engine).visit(Proximal(), weights(4.0), from_server(torch.arange(3)), KEY)


@pytest.mark.parametrize("strength", [-0.1, float("inf"), float("nan")])
def test_a_strength_out_of_bounds_is_refused(strength):
    with pytest.raises(BadInput, match=f"strength={strength} must be at least 0 and finite"):
        Proximal(strength=strength)
