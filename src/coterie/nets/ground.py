"""What a net is made of: clients dealt in this process, or sites that were met; a model; how to compute."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch
from torch import nn

from coterie.core.belief import Beliefs
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
from coterie.nets.wrapped import Wrapped


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
    planned  the method's share of the run's plan (`federation/plans/dry_run.py`), where sites were met
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


@dataclass(frozen=True)
class Rule:
    """How rows are set aside, and what is chosen of them: columns that are no inputs, and columns that a site
    must record; `ground` is its name at the sites.
    """

    test: float
    validation: float
    deal: int
    one_class: bool
    forbid: tuple[str, ...] = ()
    require: tuple[str, ...] = ()

    @property
    def ground(self) -> str:
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]


class Connector:
    """A net by name: a frozen dataclass of options, how it comes to its sites, and what it says of itself.

    here     all sites are in this process, so that its CPU seconds are theirs
    meets    sites have rows of their own, and are met before a run
    """

    here: ClassVar[bool] = False
    meets: ClassVar[bool] = False

    def connect(self, ground: Ground) -> Net:
        raise NotImplementedError

    def plan(self, method: Method, beliefs: Beliefs, ground: Ground, settings: Any) -> Mapping[str, Any]:
        """Of a run with sites that were met and these settings (`runs/settings.py`): the method's share of
        what they will be asked for.
        """
        return {}

    def meet(self, rule: Rule) -> Any:
        """Sites that have rows of their own set some aside, and say what they have in common."""
        raise NotImplementedError


@NETS.register("in-process")
@dataclass(frozen=True)
class Simulated(Connector):
    """All sites in this process, computed by an engine: for studies."""

    here: ClassVar[bool] = True

    def connect(self, ground: Ground) -> Net:
        mark = _mark_of(ground)
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


def _mark_of(ground: Ground) -> str:
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
        "engine": {"name": ground.engine.name or "auto", **table_of(ground.engine)},
    }


def wrapped(net: Net, wraps: Sequence[str]) -> Net:
    """The net within wrappers, the first being the innermost: absent=0.3, absent:chance=0.3."""
    for spec in wraps:
        name, options = read_wrap(spec)
        net = WRAPS.make(name, net=net, **options)
    return net


def wrappers(wraps: Sequence[str]) -> list[tuple[type[Wrapped], dict[str, Any]]]:
    """The classes that these name, and the options that they are given."""
    return [(WRAPS[name], options) for name, options in map(read_wrap, wraps)]


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
    names = [read_wrap(spec)[0] for spec in wraps]
    found = wrappers(wraps)
    for wrapper, options in found:
        wrapper.check(**options)
    for name, (wrapper, _) in zip(names, found, strict=True):
        if wrapper.studied and NETS[net].meets:
            raise BadInput(
                f"{name} are for studies, and sites of their own cannot be told to lie: take --net in-process"
            )
    for wrapper, options in found:
        wrapper.ordered(names, **options)


def shown_by(
    wraps: Sequence[str], reveals: Reveals, kernels: tuple[Any, ...]
) -> tuple[Reveals, tuple[Any, ...]]:
    """What a method shows and does at sites, and what wrappers add to it."""
    for wrapper, options in wrappers(wraps):
        reveals, kernels = wrapper.adds(reveals, kernels, **options)
    return reveals, kernels


def scores_of(wraps: Sequence[str]) -> str:
    """How scores leave sites: as a wrapper has it, or in the clear."""
    found = [wrapper.scores_leave(**options) for wrapper, options in wrappers(wraps)]
    return next((how for how in found if how), "clear")


def admit(wraps: Sequence[str], method: Method, roster: Roster) -> None:
    """Refuses a method that does not go with a wrapper, before anything is trained."""
    for wrapper, options in wrappers(wraps):
        wrapper.admit(method, roster, **options)
