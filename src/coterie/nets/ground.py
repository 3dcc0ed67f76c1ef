"""What a net is made of: clients dealt in this process, or sites that were met; a model; how to compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn

from coterie.core.client import Client
from coterie.core.errors import BadInput
from coterie.core.learner import Learner
from coterie.core.method import Method, Reveals
from coterie.core.net import NETS, WRAPS, Net
from coterie.core.options import coerced, options_of, read_pairs, read_value, table_of
from coterie.core.roster import Roster
from coterie.engines.base import Engine
from coterie.metrics.own import NOTHING, Own
from coterie.nets.in_process import InProcess
from coterie.nets.ownership import Ownership, ownership_of
from coterie.nets.wrapped import innermost


class Made(NamedTuple):
    """How to build a model by name, anywhere: what may cross a wire of it."""

    name: str
    options: Mapping[str, Any]
    plugins: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Ground:
    """Sites in the making.

    made     how a site elsewhere can build the model; None for a module of somebody's own
    own      a loss and metrics of somebody's own
    met      sites that have rows of their own, as their net met them; there are no clients then
    reveals, kernels, rounds, sealed, bounded, scores   what a run is going to ask of sites: `bounded` if its
             local work has noise, `scores` how those of models leave (clear, noisy, none)
    planned  the method's share of the run's plan (`runs/planning.py`), where sites were met
    """

    clients: tuple[Client, ...]
    roster: Roster
    model: nn.Module
    engine: Engine
    device: torch.device
    memory: str
    made: Made | None = None
    own: Own = NOTHING
    met: Any = None
    reveals: Reveals = field(default_factory=Reveals)
    kernels: tuple[Any, ...] = ()
    rounds: int = 0
    sealed: bool = False
    bounded: bool = False
    scores: str = "clear"
    planned: Mapping[str, Any] = field(default_factory=dict)


class Connector(Protocol):
    """A net by name: options, and how it comes to its sites."""

    def connect(self, ground: Ground) -> Net: ...


@NETS.register("in-process")
@dataclass(frozen=True)
class Simulated:
    """All sites in this process, computed by an engine: for studies."""

    def connect(self, ground: Ground) -> Net:
        mark = mark_of(ground)
        learner = SPARE.pop(mark, None) or Learner(
            ground.model, ground.roster.task, ground.own.loss, ground.own.transform
        )

        def done() -> None:
            nonlocal mark
            if mark:
                while len(SPARE) >= SPARES:
                    del SPARE[next(iter(SPARE))]
                SPARE[mark] = learner
                mark = ""  # handed on once: the next net has it for itself

        return InProcess(
            ground.engine, learner, ground.clients, ground.device, ground.memory, ground.roster, done=done
        )


SPARES = 8
SPARE: dict[str, Learner] = {}
"""Learners of closed nets: the next run of the same model goes on with what engines found out and recorded.

A learner's own tensors are never read, so it serves any weights; while a net is open, it is the net's alone.
"""


def mark_of(ground: Ground) -> str:
    """The same for models that are built alike; nothing for a module, a loss or a transform of one's own: it
    may have changed when it comes again.
    """
    if ground.made is None or ground.own.loss is not None or ground.own.transform is not None:
        return ""
    tensors = [(n, t.shape, t.dtype, t.requires_grad) for n, t in ground.model.named_parameters()]
    return repr((ground.made, ground.model, tensors, ground.roster.task, ground.device))


def begin_of(ground: Ground, net: str) -> dict[str, object]:
    """What sites elsewhere have to know to build the model."""
    if ground.own:
        raise BadInput(
            f"net {net} sends names to its sites and never code, so they cannot know "
            f"{', '.join(ground.own.names())}: take net='in-process'"
        )
    if ground.made is None:
        raise BadInput(
            f"net {net} builds a model by its name at every site, and this one has none: register it in a "
            "plugin, or take --net in-process"
        )
    if ground.device.type != "cpu":
        raise BadInput(f"net {net} computes on the processor; got device={ground.device}: take device=cpu")
    first = next(p for p in ground.model.parameters() if p.is_floating_point())
    return {
        "model": ground.made.name,
        "options": dict(ground.made.options),
        "shape": list(ground.roster.shape),
        "outputs": ground.roster.outputs,
        "precision": str(first.dtype).removeprefix("torch."),
        "engine": {"name": str(getattr(ground.engine, "name", "auto")), **table_of(ground.engine)},
    }


def wrapped(net: Net, wraps: Sequence[str]) -> Net:
    """The net within wrappers, the first being the innermost: absent=0.3, absent:chance=0.3.

    Where somebody may withdraw from sums or is kept out of them, `ownership` is around it all.
    """
    for spec in wraps:
        name, options = read_wrap(spec)
        net = WRAPS.make(name, net=net, **options)
    leaves = hasattr(innermost(net), "withdrawing") or bool(getattr(net, "apart", ()))
    return Ownership(net) if leaves and not any(ownership_of(net)) else net


def read_wrap(spec: str) -> tuple[str, dict[str, Any]]:
    """A wrapper's name and options from NAME, NAME=VALUE (of its first option) or NAME:OPTION=VALUE,..."""
    head, _, tail = spec.partition(":")
    name, equals, value = head.partition("=")
    cls = WRAPS[name]
    known = [o.name for o in options_of(cls)]
    if equals and not known:
        raise BadInput(f"wrapper {name} has no options; got {value!r}: leave it out")
    table = {known[0]: read_value(value)} if equals else {}
    table |= read_pairs(tail, f"wrapper {spec!r}")
    return name, coerced(cls, table, f"wrapper {name}")


def check_wraps(wraps: Sequence[str], net: str = "in-process") -> None:
    """Refuses what no wrapper takes, and an order that makes no sense, before there is a net to wrap."""
    names, given = list[str](), list[dict[str, Any]]()
    for spec in wraps:
        name, options = read_wrap(spec)
        check = getattr(WRAPS[name], "check", None)
        if check is not None:
            check(**options)
        names.append(name)
        given.append(options)
    if "private" in names and "sealed" in names[: names.index("private")]:
        raise BadInput(
            "private comes after sealed, and noise has to be added before replies are sealed: "
            "write --wrap private sealed"
        )
    if "liars" in names and net == "federation":
        raise BadInput(
            "liars are for studies, and sites of their own cannot be told to lie: take --net in-process"
        )
    if names.count("private") > 1:
        raise BadInput("wrapper private is there twice, and a site has one budget: leave one out")
    for name, options in zip(names, given, strict=True):
        ordered = getattr(WRAPS[name], "ordered", None)  # what it says of the others and their order
        if ordered is not None:
            ordered(names, **options)


def shown_by(
    wraps: Sequence[str], reveals: Reveals, kernels: tuple[Any, ...]
) -> tuple[Reveals, tuple[Any, ...]]:
    """What a method shows and does at sites, and what wrappers add to it."""
    for spec in wraps:
        name, options = read_wrap(spec)
        add = getattr(WRAPS[name], "adds", None)
        if add is not None:
            reveals, kernels = add(reveals, kernels, **options)
    return reveals, kernels


def admit(wraps: Sequence[str], method: Method, roster: Roster) -> None:
    """Refuses a method that does not go with a wrapper, before anything is trained."""
    for spec in wraps:
        name, options = read_wrap(spec)
        look = getattr(WRAPS[name], "admit", None)
        if look is not None:
            look(method, roster, **options)
