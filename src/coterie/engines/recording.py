"""Operations written down below vmap, and read for any number of edges.

A function of stacked tensors [edge, ...] is run on two edges and on three. A size that is the same both times
belongs to the model; one that differs is so many times the number of edges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

Flat = list[Tensor]
FEW = (2, 3)  # edges of the two recordings


class Unrecordable(Exception):
    """Operations that depend on the number of edges in a way that is not a size."""


class Call(NamedTuple):
    """One operation: its arguments in the order of its schema, and what came out.

    Of a recording these are tensors and numbers; of a draft, `Value` and `Size`.
    """

    op: Any
    args: tuple[Any, ...]
    out: Any


@dataclass(frozen=True)
class Size:
    """A number that is `times` the number of edges, plus `more`."""

    times: int
    more: int


@dataclass(frozen=True)
class Value:
    """The tensor of that number: an input, a constant, or what an operation gave."""

    number: int


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down all operations that run inside, below vmap and autograd."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # skipping it would import the whole compiler, for more than a second

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        self.calls.append(Call(func, _in_order(func, args, kwargs or {}), out))
        return out


def _in_order(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """All arguments of a call, as the operation's schema lists them."""
    rest = op._schema.arguments[len(args) :]
    return (*args, *(kwargs.get(a.name, a.default_value) for a in rest))


class _Recording(NamedTuple):
    """A run of a function."""

    inputs: Flat
    calls: list[Call]
    outputs: Flat
    spec: Any


def few(flat: Flat, edges: int) -> Flat:
    """The first edges; the last one again where there are fewer."""
    return [t[torch.arange(edges, device=t.device).clamp(max=len(t) - 1)] for t in flat]


def record(function: Callable[[Flat], Any], flat: Flat) -> _Recording:
    """The function, watched."""
    with torch.no_grad(), _Recorder() as recorder:
        outputs, spec = pytree.tree_flatten(function(flat))
    return _Recording(flat, recorder.calls, outputs, spec)


class _Numbered:
    """Tensors of a recording by number: inputs first, then constants and results as they turn up."""

    def __init__(self, recording: _Recording) -> None:
        self.tensors: Flat = []
        self._numbers: dict[int, int] = {}
        for tensor in recording.inputs:
            self.add(tensor)

    def add(self, tensor: Tensor) -> Value:
        # tensors stay alive in the recording, so no two of them share an id
        self._numbers[id(tensor)] = len(self.tensors)
        self.tensors.append(tensor)
        return Value(len(self.tensors) - 1)

    def find(self, tensor: Tensor) -> Value | None:
        number = self._numbers.get(id(tensor))
        return None if number is None else Value(number)


class Draft:
    """Two recordings read side by side, into lines that hold for any number of edges.

    A short one leaves out what changes nothing or was worked out before.
    """

    def __init__(self, one: _Recording, two: _Recording, short: bool) -> None:
        self.one, self.two = _Numbered(one), _Numbered(two)
        self.constants: dict[int, Tensor] = {}
        self.lines: list[Call] = []
        if [c.op for c in one.calls] != [c.op for c in two.calls]:
            raise Unrecordable("other operations for other numbers of edges")
        self.pure = not any(call.op._schema.is_mutable for call in one.calls)
        self._short = short and self.pure
        self._same: dict[int, int] = {}
        self._known: dict[Any, Any] = {}
        for a, b in zip(one.calls, two.calls, strict=True):
            self._append(a, b)
        self.outputs = [self._read(a, b) for a, b in zip(one.outputs, two.outputs, strict=True)]

    def _append(self, a: Call, b: Call) -> None:
        if _of_a_number(a) and _of_a_number(b):
            return  # what is read of it later is a constant
        args = tuple(self._read(x, y) for x, y in zip(a.args, b.args, strict=True))
        if not self.pure and isinstance(a.out, Tensor) and self.one.find(a.out) is not None:
            self.lines.append(Call(a.op, args, None))  # in place: what it gave has a number already
            return
        out = self._out(a.out, b.out)
        if self._short:
            known = self._known.get((a.op, repr(args)))
            if known is None and _changes_nothing(a, b):
                known = args[0]
            if known is not None:
                for new, old in zip(_values_in(out), _values_in(known), strict=True):
                    self._same[new.number] = old.number
                return
            self._known[a.op, repr(args)] = out
        self.lines.append(Call(a.op, args, out))

    def _out(self, a: Any, b: Any) -> Any:
        if isinstance(a, Tensor):
            self.two.add(b)
            return self.one.add(a)
        if isinstance(a, tuple | list):
            return type(a)(self._out(x, y) for x, y in zip(a, b, strict=True))
        if a is None and b is None:
            return None
        raise Unrecordable(f"an operation that gives {type(a).__name__}")

    def _read(self, a: Any, b: Any) -> Any:
        if isinstance(a, Tensor):
            value = self.one.find(a)
            if value is None:
                return self._constant(a, b)
            if self.two.find(b) != value:
                raise Unrecordable("other tensors for other numbers of edges")
            return Value(self._same.get(value.number, value.number))
        if isinstance(a, tuple | list):
            return [self._read(x, y) for x, y in zip(a, b, strict=True)]
        if a == b and type(a) is type(b):
            return a
        if type(a) is int and type(b) is int:
            times = b - a
            return Size(times, a - times * FEW[0])
        raise Unrecordable(f"{a} for {FEW[0]} edges and {b} for {FEW[1]}")

    def _constant(self, a: Tensor, b: Tensor) -> Value:
        if a.shape != b.shape or not torch.equal(a, b):
            raise Unrecordable("a constant that depends on the number of edges")
        self.two.add(b)
        value = self.one.add(a)
        self.constants[value.number] = a.detach()
        return value


def _values_in(what: Any) -> list[Value]:
    return [leaf for leaf in pytree.tree_leaves(what) if isinstance(leaf, Value)]


def _changes_nothing(a: Call, b: Call) -> bool:
    """Whether an operation only passes on its first argument, both times."""
    return all(_passes_on(call) for call in (a, b))


COPIES = ("aten::_to_copy", "aten::clone")


def _passes_on(call: Call) -> bool:
    """Whether what comes out is the first argument: the same memory seen in the same way, or a copy."""
    given, out, name = call.args[0] if call.args else None, call.out, call.op._schema.name
    if not (isinstance(given, Tensor) and isinstance(out, Tensor)):
        return False
    alike = (given.shape, given.dtype, given.device) == (out.shape, out.dtype, out.device)
    if not alike or given.stride() != out.stride():
        return False
    times_one = name == "aten::mul" and type(call.args[1]) in (int, float) and call.args[1] == 1
    return given.data_ptr() == out.data_ptr() or name in COPIES or times_one


def _of_a_number(call: Call) -> bool:
    """Whether a plain number becomes a tensor, as in a step whose size is one."""
    return call.op._schema.name == "aten::_to_copy" and type(call.args[0]) in (int, float)


def needed(draft: Draft) -> list[Call]:
    """The lines that something comes of; all, if any of them changes a tensor in place."""
    if not draft.pure:
        return draft.lines
    wanted = {value.number for value in draft.outputs}
    kept = []
    for line in reversed(draft.lines):
        if any(value.number in wanted for value in _values_in(line.out)):
            wanted |= {value.number for value in _values_in(line.args)}
            kept.append(line)
    return kept[::-1]
