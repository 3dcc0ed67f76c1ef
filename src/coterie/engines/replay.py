"""Tracing once, replaying often: a kernel for many edges at once, without the cost of batching it again.

Under vmap and grad every operation passes through several layers of dispatch, which for small tensors costs
more than the operation. So a function that has been called some times with tensors of the same shapes is
traced into the plain operations it consists of (torch.fx), and from then on these are replayed, in the same
order and so with the same bits, by torch's interpreter (torch.jit) instead of Python's.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch.func import vmap
from torch.fx.experimental.proxy_tensor import make_fx

from coterie.core.belief import Beliefs
from coterie.core.kernel import Marker, Reply, Tick, Trainer
from coterie.core.learner import Batch, Learner

Flat = list[Tensor]

PATIENCE = 40  # calls before tracing: tracing takes as long as some hundred calls save
ROOM = 100  # torch never frees what it was given to interpret, a megabyte or two each
_scripts: dict[str, Callable[..., Flat]] = {}
_traced: weakref.WeakKeyDictionary[Learner, dict[Any, Any]] = weakref.WeakKeyDictionary()


class BatchedKernel:
    """A kernel's start, step, mark and finish over an axis of edges.

    Between them a carry is a list of tensors, the last of them those of its book, which steps do not see.
    """

    def __init__(self, kernel: Trainer, learner: Learner) -> None:
        self._kernel, self._learner = kernel, learner
        self._known = _traced.setdefault(learner, {}).setdefault(kernel, {})
        self._carry: Any = None
        self._moving: Any = None

    def start(self, beliefs: Beliefs, memory: Beliefs, beside: Mapping[str, Beliefs]) -> Flat:
        flat, spec = pytree.tree_flatten((dict(beliefs), dict(memory), dict(beside)))
        carry, self._carry = self._run("start", flat, lambda t: self._kernel.start(*_tree(t, spec)))
        moving = {k: part for k, part in _tree(carry, self._carry).items() if k != "book"}
        self._moving = pytree.tree_structure(moving)
        return carry

    def step(self, carry: Flat, batch: Batch, tick: Tick) -> Flat:
        def one(tensors: Sequence[Tensor]) -> Any:
            mine, rest = _tree(tensors[:-5], self._moving), tensors[-5:]
            return self._kernel.step(self._learner, mine, Batch(*rest[:3]), Tick(*rest[3:]))

        moving, book = self._parted(carry)
        return [*self._run("step", [*moving, *batch, *tick], one)[0], *book]

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

    def _run(self, name: str, flat: Flat, one: Callable[[Sequence[Tensor]], Any]) -> tuple[Flat, Any]:
        """vmap of `one`, a function of a list of tensors: the result as a list, and its structure."""
        key = (name, tuple([(t.shape, t.dtype, t.device) for t in flat]))
        entry = self._known.get(key)
        if entry is None:
            entry = self._known[key] = [0, None, None]
        if entry[1] is None:
            entry[0] += 1
            if entry[0] <= PATIENCE:
                return pytree.tree_flatten(vmap(one)(flat))
            entry[1], entry[2] = traced(vmap(one), flat)
        return entry[1](*flat), entry[2]


def traced(function: Callable[[Flat], Any], flat: Flat) -> tuple[Callable[..., Flat], Any]:
    """The operations of function(flat) as a function of the tensors, and the structure of its result."""
    shape: list[Any] = []

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        out, found = pytree.tree_flatten(function(list(tensors)))
        shape.append(found)
        return tuple(out)

    graph = make_fx(run)(*flat)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return interpreted(graph, flat), shape[0]


def interpreted(graph: Any, flat: Flat) -> Callable[..., Flat]:
    """The graph for torch's interpreter; for Python's, if that does not know an operation or has no room."""
    code: str = graph.code
    run: Callable[..., Flat] = graph.forward
    if "self." in code:  # it holds tensors of its own
        return run
    if code not in _scripts and len(_scripts) < ROOM:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that values became constants is what is wanted here
            try:
                script: Any = torch.jit.trace(graph, tuple(flat), check_trace=False)  # type: ignore[no-untyped-call]
            except RuntimeError:
                script = graph
        _scripts[code] = script.forward
    return _scripts.get(code, run)


def _tree(tensors: Sequence[Tensor], spec: Any) -> Any:
    return pytree.tree_unflatten(list(tensors), spec)
