"""A kernel for many edges at once: batched by vmap a few times, then recorded and replayed.

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

PATIENCE = 3  # calls before recording, which takes as long as some calls
log = logging.getLogger("coterie")

LOOP = """
def visit(moving: List[Tensor], constants: List[Tensor], x: Tensor, y: Tensor,
          rows: Tensor, weights: Tensor, rates: Tensor, seeds: Tensor) -> List[Tensor]:
    shape = rows.size()[1:]
    wanted = rows.flatten(1)
    for s in range(wanted.size(0)):
        batch_x = x.index_select(0, wanted[s]).view(shape + x.size()[1:])
        batch_y = y.index_select(0, wanted[s]).view(shape + y.size()[1:])
        moving = step(moving + [batch_x, batch_y, weights[s], rates[s], seeds + s] + constants)
    return moving
"""


class Stretch(NamedTuple):
    """Steps in a row of the same edges.

    x, y      rows of all clients
    rows      [step, edge, row] which of them; weights [step, edge, row] 0 for padding
    rates     [step, edge]
    seeds     [edge] of the first step
    """

    x: Tensor
    y: Tensor
    rows: Tensor
    weights: Tensor
    rates: Tensor
    seeds: Tensor

    def step(self, s: int) -> tuple[Tensor, ...]:
        """Batch and tick of one of them."""
        rows = self.rows[s]
        x, y = (t.index_select(0, rows.flatten()).view(*rows.shape, *t.shape[1:]) for t in (self.x, self.y))
        return x, y, self.weights[s], self.rates[s], self.seeds + s

    def after(self, s: int) -> Stretch:
        """What is left after so many steps."""
        return Stretch(self.x, self.y, self.rows[s:], self.weights[s:], self.rates[s:], self.seeds + s)


class Entry:
    """What is known of one function at tensors of some shapes."""

    def __init__(self) -> None:
        self.calls = 0
        self.program: Program | None = None
        self.loop: Any = None

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


Known = dict[Any, Entry]
_known: weakref.WeakKeyDictionary[Learner, Known] = weakref.WeakKeyDictionary()


class BatchedKernel:
    """A kernel's start, steps, mark and finish over an axis of edges.

    Between them a carry is a list of tensors, the last of them those of its book, which steps do not see.
    """

    def __init__(self, kernel: Trainer, learner: Learner) -> None:
        self._kernel, self._learner = kernel, learner
        self._known = _known.setdefault(learner, {})
        self._carry: Any = None
        self._moving: Any = None

    def start(self, beliefs: Beliefs, memory: Beliefs, beside: Mapping[str, Beliefs]) -> Flat:
        flat, spec = pytree.tree_flatten((dict(beliefs), dict(memory), dict(beside)))
        carry, self._carry = self._run("start", flat, lambda t: self._kernel.start(*_tree(t, spec)))
        moving = {k: part for k, part in _tree(carry, self._carry).items() if k != "book"}
        self._moving = pytree.tree_structure(moving)
        return carry

    def steps(self, carry: Flat, stretch: Stretch) -> Flat:
        """The carry after these steps."""

        def one(tensors: Sequence[Tensor]) -> Any:
            mine, rest = _tree(tensors[:-5], self._moving), tensors[-5:]
            return self._kernel.step(self._learner, mine, Batch(*rest[:3]), Tick(*rest[3:]))

        moving, book = self._parted(carry)
        entry = self._entry("steps", [*moving, *stretch.step(0)])
        while len(stretch.rows):
            if entry.program is None:
                now = [*moving, *stretch.step(0)]
                entry.met(vmap(one), now)
            if entry.program is not None:
                entry.loop = entry.loop or looped(entry.program)
                return [*entry.loop(moving, entry.program.constants, *stretch), *book]
            moving = pytree.tree_leaves(vmap(one)(now))
            stretch = stretch.after(1)
        return [*moving, *book]

    def mark(self, carry: Flat, marked: Sequence[bool]) -> Flat:
        """The carry after a mark of those edges."""

        def one(tensors: Sequence[Tensor]) -> Any:
            return cast(Marker, self._kernel).mark(_tree(tensors, self._carry))["book"]

        moving, book = self._parted(carry)
        if all(marked):
            return [*moving, *self._run("mark", carry, one)[0]]
        rows = torch.tensor([i for i, here in enumerate(marked) if here], device=carry[0].device)
        some = self._run("mark", [t.index_select(0, rows) for t in carry], one)[0]
        # in place: a book is the visit's own, and of a belief it may share the next step makes another
        return [*moving, *(t.index_copy_(0, rows, new) for t, new in zip(book, some, strict=True))]

    def finish(self, carry: Flat) -> Reply:
        flat, spec = self._run("finish", carry, lambda t: self._kernel.finish(_tree(t, self._carry)))
        reply: Reply = _tree(flat, spec)
        return reply

    def _parted(self, carry: Flat) -> tuple[Flat, Flat]:
        """What steps see, and the book."""
        moving: int = self._moving.num_leaves
        return carry[:moving], carry[moving:]

    def _entry(self, name: str, flat: Flat) -> Entry:
        key = (self._kernel, name, tuple([(t.shape[1:], t.dtype, t.device) for t in flat]))
        return self._known.setdefault(key, Entry())

    def _run(self, name: str, flat: Flat, one: Callable[[Sequence[Tensor]], Any]) -> tuple[Flat, Any]:
        """vmap of `one`, a function of a list of tensors: the result as a list, and its structure."""
        entry = self._entry(name, flat)
        found = entry.program or entry.met(vmap(one), flat)
        return (found(flat), found.spec) if found else pytree.tree_flatten(vmap(one)(flat))


def looped(step: Program) -> Any:
    """Steps in a row as one function."""
    unit = torch._C.CompilationUnit()
    names: Any = {"step": step.function}
    unit.define(LOOP, lambda name: names.get(name))
    return unit.find_function("visit")


def _tree(tensors: Sequence[Tensor], spec: Any) -> Any:
    return pytree.tree_unflatten(list(tensors), spec)
