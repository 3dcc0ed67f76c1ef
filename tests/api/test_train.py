"""Training from Python: any module, any data, and what one gets back."""

from __future__ import annotations

import copy
import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from torch import nn

import coterie
from coterie.core.client import Samples
from coterie.core.errors import BadInput, BadRun, UnknownName
from coterie.core.held import Held
from coterie.core.method import METHODS, Info, Models, Reveals, handed_out, scatter
from coterie.core.net import to_own
from coterie.data.clients import Client
from coterie.methods.server.fedavg import FedAvg


def linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(4, 2)


def weights_of(module: nn.Module) -> list[float]:
    return [v for t in module.state_dict().values() for v in t.double().flatten().tolist()]


def test_ten_lines(tmp_path):
    rng = np.random.default_rng(1)
    clients = [
        coterie.Client.from_arrays(rng.normal(size=(40, 3)), np.arange(40) % 2, name=name, test=0.3)
        for name in ("north", "south")
    ]
    result = coterie.train(nn.Linear(3, 2), clients, method="finetune", rounds=3, tune=1, seed=0)
    assert list(result.models) == ["north", "south"]
    assert result.models["north"](torch.zeros(5, 3)).shape == (5, 2)
    assert result.weights.shape == (3, 2, 2)
    assert isinstance(result.shared, nn.Linear)
    page = result.report(tmp_path / "report.html")
    assert page.read_text().startswith("<!doctype html>")
    (line,) = result.summary().to_dict("records")
    assert (line["method"], line["clients"], line["rounds"], line["finished"]) == ("finetune", 2, 3, True)


def test_regression(hospitals):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2)).astype(np.float32)
    y = X @ np.array([2.0, -1.0]) + 0.5
    clients = [Client.from_arrays(X[:30], y[:30], name="a"), Client.from_arrays(X[30:], y[30:], name="b")]
    result = coterie.train("linear", clients, rounds=60, lr=0.2)
    assert result.record.final("rmse") == pytest.approx([0, 0], abs=1e-3)
    assert result.record.final("r2") == pytest.approx([1, 1], abs=1e-5)
    (weight, bias) = result.models["a"].parameters()
    assert weight.flatten().tolist() == pytest.approx([2, -1], abs=1e-3)
    assert bias.tolist() == pytest.approx([0.5], abs=1e-3)
    assert "rmse" in result.summary()


