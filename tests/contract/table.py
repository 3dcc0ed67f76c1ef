"""The table of the contract: every method in some settings, on five ragged clients, for three rounds."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from coterie.core.belief import belief_of, stack
from coterie.core.client import Client, Samples
from coterie.core.held import Held, at_coordinator, handles_in, hold
from coterie.core.learner import Learner
from coterie.core.method import Info
from coterie.core.roster import roster_of
from coterie.core.seeds import Key
from coterie.engines import ENGINES
from coterie.features.absence.wrapper import Absent
from coterie.kernels import DP, SGD, Bounded, Newton, Ridge
from coterie.methods import METHODS
from coterie.nets import InProcess
from coterie.nets.remote import Remote
from coterie.nets.site import Site
from coterie.storage.plugins import load_plugins
from models import KINDS

PLUGIN = str(Path(__file__).with_name("models.py"))

ROUNDS, SEED = 3, 1  # with this seed every client is away at times, and none always
SIZES = (7, 12, 20, 34, 5)
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
# a momentum that lasts, a rate that falls, short last batches of 7, 4, 4, 2 and 5 rows
WORK = SGD(lr=0.1, batch=8, momentum=0.5, keep=True, schedule="cosine")
# options where three rounds or five clients are too few for the usual ones
FOLLOWED = ("local", "fedavg", "finetune:tune=1", "ndoye:passes=1,folds=3")
OPTIONS: dict[str, dict[str, Any]] = {
    "advised": {"candidates": FOLLOWED[1:], "choice": (*FOLLOWED, "fedavg")},
    "bayes-central": {"samples": 2},
    "bayes-local": {"samples": 2},
    "cfl": {"eps1": 100.0, "eps2": 0.0, "gamma": 0.0, "wait": 0},
    "data-interpolation": {"local": dataclasses.replace(WORK, keep=False), "lam": "auto"},
    "fedper": {"home": "*bias"},  # what is left to share also in a model of one layer
    "fedrep": {"home": "*bias", "head_epochs": 2},
    "finetune": {"tune": 1},
    "fl-swag": {"samples": 2},
    "ndoye": {"passes": 1, "folds": 3},
    "pens": {"rounds_step1": 1, "samplings": 2},
    "pfedme": {"inner_steps": 2},
    "robust-personal": {"local": dataclasses.replace(WORK, keep=False)},
    "scaffold": {"local": dataclasses.replace(WORK, momentum=0.0)},
    "weight-erosion": {"local": dataclasses.replace(WORK, keep=False), "p_s": 0.5},
}
# further rows, where options change what happens in a round
ALSO: dict[str, tuple[str, dict[str, Any]]] = {
    "fl-swag of low rank, cold": (
        "fl-swag",
        {"samples": 1, "form": "low-rank", "temperature": 0.1, "warm": 0.0, "prior": 1e-3},
    ),
    "fl-swag weighed by variance": ("fl-swag", {"samples": 2, "weigh": "variance", "form": "low-rank"}),
    "central by cluster": ("central", {"by": "cluster"}),
    "pens in turn, stopping": (
        "pens",
        {"rounds_step1": 1, "samplings": 2, "order": "program", "patience": 1, "window": 1},
    ),
    "pens by choices": ("pens", {"rounds_step1": 2, "tell": "choices"}),
    "recalibrated from one": ("recalibrated", {"partner": "c3", "trust": 1.0}),
    "pens trained last": ("pens", {"rounds_step1": 2, "samplings": 2, "order": "trained"}),
    "random-weighted trained last": ("random-weighted", {"order": "trained", "own": "train"}),
    "guided by two, on raw weights": (
        "guided",
        {"metric": "update-norm*validation-loss", "raw": True, "zeta": 5.0, "sample": 0.7},
    ),
    "greedy at once, theirs on mine": ("greedy", {"order": "at-once", "direction": "theirs-on-mine"}),
    "influence, first order": ("influence", {"estimate": "first-order", "folds": 2}),
    "random by a rule": ("random", {"selected": 4, "order": "at-once", "rule": "nnm+krum"}),
    "robust by a root's trust": ("robust", {"rule": "fltrust", "root": "c1", "sample": 0.7}),
    "robust-personal of one by medians, half a step": (
        "robust-personal",
        {"requester": "c3", "rule": "nnm+median", "f": 2, "server_step": 0.5, "local": WORK},
    ),
    "scaffold of some, weighed, half a step": (
        "scaffold",
        {"sample": 0.7, "weighted": True, "server_step": 0.5, "local": SGD(lr=0.1, batch=8)},
    ),
    "similar with noise": ("similar", {"also": ("transport",), "epsilon": 3.0, "best": 1}),
    "weight-erosion of one, half a step": (
        "weight-erosion",
        {"requester": "c3", "server_step": 0.5, "cone": 80.0, "local": WORK},
    ),
}
# rows for models with batch norm alone
NORMED: dict[str, tuple[str, dict[str, Any]]] = {
    "fedavg, norms at home": ("fedavg", {"norm": "local", "sample": 0.7}),
    "cyclic, norms at home": ("cyclic", {"norm": "local", "order": "fixed"}),
    "fedyogi, norms at home": ("fedyogi", {"norm": "local"}),
    "finetune, norms at home": ("finetune", {"norm": "local", "tune": 1}),
    "fedunique, norms at home": ("fedunique", {"norm": "local"}),
    "fedper, the last layer at home": ("fedper", {"sample": 0.7}),
    "fedrep, the last layer at home": ("fedrep", {"head_epochs": 2}),
}
# rows that one model without batch norm is enough for
PLAIN: dict[str, tuple[str, dict[str, Any]]] = {
    "apfl of some, fixed": ("apfl", {"sample": 0.7, "alpha": 0.25, "alpha_lr": 0.0}),
    "ditto of some": ("ditto", {"sample": 0.7, "personal_epochs": 2, "pull": 1.0}),
    "per-fedavg, exact": ("per-fedavg", {"hessian": "exact", "adapt_steps": 2, "adapt_batch": 4}),
    "pfedme, a long step": ("pfedme", {"server_step": 1.5, "inner_steps": 1, "weighted": False}),
}
# rows with noise in the local work, which batch norm does not go with
HIDDEN = DP(SGD(lr=0.1, batch=4, momentum=0.5, keep=True, schedule="cosine"), sigma=0.5)
PRIVATE: dict[str, tuple[str, dict[str, Any]]] = {
    "fedavg, private": ("fedavg", {"local": HIDDEN, "sample": 0.7}),
    "pens, private": ("pens", {"local": HIDDEN, "rounds_step1": 1, "samplings": 2, "epochs1": 2}),
    "weight-erosion, private": ("weight-erosion", {"local": HIDDEN, "requester": "c3"}),
    "fl-swag, private": ("fl-swag", {"local": HIDDEN, "samples": 2}),
    "fedrep, private": ("fedrep", {"local": HIDDEN, "head_epochs": 1}),
    "ndoye, whole changes hidden": ("ndoye", {"local": Bounded(SGD(batch=4)), "passes": 1, "folds": 3}),
}
# rows whose clients solve linear models
SOLVED: dict[str, tuple[str, dict[str, Any]]] = {
    "local, solved": ("local", {"local": Ridge()}),
    "local, solved with a strength": ("local", {"local": Ridge(penalty=2.0)}),
    "fedavg of some, solved": ("fedavg", {"local": Newton(pull=0.5, penalty=0.1), "sample": 0.7}),
    "fedprox, solved": ("fedprox", {"local": Newton()}),
    "finetune, solved": ("finetune", {"local": Newton(), "tune": 1}),
    "influence, solved": ("influence", {"local": Newton(), "folds": 2}),
    "ndoye, solved": ("ndoye", {"local": Newton(), "passes": 1, "folds": 3}),
    "pens, solved": ("pens", {"local": Newton(), "rounds_step1": 1, "samplings": 2}),
    "weight-erosion, solved": ("weight-erosion", {"local": Newton()}),
    "recalibrated, solved": ("recalibrated", {"local": Newton()}),
    "recalibrated from one, solved": ("recalibrated", {"local": Newton(), "partner": "c2"}),
}
# rows that no other model will do for
LINEAR = ("partial", "pooled", *SOLVED)
ROWS = [*METHODS, *ALSO]
# rows whose work at sites is another row's: they differ by a formula at the coordinator, or by who is asked
COPIES = {
    *("epsilon-greedy", "fedadagrad", "fedavgm", "fedyogi", "one-shot-wfedavg", "random-weighted", "wbayavg"),
    *("fl-swag weighed by variance", "pens trained last", "random-weighted trained last"),
    *("greedy at once, theirs on mine", "random by a rule", "apfl of some, fixed", "ditto of some"),
    *("pfedme, a long step", "fedyogi, norms at home", "fedunique, norms at home"),
}


def model_for(row: str) -> str:
    """The model that a row is played with, if there is but one."""
    return "linear" if row in LINEAR else "dropout"


PAIRS = [(row, model_for(row)) for row in (*ROWS, *SOLVED)]
PAIRS += [(row, "batchnorm") for row in METHODS if row not in LINEAR]
PAIRS += [(row, "batchnorm") for row in NORMED] + [(row, "dropout") for row in (*PLAIN, *PRIVATE)]


def model_of(name: str, dtype: torch.dtype):
    return KINDS[name]().build((4,), 3, 0).to(dtype)


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


def method_of(row: str, work=WORK):
    name, options = {**ALSO, **NORMED, **PLAIN, **PRIVATE, **SOLVED}.get(row, (row, OPTIONS.get(row, {})))
    fields = {f.name for f in dataclasses.fields(METHODS[name])}
    return METHODS.make(name, **{**({"local": work} if "local" in fields else {}), **options})


class Here:
    """Sites in this process that see nothing but messages."""

    def __init__(self, clients) -> None:
        load_plugins([PLUGIN])  # as a site of its own process does when it starts
        self.sites = [Site(c, i) for i, c in enumerate(clients)]

    def ask(self, messages: Mapping[int, bytes]) -> dict[int, bytes]:
        return {site: self.sites[site].answer(data) for site, data in messages.items()}

    def close(self) -> None:
        """Nothing runs."""


def remote_of(transport, model: str, dtype: torch.dtype, kind=Remote, takes_over: bool = False):
    """A coordinator for these sites, which begin anew or live on."""
    begin = {"model": f"contract-{model}", "options": {}, "shape": [4], "outputs": 3}
    begin |= {"precision": str(dtype).removeprefix("torch."), "engine": {"name": "loop"}}
    learner = Learner(model_of(model, dtype), "classification")
    roster = roster_of(clients_of(dtype))
    return kind(transport, roster, learner, ENGINES.make("loop"), None if takes_over else begin)


@functools.cache
def learner_of(model: str, dtype: torch.dtype) -> Learner:
    """One for all rows: steps that were recorded for one are replayed for the others, as in a comparison."""
    return Learner(model_of(model, dtype), "classification")


def net_for(engine: str, model: str, dtype: torch.dtype, absent: float = 0.0):
    learner = learner_of(model, dtype)
    net = InProcess(ENGINES.make(engine), learner, clients_of(dtype))
    return Absent(net, absent) if absent else net


class Played(NamedTuple):
    states: list[Any]
    infos: list[Info]
    models: list[Any]
    """After each round, from 0: of, crowd, and the tensors of all rows, opened."""


def start_of(model: str, dtype: torch.dtype) -> Held:
    return hold(stack([belief_of(model_of(model, dtype))]), at_coordinator(1))


def play(method, net, start: Held, seed: int = SEED, rounds: int = ROUNDS) -> Played:
    method.check(net.roster, start.tensors, Key(seed, rounds=rounds))
    states, infos = [method.init(start, net)], []
    models = [opened(method, states[-1], net)]
    for r in range(1, rounds + 1):
        state, info = method.round(states[-1], net, Key(seed).at_round(r, rounds))
        states.append(state)
        infos.append(info)
        models.append(opened(method, state, net))
        net.keep(handles_in(states), r)
    return Played(states, infos, models)


def opened(method, state, net) -> dict[str, Any]:
    models = method.models(state)
    found = {"of": models.of, "crowd": models.crowd, "shares": models.shares}
    shared = None if models.shared is None else dict(net.open(models.shared))
    return {**found, "tensors": dict(net.open(models.beliefs)), "shared": shared}


@functools.cache
def played(row: str, engine: str, model: str, dtype: torch.dtype, absent: float, work=WORK) -> Played:
    """A run of the table; the reference runs are shared between tests, which leave them alone."""
    return play(method_of(row, work), net_for(engine, model, dtype, absent), start_of(model, dtype))


def tensors_in(value: Any, path: str = "") -> dict[str, Tensor]:
    """Every tensor of a state, an info or models, by its path; plain values as tensors of their own."""
    if isinstance(value, Held):
        return {p: t for part in value.parts for p, t in tensors_in(part.tensors, path).items()}
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
