"""What a visit does at a site, and what a message names, before anything is done with either.

A visit's effects are the rows that it trains on and scores on, its steps, and the memory it needs, found from
the kernel and its options. A policy is about these effects, not about names: `check_effects` holds them
against it, and `row_sets.py` against all that was told before. What a message names is counted, as a small
one may name much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coterie.core.client import Client, class_count
from coterie.core.errors import BadInput, Refused, shown
from coterie.core.facts import called, kernel_fact
from coterie.core.groups import Groups
from coterie.core.kernel import apart, extent_of, gradients_of, looks, makes, scores
from coterie.core.learner import Learner
from coterie.features.liars.lies import Poisoned
from coterie.federation.messages import AGAIN
from coterie.federation.policy.keys import Policy
from coterie.federation.policy.rules import refuse
from coterie.federation.policy.work import above
from coterie.kernels.sketches import column_count

PEER_SECONDS = 600.0  # seconds, at most, for another site to take a peer message
_MOST_ORDERS = 10_000  # peer messages of one order, or sums of one offer
_MOST_PARTS = 1_000  # of one belief
_MOST_NAMED = 100_000  # parts of all beliefs of a message, or ids of an offer
_MOST_CLASSES = 10_000  # where a site does not know them by name
_RECORDED = 200_000  # bytes, for each gradient of a step, to record it
_COPIES = 8  # of a belief in training
_SLACK = 1 << 28  # bytes that a process may take beside a visit
_Sizes = Mapping[str, int]  # rows of each part
_STATM = Path("/proc/self/statm")


@dataclass(frozen=True, eq=False)
class Effects:
    """Of one visit.

    part       on which rows; nothing if it looks at none
    trains     whether it trains on them, or only scores
    of         how many rows that part has
    rows       which of them it works on; None: all
    drawn      whether steps draw some of these for each visit, not all equally often; `least` at least
    steps      of each guest; `gradients` that all take, and `batch` the rows of one
    tells      of which step its numbers are by themselves; nothing if they are of all
    bytes      that it needs at most, beside what its layers keep between them
    """

    part: str = ""
    trains: bool = False
    of: int = 0
    rows: Tensor | None = None
    drawn: bool = False
    least: int = 0
    steps: int = 0
    gradients: int = 0
    batch: int = 0
    bytes: int = 0
    tells: str = ""

    @property
    def many(self) -> int:
        """How many rows."""
        if self.drawn:
            return self.least
        return self.of if self.rows is None else len(self.rows)

    @property
    def later(self) -> int:
        """Rows of all steps but the first: these see another model than the first did, so that the mean loss
        of a visit, less that of all rows, is a figure of theirs. As many as there are where it is of no step.
        """
        if not self.trains or self.steps <= 1 or self.steps > -(-self.many // max(1, self.batch)):
            return max(self.many, self.of)
        return self.many - self.batch

    def words(self) -> str:
        if not self.part:
            return "looks at no row"
        if not self.trains:
            return f"scores on {self.many} of {self.of} {self.part} rows"
        steps = f"{self.steps:,} step{'s' if self.steps != 1 else ''}"
        return f"trains on {self.many} of {self.of} rows in {steps} of {self.batch}"


def effects_of(
    kernel: Any, sizes: _Sizes, guests: int, beliefs: int, numbers: int, row: int = 1, outputs: int = 1
) -> Effects:
    """Of a visit, without planning it: by guests, beliefs in all, and numbers of a model and of a row."""
    models = 8 * (beliefs + guests) * numbers
    if makes(kernel):
        return Effects(bytes=models)
    if scores(kernel) and kernel.part is None:
        return Effects()
    if scores(kernel):
        samples = sizes[kernel.part]
        told = sum(kernel.sizes.values()) if looks(kernel) else outputs * samples
        some = None if looks(kernel) or not samples else apart(kernel, Groups.of(torch.tensor([samples])))
        rows = None if some is None else some.nonzero().flatten()
        return Effects(kernel.part, False, samples, rows, bytes=32 * guests * told + models)
    samples = sizes["train"]
    extent = extent_of(kernel, samples)
    if extent is None:
        name = called(kernel)
        raise Refused(f"{name} does not say how much it does: give it an extent (docs/adding-a-method.md)")
    each = gradients_of(kernel)
    taken = 24 * extent.steps * extent.batch * guests + _RECORDED * each
    taken += 8 * (beliefs + _COPIES * guests) * numbers + 32 * extent.batch * row
    tells = next((str(one.tells) for one in _with_inner(kernel) if getattr(one, "tells", "")), "")
    work = Effects("train", True, samples, extent.rows, not extent.evenly, extent.least, extent.steps)
    gradients = extent.steps * each * guests
    return replace(work, gradients=gradients, batch=extent.batch, bytes=taken, tells=tells)


def _with_inner(kernel: Any) -> Iterator[Any]:
    """A kernel, and those inside of it, the outermost first."""
    while kernel is not None:
        yield kernel
        kernel = kernel_fact(kernel, "inner")


def check_load(policy: Policy, effects: Effects) -> None:
    """Steps and memory."""
    refuse(above(effects.gradients, "gradients in a visit", policy.max_steps, "max_steps"))
    refuse(above(effects.bytes, "bytes of memory for a visit", policy.max_memory, "max_memory"))


def check_effects(policy: Policy, effects: Effects) -> None:
    """What a visit does by itself, against the policy; see `row_sets.py` for what it does beside others."""
    check_load(policy, effects)
    if not effects.part or not effects.of:
        return
    least = policy.min_rows
    if effects.many < least:
        have = f"a visit that {effects.words()}, below the policy's {least}"
        raise Refused(f"{have}: ask for more rows, or lower min_rows")
    if effects.trains and effects.tells == "each step" and effects.steps > 1:
        raise Refused(f"figures of each of {effects.steps} steps: take one batch of all rows")
    if effects.trains and effects.tells and effects.later < least:
        raise Refused(f"figures of a last step of {effects.later} rows: take another batch")
    if effects.trains and effects.batch < min(least, effects.of):
        have = f"steps of {effects.batch} rows, below the policy's {least}"
        raise Refused(f"{have}: take larger batches, or lower min_rows")


def remembered_bytes(kernel: Any, learner: Learner, belief: Mapping[str, Tensor]) -> int:
    """Of an optimiser's or a posterior's state, without taking up its memory."""
    if scores(kernel) or makes(kernel):
        return 0
    ghost = {name: torch.empty_like(t, device="meta") for name, t in belief.items()}
    try:
        found = kernel.fresh(learner, ghost)
    except BadInput:  # said when it is visited
        return 0
    return sum(t.numel() * t.element_size() for t in found.values())


def taken_up() -> int | None:
    """Bytes of memory that this process has for data; None where the system does not say."""
    try:
        import resource

        return int(_STATM.read_text().split()[5]) * resource.getpagesize()
    except (ImportError, OSError, ValueError, IndexError):
        return None


@contextmanager
def bounded_memory(most: int, before: int | None) -> Iterator[None]:
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


# what a message names


def check_ids(message: Mapping[str, Any]) -> None:
    """New ids differ from each other, and a visit has one for each reply; beliefs have not too many parts."""
    rows = [row for key in ("rows", "beliefs", "replies", "origin") for row in message.get(key, ())]
    rows += [row for some in message.get("beside", {}).values() for row in some]
    _check_parts([row for row in rows if isinstance(row, list)])
    fresh = [*message.get("new", ()), *(id for id in message.get("replies", ()) if not isinstance(id, list))]
    uneven = message.get("do") == "visit" and len(fresh) not in (0, len(message["rows"]))
    if uneven or len({*fresh}) < len(fresh):
        raise Refused(f"models by the same name twice, or without one: {AGAIN}")


def _check_parts(rows: list[list[Any]]) -> None:
    refuse_many(max(map(len, rows), default=0), "parts of a model", _MOST_PARTS)
    refuse_many(sum(map(len, rows)), "parts of models in a message", _MOST_NAMED)


def check_orders(message: Mapping[str, Any]) -> None:
    """Peer messages, sealed replies, or sums that are offered: how many, and how many models these name."""
    orders, sums = message.get("orders", ()), message.get("sums", ())
    refuse_many(len(orders), "peer messages in an order", _MOST_ORDERS)
    refuse_many(len(sums), "sums in an offer", _MOST_ORDERS)
    refuse_many(sum(len(told["ids"]) for told in sums), "models in an offer", _MOST_NAMED)
    rows = [row for order in orders for row in order.get("rows", ())]
    rows += [order[key] for order in orders for key in ("row", "less") if order.get(key)]
    _check_parts([row for row in rows if isinstance(row, list)])


def check_look(kernel: Any, client: Client) -> None:
    """A look at rows is of the columns and classes that are here, or it could take long."""
    columns, classes = kernel_fact(kernel, "columns"), kernel_fact(kernel, "classes")
    here = column_count(client.train.x.shape[1:])
    if columns not in (None, here):
        raise Refused(f"a look at {shown(columns)} columns, where {here} are here: is it another table?")
    least, most = _classes_of(client)
    if classes != 0 and not (type(classes) is int and least <= classes <= most):
        raise Refused(f"a look at {shown(classes)} classes, where {least} are here: is it another table?")


def check_turned(kernel: Any, client: Client) -> None:
    """Labels that are turned round among more or fewer classes than there are fail as soon as one row's is
    none: that they do, or do not, would tell of single rows.
    """
    least, most = _classes_of(client)
    for one in _with_inner(kernel):
        turns = isinstance(one, Poisoned) and one.how == "label-flip"
        if turns and not least <= one.classes <= most:
            many = shown(one.classes)
            raise Refused(f"labels turned among {many} classes, where {least} are here: {AGAIN}")


def _classes_of(client: Client) -> tuple[int, int]:
    """How many classes a run may have for this client, at least and at most: the same where it knows their
    names, as all sites do then; none where it has no classes.
    """
    if client.task != "classification":
        return 0, 0
    parts = [part for part in (client.train, client.validation, client.test) if len(part)]
    least = class_count([client]) if parts else max(2, len(client.classes))
    return least, least if client.classes else max(least, _MOST_CLASSES)


def refuse_many(many: int, what: str, most: int) -> None:
    if many > most:
        raise Refused(f"{many} {what}, at most {most}: ask for fewer at once")