class Busy(nn.Module):
    """Batch norm, dropout and a layer that must not move."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(8, 2)
        self.first.requires_grad_(False)

    def forward(self, x):
        return self.head(self.drop(torch.relu(self.norm(self.first(x)))))


@pytest.mark.parametrize("method", ["local", "fedavg", "finetune", "central"])
def test_recorded_figures_are_those_of_the_returned_models(hospitals, right, method):
    options = {"tune": 1} if method == "finetune" else {}
    model = Busy()
    before = copy.deepcopy(model.state_dict())
    result = coterie.train(model, hospitals, method, rounds=3, lr=0.2, batch=10, **options)
    own = [right(result.models[c.name], c) for c in hospitals]
    assert result.record.final("accuracy") == own
    for c in hospitals:
        mine = result.models[c.name]
        assert not mine.training
        assert not mine.drop.training
        # the average of one number may differ from it in the last bit
        torch.testing.assert_close(mine.first.weight, nn.Parameter(before["first.weight"]), rtol=1e-6, atol=0)
        assert not torch.equal(mine.head.weight, before["head.weight"])
        assert not torch.equal(mine.norm.running_mean, before["norm.running_mean"])
        assert not mine.first.weight.requires_grad
        assert mine.head.weight.requires_grad
    if result.shared is not None:
        shared = [right(result.shared, c) for c in hospitals]
        assert result.record.final("accuracy", "shared/test") == shared
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())
    assert model.training


def test_models_are_modules_of_their_own(hospitals):
    model = linear()
    result = coterie.train(model, hospitals, "fedavg", rounds=1)
    a, b = result.models["hospital-a"], result.models["hospital-b"]
    assert a is not b
    assert weights_of(a) == weights_of(b) == weights_of(result.shared) != weights_of(model)
    kept = weights_of(b)
    with torch.no_grad():
        a.weight.zero_()
    assert weights_of(b) == weights_of(result.shared) == kept
    optimiser = torch.optim.SGD(b.parameters(), lr=0.1)
    nn.functional.cross_entropy(b(hospitals[1].train.x), hospitals[1].train.y).backward()
    optimiser.step()
    assert weights_of(b) != kept == weights_of(result.models["hospital-c"])


def test_training_twice_gives_the_same_and_another_seed_does_not(hospitals):
    def outcome(seed):
        model = Busy()
        torch.manual_seed(len(seen))  # where the global generator stands does not matter
        seen.append(model)
        result = coterie.train(model, hospitals, rounds=2, seed=seed, batch=10, init="common")
        return [weights_of(m) for m in result.models.values()], result.record.metrics

    seen = []
    first = outcome(0)
    assert outcome(0) == first != outcome(1)


def test_global_random_numbers_are_left_alone(hospitals):
    torch.manual_seed(7)
    np.random.seed(7)
    random.seed(7)
    model = Busy()
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    for init in ("given", "common", "independent"):
        coterie.train(model, hospitals, rounds=1, batch=10, init=init)
    coterie.train("mlp", hospitals, rounds=1)
    after = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


class Noisy(nn.Linear):
    """Draws numbers by itself, in training and in scoring."""

    def forward(self, x):
        return super().forward(x + torch.randn_like(x))


def test_a_module_that_draws_while_it_is_scored(hospitals):
    model = Noisy(4, 2)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = coterie.train(model, hospitals, rounds=1).record.metrics
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(2)
    assert coterie.train(model, hospitals, rounds=1).record.metrics == one


def first_scores(result) -> dict:
    return result.record.metrics[0]["scores"]["own/test"]


def test_beginning_with_the_weights_as_given(hospitals, right):
    model = linear()
    result = coterie.train(model, hospitals, "local", rounds=1)
    assert first_scores(result)["accuracy"] == [right(model, c) for c in hospitals]


def test_beginning_anew_from_the_seed(hospitals):
    torch.manual_seed(0)
    one, two = nn.Linear(4, 2), nn.Linear(4, 2)
    results = [coterie.train(m, hospitals, "local", rounds=1, init="common") for m in (one, two)]
    assert first_scores(results[0]) == first_scores(results[1])
    other = coterie.train(one, hospitals, "local", rounds=1, init="common", seed=1)
    assert first_scores(other) != first_scores(results[0])
    given = coterie.train(one, hospitals, "local", rounds=1)
    assert first_scores(given) != first_scores(results[0])


def test_beginning_each_with_its_own(hospitals):
    same_data = [replace(hospitals[0], name=n) for n in ("a", "b", "c")]
    common = first_scores(coterie.train(linear(), same_data, "local", rounds=1, init="common"))["loss"]
    own = first_scores(coterie.train(linear(), same_data, "local", rounds=1, init="independent"))["loss"]
    assert len(set(common)) == 1
    assert len(set(own)) == 3
    assert own[0] == common[0]


def test_options_go_to_whom_they_concern(hospitals):
    result = coterie.train(
        linear(), hospitals, "fedavg", kernel="adam", rounds=1, sample=0.5, weighted=False, beta1=0.5, lr=1
    )
    config = result.record.config
    assert config["fedavg"] == {"weighted": False, "sample": 0.5, "norm": "average"}
    assert (config["adam"]["beta1"], config["adam"]["lr"], config["kernel"]) == (0.5, 1.0, "adam")
    assert result.record.metrics[1]["sent"].count(1) == 2


def test_local_work_as_an_object(hospitals):
    by_name = coterie.train(linear(), hospitals, rounds=1, kernel="adam", lr=0.01, batch=4)
    as_object = coterie.train(linear(), hospitals, rounds=1, kernel=coterie.Adam(lr=0.01, batch=4))
    assert by_name.record.metrics == as_object.record.metrics
    assert by_name.record.config == as_object.record.config


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": 0.1}, "unknown option 'learning_rate': known are batch, clip, epochs, "),
        ({"tune": 2}, "unknown option 'tune': "),
        ({"method": "fedavgg"}, "unknown method 'fedavgg': did you mean fedavg?"),
        ({"init": "comon"}, "unknown init 'comon': did you mean common?"),
        ({"lr": 0.1, "kernel": coterie.SGD()}, "unknown option 'lr': "),
    ],
)
def test_names_nobody_knows(hospitals, options, message):
    with pytest.raises(UnknownName) as caught:
        coterie.train(linear(), hospitals, rounds=1, **options)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": -1.0}, "lr=-1.0 must be above 0"),
        ({"epochs": 1.5}, "kernel sgd: epochs must be a whole number; got 1.5"),
        ({"wrap": ["absent=1.5"]}, "absent=1.5 must lie between 0 and 1: try 0.1"),
        ({"method": "finetune", "tune": 1}, "tune=1 leaves none of 1 rounds for averaging: lower it"),
        ({"clients": []}, "no clients: give at least one"),
        ({"model": nn.Linear(5, 2)}, "the model does not take inputs of shape [4]: "),
        (
            {"model": nn.Linear(4, 1)},
            "the model gives outputs of shape [1], the data needs [2]: change its last",
        ),
        (
            {"model": nn.Unflatten(1, (2, 2))},
            "the model has no parameters, so there is nothing to train: give",
        ),
        ({"model": nn.Linear}, "model=<class 'torch.nn.modules.linear.Linear'> must be a torch module or"),
        (
            {"model": nn.Sequential(nn.Linear(4, 4), nn.Unflatten(1, (2, 2)))},
            "the model gives outputs of shape [2, 2], the data needs [2]: change its last layer",
        ),
        ({"model": "linear"}, "model linear has 1 output, a number; got outputs=2: use logistic for classes"),
        (
            {"model": "pens-cnn"},
            "model pens-cnn needs pictures (channel, height, width); got inputs of shape",
        ),
    ],
)
def test_refused_in_one_line(hospitals, options, message, tmp_path):
    given = {"model": nn.Linear(4, 2), "clients": hospitals, "rounds": 1, **options}
    with pytest.raises(BadInput) as caught:
        coterie.train(out=tmp_path / "run", **given)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 2)

    def forward(self, x):
        return self.inner(x), x


class Picky(Pair):
    def forward(self, x):
        assert x.shape[1] == 9
        return self.inner(x)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"model": Pair()}, id="a model that gives two things"),
        pytest.param({"model": Picky()}, id="a model that asserts"),
        pytest.param({"model": nn.LazyLinear(2)}, id="a model without shapes yet"),
        pytest.param({"rounds": "3"}, id="rounds as text"),
        pytest.param({"seed": 0.5}, id="half a seed"),
        pytest.param({"wrap": ["nonsense"]}, id="a wrapper nobody knows"),
        pytest.param({"one_class": "alow"}, id="a misspelt rule"),
        pytest.param({"method": None}, id="no method"),
        pytest.param({"method": FedAvg(), "lr": 0.5}, id="lr beside a method that has its own"),
    ],
)
def test_refused_too(hospitals, options):
    with pytest.raises(BadInput):
        coterie.train(**{"model": linear(), "clients": hospitals, "rounds": 1, **options})


def test_numbers_of_numpy_are_numbers(hospitals, tmp_path):
    plain = coterie.train("mlp", hospitals, rounds=2, seed=3)
    numpy = coterie.train("mlp", hospitals, rounds=np.int64(2), seed=np.int64(3), out=tmp_path / "run")
    assert plain.record.metrics == numpy.record.metrics


def test_double_precision_through_and_through(hospitals, right):
    def double(s: Samples) -> Samples:
        return Samples(s.x.double(), s.y)

    clients = [
        replace(c, train=double(c.train), test=double(c.test), validation=double(c.validation))
        for c in hospitals
    ]
    result = coterie.train(linear().double(), clients, "fedavg", rounds=2, momentum=0.9)
    assert {p.dtype for m in result.models.values() for p in m.parameters()} == {torch.float64}
    assert result.record.final("accuracy") == [right(result.models[c.name], c) for c in clients]
    cast = coterie.train(linear().double(), hospitals, "fedavg", rounds=2, momentum=0.9)
    assert cast.record.metrics == result.record.metrics
    single = coterie.train(linear(), hospitals, "fedavg", rounds=2, momentum=0.9)
    assert result.record.final("loss") == pytest.approx(single.record.final("loss"), rel=1e-5)
    assert result.record.final("loss") != single.record.final("loss")


def test_half_precision(hospitals, tmp_path):
    model = linear().to(torch.bfloat16)
    result = coterie.train(model, hospitals, "finetune", rounds=2, tune=1, out=tmp_path / "run")
    assert {p.dtype for m in result.models.values() for p in m.parameters()} == {torch.bfloat16}
    assert result.record.finished


@dataclass(frozen=True, eq=False)
class Seen:
    beliefs: Held
    turns: int = 0


@dataclass(frozen=True)
class Neighbour:
    """Everyone trains, then takes the share `trust` of the next one's model."""

    local: coterie.SGD = coterie.SGD(lr=0.2)  # noqa: RUF009
    trust: float = 0.25

    def check(self, roster, start, key) -> Sequence[str]:
        if len(roster) < 2:
            raise BadInput(f"neighbour needs 2 clients; got {len(roster)}: add one")
        return ["everyone trusts the next one"]

    def init(self, start, net) -> Seen:
        return Seen(handed_out(start, net))

    def round(self, state, net, key):
        n = len(net.roster)
        replies = net.visit(self.local, state.beliefs, to_own(n), key)
        weights = (1 - self.trust) * torch.eye(n) + self.trust * torch.eye(n).roll(1, dims=1)
        loss = scatter(replies.numbers["loss"], replies.hosts, n)
        mixed = net.mix(weights, replies.beliefs, torch.arange(n))
        return Seen(mixed, state.turns + 1), Info(weights, loss, {"t": state.turns})

    def models(self, state):
        return Models(state.beliefs, of=torch.arange(len(state.beliefs)))

    def reveals(self):
        return Reveals(sites=True)


