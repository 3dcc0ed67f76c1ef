"""Everything a run needs, in memory and checked, before anything is written."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.client import Client
from coterie.core.client import class_count
from coterie.core.devices import device_of
from coterie.core.errors import BadInput
from coterie.core.learner import Learner
from coterie.core.method import Method, survey
from coterie.core.net import Net
from coterie.core.seeds import Key
from coterie.data.build import deal_clients
from coterie.engines import Absent, InProcess
from coterie.nets.in_process import Engine
from coterie.runs.about import about_run
from coterie.runs.features import Features, Staged, stage
from coterie.runs.last_layer import Body
from coterie.runs.settings import Settings


@dataclass(frozen=True, eq=False)
class Experiment:
    """A run, ready to go. `net` is what the method works on, `judge` scores: its clients are never absent.

    `body` is what came before the model on its way to the clients' samples, in last-layer mode.
    """

    config: Mapping[str, Any]
    about: Mapping[str, Any]
    clients: tuple[Client, ...]
    model: nn.Module
    beliefs: Beliefs
    method: Method
    net: Net
    judge: InProcess
    key: Key
    body: Body | None = None

    @property
    def rounds(self) -> int:
        return int(self.config["rounds"])

    def due(self, what: Literal["evaluate", "checkpoint"], round: int) -> bool:
        return round % int(self.config[what]) == 0 or round == self.rounds


def prepare(settings: Settings, command: str | None) -> Experiment:
    """From settings to clients, model and method."""
    settings = settings.resolved()
    method = settings.made("method", local=settings.made("kernel"))
    engine, split, model_of = settings.made("engine"), settings.made("split"), settings.made("model")
    key = Key(settings.seed)
    dealt = deal_clients(
        settings.made("data").load(),
        split,
        settings.clients,
        key.at("data"),
        test=settings.test,
        validation=settings.validation,
        one_class=settings.one_class == "allow",
    )
    shape, outputs = tuple(dealt.clients[0].train.x.shape[1:]), class_count(dealt.clients)
    seeds = [key.at("model", i).integer() for i in range(len(dealt.clients))]
    model = model_of.build(shape, outputs, seeds[0])
    others = seeds[1:] if settings.init == "independent" else []
    beliefs = [tree.belief_of(m) for m in (model, *(model_of.build(shape, outputs, s) for s in others))]
    ready = staged(
        settings.features,
        dealt.clients,
        model,
        tree.stack(beliefs),
        method,
        Key(settings.seed, rounds=settings.rounds),
        server=lambda seed: model_of.build(shape, outputs, seed),
        called=settings.model,
        device=settings.device,
        one_class=settings.one_class == "allow",
    )
    return assemble(
        config=settings.table(),
        clients=ready.clients,
        notes=[*dealt.notes, *ready.notes],
        model=ready.model,
        beliefs=ready.beliefs,
        method=method,
        engine=engine,
        command=command,
        body=ready.body,
    )


def staged(
    features: Features | None,
    clients: Sequence[Client],
    model: nn.Module,
    beliefs: Beliefs,
    method: Method,
    key: Key,
    *,
    server: Callable[[int], nn.Module],
    called: str,
    device: str,
    one_class: bool,
) -> Staged:
    """What last-layer mode makes of clients and model, or both as they are.

    `server` builds the network that the server starts from, from a seed.
    """
    if features is None:
        return Staged(tuple(clients), model, beliefs, (), None)
    clients = [c.cast(precision_of(beliefs)) for c in clients]
    survey(method, clients, key)  # what cannot work is refused before the server trains, not after
    check_outputs(model, clients)
    first = server(key.at("features").integer())
    where = device_of(device)
    return stage(features, clients, first, beliefs, key, called=called, device=where, one_class=one_class)


def assemble(
    config: Mapping[str, Any],
    clients: Sequence[Client],
    notes: Sequence[str],
    model: nn.Module,
    beliefs: Beliefs,
    method: Method,
    engine: Engine,
    command: str | None,
    body: Body | None = None,
) -> Experiment:
    """Checks that the parts fit each other."""
    said = survey(method, clients, Key(int(config["seed"]), rounds=int(config["rounds"])))
    task = clients[0].task
    clients = [c.cast(precision_of(beliefs)) for c in clients]
    check_outputs(model, clients)
    device = device_of(str(config.get("device", "cpu")))
    beliefs = {name: t.to(device) for name, t in beliefs.items()}
    method.init(beliefs, len(clients))  # refuses a model that it cannot work with, before anything is written
    learner = Learner(copy.deepcopy(model).to(device), task)
    judge = InProcess(engine, learner, tuple(clients), device, str(config.get("memory", "half")))
    absent = float(config.get("absent", 0.0))
    return Experiment(
        config=config,
        about=about_run(clients, beliefs, [*notes, *_large_batches(method, clients), *said], command),
        clients=tuple(clients),
        model=model,
        beliefs=beliefs,
        method=method,
        net=Absent(judge, absent) if absent else judge,
        judge=judge,
        key=Key(int(config["seed"])),
        body=body,
    )


def precision_of(beliefs: Beliefs) -> torch.dtype:
    return next((t.dtype for t in beliefs.values() if t.is_floating_point()), torch.float32)


def check_outputs(model: nn.Module, clients: Sequence[Client]) -> None:
    """One sample through a copy of the model: does it take these inputs and give enough outputs?"""
    x, wanted = clients[0].train.x[:1], class_count(clients)
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            out = copy.deepcopy(model).eval()(x)
    except Exception as error:  # whatever a module of one's own may raise
        text = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(f"the model does not take inputs of shape {list(x.shape[1:])}: {text}") from None
    if not isinstance(out, Tensor):
        raise BadInput(
            f"the model gives a {type(out).__name__}, one tensor is needed: return the logits alone"
        )
    if out.ndim != 2 or out.shape[1] < wanted or (wanted == 1 and out.shape[1] != 1):
        raise BadInput(
            f"the model gives outputs of shape {list(out.shape[1:])}, the data needs [{wanted}]: "
            "change its last layer"
        )


def reinitialised(model: nn.Module, seed: int) -> nn.Module:
    """A copy whose layers drew their first weights anew, from this seed."""
    fresh = copy.deepcopy(model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for layer in fresh.modules():
            reset = getattr(layer, "reset_parameters", None)
            if callable(reset):
                reset()
    return fresh


def _large_batches(method: Method, clients: Sequence[Client]) -> list[str]:
    batch = getattr(getattr(method, "local", None), "batch", 0)
    small = [c.name for c in clients if len(c.train) < batch]
    if not small:
        return []
    names = ", ".join(small[:5]) + (", ..." if len(small) > 5 else "")
    return [
        f"batch={batch} exceeds the training data of {len(small)} client(s) ({names}): they use all of it"
    ]
