"""A kernel for many edges at once: batched by vmap at first, then recorded and replayed.

What was recorded (`program.py`) is kept for as long as the learner, whatever run asks for it next. Steps in a
row are one call: torch's interpreter gathers their batches and goes from step to step by itself.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch.func import vmap

from coterie.core.belief import Beliefs
from coterie.core.clock import CLOCK
from coterie.core.kernel import Marker, Reply, Tick, Trainer
from coterie.core.learner import Batch, Learner
from coterie.engines.program import Flat, Program, Unrecordable, program
from coterie.kernels.around import Around

PATIENCE = 1  # calls before recording, which takes as long as some calls
log = logging.getLogger("coterie")

LOOP = """
def visit(moving: List[Tensor], constants: List[Tensor], x: Tensor, y: Tensor, rows: Tensor,
          weights: Tensor, rates: Tensor, seeds: Tensor, active: List[int]) -> List[Tensor]:
    wanted, weight, rate = rows.flatten(1).unbind(0), weights.unbind(0), rates.unbind(0)
    over: List[List[Tensor]] = []
    edges, total = seeds.size(0), seeds.size(0)
    shape_x, shape_y = rows.size()[1:] + x.size()[1:], rows.size()[1:] + y.size()[1:]
    for s in range(len(active)):
        picked, counts, factors = wanted[s], weight[s], rate[s]
        if active[s] < edges:
            over.append([t[active[s]:edges] for t in moving])
            edges = active[s]
            moving = [t[:edges] for t in moving]
            seeds = seeds[:edges]
            shape_x[0] = edges
            shape_y[0] = edges
        if edges < total:
            picked, counts, factors = picked[: edges * rows.size(2)], counts[:edges], factors[:edges]
        batch_x, batch_y = x.index_select(0, picked).view(shape_x), y.index_select(0, picked).view(shape_y)
        moving = step(moving + [batch_x, batch_y, counts, factors, seeds + s] + constants)
    if len(over) == 0:
        return moving
    over.reverse()
    return [torch.cat([moving[k]] + [tail[k] for tail in over]) for k in range(len(moving))]