def test_a_method_of_ones_own(hospitals, right, tmp_path):
    result = coterie.train(linear(), hospitals, Neighbour(trust=0.5), rounds=3, out=tmp_path / "run")
    expected = [[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]]
    assert result.weights.tolist() == [expected] * 3
    assert result.shared is None
    assert "everyone trusts the next one" in result.notes
    given = result.record.given_away()
    assert given["models"].tolist() == [
        3,
        0,
        3,
        0,
        3,
        0,
    ]  # one a round to the one before; numbers to nobody else
    assert [m["extras"] for m in result.record.metrics] == [{}, {"t": 0}, {"t": 1}, {"t": 2}]
    assert result.record.final("accuracy") == [right(result.models[c.name], c) for c in hospitals]
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert (config["method"], config["Neighbour"]) == ("Neighbour", {"trust": 0.5})
    again = coterie.train(
        linear(), hospitals, Neighbour(trust=0.5), rounds=3, out=tmp_path / "run", resume=True
    )
    assert again.record.metrics == result.record.metrics
    with pytest.raises(BadInput, match="neighbour needs 2 clients; got 1: add one"):
        coterie.train(linear(), hospitals[:1], Neighbour(), rounds=1)


def test_a_method_of_ones_own_by_name(hospitals, monkeypatch):
    monkeypatch.setattr(METHODS, "_known", dict(METHODS._known))
    METHODS.register("neighbour")(dataclass(frozen=True)(type("Registered", (Neighbour,), {})))
    by_name = coterie.train(linear(), hospitals, "neighbour", rounds=2, trust=0.5, lr=0.2)
    by_object = coterie.train(linear(), hospitals, Neighbour(trust=0.5), rounds=2)
    assert by_name.record.metrics == by_object.record.metrics
    assert by_name.record.config["neighbour"] == {"trust": 0.5}


