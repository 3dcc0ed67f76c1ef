from __future__ import annotations

import pytest
import torch
from torch import nn

from coterie.core.errors import BadInput
from coterie.core.net import edges_of, from_server
from coterie.core.seeds import Key
from coterie.kernels import SGD, Score
from coterie.nets import Absent


@pytest.fixture
def net(client_of, net_of):
    clients = [client_of(torch.ones(1, 1), torch.tensor([float(i)]), name=f"c{i}") for i in range(30)]
    return net_of(nn.Linear(1, 1, bias=False), clients)


ALL = from_server(torch.arange(30))
START = {"weight": torch.zeros(1, 1, 1)}
WORK = SGD(lr=0.25)


def test_those_that_answer_answer_as_ever(net):
    absent = Absent(net, 0.5)
    key = Key(0).at_round(1, 5)
    here = absent.present(key).nonzero().flatten()
    assert 5 <= len(here) <= 25
    replies = absent.visit(WORK, START, ALL, key)
    assert replies.hosts.tolist() == here.tolist()
    assert replies.guests.tolist() == [0] * len(here)
    everybody = net.visit(WORK, START, ALL, key)
    assert torch.equal(absent.open(replies)["weight"], net.open(everybody)["weight"][here])
    assert torch.equal(replies.numbers["loss"], everybody.numbers["loss"][here])


def test_edges_keep_their_order_and_repeats(net):
    absent = Absent(net, 0.5)
    key = Key(0).at_round(1, 5)
    present = absent.present(key)
    here, gone = int(present.nonzero()[0]), int((~present).nonzero()[0])
    edges = edges_of([(0, gone), (0, here), (1, gone), (1, here)])
    replies = absent.visit(WORK, {"weight": torch.tensor([0.0, 8.0]).reshape(2, 1, 1)}, edges, key)
    assert replies.edges.tolist() == [[0, here], [1, here]]


def test_a_client_is_gone_for_the_whole_round(net):
    absent, key = Absent(net, 0.5), Key(3).at_round(2, 5)
    first = absent.visit(WORK, START, ALL, key.at("train")).hosts.tolist()
    assert absent.visit(Score("train"), START, ALL, key.at("score")).hosts.tolist() == first


def test_absence_depends_on_seed_and_round_only(net):
    absent = Absent(net, 0.5)
    drawn = {
        (seed, r): tuple(absent.present(Key(seed).at_round(r, 9)).tolist()) for seed in (0, 1) for r in (1, 2)
    }
    assert len(set(drawn.values())) == 4
    # a longer run, or another place in the method, draws the same
    assert tuple(absent.present(Key(0).at_round(2, 900).at("x")).tolist()) == drawn[0, 2]


def test_as_many_are_gone_as_told(net):
    share = torch.stack([Absent(net, 0.3).present(Key(0).at_round(r, 100)) for r in range(100)])
    assert abs(float(share.double().mean()) - 0.7) < 4 * (0.21 / 3000) ** 0.5


def test_all_gone_and_none_gone(net):
    key = Key(0).at_round(1, 1)
    assert len(Absent(net, 1.0).visit(WORK, START, ALL, key)) == 0
    assert len(Absent(net, 0.0).visit(WORK, START, ALL, key)) == 30


def test_all_gone_leaves_beliefs_and_memory(net):
    key, kernel = Key(0).at_round(1, 1), SGD(lr=0.25, momentum=0.9, keep=True)
    memory = net.visit(kernel, START, ALL, key).memory
    gone = Absent(net, 1.0)
    replies = gone.visit(kernel, START, ALL, key, memory)
    assert torch.equal(replies.memory["velocity/weight"], memory["velocity/weight"])
    assert torch.equal(gone.settle(START, replies)["weight"], START["weight"])


def test_the_other_verbs_pass_through(net):
    absent, key = Absent(net, 0.5), Key(0).at_round(1, 1)
    replies = absent.visit(WORK, START, ALL, key)
    assert list(absent.names) == list(net.names)
    assert torch.equal(absent.sizes, net.sizes)
    shares = torch.full((1, len(replies)), 1 / len(replies))
    assert torch.equal(absent.mix(shares, replies)["weight"], net.mix(shares, replies)["weight"])
    assert torch.equal(absent.distances(replies, START), net.distances(replies, START))
    assert absent.pool([range(30)]).sizes.tolist() == [30]


@pytest.mark.parametrize("chance", [-0.1, 1.1, float("nan")])
def test_refuses_a_chance_out_of_bounds(net, chance, refused):
    with refused(BadInput, f"absent={chance} must lie between 0 and 1: try 0.1"):
        Absent(net, chance)
