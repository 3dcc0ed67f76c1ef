"""Tracing once, replaying often: a batched function without the cost of batching it again.

Under vmap and grad every operation passes through several layers of dispatch, which for small tensors costs
more than the operation. So a function that has been called some times with tensors of the same shapes is
traced into the plain operations it consists of (torch.fx), and from then on these are replayed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.func import vmap
from torch.fx.experimental.proxy_tensor import make_fx

PATIENCE = 40  # calls before tracing: tracing takes as long as some hundred calls save
_traced: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()


class Batched:
    """vmap(function) over all tensors of its arguments; `owner` and `name` say what it is."""

    def __init__(self, function: Callable[..., Any], owner: object, name: object) -> None:
        self._function, self._name = function, name
        self._known = _traced.setdefault(owner, {})

    def __call__(self, *arguments: Any) -> Any:
        flat, spec = pytree.tree_flatten(arguments)
        key = (self._name, spec, tuple((t.shape, t.dtype, t.device) for t in flat))
        entry = self._known.setdefault(key, [0, None, None])
        entry[0] += 1
        if entry[1] is None:
            if entry[0] <= PATIENCE:
                return vmap(self._function)(*arguments)
            entry[1], entry[2] = self._trace(flat, spec)
        with torch.no_grad():
            return pytree.tree_unflatten(entry[1](*flat), entry[2])

    def _trace(self, flat: list[Any], spec: Any) -> tuple[Callable[..., Any], Any]:
        shape: list[Any] = []

        def run(*tensors: Any) -> list[Any]:
            out, found = pytree.tree_flatten(
                vmap(self._function)(*pytree.tree_unflatten(list(tensors), spec))
            )
            shape.append(found)
            return out

        graph = make_fx(run)(*flat)
        graph.graph.eliminate_dead_code()
        graph.recompile()
        return graph.forward, shape[0]
