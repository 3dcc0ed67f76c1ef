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
from coterie.core.client import Client, class_count
from coterie.core.errors import BadInput, BadRun, Refused, shown
from coterie.core.facts import kernel_fact
from coterie.core.kernel import Kernel, looks, makes, scores
from coterie.core.learner import Learner
from coterie.core.watch import WATCHED
from coterie.features.liars.lies import Poisoned
from coterie.federation.messages import AGAIN
from coterie.federation.policy.keys import Policy, above
from coterie.federation.policy.rules import check_model, refuse
from coterie.federation.site.bounds import Effects, refuse_many, with_inner
from coterie.federation.site.rows import RowGuard
from coterie.kernels import Calibrate, Moments, Tallied, kernel_of
from coterie.kernels.sketches import column_count
from coterie.kernels.taken import OWN
from coterie.models import MODELS
from coterie.models.base import count_parameters
from coterie.nets.site import PARTS, Site, lists_to_tuples

_MODELS_HERE = 4  # copies of a model that a site has
_MOST_LAYERS = 1000  # entries of a list among a model's options
_MOST_KERNELS = 256  # that are remembered
_LONGEST_KEY = 4096
_ENTRY = 1024  # bytes that a belief takes beside its numbers
_MOST_ORDERS = 10_000  # peer messages of one order, or sums of one offer
_MOST_PARTS = 1_000  # of one belief
_MOST_NAMED = 100_000  # parts of all beliefs of a message, or ids of an offer
_MOST_CLASSES = 10_000  # where a site does not know them by name
_SLACK = 1 << 28  # bytes that a process may take beside a visit
_STATM = Path("/proc/self/statm")


