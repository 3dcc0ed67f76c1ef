from __future__ import annotations

import pytest
import torch
from torch import nn

from coterie.core.errors import BadInput
from coterie.core.held import at_coordinator, hold
from coterie.core.net import SERVER, edges_of, from_server, settle
from coterie.core.seeds import Key
from coterie.features.absence.wrapper import Absent
from coterie.kernels import SGD, Proximal, Score

ALL = from_server(torch.arange(30))
WORK = SGD(lr=0.25)
KEY = Key(0).at_round(1, 5)


@pytest.fixture
def net(client_of, net_of):
    clients = [client_of(torch.ones(1, 1), torch.tensor([float(i)]), name=f"c{i}") for i in range(30)]
    return net_of(nn.Linear(1, 1, bias=False), clients)


def weights(*values):
    return hold({"weight": torch.tensor(values).reshape(-1, 1, 1)}, at_coordinator(len(values)))


def opened(replies):
    return replies.beliefs.tensors["weight"].flatten()


def test_those_that_answer_answer_as_ever(net):
    absent = Absent(net, 0.5)
    here = absent.present(KEY).nonzero().flatten()
    assert 5 <= len(here) <= 25
    replies, everybody = absent.visit(WORK, weights(0.0), ALL, KEY), net.visit(WORK, weights(0.0), ALL, KEY)
    assert replies.hosts.tolist() == here.tolist()
    assert torch.equal(opened(replies), opened(everybody)[here])
    assert torch.equal(replies.numbers["loss"], everybody.numbers["loss"][here])


def test_edges_keep_their_order_repeats_and_what_is_beside_them(net):
    absent = Absent(net, 0.5)
    present = absent.present(KEY)
    here, gone = int(present.nonzero()[0]), int((~present).nonzero()[0])
    edges = edges_of([(0, gone), (1, here), (1, gone), (0, here)])
    own = {"anchor": weights(100.0, 2.0, 100.0, 4.0)}
    replies = absent.visit(Proximal(WORK, strength=1.0), weights(0.0, 8.0), edges, KEY, beside=own)
    assert replies.edges.tolist() == [[1, here], [0, here]]
    # w - 0.25 (2 (w - y) + w - anchor)
    assert opened(replies).tolist() == [8 - 0.25 * (2 * (8 - here) + 6), 0 - 0.25 * (2 * (0 - here) - 4)]
    common = {"anchor": weights(2.0)}
    replies = absent.visit(Proximal(WORK, strength=1.0), weights(0.0, 8.0), edges, KEY, beside=common)
    assert opened(replies)[0] == 8 - 0.25 * (2 * (8 - here) + 6)


def test_absence_depends_on_seed_and_round_only(net):
    absent = Absent(net, 0.5)
    drawn = {(s, r): tuple(absent.present(Key(s).at_round(r, 9)).tolist()) for s in (0, 1) for r in (1, 2)}
    assert len(set(drawn.values())) == 4
    # a longer run, another place in the method and another kernel are all the same
    later = Key(0).at_round(2, 900).at("x")
    assert tuple(absent.present(later).tolist()) == drawn[0, 2]
    hosts = [
        absent.visit(kernel, weights(0.0), ALL, later).hosts.tolist() for kernel in (WORK, Score("train"))
    ]
    assert hosts[0] == hosts[1] == torch.tensor(drawn[0, 2]).nonzero().flatten().tolist()
    # before the first round everybody is there
    assert bool(absent.present(Key(0)).all())


def test_as_many_are_gone_as_told(net):
    share = torch.stack([Absent(net, 0.3).present(Key(0).at_round(r, 100)) for r in range(1, 101)])
    assert abs(float(share.double().mean()) - 0.7) < 4 * (0.21 / 3000) ** 0.5
    assert len(Absent(net, 0.0).visit(WORK, weights(0.0), ALL, KEY)) == 30


def test_all_gone_leaves_beliefs_and_memory(net):
    kernel, start = SGD(lr=0.25, momentum=0.9, keep=True), weights(0.0)
    net.visit(kernel, start, ALL, KEY)
    gone, later = Absent(net, 1.0), Key(0).at_round(2, 5)
    replies = gone.visit(kernel, start, ALL, later)
    assert len(replies) == 0
    assert settle(gone, start, replies) is start
    assert torch.equal(net.slots.before("", 2)["t"], net.slots.before("", 3)["t"])


def test_the_other_verbs_pass_through(net):
    absent = Absent(net, 0.5)
    replies = absent.visit(WORK, weights(0.0), ALL, KEY)
    shares = torch.full((1, len(replies)), 1 / len(replies))
    mixed = [n.mix(shares, replies.beliefs, SERVER).tensors["weight"] for n in (absent, net)]
    assert torch.equal(*mixed)
    to = torch.tensor([0])
    assert torch.equal(absent.distances(replies, to, 0).apart, net.distances(replies, to, 0).apart)
    assert absent.roster is net.roster
    assert absent.in_one_place([range(30)]).roster.sizes.tolist() == [30]


@pytest.mark.parametrize("chance", [-0.1, 1.1, float("nan")])
def test_refuses_a_chance_out_of_bounds(net, chance, refused):
    with refused(BadInput, f"absent={chance} must lie between 0 and 1: try 0.1"):
        Absent(net, chance)
