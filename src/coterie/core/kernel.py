"""What a belief does while it visits one client. Written for ONE client; the engine adds the client axis.

A kernel is a frozen dataclass of options, registered by name; options may be kernels themselves
(`fold(sgd(lr=0.1))`). Name, options, tensors and a key are all that crosses a wire: see `told` and
`kernel_of`. There are four kinds.

A `Trainer` changes the belief in steps. It first draws a `Plan` (every random number of the visit), then
is a fold: `start`, one `step` for each planned batch, `finish`. All three are pure and contain no branch
on values, so that an engine may run them one edge at a time or many edges in lockstep.

A `Marker` is a trainer that also does something now and then, such as collecting states: its plan marks some
steps, and after these its `mark`, pure like the others, is called. What marks alone read and write is apart,
in carry["book"], so that all other steps cost what they cost without it.

A `Scorer` leaves the belief alone and measures its outputs on a part of the client's data; those of many
clients at once, in groups.

A `Look` measures a client's training rows themselves, whatever belief comes along: a sketch of its columns.

A `Maker` makes beliefs from a belief without looking at data: draws from a posterior, say.

All may look at beliefs `beside` the one that visits, by name: an anchor, a teacher, control variates.

A run says beforehand which kernels it sends (`federation/plans/plan.py`). Options of one that nobody knows
before, as they follow from what other visits told, are named in its `varies`; those that choose rows, of
which a run takes several in turn, in its `deals`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from coterie import features
from coterie.core.belief import Belief
from coterie.core.charge import Charge
from coterie.core.client import Task
from coterie.core.errors import BadInput
from coterie.core.facts import kernel_fact
from coterie.core.groups import Groups
from coterie.core.learner import Batch, Learner
from coterie.core.options import coerced, table_of
from coterie.core.registry import Registry
from coterie.core.seeds import Key

Part = Literal["train", "validation", "test"]
Carry = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Plan:
    """The random side of a visit.

    rows    [step, batch] rows of the training data for each step, -1 where a last batch is short
    rates   [step] factors of the learning rate; for samplers [step, 2], with the number of samples beside
    seed    of what the first step draws (dropout masks, noise); each further step's is one more
    marks   [step] after which steps the kernel's `mark` is called; None: it has none
    """

    rows: Tensor
    rates: Tensor
    seed: int
    marks: Tensor | None = None

    def __len__(self) -> int:
        return len(self.rows)


class Extent(NamedTuple):
    """How much one visit of local work takes, known before it is planned.

    steps     of the visit
    batch     rows of a step, or of the smallest part of one that is looked at by itself; the last step of a
              pass may have fewer
    evenly    whether each row that it works on is taken equally often
    least     how many different rows it takes at least
    rows      the training rows that it works on; None: all
    """

    steps: int
    batch: int
    evenly: bool
    least: int
    rows: Tensor | None = None


class Tick(NamedTuple):
    """What a plan says of one step."""

    rate: Tensor
    seed: Tensor


class Reply(NamedTuple):
    """What comes back: the belief, what the client keeps for its next visit, and public numbers."""

    belief: Belief
    memory: Belief
    numbers: dict[str, Tensor]


class Trainer(Protocol):
    """Local work. `keeps` says whether memory (an optimiser's state) lasts from visit to visit.

    One with `extent(samples)` says how much a visit takes before it is planned: see `extent_of`.
    """

    @property
    def keeps(self) -> bool: ...

    def plan(self, samples: int, key: Key) -> Plan:
        """Rows, rates and seeds of every step; for as many rows always the same number of steps."""
        ...

    def fresh(self, learner: Learner, belief: Belief) -> Belief: ...

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry: ...

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry: ...

    def finish(self, carry: Carry) -> Reply: ...


class Marker(Trainer, Protocol):
    """Local work whose plans have marks. Its carry ends with "book", which `step` passes on untouched."""

    def mark(self, carry: Carry) -> Carry:
        """The carry with another book; nothing else changes."""
        ...


class Scorer(Protocol):
    """Measures outputs against targets on one part of clients' data.

    One that tells less than it measures, or something else, has `tell(figures, hosts, keys)` too: what leaves
    of the figures [edge] of a visit, whose edges go to these hosts, each with a key of its own. One that
    looks at some rows alone has `apart(groups)`: 1 for these and 0 for the others [row], which must not be
    beside them in a loss that compares rows.
    """

    @property
    def part(self) -> Part | None:
        """On which rows; None looks at none, and only asks who is there."""
        ...

    def measure(
        self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor, groups: Groups
    ) -> dict[str, Tensor]:
        """Figures by name [group], from outputs [row, out], losses and targets [row], all on the CPU.

        A group has the rows of one client: its figures are to be the same whoever else is there.
        """
        ...


class Look(Protocol):
    """Measures inputs and targets of a client's training rows, without any model.

    Like a scorer it may have a `tell`, for what leaves of its figures.
    """

    @property
    def part(self) -> Part: ...

    @property
    def sizes(self) -> Mapping[str, int]:
        """How many numbers of each name leave a client."""
        ...

    def look(self, task: Task, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Figures by name, one row of numbers each, from inputs [row, ...] and targets [row] on the CPU."""
        ...


class Maker(Protocol):
    """Beliefs from a belief. All edges between the same two ends are one call, which makes one for each."""

    def make(
        self, belief: Belief, beside: Mapping[str, Belief], times: int, key: Key
    ) -> tuple[Sequence[Belief], dict[str, float]]:
        """So many beliefs, and numbers that come with each."""
        ...


Kernel = Trainer | Scorer | Look | Maker


def scores(kernel: Kernel) -> bool:
    """Whether a kernel measures instead of training: models, or rows."""
    return hasattr(kernel, "measure") or looks(kernel)


def apart(kernel: Any, groups: Groups) -> Tensor | None:
    """Which rows a scorer, or one inside it, looks at apart from the others; None: at all of them."""
    while kernel is not None:
        if hasattr(kernel, "apart"):
            found: Tensor = kernel.apart(groups)
            return found
        kernel = kernel_fact(kernel, "inner")
    return None


def looks(kernel: Any) -> bool:
    """Whether a kernel measures rows, without any model."""
    return hasattr(kernel, "look")


def makes(kernel: Any) -> bool:
    """Whether a kernel makes beliefs without looking at data."""
    return hasattr(kernel, "make")


def gradient_steps(kernel: Any, samples: int) -> int:
    """How many gradients of a batch one visit takes at a client of so many training rows; 0 where nothing is
    trained. A kernel whose step takes several says so (`gradients`).
    """
    if scores(kernel) or makes(kernel) or samples < 1:
        return 0
    try:
        return _planned(kernel, samples)
    except TypeError:  # work of somebody's own that has no hash
        return _planned.__wrapped__(kernel, samples)


def extent_of(kernel: Any, samples: int) -> Extent | None:
    """How much a visit takes at a client of so many training rows; None for work that plans in a way of its
    own and does not say.
    """
    classes = type(kernel).__mro__
    plans, says = (next((i for i, c in enumerate(classes) if n in vars(c)), None) for n in ("plan", "extent"))
    if plans is None or says is None or plans < says:
        return None
    found: Extent | None = kernel.extent(samples)
    return found


def gradients_of(kernel: Any) -> int:
    """Of one step."""
    work, each = kernel, 1
    while work is not None:
        each, work = each * int(kernel_fact(work, "gradients")), kernel_fact(work, "inner")
    return each


@lru_cache(maxsize=4096)
def _planned(kernel: Any, samples: int) -> int:
    return gradients_of(kernel) * len(kernel.plan(samples, Key(0)))


KERNELS: Registry[Any] = Registry("kernel", find=partial(features.brought, "wrapper"))
"""Everything that may visit a site."""
WORK: Registry[Any] = Registry("kernel", within=KERNELS)
"""Of these, the local work that a person may choose."""


def kernel_to_dict(kernel: Kernel) -> dict[str, Any]:
    """A kernel as data: its name and its options, kernels among them told likewise."""
    name = getattr(kernel, "name", None)
    if name is None or KERNELS[name] is not type(kernel):
        raise BadInput(f"kernel {type(kernel).__name__} has no name to be sent by: register it in KERNELS")
    return {"name": name, **table_of(kernel)}


def kernel_of(data: Mapping[str, Any]) -> Any:
    """The inverse of `told`; what is not registered here is refused."""
    table = dict(data)
    cls = KERNELS[str(table.pop("name", ""))]
    inner = {k: kernel_of(v) for k, v in table.items() if isinstance(v, Mapping)}
    flat = {k: v for k, v in table.items() if k not in inner}
    known = {f.name for f in dataclasses.fields(cls)}
    for option in inner:
        if option not in known:
            raise BadInput(f"kernel {cls.name} has no option {option!r}: it has {', '.join(sorted(known))}")
    return cls(**coerced(cls, flat, f"kernel {cls.name}"), **inner)


def batch_of(x: Tensor, y: Tensor, rows: Tensor) -> Batch:
    """The planned rows of one step, short batches cut to their real length."""
    real = rows[rows >= 0].to(x.device)
    return Batch(x[real], y[real], torch.ones(len(real), dtype=x.dtype, device=x.device))


def charges_of(kernel: Kernel, rows: Mapping[str, int]) -> Sequence[Charge] | None:
    """What one visit costs a host with so many rows of each part; None: there is no bound."""
    part: str = kernel_fact(kernel, "part") if scores(kernel) else "train"
    if makes(kernel) or not part:  # it looks at no rows
        return ()
    charges = kernel_fact(kernel, "charges")
    return None if charges is None else charges(rows[part])