"""


class Stretch(NamedTuple):
    """Steps in a row. Edges whose steps are over leave the end of the stack: they are sorted by that.

    x, y      rows of all clients
    rows      [step, edge, row] which of them; weights [step, edge, row] 0 for padding
    rates     [step, edge]
    seeds     [edge] of the first step
    active    of each step, how many edges it has
    """

    x: Tensor
    y: Tensor
    rows: Tensor
    weights: Tensor
    rates: Tensor
    seeds: Tensor
    active: list[int]

    def first(self) -> Flat:
        """Batch and tick of the first step."""
        n = self.active[0]
        rows = self.rows[0, :n]
        x, y = (t.index_select(0, rows.flatten()).view(*rows.shape, *t.shape[1:]) for t in (self.x, self.y))
        return [x, y, self.weights[0, :n], self.rates[0, :n], self.seeds[:n]]

    def between(self, first: int, last: int) -> Stretch:
        """Some of the steps."""
        rows, weights, rates = (t[first:last] for t in (self.rows, self.weights, self.rates))
        return Stretch(self.x, self.y, rows, weights, rates, self.seeds + first, self.active[first:last])

    def kind(self) -> tuple[Any, ...]:
        """What programs have to be recorded anew for."""
        rates = (self.rates.shape[2:], self.rates.dtype)
        return (self.x.shape[1:], self.x.dtype, self.x.device, self.y.dtype, self.rows.shape[2], rates)


class _Entry:
    """What is known of one function at tensors of some shapes.

    calls      so far, until it is recorded
    program    of it, and `loop` of many in a row, once recorded
    given      the structure of what a visit starts from, and `moving` of what its steps change
    """

    def __init__(self) -> None:
        self.calls = 0
        self.program: Program | None = None
        self.loop: Any = None
        self.given: Any = None
        self.moving: Any = None

    def met(self, function: Callable[[Flat], Any], flat: Flat) -> Program | None:
        """Its program, recorded once it has been called some times; None before, or if it cannot be."""
        if self.calls == PATIENCE:
            try:
                with CLOCK.part("tracing"):
                    self.program = program(function, flat)
            except Unrecordable as reason:
                log.info("steps are batched anew each time: %s", reason)
        self.calls += 1
        return self.program


Known = dict[Any, _Entry]
ROOM = 200  # entries of a learner: of many learning rates the first are forgotten


def _entry_of(known: Known, key: Any) -> _Entry:
    if key not in known:
        while len(known) >= ROOM:
            del known[next(iter(known))]
        known[key] = _Entry()
    return known[key]


_known: weakref.WeakKeyDictionary[Learner, Known] = weakref.WeakKeyDictionary()


class BatchedKernel:
    """A kernel's start, steps, mark and finish over an axis of edges.

    Between them a carry is a list of tensors, the last of them those of its book, which steps do not see.
    """

    def __init__(self, kernel: Trainer, learner: Learner) -> None:
        doing: Any = kernel  # what only plans otherwise has the steps of the work inside it
        same = ("start", "step", "mark", "finish")
        while isinstance(doing, Around) and all(getattr(type(doing), n) is getattr(Around, n) for n in same):
            doing = doing.inner
        self._kernel, self._learner = doing, learner
        self._known = _known.setdefault(learner, {})
        self._carry: Any = None
        self._moving: Any = None

    def start(self, beliefs: Beliefs, memory: Beliefs, beside: Mapping[str, Beliefs]) -> Flat:
        flat = [*beliefs.values(), *memory.values(), *(t for b in beside.values() for t in b.values())]
        entry = self._entry("start", flat, tuple(beside))
        if entry.given is None:
            entry.given = pytree.tree_structure((dict(beliefs), dict(memory), dict(beside)))
        carry, self._carry = self._run(entry, flat, lambda t: self._kernel.start(*_tree(t, entry.given)))
        if entry.moving is None:
            moving = {k: part for k, part in _tree(carry, self._carry).items() if k != "book"}
            entry.moving = pytree.tree_structure(moving)
        self._moving = entry.moving
        return carry

    def steps(self, carry: Flat, stretch: Stretch) -> Flat:
        """The carry after these steps."""

        def one(tensors: Sequence[Tensor]) -> Any:
            mine, rest = _tree(tensors[:-5], self._moving), tensors[-5:]
            tick = Tick(*rest[3:])
            batch = self._learner.drawn(Batch(*rest[:3]), tick.seed)
            return self._kernel.step(self._learner, mine, batch, tick)

        moving, book = self._parted(carry)
        entry = self._entry("steps", moving, stretch.kind())
        while stretch.active:
            if entry.program is None:
                n = stretch.active[0]
                now = [*(t[:n] for t in moving), *stretch.first()]
                entry.met(vmap(one), now)
            if entry.program is not None:
                entry.loop = entry.loop or _looped(entry.program)
                return [*entry.loop(moving, entry.program.constants, *stretch), *book]
            after = pytree.tree_leaves(vmap(one)(now))
            moving = [torch.cat([t, old[n:]]) for t, old in zip(after, moving, strict=True)]
            stretch = stretch.between(1, len(stretch.active))
        return [*moving, *book]

    def mark(self, carry: Flat, marked: Sequence[bool]) -> Flat:
        """The carry after a mark of those edges."""

        def one(tensors: Sequence[Tensor]) -> Any:
            return cast(Marker, self._kernel).mark(_tree(tensors, self._carry))["book"]

        moving, book = self._parted(carry)
        if all(marked):
            return [*moving, *self._run(self._entry("mark", carry), carry, one)[0]]
        rows = torch.tensor([i for i, here in enumerate(marked) if here], device=carry[0].device)
        chosen = [t.index_select(0, rows) for t in carry]
        some = self._run(self._entry("mark", chosen), chosen, one)[0]
        # in place: a book is the visit's own, and of a belief it may share the next step makes another
        return [*moving, *(t.index_copy_(0, rows, new) for t, new in zip(book, some, strict=True))]

    def finish(self, carry: Flat) -> Reply:
        entry = self._entry("finish", carry)
        flat, spec = self._run(entry, carry, lambda t: self._kernel.finish(_tree(t, self._carry)))
        reply: Reply = _tree(flat, spec)
        return reply

    def _parted(self, carry: Flat) -> tuple[Flat, Flat]:
        """What steps see, and the book."""
        moving: int = self._moving.num_leaves
        return carry[:moving], carry[moving:]

    def _entry(self, name: str, flat: Flat, more: Any = ()) -> _Entry:
        key = (self._kernel, name, more, tuple([(t.shape[1:], t.dtype, t.device) for t in flat]))
        return _entry_of(self._known, key)

    def _run(self, entry: _Entry, flat: Flat, one: Callable[[Sequence[Tensor]], Any]) -> tuple[Flat, Any]:
        """vmap of `one`, a function of a list of tensors: the result as a list, and its structure."""
        found = entry.program or entry.met(vmap(one), flat)
        return (found(flat), found.spec) if found else pytree.tree_flatten(vmap(one)(flat))


def outputs_of(learner: Learner, beliefs: Beliefs, x: Tensor) -> Tensor:
    """Predictions of many beliefs without training, each for its rows of x [belief, row, ...]."""
    names, flat = tuple(beliefs), [*beliefs.values(), x]

    def one(tensors: Sequence[Tensor]) -> Tensor:
        return learner.outputs(dict(zip(names, tensors, strict=False)), tensors[-1])

    key = ("outputs", names, tuple([(t.shape[1:], t.dtype, t.device) for t in flat]))
    entry = _entry_of(_known.setdefault(learner, {}), key)
    found = entry.program or entry.met(vmap(one), flat)
    return found(flat)[0] if found else vmap(one)(flat)


def _looped(step: Program) -> Any:
    """Steps in a row as one function."""
    unit = torch._C.CompilationUnit()
    names: Any = {"step": step.function, "torch": torch}
    unit.define(LOOP, lambda name: names.get(name))
    return unit.find_function("visit")


def _tree(tensors: Sequence[Tensor], spec: Any) -> Any:
    return pytree.tree_unflatten(list(tensors), spec)