@dataclass(frozen=True)
class Bare(Neighbour):
    """Without a default for its option."""

    trust: float = field(kw_only=True)


def test_a_method_of_ones_own_needs_no_defaults_and_its_local_work_is_recorded(hospitals):
    config = coterie.train(linear(), hospitals, Bare(trust=0.5), rounds=1).record.config
    assert config["Bare"] == {"trust": 0.5}
    assert (config["kernel"], config["sgd"]["lr"]) == ("sgd", 0.2)


class Interrupt(Exception):
    pass


def test_a_run_in_a_folder_goes_on_with_the_same_result(hospitals, tmp_path):
    options = {"rounds": 5, "momentum": 0.9, "keep": True, "batch": 8, "method": "finetune", "tune": 2}
    options |= {"wrap": ["absent=0.3"]}

    def stop(record):
        if record.round == 3:
            raise Interrupt

    unbroken = coterie.train(Busy(), hospitals, **options)
    with pytest.raises(Interrupt):
        coterie.train(Busy(), hospitals, out=tmp_path / "run", watch=stop, **options)
    seen = []
    resumed = coterie.train(
        Busy(), hospitals, out=tmp_path / "run", resume=True, watch=lambda r: seen.append(r.round), **options
    )
    assert seen == [3, 4, 5]
    assert resumed.record.metrics == unbroken.record.metrics
    assert np.array_equal(resumed.weights, unbroken.weights)
    for name, module in unbroken.models.items():
        assert weights_of(module) == weights_of(resumed.models[name])
    with pytest.raises(BadRun, match="holds a run: pass resume=True to go on, or choose another out"):
        coterie.train(Busy(), hospitals, out=tmp_path / "run", **options)


