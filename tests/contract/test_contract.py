"""The contract: every method on every engine, against `loop`, and what holds for every method.

Methods and engines come from their registries: a new one is in the table as soon as it is registered. A
method that three rounds or five clients are too few for gets its options in `OPTIONS`; one whose options
change what happens in a round has further rows in `ALSO`.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from coterie.core.belief import Beliefs, belief_of, count, stack
from coterie.core.client import Client, Samples
from coterie.core.errors import BadInput
from coterie.core.learner import Learner
from coterie.core.method import Info, Models
from coterie.core.seeds import Key
from coterie.engines import ENGINES
from coterie.kernels import KERNELS, SGD, Adam
from coterie.methods import METHODS
from coterie.nets import Absent, InProcess
from coterie.runs import checkpoint

ROUNDS, SEED = 3, 1  # with this seed every client is away at times, and none always
SIZES = (7, 12, 20, 34, 5)
# a momentum that lasts, a rate that falls, short last batches of 7, 4, 4, 2 and 5 rows
WORK = SGD(lr=0.1, batch=8, momentum=0.5, keep=True, schedule="cosine")
OPTIONS: dict[str, dict[str, Any]] = {
    "bayes-central": {"samples": 2},
    "bayes-local": {"samples": 2},
    "finetune": {"tune": 1},
    "fl-swag": {"samples": 2},
    "ndoye": {"passes": 1, "folds": 3},
    "pens": {"rounds_step1": 1, "samplings": 2},
    "weight-erosion": {"local": dataclasses.replace(WORK, keep=False), "p_s": 0.5},
}
ALSO: dict[str, tuple[str, dict[str, Any]]] = {
    "fl-swag of low rank, cold": (
        "fl-swag",
        {"samples": 1, "form": "low-rank", "temperature": 0.1, "warm": 0.0, "prior": 1e-3},
    ),
    "central by cluster": ("central", {"by": "cluster"}),
    "pens in turn, stopping": (
        "pens",
        {"rounds_step1": 1, "samplings": 2, "order": "program", "patience": 1, "window": 1},
    ),
    "guided by two, on raw weights": (
        "guided",
        {"metric": "update-norm*validation-loss", "raw": True, "zeta": 5.0, "sample": 0.7},
    ),
    "greedy at once, theirs on mine": ("greedy", {"order": "at-once", "direction": "theirs-on-mine"}),
}
# rows for models with batch norm alone
NORMED: dict[str, tuple[str, dict[str, Any]]] = {
    "fedavg, norms at home": ("fedavg", {"norm": "local", "sample": 0.7}),
    "finetune, norms at home": ("finetune", {"norm": "local", "tune": 1}),
    "fedunique, norms at home": ("fedunique", {"norm": "local"}),
}
ROWS = [*METHODS, *ALSO]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}

MODELS = {
    "logistic": lambda: nn.Linear(4, 3),
    "dropout": lambda: nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Dropout(0.3), nn.Linear(12, 3)),
    "batchnorm": lambda: nn.Sequential(
        nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3)
    ),
}


def model_of(name: str, dtype: torch.dtype) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return MODELS[name]().to(dtype)


def clients_of(dtype: torch.dtype) -> tuple[Client, ...]:
    """Five ragged clients in two clusters that see the classes differently."""
    clients = []
    for i, n in enumerate(SIZES):
        generator = torch.Generator().manual_seed(i)

        def part(rows, generator=generator, turn=i % 2):
            x = torch.randn(rows, 4, generator=generator, dtype=torch.float64)
            return Samples(x.to(dtype), (x[:, :3].argmax(dim=1) + turn) % 3)

        clients.append(Client(f"c{i}", part(n), part(4 + i), part(3 + i), cluster=i % 2))
    return tuple(clients)


def net_for(engine: str, model: nn.Module, dtype: torch.dtype, absent: float):
    net = InProcess(ENGINES.make(engine), Learner(model, "classification"), clients_of(dtype))
    return Absent(net, absent) if absent else net


def method_of(row: str, work=WORK):
    name, options = {**ALSO, **NORMED}.get(row, (row, OPTIONS.get(row, {})))
    fields = {f.name for f in dataclasses.fields(METHODS[name])}
    return METHODS.make(name, **{**({"local": work} if "local" in fields else {}), **options})


def rows_with(*models: str) -> pytest.MarkDecorator:
    """Every row with each of the models that it takes."""
    pairs = [(row, model) for row in ROWS for model in models] + [(row, "batchnorm") for row in NORMED]
    return pytest.mark.parametrize(("name", "model"), pairs)


class Played(NamedTuple):
    states: list[Any]
    infos: list[Info]
    models: Models


def play(method, net, start: Beliefs, seed: int = SEED) -> Played:
    n = len(net.names)
    method.check([f"c{i}" for i in range(n)], ROUNDS)
    states, infos = [method.init(start, n)], []
    for r in range(1, ROUNDS + 1):
        state, info = method.round(states[-1], net, Key(seed).at_round(r, ROUNDS))
        states.append(state)
        infos.append(info)
    return Played(states, infos, method.models(states[-1], n))


@functools.cache
def played(name: str, engine: str, model: str, dtype: torch.dtype, absent: float, work=WORK) -> Played:
    """A run of the table; the reference runs are shared between tests, which leave them alone."""
    module = model_of(model, dtype)
    return play(method_of(name, work), net_for(engine, module, dtype, absent), stack([belief_of(module)]))


def tensors_in(value: Any, path: str = "") -> dict[str, Tensor]:
    """Every tensor of a state, an info or models, by its path; plain values as tensors of their own."""
    if isinstance(value, Tensor):
        return {path: value}
    if dataclasses.is_dataclass(value):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    elif isinstance(value, list | tuple):
        value = dict(enumerate(value))
    if isinstance(value, Mapping):
        return {p: t for k, v in value.items() for p, t in tensors_in(v, f"{path}/{k}").items()}
    if isinstance(value, bool | int | float):
        return {path: torch.tensor(value, dtype=torch.float64)}
    assert value is None or isinstance(value, str), f"{path} is a {type(value).__name__}"
    return {}


def assert_same(one: Any, other: Any, tolerance: float = 0.0) -> None:
    left, right = tensors_in(one), tensors_in(other)
    assert left.keys() == right.keys()
    assert left
    for path, tensor in left.items():
        exact = not tensor.is_floating_point()
        torch.testing.assert_close(
            tensor,
            right[path],
            rtol=0,
            atol=0 if exact else tolerance,
            equal_nan=True,
            msg=lambda text, path=path: f"{path}: {text}",
        )


def test_the_table_is_not_empty():
    assert {"fedavg", "local", "central", "finetune"} <= set(METHODS)
    assert "loop" in ENGINES
    assert set(OPTIONS) <= set(METHODS)


@pytest.mark.parametrize("absent", [0.0, 0.4], ids=["all", "absent"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("engine", list(ENGINES))
@rows_with(*MODELS)
def test_every_engine_gives_the_numbers_of_loop(name, engine, model, dtype, absent):
    reference = played(name, "loop", model, dtype, absent)
    # a run of its own even for loop: the same numbers twice
    module = model_of(model, dtype)
    if engine == "stacked" and model == "batchnorm":
        with pytest.raises(BadInput, match="engine stacked cannot train a model with batch norm"):
            play(method_of(name), net_for(engine, module, dtype, absent), stack([belief_of(module)]))
        return
    other = play(method_of(name), net_for(engine, module, dtype, absent), stack([belief_of(module)]))
    assert_same(other.models, reference.models, TOLERANCE[dtype])
    assert_same(other.infos, reference.infos, TOLERANCE[dtype])
    # and something happened: a table of equal nothings would agree too
    assert any(bool(info.weights.any()) for info in reference.infos)
    assert any(bool((info.loss >= 0).any()) for info in reference.infos)


KERNELS_ALSO = {
    "adam": Adam(lr=0.01, batch=8, keep=True, weight_decay=0.01),
    "adamw in steps": Adam(lr=0.01, batch=8, steps=3, weight_decay=0.1, decoupled=True),
    "nesterov in order": SGD(batch=8, epochs=2, momentum=0.9, nesterov=True, shuffle=False),
    "plain, full batch": SGD(batch=100, weight_decay=0.01),
}


@pytest.mark.parametrize("work", KERNELS_ALSO)
@pytest.mark.parametrize("engine", list(ENGINES))
def test_every_engine_runs_every_kind_of_local_work(engine, work):
    for name in ("local", "fedavg"):
        runs = [played(name, e, "dropout", torch.float64, 0.4, KERNELS_ALSO[work]) for e in ("loop", engine)]
        assert_same(runs[0].models, runs[1].models, 1e-10)
        assert_same(runs[0].infos, runs[1].infos, 1e-10)
        assert bool(torch.isfinite(runs[0].models.beliefs["0.weight"]).all())


@pytest.mark.parametrize("engine", list(ENGINES))
@pytest.mark.parametrize("name", ROWS)
class TestRandomness:
    def test_the_same_seed_gives_the_same_numbers_bit_for_bit(self, name, engine):
        module = model_of("dropout", torch.float32)
        net, start = net_for(engine, module, torch.float32, 0.4), stack([belief_of(module)])
        torch.manual_seed(1)
        first = play(method_of(name), net, start, seed=3)
        state_of_torch = torch.random.get_rng_state()
        torch.manual_seed(2)
        second = play(method_of(name), net, start, seed=3)
        assert_same(first.states, second.states)
        assert_same(first.infos, second.infos)
        torch.manual_seed(1)
        assert torch.equal(torch.random.get_rng_state(), state_of_torch), "the global generator was used"

    def test_another_seed_gives_others(self, name, engine):
        module = model_of("dropout", torch.float32)
        net, start = net_for(engine, module, torch.float32, 0.0), stack([belief_of(module)])
        one, other = (play(method_of(name), net, start, seed).models.beliefs for seed in (3, 4))
        assert any(not torch.equal(t, other[n]) for n, t in one.items())


@pytest.mark.parametrize("absent", [0.0, 0.4, 1.0], ids=["all", "absent", "nobody"])
@rows_with("dropout", "batchnorm")
class TestMethods:
    def test_a_round_changes_nothing_it_was_given(self, name, model, absent):
        module = model_of(model, torch.float32)
        net, start = net_for("loop", module, torch.float32, absent), stack([belief_of(module)])
        method = method_of(name)
        given = copy.deepcopy((start, dict(module.state_dict())))
        state = method.init(start, len(SIZES))
        for r in range(1, ROUNDS + 1):
            before = copy.deepcopy(state)
            after, _ = method.round(state, net, Key(SEED).at_round(r, ROUNDS))
            method.models(after, len(SIZES))
            assert_same(state, before)
            state = after
        assert_same((start, dict(module.state_dict())), given)
        inner = net.net if absent else net
        assert_same(list(inner.clients), list(clients_of(torch.float32)))

    def test_info_says_who_listened_to_whom(self, name, model, absent):
        n = len(SIZES)
        for info in played(name, "loop", model, torch.float32, absent).infos:
            assert info.weights.shape == (n, n)
            assert info.weights.is_floating_point()
            assert all((m.shape, m.dtype) == ((n, n), torch.float64) for m in info.matrices.values())
            sums = info.weights.sum(dim=1)
            assert bool((((sums - 1).abs() < 1e-6) | (sums == 0)).all())
            assert bool(torch.isfinite(info.weights).all())
            for counts in (info.sent, info.received):
                assert counts.shape == (n,)
                assert not counts.is_floating_point()
                assert bool((counts >= 0).all())
            assert info.loss.shape == (n,)
            assert not bool(torch.isinf(info.loss).any())
            assert json.loads(json.dumps(info.extras)) == dict(info.extras)

    def test_every_client_has_a_model_of_the_right_make(self, name, model, absent):
        run = played(name, "loop", model, torch.float32, absent)
        method, template = method_of(name), belief_of(model_of(model, torch.float32))
        for state in run.states:
            models = method.models(state, len(SIZES))
            rows = count(models.beliefs)
            assert models.of.shape == (len(SIZES),)
            assert not models.of.is_floating_point()
            assert bool(((models.of >= 0) & (models.of < rows)).all())
            assert models.shared is None or 0 <= models.shared < rows
            assert models.beliefs.keys() == template.keys()
            for key, tensor in template.items():
                assert models.beliefs[key].dtype == tensor.dtype
                assert models.beliefs[key].shape == (rows, *tensor.shape)
                assert bool(torch.isfinite(models.beliefs[key].double()).all())

    def test_a_state_survives_a_checkpoint(self, name, model, absent, tmp_path):
        run, method = played(name, "loop", model, torch.float32, absent), method_of(name)
        net = net_for("loop", model_of(model, torch.float32), torch.float32, absent)
        stamp = checkpoint.Stamp(round=2, config="x")
        checkpoint.save(tmp_path / "state", run.states[2], stamp)
        restored, _ = checkpoint.load(tmp_path / "state", type(run.states[2]), "x")
        assert_same(restored, run.states[2])
        state, info = method.round(restored, net, Key(SEED).at_round(3, ROUNDS))
        assert_same(state, run.states[3])
        assert_same(info, run.infos[2])


@pytest.mark.parametrize("name", ROWS)
def test_one_client_is_enough_or_is_refused_before_anything_runs(name):
    method, module = method_of(name), model_of("logistic", torch.float32)
    refusal = None
    try:
        method.check(["a"], ROUNDS)
    except BadInput as error:
        refusal = str(error)
    if refusal:
        assert "\n" not in refusal
        return
    net = InProcess(ENGINES.make("loop"), Learner(module, "classification"), clients_of(torch.float32)[:1])
    run = play(method, net, stack([belief_of(module)]))
    assert run.models.of.shape == (1,)
    assert run.infos[-1].weights.shape == (1, 1)


@pytest.mark.parametrize("name", ROWS)
def test_clients_may_begin_from_beliefs_of_their_own(name):
    modules = [nn.Linear(4, 3) for _ in SIZES]
    net = net_for("loop", modules[0], torch.float32, 0.0)
    run = play(method_of(name), net, stack([belief_of(m) for m in modules]))
    assert bool(torch.isfinite(run.models.beliefs["weight"]).all())


@pytest.mark.parametrize("kind", [METHODS, ENGINES, KERNELS], ids=lambda r: r.kind)
def test_what_is_registered_is_frozen_and_can_be_made_from_its_name_alone(kind):
    for name, cls in kind.items():
        assert cls.__dataclass_params__.frozen
        assert kind.make(name) == cls()
        assert cls.__doc__
