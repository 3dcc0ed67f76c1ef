"""A study of one's own: rounds one at a time, and runs read back from their folders."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import coterie
from coterie.api.folders import is_finished, sent
from coterie.api.play import net_of, rounds
from coterie.core.errors import BadInput, BadRun
from coterie.kernels import SGD
from coterie.methods import FLSWAG, FedAvg
from coterie.posteriors import read


@pytest.fixture
def clients(client_of):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 12, 2, generator=generator)
    return [client_of(x[i], (x[i, :, 0] > 0).long(), name=name) for i, name in enumerate("abc")]


@pytest.fixture
def model():
    return nn.Linear(2, 2)


@pytest.mark.parametrize("method", ["fedavg", "local", "gossip"])
def test_rounds_are_those_of_a_run(model, clients, method):
    played = list(rounds(model, clients, method, rounds=2, seed=3, lr=0.5, batch=4))
    result = coterie.train(model, clients, method, rounds=2, seed=3, lr=0.5, batch=4)
    assert [p.round for p in played] == [0, 1, 2]
    assert played[0].info is None
    for name, module in result.models.items():
        assert torch.equal(played[0].models[name]["weight"], model.weight)
        assert torch.equal(played[2].models[name]["weight"], module.weight)
    for r in (1, 2):
        assert torch.equal(played[r].info.weights.float(), torch.from_numpy(result.weights[r - 1]))


def test_nothing_is_scored_so_that_nobody_needs_test_rows(model, client_of, clients):
    nothing = (torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))
    bare = [client_of(c.train.x, c.train.y, name=c.name, test=nothing) for c in clients]
    (_, tested), (_, untested) = (list(rounds(model, some, FedAvg(), rounds=1)) for some in (clients, bare))
    assert torch.equal(tested.models["a"]["weight"], untested.models["a"]["weight"])


def test_a_method_that_cannot_work_is_refused_before_the_first_round(model, clients):
    with pytest.raises(BadInput, match="peers need at least 2 clients"):
        next(rounds(model, clients[:1], "gossip", rounds=1))


def test_clients_have_the_models_precision(model, clients):
    net = net_of(model.double(), clients, engine="loop")
    assert len(net.roster) == 3
    (_, after) = rounds(model.double(), clients, FedAvg(SGD(lr=0.1)), rounds=1)
    assert after.models["a"]["weight"].dtype == torch.float64


def test_what_clients_sent_is_what_their_posteriors_are_made_of(model, clients, tmp_path):
    way = FLSWAG(SGD(lr=0.1, batch=4), samples=2)
    coterie.train(model, clients, way, rounds=4, out=tmp_path / "run")
    found = sent(tmp_path / "run")
    assert list(found) == ["a", "b", "c"]
    for name, mine in found.items():
        kept = read(tmp_path / f"run/posteriors/{name}.safetensors").posterior
        made = mine.gaussian(way.form, way.floor, way.below, way.unknown(3))
        assert torch.equal(made.precision.diagonal, kept.precision.diagonal)
        assert torch.equal(made.shift, kept.shift)


def test_only_a_finished_run_of_fl_swag_has_something_sent(model, clients, tmp_path):
    class Stop(Exception):
        pass

    def stop(record):
        if record.round == 1:
            raise Stop

    coterie.train(model, clients, "fedavg", rounds=1, out=tmp_path / "other")
    with pytest.raises(Stop):
        coterie.train(model, clients, "fl-swag", rounds=4, out=tmp_path / "cut", watch=stop)
    assert (is_finished(tmp_path / "other"), is_finished(tmp_path / "cut")) == (True, False)
    for name in ("other", "cut"):
        with pytest.raises(BadRun, match="no finished run of fl-swag"):
            sent(tmp_path / name)