class BoundedSite(Site):
    """`guard` knows what was told of rows, `places` where those of each part are in the site's table;
    `cancels` says why work is to end, if it is.
    """

    def __init__(self, client: Client, number: int, home: Path, policy: Policy, leader: str) -> None:
        super().__init__(client, number, home)
        self.policy, self.leader = policy, leader
        self.guard: RowGuard | None = None
        self.places: Mapping[str, Any] = {}
        self.before = _taken_up()  # bytes that the process had before this run
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
        with self.timed(), _bounded_memory(self.policy.max_memory, self.before):
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

    @staticmethod
    def check_ids(message: Mapping[str, Any]) -> None:
        """New ids differ from each other, and a visit has one for each reply; beliefs have few parts."""
        rows = [row for key in ("rows", "beliefs", "replies", "origin") for row in message.get(key, ())]
        rows += [row for some in message.get("beside", {}).values() for row in some]
        _check_parts([row for row in rows if isinstance(row, list)])
        fresh = [id for id in message.get("replies", ()) if not isinstance(id, list)]
        fresh = [*message.get("new", ()), *fresh]
        uneven = message.get("do") == "visit" and len(fresh) not in (0, len(message["rows"]))
        if uneven or len({*fresh}) < len(fresh):
            raise Refused(f"models by the same name twice, or without one: {AGAIN}")

    @staticmethod
    def check_orders(message: Mapping[str, Any]) -> None:
        """Peer messages, sealed replies, or sums that are offered: how many, of how many models."""
        orders, sums = message.get("orders", ()), message.get("sums", ())
        refuse_many(len(orders), "peer messages in an order", _MOST_ORDERS)
        refuse_many(len(sums), "sums in an offer", _MOST_ORDERS)
        refuse_many(sum(len(told["ids"]) for told in sums), "models in an offer", _MOST_NAMED)
        rows = [row for order in orders for row in order.get("rows", ())]
        rows += [order[key] for order in orders for key in ("row", "less") if order.get(key)]
        _check_parts([row for row in rows if isinstance(row, list)])

    def weighed(self, message: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Effects:
        """What a visit is going to do, held against the policy and against all that was told before."""
        kernel, net = self.kernel(message["kernel"]), self._net()
        if len(json.dumps(message["key"])) > _LONGEST_KEY:  # its path is read for each guest
            raise Refused(f"a key of more than {_LONGEST_KEY} letters: is it of another version?")
        _check_classes(kernel, self.client)
        guests = len(message["guests"])
        if guests != len(message["rows"]):
            raise Refused(f"{len(message['rows'])} models of {guests} guests: is it of another version?")
        sizes = {part: len(getattr(self.client, part)) for part in PARTS}
        beliefs = [*message["beliefs"], *(row for some in message["beside"].values() for row in some)]
        x, outputs = self.client.train.x, max(1, len(self.client.classes))
        row = x[0].numel() if len(x) else 1
        effects = Effects.of_visit(kernel, sizes, guests, len(beliefs), self._size(), row, outputs)
        effects.check(self.policy)
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
            self._kept[mark] = _remembered_bytes(kernel, net.learner, first)
        kept = self._kept[mark] * guests
        replace(effects, bytes=effects.bytes + kept).check_load(self.policy)
        if self.guard is not None:
            told = guests * max(1, len(message["beside"]))  # there may be a number for each beside it
            self.guard.visit(effects, self.places, told, self.leader, message.get("run"))
        return effects

    def kernel(self, told: Mapping[str, Any]) -> Kernel:
        """No bin of few rows is told of, nor how many are of each class if that stays here."""
        text = json.dumps(told)
        if text not in self._kernels:
            if len(self._kernels) >= _MOST_KERNELS:
                self._kernels.clear()
            self._kernels[text] = _within_policy(kernel_of(told), self.policy)
        return self._kernels[text]


def _check_classes(kernel: Any, client: Client) -> None:
    """A look at rows is of the columns and classes that are here, or it could take long. Labels that are
    turned round among more or fewer classes than there are fail as soon as one row's is none: that they do,
    or do not, would tell of single rows.
    """
    least = most = 0  # how many classes a run may have here; none where it has no classes
    if client.task == "classification":
        parts = [part for part in (client.train, client.validation, client.test) if len(part)]
        least = class_count([client]) if parts else max(2, len(client.classes))
        most = least if client.classes else max(least, _MOST_CLASSES)  # all sites know the same names
    if looks(kernel):
        columns, classes = kernel_fact(kernel, "columns"), kernel_fact(kernel, "classes")
        here = column_count(client.train.x.shape[1:])
        if columns not in (None, here):
            raise Refused(f"a look at {shown(columns)} columns, where {here} are here: is it another table?")
        if classes != 0 and not (type(classes) is int and least <= classes <= most):
            line = f"a look at {shown(classes)} classes, where {least} are here"
            raise Refused(f"{line}: is it another table?")
    for one in with_inner(kernel):
        turns = isinstance(one, Poisoned) and one.how == "label-flip"
        if turns and not least <= one.classes <= most:
            many = shown(one.classes)
            raise Refused(f"labels turned among {many} classes, where {least} are here: {AGAIN}")


def _remembered_bytes(kernel: Any, learner: Learner, belief: Mapping[str, Tensor]) -> int:
    """Of an optimiser's or a posterior's state, without taking up its memory."""
    if scores(kernel) or makes(kernel):
        return 0
    ghost = {name: torch.empty_like(t, device="meta") for name, t in belief.items()}
    try:
        found = kernel.fresh(learner, ghost)
    except BadInput:  # said when it is visited
        return 0
    return sum(t.numel() * t.element_size() for t in found.values())


def _taken_up() -> int | None:
    """Bytes of memory that this process has for data; None where the system does not say."""
    try:
        import resource

        return int(_STATM.read_text().split()[5]) * resource.getpagesize()
    except (ImportError, OSError, ValueError, IndexError):
        return None


@contextlib.contextmanager
def _bounded_memory(most: int, before: int | None) -> Iterator[None]:
    """This process may take so many bytes more than it had before, and what would take more fails before it
    does; where the system has no such bound, what was foreseen is all there is.
    """
    if before is None:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = before + most + _SLACK
    ceiling = min(x for x in (wanted, soft, hard) if x != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (ceiling, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _check_parts(rows: list[list[Any]]) -> None:
    refuse_many(max(map(len, rows), default=0), "parts of a model", _MOST_PARTS)
    refuse_many(sum(map(len, rows)), "parts of models in a message", _MOST_NAMED)


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
