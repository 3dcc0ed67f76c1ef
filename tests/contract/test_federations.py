"""Random small federations: whatever their shape, every engine gives the numbers of the reference."""

from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from coterie.core.belief import belief_of, repeat, stack
from coterie.core.client import Client, Samples
from coterie.core.held import at_coordinator, hold
from coterie.core.learner import Learner
from coterie.core.net import edges_of
from coterie.core.seeds import Key
from coterie.engines import ENGINES, replay
from coterie.features.absence.wrapper import Absent
from coterie.kernels import SGD, Adam
from coterie.nets import InProcess

works = st.one_of(
    st.builds(
        SGD,
        lr=st.sampled_from([0.01, 0.1]),
        momentum=st.sampled_from([0.0, 0.9]),
        weight_decay=st.sampled_from([0.0, 0.01]),
        batch=st.integers(1, 9),
        epochs=st.integers(1, 2),
        steps=st.sampled_from([0, 3]),
        schedule=st.sampled_from(["constant", "cosine"]),
    ),
    st.builds(
        Adam, lr=st.just(0.01), batch=st.integers(1, 9), decoupled=st.booleans(), weight_decay=st.just(0.1)
    ),
)


def model_of(kind: str) -> nn.Module:
    torch.manual_seed(0)
    layers = {
        "linear": [nn.Linear(3, 2)],
        "frozen": [nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)],
        "dropout": [nn.Linear(3, 5), nn.Tanh(), nn.Dropout(0.4), nn.Linear(5, 2)],
        "layernorm": [nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2)],
        "conv": [nn.Unflatten(1, (1, 3)), nn.Conv1d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(4, 2)],
    }
    model = nn.Sequential(*layers[kind]).double()
    if kind == "frozen":
        model[0].requires_grad_(False)
    return model


@pytest.mark.parametrize("engine", ["stacked", "pool"])
@settings(max_examples=15)
@given(
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=6),
    kind=st.sampled_from(["linear", "frozen", "dropout", "layernorm", "conv"]),
    work=works,
    absent=st.sampled_from([0.0, 0.4]),
    patience=st.sampled_from([0, 2, 40]),
    data=st.data(),
)
def test_random_federations(engine, sizes, kind, work, absent, patience, data):
    model, n = model_of(kind), len(sizes)
    draws = torch.Generator().manual_seed(sum(sizes))
    clients = []
    for i, size in enumerate(sizes):
        part = Samples(
            torch.randn(size, 3, generator=draws, dtype=torch.float64),
            torch.randint(2, (size,), generator=draws),
        )
        clients.append(Client(name=str(i), train=part, test=part, validation=Samples(part.x[:0], part.y[:0])))
    pairs = data.draw(
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), min_size=1, max_size=8)
    )
    beliefs = hold(repeat(stack([belief_of(model)]), n), at_coordinator(n))
    replies = []
    for name in ("loop", engine):
        net = Absent(InProcess(ENGINES.make(name), Learner(model, "classification"), tuple(clients)), absent)
        with mock.patch.object(replay, "PATIENCE", patience):
            replies.append((net, net.visit(work, beliefs, edges_of(pairs), Key(1).at_round(2, 5))))
    (loop, expected), (other, found) = replies
    assert torch.equal(expected.edges, found.edges)
    if len(expected) == 0:
        return
    for figure in expected.numbers:
        torch.testing.assert_close(found.numbers[figure], expected.numbers[figure], rtol=1e-10, atol=1e-12)
    left, right = loop.open(expected.beliefs), other.open(found.beliefs)
    for tensor in left:
        torch.testing.assert_close(right[tensor], left[tensor], rtol=1e-10, atol=1e-12)
