"""Sites without test rows are not scored on them."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from coterie.core.held import at_coordinator, hold
from coterie.core.net import from_server
from coterie.core.seeds import Key
from coterie.kernels import SGD, Score
from coterie.nets import Untested

KEY = Key(0).at_round(1, 5)


@pytest.fixture
def net(client_of, net_of):
    clients = [client_of(torch.ones(2, 1), torch.tensor([0.0, 1.0]), name=name) for name in "abc"]
    nothing = replace(clients[1].test, x=clients[1].test.x[:0], y=clients[1].test.y[:0])
    clients[1] = replace(clients[1], test=nothing)
    return Untested(net_of(nn.Linear(1, 1, bias=False), clients))


def test_only_sites_with_test_rows_answer_a_score_on_them(net):
    model, all_three = hold({"weight": torch.ones(1, 1, 1)}, at_coordinator(1)), from_server(torch.arange(3))
    assert net.visit(Score("test"), model, all_three, KEY).hosts.tolist() == [0, 2]
    assert net.visit(Score("train"), model, all_three, KEY).hosts.tolist() == [0, 1, 2]
    assert net.visit(SGD(), model, all_three, KEY).hosts.tolist() == [0, 1, 2]
    alone = net.visit(Score("test"), model, torch.tensor([[0, 1]]), KEY)
    assert (alone.edges.tolist(), dict(alone.numbers)) == ([], {})
