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
from torch import Tensor

from coterie.core.belief import Belief
from coterie.core.client import Client
from coterie.core.errors import BadRun, Refused, shown
from coterie.core.facts import kernel_fact
from coterie.core.kernel import Kernel, looks
from coterie.core.watch import WATCHED
from coterie.federation.policy.keys import Policy
from coterie.federation.policy.rules import check_model, refuse
from coterie.federation.policy.work import above
from coterie.federation.site.bounds import (
    Effects,
    bounded_memory,
    check_effects,
    check_load,
    check_look,
    check_turned,
    effects_of,
    remembered_bytes,
    taken_up,
)
from coterie.federation.site.rows import RowGuard, who_asks
from coterie.kernels import Calibrate, Moments, Tallied, kernel_of
from coterie.kernels.taken import OWN
from coterie.models import MODELS
from coterie.models.base import count_parameters
from coterie.nets.site import PARTS, Site, lists_to_tuples

_MODELS_HERE = 4  # copies of a model that a site has
_MOST_LAYERS = 1000  # entries of a list among a model's options
_MOST_KERNELS = 256  # that are remembered
_LONGEST_KEY = 4096
_ENTRY = 1024  # bytes that a belief takes beside its numbers


class BoundedSite(Site):
    """`guard` knows what was told of rows, `places` where those of each part are in the site's table;
    `cancels` says why work is to end, if it is.
    """

    def __init__(self, client: Client, number: int, home: Path, policy: Policy, leader: str) -> None:
        super().__init__(client, number, home)
        self.policy, self.leader = policy, leader
        self.guard: RowGuard | None = None
        self.places: Mapping[str, Any] = {}
        self.before = taken_up()  # bytes that the process had before this run
        self.since = 0.0  # when it began to compute what it does now
        self.cancels: Callable[[], str] = lambda: ""
        self._kernels: dict[str, Kernel] = {}  # as they were told
        self._shapes: dict[str, torch.Size] = {}  # of the model's tensors
        self._kept: dict[tuple[str, int], int] = {}  # bytes that work remembers, by it and a model's size

    def check_build(self, told: Mapping[str, Any]) -> None:
        """A model that is to be built, by its numbers, counted before they take up memory. A list of very
        many layers takes long to count though each is small.
        """
        for name, value in told["options"].items():
            if isinstance(value, list) and len(value) > _MOST_LAYERS:
                long = f"{len(value)} entries of {shown(name)}, at most {_MOST_LAYERS}"
                raise Refused(f"{long}: choose another model")
        model = MODELS.make(told["model"], **{k: lists_to_tuples(v) for k, v in told["options"].items()})
        try:
            with torch.device("meta"):
                many = count_parameters(model.build(tuple(told["shape"]), int(told["outputs"]), 0))
        except (RuntimeError, TypeError, ValueError) as error:
            text = " ".join(str(error).split())[:200]
            raise BadRun(f"model {shown(told['model'])} cannot be built here: {text}") from None
        check_model(self.policy, str(told["model"]), many)
        refuse(above(_MODELS_HERE * 4 * many, "bytes for a model", self.policy.max_memory, "max_memory"))

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
        """What is here already, what comes along, and what a message names: a small one may name much."""
        named = sum(len(message.get(key, ())) for key in ("rows", "new", "replies", "origin", "beliefs"))
        named += sum(map(len, message.get("beside", {}).values()))
        named += sum(len(row) if isinstance(row, list) else 1 for row in message.get("to") or ())
        here = sum(t.nbytes for belief in self.held.values() for t in belief.values())
        here += sum(t.nbytes for t in self._net().slots.tensors().values())
        need = here + _ENTRY * len(self.held) + sum(t.nbytes for t in tensors.values())
        need += named * max(_ENTRY, 8 * self._size())
        if message.get("do") == "distances":
            need += 16 * len(message["replies"]) * len(message["to"])  # squares, and what is told
        refuse(above(need, "bytes of models", self.policy.max_memory, "max_memory"))

    def _size(self) -> int:
        """Numbers of the largest belief that is here; of a model, if there is none."""
        each = (sum(t.numel() for t in belief.values()) for belief in self.held.values())
        return max(each, default=0) or count_parameters(self._net().learner.scoring)

    def weighed(self, message: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Effects:
        """What a visit is going to do, held against the policy and against all that was told before."""
        kernel, net = self.kernel(message["kernel"]), self._net()
        if len(json.dumps(message["key"])) > _LONGEST_KEY:  # its path is read for each guest
            raise Refused(f"a key of more than {_LONGEST_KEY} letters: is it of another version?")
        if looks(kernel):
            check_look(kernel, self.client)
        check_turned(kernel, self.client)
        guests = len(message["guests"])
        if guests != len(message["rows"]):
            raise Refused(f"{len(message['rows'])} models of {guests} guests: is it of another version?")
        sizes = {part: len(getattr(self.client, part)) for part in PARTS}
        beliefs = [*message["beliefs"], *(row for some in message["beside"].values() for row in some)]
        x, outputs = self.client.train.x, max(1, len(self.client.classes))
        row = x[0].numel() if len(x) else 1
        effects = effects_of(kernel, sizes, guests, len(beliefs), self._size(), row, outputs)
        check_effects(self.policy, effects)
        self._take(tensors)
        if not self._shapes:
            model = net.learner.training
            self._shapes = {n: t.shape for n, t in (*model.named_parameters(), *model.named_buffers())}
        for row in beliefs:
            net.learner.watch.check()
            _check_shapes(self._belief(row), self._shapes)
        first = self._belief(message["beliefs"][0]) if message["beliefs"] else {}
        mark = (json.dumps(message["kernel"]), sum(t.numel() for t in first.values()))
        if mark not in self._kept:
            self._kept = {} if len(self._kept) >= _MOST_KERNELS else self._kept
            self._kept[mark] = remembered_bytes(kernel, net.learner, first)
        kept = self._kept[mark] * guests
        check_load(self.policy, replace(effects, bytes=effects.bytes + kept))
        if self.guard is not None:
            told = guests * max(1, len(message["beside"]))  # there may be a number for each beside it
            self.guard.visit(effects, self.places, told, who_asks(self.leader, message.get("run")))
        return effects

    def kernel(self, told: Mapping[str, Any]) -> Kernel:
        """No bin of few rows is told of, nor how many are of each class if that stays here."""
        text = json.dumps(told)
        if text not in self._kernels:
            if len(self._kernels) >= _MOST_KERNELS:
                self._kernels.clear()
            self._kernels[text] = _within_policy(kernel_of(told), self.policy)
        return self._kernels[text]


def _check_shapes(belief: Belief, shapes: Mapping[str, torch.Size]) -> None:
    """Tensors by the model's names are made as its own: a bias for each row would tell rows apart."""
    for name, t in belief.items():
        own = shapes.get(name.removeprefix(OWN))
        if own is not None and t.shape != own:
            line = f"{shown(name)} of shape {list(t.shape)}, where the model's has {list(own)}"
            raise BadRun(f"{line}: is it of another version?")


def _within_policy(kernel: Any, policy: Policy) -> Any:
    """The same, with at least so many rows in each bin of a tally and in each class that is told of, and
    without what tells how many rows are of each class unless the policy has it told; also of one inside.
    """
    if isinstance(kernel, Tallied | Moments):
        kernel = replace(kernel, least=max(policy.min_rows, kernel.least))
    if isinstance(kernel, Tallied | Calibrate):
        return replace(kernel, label_counts=policy.label_counts)  # as ever: what differs would tell more
    inner = kernel_fact(kernel, "inner")
    held = None if inner is None else _within_policy(inner, policy)
    return kernel if held is inner else replace(kernel, inner=held)
