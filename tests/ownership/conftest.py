from __future__ import annotations

import pytest
import torch
from torch import nn


@pytest.fixture
def pull(client_of, net_of):
    """A net of clients each of which pulls the one weight to a target of its own."""

    def make(*targets):
        one = torch.ones(1, 1).double()
        rows = {y: (one, one[0] * y) for y in targets}
        clients = [client_of(*rows[y], name=f"c{i}", validation=rows[y]) for i, y in enumerate(targets)]
        return net_of(nn.Linear(1, 1, bias=False).double(), clients)

    return make