@pytest.mark.parametrize(
    "changed",
    [{"seed": 1}, {"lr": 0.3}, {"method": "local"}, {"wrap": ["absent=0.5"]}],
)
def test_another_run_does_not_go_on_here(hospitals, tmp_path, changed):
    coterie.train(linear(), hospitals, rounds=2, out=tmp_path / "run")
    with pytest.raises(BadRun, match="belongs to another config"):
        coterie.train(linear(), hospitals, **{"rounds": 2, **changed}, out=tmp_path / "run", resume=True)


def test_other_data_or_another_module_do_not_go_on_here(hospitals, tmp_path):
    begun = coterie.train(linear(), hospitals, rounds=2, out=str(tmp_path / "run"), resume=True)
    assert begun.record.finished  # where nothing was, it began
    a, *others = hospitals
    changed = replace(a, train=Samples(a.train.x + 0.01, a.train.y))
    with pytest.raises(BadRun, match="belongs to another config"):
        coterie.train(linear(), [changed, *others], rounds=2, out=tmp_path / "run", resume=True)
    moved = linear()
    nn.init.zeros_(moved.weight)
    with pytest.raises(BadRun, match="belongs to another config"):
        coterie.train(moved, hospitals, rounds=2, out=tmp_path / "run", resume=True)
    (tmp_path / "run" / "checkpoint.safetensors").unlink()
    with pytest.raises(BadRun):
        coterie.train(linear(), hospitals[:2], rounds=2, out=tmp_path / "run", resume=True)


def test_one_client_and_one_class(hospitals):
    (a, *_) = hospitals
    result = coterie.train(linear(), [a], rounds=1)
    assert result.weights.tolist() == [[[1.0]]]
    zeros = replace(a, train=Samples(a.train.x, torch.zeros_like(a.train.y)))
    with pytest.raises(coterie.CoterieError, match="trains on one class only"):
        coterie.train(linear(), [zeros], rounds=1)
    allowed = coterie.train(linear(), [zeros], rounds=1, one_class="allow")
    assert allowed.notes[0] == "client 'hospital-a' trains on one class only (0)"


def test_the_public_names():
    assert sorted(coterie.__all__) == [n for n in dir(coterie) if not n.startswith("_")]
    for name in coterie.__all__:
        assert callable(getattr(coterie, name)) or name == "watching"
    with pytest.raises(AttributeError, match="module 'coterie' has no attribute 'trian'"):
        coterie.trian  # noqa: B018
