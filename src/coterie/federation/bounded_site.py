"""A site whose policy bounds what messages do: rows, steps, seconds, memory."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from coterie.core.belief import Belief
from coterie.core.client import Client
from coterie.core.errors import BadRun, Refused, shown
from coterie.core.kernel import Kernel, looks
from coterie.core.watch import WATCHED
from coterie.federation.budgets import Purse
from coterie.federation.effects import (
    Effects,
    Load,
    bounded_memory,
    check_effects,
    check_load,
    effects_of,
    remembered_bytes,
    taken_up,
)
from coterie.federation.guard import Guard, who_asks
from coterie.federation.named import check_look, check_turned
from coterie.federation.policy import above, check_model
from coterie.federation.policy_keys import Policy
from coterie.kernels import Calibrate, Moments, Tallied, kernel_of
from coterie.kernels.taken import OWN
from coterie.models import MODELS
from coterie.models.base import count_parameters
from coterie.nets.site import PARTS, Answer, Site, detupled

MODELS_HERE = 4  # copies of a model that a site has
MOST_LAYERS = 1000  # entries of a list among a model's options
MOST_KERNELS = 256  # that are remembered
FIGURES = frozenset({"loss", "acceptance", "step"})  # of local work, that its rows can be told from
LONGEST_KEY = 4096
ENTRY = 1024  # bytes that a belief takes beside its numbers


class BoundedSite(Site):
    """`guard` knows what was told of rows, `places` where those of each part are in the site's table; visits
    with noise are paid from `purse`; `cancels` says why work is to end, if it is.
    """

    def __init__(
        self,
        client: Client,
        number: int,
        home: Path,
        policy: Policy,
        leader: str,
        purse: Purse | None,
        guard: Guard | None,
        places: Mapping[str, Any],
    ) -> None:
        super().__init__(client, number, home)
        self.policy, self.leader, self.purse, self.guard, self.places = policy, leader, purse, guard, places
        self.before = taken_up()  # bytes that the process had before this run
        self.since = 0.0  # when it began to compute what it does now
        self.cancels: Callable[[], str] = lambda: ""
        self._kernels: dict[str, Kernel] = {}  # as they were told
        self._shapes: dict[str, torch.Size] = {}  # of the model's tensors
        self._kept: dict[tuple[str, int], int] = {}  # bytes that work remembers, by it and a model's size

    def check_build(self, told: Mapping[str, Any]) -> None:
        """A model that is to be built, by its numbers."""
        check_layers(told["options"])
        many = parameters_of(told)
        check_model(self.policy, str(told["model"]), many)
        need = above(MODELS_HERE * 4 * many, "bytes for a model", self.policy.max_memory, "max_memory")
        if need:
            raise Refused(need)

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """What is done here ends with the policy's seconds, or when somebody cancels it."""
        most, watch, self.since = self.policy.max_seconds, self._net().learner.watch, time.time()
        over = f"work took longer than the policy's {most:g} seconds, and was ended: ask for less, or raise "
        watch.limit(most, over + "max_seconds", self.cancels)
        before = WATCHED.set(watch)
        try:
            yield
        finally:
            WATCHED.reset(before)
            watch.rest()

    @contextlib.contextmanager
    def bounded(self) -> Iterator[None]:
        """As `timed`, and it takes no more than the policy's memory."""
        with self.timed(), bounded_memory(self.policy.max_memory, self.before):
            yield

    def check_room(self, message: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """What is here already, what comes along, and what a message names, which may be much though it is
        small.
        """
        named = sum(len(message.get(key, ())) for key in ("rows", "new", "replies", "origin", "beliefs"))
        named += sum(map(len, message.get("beside", {}).values()))
        named += sum(len(row) if isinstance(row, list) else 1 for row in message.get("to") or ())
        here = sum(t.nbytes for belief in self.held.values() for t in belief.values())
        here += sum(t.nbytes for t in self._net().slots.tensors().values())
        need = here + ENTRY * len(self.held) + sum(t.nbytes for t in tensors.values())
        need += named * max(ENTRY, 8 * self._size())
        if message.get("do") == "distances":
            need += 16 * len(message["replies"]) * len(message["to"])  # squares, and what is told
        if line := above(need, "bytes of models", self.policy.max_memory, "max_memory"):
            raise Refused(line)

    def _size(self) -> int:
        """Numbers of the largest belief that is here; of a model, if there is none."""
        each = (sum(t.numel() for t in belief.values()) for belief in self.held.values())
        return max(each, default=0) or count_parameters(self._net().learner.scoring)

    def weighed(self, message: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Effects:
        """What a visit is going to do, held against the policy and against all that was told before."""
        kernel, net = self.kernel(message["kernel"]), self._net()
        check_key(message["key"])
        if looks(kernel):
            check_look(kernel, self.client)
        check_turned(kernel, self.client)
        guests, beside = [int(g) for g in message["guests"]], sum(map(len, message["beside"].values()))
        if len(guests) != len(message["rows"]):
            raise Refused(f"{len(message['rows'])} models of {len(guests)} guests: is it of another version?")
        sizes = {part: len(getattr(self.client, part)) for part in PARTS}
        x, outputs = self.client.train.x, max(1, len(self.client.classes))
        row = x[0].numel() if len(x) else 1
        load = Load(len(guests), len(message["beliefs"]) + beside, self._size(), row, outputs)
        effects = effects_of(kernel, sizes, load)
        check_effects(self.policy, effects)
        self._take(tensors)
        beside_it = [row for some in message["beside"].values() for row in some]
        self._shapes = self._shapes or shapes_of(net.learner.training)
        for row in (*message["beliefs"], *beside_it):
            net.learner.watch.check()
            check_shapes(self._belief(row), self._shapes)
        first = self._belief(message["beliefs"][0]) if message["beliefs"] else {}
        mark = (json.dumps(message["kernel"]), sum(t.numel() for t in first.values()))
        if mark not in self._kept:
            self._kept = {} if len(self._kept) >= MOST_KERNELS else self._kept
            self._kept[mark] = remembered_bytes(kernel, net.learner, first)
        kept = self._kept[mark] * len(guests)
        check_load(self.policy, replace(effects, bytes=effects.bytes + kept))
        if self.guard is not None:
            told = len(guests) * max(1, len(message["beside"]))  # there may be a number for each beside it
            self.guard.visit(effects, self.places, told, who_asks(self.leader, message.get("run")))
        return effects

    def kernel(self, told: Mapping[str, Any]) -> Kernel:
        """No bin of few rows is told of, nor how many are of each class if that stays here, whatever is
        asked.
        """
        text = json.dumps(told)
        if text not in self._kernels:
            if len(self._kernels) >= MOST_KERNELS:
                self._kernels.clear()
            self._kernels[text] = held_to(kernel_of(told), self.policy)
        return self._kernels[text]


def check_layers(options: Mapping[str, Any]) -> None:
    """A list of very many layers takes long to count though each is small."""
    for name, value in options.items():
        if isinstance(value, list) and len(value) > MOST_LAYERS:
            raise Refused(
                f"{len(value)} entries of {shown(name)}, at most {MOST_LAYERS}: choose another model"
            )


def parameters_of(told: Mapping[str, Any]) -> int:
    """Numbers of a model, counted before they take up memory."""
    made = MODELS.make(told["model"], **{k: detupled(v) for k, v in told["options"].items()})
    try:
        with torch.device("meta"):
            return count_parameters(made.build(tuple(told["shape"]), int(told["outputs"]), 0))
    except (RuntimeError, TypeError, ValueError) as error:
        text = " ".join(str(error).split())[:200]
        raise BadRun(f"model {shown(told['model'])} cannot be built here: {text}") from None


def check_key(told: Mapping[str, Any]) -> None:
    """Its path is read for each guest."""
    if len(json.dumps(told)) > LONGEST_KEY:
        raise Refused(f"a key of more than {LONGEST_KEY} letters: is it of another version?")


def check_shapes(belief: Belief, shapes: Mapping[str, torch.Size]) -> None:
    """Tensors by the model's names are made as the model's own: a bias of its own for each row would tell
    rows apart.
    """
    for name, t in belief.items():
        own = shapes.get(name.removeprefix(OWN))
        if own is not None and t.shape != own:
            raise BadRun(
                f"{shown(name)} of shape {list(t.shape)}, where the model's has {list(own)}: is it of "
                "another version?"
            )


def shapes_of(model: nn.Module) -> dict[str, torch.Size]:
    named = [*model.named_parameters(), *model.named_buffers()]
    return {name: t.shape for name, t in named}


def held_to(kernel: Any, policy: Policy) -> Any:
    """The same, with at least so many rows in each bin of a tally and in each class that is told of, and
    without what tells how many rows are of each class unless the policy has it told; also of one inside.
    """
    if isinstance(kernel, Tallied | Moments):
        kernel = replace(kernel, least=max(policy.min_rows, kernel.least))
    if isinstance(kernel, Tallied | Calibrate):
        return replace(kernel, label_counts=policy.label_counts)  # as ever: what differs would tell more
    inner = getattr(kernel, "inner", None)
    held = None if inner is None else held_to(inner, policy)
    return kernel if held is inner else replace(kernel, inner=held)


def withheld(found: dict[str, Any], numbers: dict[str, Tensor]) -> Answer:
    """Without figures of the rows: they would be of few, or of rows that differ from visit to visit."""
    names = [name for name in found["numbers"] if name not in FIGURES]
    return {**found, "numbers": names}, {name: numbers[name] for name in names}
