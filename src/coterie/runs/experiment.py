"""Everything a run needs, in memory and checked, before anything is written.

    setup       sites, model and first weights: loaded once, dealt once for a seed (with `deal` once for
                  all), whatever the method
    experiment    a method on a setup, checked whole

`run`, `compare`, `rank` and `tune` come here with settings, `train` and reproductions with clients of their
own.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal

import torch
from torch import nn

from coterie.core.belief import Beliefs
from coterie.core.devices import device_of
from coterie.core.errors import BadInput
from coterie.core.facts import kernel_fact, method_fact
from coterie.core.kernel import kernel_to_dict
from coterie.core.learner import COUPLED, LOSSES, NO_ROW, Loss
from coterie.core.method import Method, bounds_work, check_method
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.engines.base import Engine
from coterie.engines.memory import free_bytes
from coterie.metrics.own import NOTHING, Own
from coterie.models.base import count_parameters
from coterie.nets import Counting, Ground, wrapped
from coterie.nets.ground import Connector, admit, scores_of, shown_by, wrappers
from coterie.runs.about import about_run
from coterie.runs.artifacts import Origin, preparation_of
from coterie.runs.hooks import Wanted, around, hooks
from coterie.runs.settings import FACTS, Settings
from coterie.sites.folds import folds_of
from coterie.sites.last_layer import Body
from coterie.sites.setup import Setup


@dataclass(frozen=True, eq=False)
class Experiment:
    """A run, ready to go. The net is what the method works on and what models are scored on."""

    settings: Settings
    about: Mapping[str, Any]
    model: nn.Module
    beliefs: Beliefs
    method: Method
    net: Counting
    key: Key
    body: Body | None = None
    origin: Origin = field(default_factory=Origin)
    own: Own = NOTHING
    folds: Callable[[int], Iterator[Experiment]] | None = None  # the same, each without a part of its rows
    in_use: bool = False  # whether its models are for use, not only to be compared
    specificity: float = 0.0  # at which a trial measures sensitivity
    positive: int | None = None  # of which of two classes figures of a trial are, whatever a fold has

    @property
    def roster(self) -> Roster:
        return self.net.roster

    @property
    def rounds(self) -> int:
        return self.settings.rounds

    @cached_property
    def config(self) -> Mapping[str, Any]:
        return self.settings.table()

    def due(self, what: Literal["evaluate", "checkpoint"], round: int) -> bool:
        every: int = getattr(self.settings, what)
        return round % every == 0 or round == self.rounds


def experiment_of(
    setup: Setup,
    settings: Settings,
    method: Method,
    *,
    connector: Connector,
    engine: Engine,
    command: str | None,
    own: Own = NOTHING,
) -> Experiment:
    """A method on a setup; refused if the two do not go together. One that has to try others first does."""
    roster, hooked = setup.roster, hooks()
    key = Key(settings.seed, rounds=settings.rounds)
    check_work(method, roster, setup.model, own.loss, own.transform is not None)
    said = [*check_method(method, roster, setup.beliefs, key)]
    for hook in hooked if method_fact(method, "undecided") else ():
        if (found := hook.prepare(method, setup, settings, connector, engine, own)) is not None:
            method, settings, more = found
            said += more
    refuse(method, settings, roster, setup.met is not None)
    ground, beliefs = _ground(setup, settings, method, engine, own)
    plans = [plan for hook in hooked if (plan := hook.plan(method, beliefs, ground, settings)) is not None]
    rounds = min((plan for plan, _ in plans), default=settings.rounds)
    if rounds != settings.rounds:  # then what it says of its rounds is of these
        before = [*check_method(method, roster, setup.beliefs, key)]
        said = [note for note in said if note not in before]
        said += check_method(method, roster, setup.beliefs, Key(key.seed, rounds=rounds))
        settings = dataclasses.replace(settings, rounds=rounds)
    if setup.met is not None:
        ground = dataclasses.replace(
            ground, rounds=rounds, planned=connector.plan(method, beliefs, ground, settings)
        )
    net = around(wrapped(connector.connect(ground), settings.wrap), method)
    noted = [note for _, notes in plans for note in notes]
    notes = [*setup.notes, *_large_batches(method, roster), *own.notes(roster.task), *said, *noted]
    again = partial(experiment_of, method=method, connector=connector, engine=engine, command=None, own=own)
    scored_once = dataclasses.replace(settings, evaluate=settings.rounds)
    # how clients made their inputs; behind frozen layers these are others than rows have
    ways = {c.name: preparation_of(c) if setup.body is None else c.preparation for c in setup.clients}
    return Experiment(
        settings=settings,
        about={
            **about_run(roster, beliefs, notes, command),
            "columns": list(setup.columns),
            "inputs": list(roster.shape if setup.body is None else setup.body.inputs),
            "published_tests": setup.published,
            "leaks": list(setup.leaks),
        },
        model=setup.model,
        beliefs=beliefs,
        method=method,
        net=Counting(net),
        key=Key(settings.seed),
        body=setup.body,
        origin=Origin({name: way for name, way in ways.items() if way}, setup.recipe),
        own=own,
        folds=lambda many: (again(fold, scored_once) for fold in folds_of(setup, many, key)),
    )


def refuse(method: Method, settings: Settings, roster: Roster, elsewhere: bool) -> None:
    """Refuses what features and wrappers cannot have, before anything is trained."""
    wanted, hooked = Wanted(method, settings, roster, elsewhere), hooks()
    met = {name for hook in hooked for name in hook.meets}
    for name, facts in FACTS.items():
        if facts.alone is not None and name not in met and getattr(settings, name) not in facts.alone:
            raise BadInput(f"{name} asks for a feature that is not there: leave it out")
    for hook in hooked:
        hook.refuse(wanted)
    admit(settings.wrap, method, roster)


def _ground(
    setup: Setup, settings: Settings, method: Method, engine: Engine, own: Own
) -> tuple[Ground, Beliefs]:
    """What the net is made of, and the first beliefs on its device."""
    wraps, roster, met = settings.wrap, setup.roster, setup.met
    works = method_fact(method, "works")
    local = method_fact(method, "local") if met is not None and works else None
    work = () if local is None else (kernel_to_dict(local),)  # as sites are told of it; one's own has no name
    reveals, kernels = shown_by(wraps, method.reveals(), work)
    device = device_of(settings.device)
    ground = Ground(
        setup.clients,
        roster,
        copy.deepcopy(setup.model).to(device),
        engine,
        device,
        settings.memory,
        setup.made,
        own,
        met,
        reveals,
        kernels if met is not None else (),
        settings.rounds,
        any(wrapper.always_seals for wrapper, _ in wrappers(wraps)),
        bounded=bounds_work(method, roster) or bool(method_fact(method, "hides") and not works),
        scores=scores_of(wraps) if method_fact(method, "train") else "none",
    )
    return ground, {name: t.to(device) for name, t in setup.beliefs.items()}


def for_use(experiment: Experiment) -> Experiment:
    """The same, whose models are to be used; what was asked for to that end must be possible."""
    try:
        for hook in hooks():
            hook.use(experiment)
    except BadInput:
        experiment.net.close()
        raise
    return dataclasses.replace(experiment, in_use=True)


def _large_batches(method: Method, roster: Roster) -> list[str]:
    batch = kernel_fact(method_fact(method, "local"), "batch")
    small = [m.name for m in roster.members if m.train < batch]
    if not small:
        return []
    names = ", ".join(small[:5]) + (", ..." if len(small) > 5 else "")
    return [f"clients with fewer training rows than batch={batch}, so that a step takes all: {names}"]


FLOAT, INDEX = 4, 8  # bytes
BESIDE = 2  # copies of a model beside those of the clients: the first one, and its gradient


def check_model(model_of: Any, name: str, roster: Roster) -> None:
    """Refuses a model of which memory has no room for one to each client."""
    try:
        with torch.device("meta"):  # shapes without numbers
            numbers = count_parameters(model_of.build(roster.shape, roster.outputs, 0))
    except BadInput:
        raise
    except Exception:  # a model of somebody's own that cannot be built so is built as it is
        return
    needed, free = FLOAT * numbers * (len(roster) + BESIDE), free_bytes()
    if needed > free:
        raise BadInput(
            f"model {name} has {numbers:,} weights, for {len(roster)} clients {_gigabytes(needed)}; "
            f"{_gigabytes(free)} are free: take a smaller model or fewer clients"
        )


def check_work(
    method: Method, roster: Roster, model: nn.Module, loss: Loss | None = None, transforms: bool = False
) -> None:
    """Refuses local work of so many steps in a round that the list of its batches does not fit, and work that
    does not suit the model, the loss (the task's own, if none is given) or a client with so few rows.
    """
    local: Any = method_fact(method, "local")
    if kernel_fact(local, "by_row") and (loss or LOSSES[roster.task]) in COUPLED:
        raise BadInput(f"{local.name} cannot train a {roster.task}: {NO_ROW}")
    innermost = local
    while (inner := kernel_fact(innermost, "inner")) is not None:
        innermost = inner
    if transforms and kernel_fact(innermost, "whole"):
        raise BadInput(
            f"{innermost.name} needs the same rows at each of its steps, which a transform changes: leave it "
            "out, or take sgld"
        )
    if kernel_fact(local, "suits"):
        local.suits(model)
    if kernel_fact(local, "tries"):
        local.tries(model, roster.shape)
    for member in roster.members if kernel_fact(local, "needs") else ():
        try:
            local.needs(member.train)
        except BadInput as error:
            raise BadInput(f"client {member.name!r} has {error}") from None
    told = {"epochs": kernel_fact(local, "epochs") or 1, "steps": kernel_fact(local, "steps")}
    passes = method_fact(method, "passes")  # of a ranking, which does the work so many times over
    told["passes"] = passes if isinstance(passes, int) else 1
    planned = 0
    for member in roster.members:
        batch = max(1, min(kernel_fact(local, "batch"), member.train))
        a_pass = told["steps"] or told["epochs"] * math.ceil(member.train / batch)
        planned += told["passes"] * a_pass * batch
    needed, free = INDEX * planned, free_bytes()
    if needed > free:
        most = max(told, key=lambda name: told[name])
        raise BadInput(
            f"{most}={told[most]} of local work: its batches of one round take {_gigabytes(needed)}; "
            f"{_gigabytes(free)} are free: lower it, and take more rounds"
        )


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"
