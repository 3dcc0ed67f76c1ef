"""Every method on a survival: `stacked`, `pool` and messages against `loop`, or a refusal in one line."""

from __future__ import annotations

import pytest
import torch
from table import ROWS, SIZES, TOLERANCE, Here, assert_same, method_of, play
from torch import nn

from coterie.core.belief import belief_of, stack
from coterie.core.client import Client, Samples
from coterie.core.errors import BadData
from coterie.core.held import at_coordinator, hold
from coterie.core.learner import Learner
from coterie.core.roster import roster_of
from coterie.engines import ENGINES
from coterie.models import MODELS
from coterie.nets import InProcess
from coterie.nets.remote import Remote

DTYPE = torch.float64
# one for each way of looking at rows: batches, one place, folds, slopes, others' models, crowds, layers
SOME = ("fedavg", "central", "ndoye", "influence, first order", "pens", "fl-swag", "guided")
SOLVING = ("nothing", "local, solved", "fedavg of some, solved", "pooled", "partial", "recalibrated, solved")
REFUSED = ("random-weighted", "random-weighted trained last")


def clients_of() -> tuple[Client, ...]:
    """Five ragged clients with ties; of one, no training row has an event."""
    clients = []
    for i, n in enumerate(SIZES):
        generator = torch.Generator().manual_seed(i)

        def part(rows, generator=generator, none=i == 4):
            x = torch.randn(rows, 4, generator=generator, dtype=DTYPE)
            times = (torch.exp(-x[:, 0]) * 5).ceil()
            seen = (torch.rand(rows, generator=generator) < 0.6) & (not none)
            return Samples(x, torch.where(seen, times, -times))

        clients.append(Client(f"c{i}", part(n), part(4 + i), part(3 + i), cluster=i % 2, censored=True))
    return tuple(clients)


def model() -> nn.Module:
    return MODELS.make("linear").build((4,), 1, 0).to(DTYPE)


def net_of(kind: str):
    learner = Learner(model(), "survival")
    if kind != "messages":
        return InProcess(ENGINES.make(kind), learner, clients_of())
    begin = {"model": "linear", "options": {}, "shape": [4], "outputs": 1, "precision": "float64"}
    begin |= {"engine": {"name": "loop"}}
    return Remote(Here(clients_of()), roster_of(clients_of()), learner, ENGINES.make("loop"), begin)


def start():
    return hold(stack([belief_of(model())]), at_coordinator(1))


@pytest.mark.parametrize(
    ("row", "kinds"),
    [(row, ("stacked",)) for row in SOME]
    + [(row, ("stacked", "messages")) for row in SOLVING]
    + [("fedavg", ("pool", "messages"))]
    + [
        pytest.param(row, ("stacked", "pool", "messages"), marks=pytest.mark.slow)
        for row in ROWS
        if row not in REFUSED
    ],
)
def test_a_survival_has_the_numbers_of_loop(row, kinds):
    reference = play(method_of(row), net_of("loop"), start())
    for kind in kinds:
        other = play(method_of(row), net_of(kind), start())
        assert_same(other.models, reference.models, TOLERANCE[DTYPE])
        assert_same(other.infos, reference.infos, TOLERANCE[DTYPE])
    assert any(bool(info.weights.any()) for info in reference.infos)
    moved = {n: t for n, t in reference.models[-1]["tensors"].items() if n.endswith("weight")}
    assert moved
    assert all(not torch.equal(t[0], start().tensors[n][0]) for n, t in moved.items())


@pytest.mark.parametrize("row", REFUSED)
def test_what_weighs_by_accuracy_is_refused(row):
    with pytest.raises(BadData, match="accuracy, which a survival does not have: use random or greedy"):
        play(method_of(row), net_of("loop"), start())
