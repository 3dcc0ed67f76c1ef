"""Operations recorded once and replayed for any number of edges.

Under vmap every operation passes through layers of dispatch, which for small tensors costs more than the
operation. So the plain operations that a function consists of are written down below vmap: it is run on two
edges and on three. A size that is the same both times belongs to the model; one that differs is so many times
the number of edges. They become a program for torch's own interpreter (TorchScript), which does the same
operations in the same order, so with the same bits, however many edges there are; it is tried on five before
it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

Flat = list[Tensor]
FEW = (2, 3)  # edges of the two recordings
ANOTHER = 5  # edges on which a program is tried
TENSOR, TENSORS, INT = torch._C.TensorType.get(), torch._C.ListType.ofTensors(), torch._C.IntType.get()
VIEWS = ("aten::view", "aten::_unsafe_view")
FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)


class Unrecordable(Exception):
    """Operations that depend on the number of edges in a way that is not a size."""


class _Call(NamedTuple):
    """One operation: its arguments in the order of its schema, and what came out.

    Of a recording these are tensors and numbers; of a draft, `_Value` and `_Size`.
    """

    op: Any
    args: tuple[Any, ...]
    out: Any


@dataclass(frozen=True)
class _Size:
    """A number that is `times` the number of edges, plus `more`."""

    times: int
    more: int


@dataclass(frozen=True)
class _Value:
    """The tensor of that number: an input, a constant, or what an operation gave."""

    number: int


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down all operations that run inside, below vmap and autograd."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[_Call] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # skipping it would import the whole compiler, for more than a second

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        rest = func._schema.arguments[len(args) :]  # all arguments, as the operation's schema lists them
        given = (*args, *((kwargs or {}).get(a.name, a.default_value) for a in rest))
        self.calls.append(_Call(func, given, out))
        return out


class _Recording(NamedTuple):
    """A run of a function."""

    inputs: Flat
    calls: list[_Call]
    outputs: Flat
    spec: Any


def _few(flat: Flat, edges: int) -> Flat:
    """The first edges; the last one again where there are fewer."""
    return [t[torch.arange(edges, device=t.device).clamp(max=len(t) - 1)] for t in flat]


class _Numbered:
    """Tensors of a recording by number: inputs first, then constants and results as they turn up."""

    def __init__(self, recording: _Recording) -> None:
        self.tensors: Flat = []
        self._numbers: dict[int, int] = {}
        for tensor in recording.inputs:
            self.add(tensor)

    def add(self, tensor: Tensor) -> _Value:
        # tensors stay alive in the recording, so no two of them share an id
        self._numbers[id(tensor)] = len(self.tensors)
        self.tensors.append(tensor)
        return _Value(len(self.tensors) - 1)

    def find(self, tensor: Tensor) -> _Value | None:
        number = self._numbers.get(id(tensor))
        return None if number is None else _Value(number)


class _Draft:
    """Two recordings read side by side, into lines that hold for any number of edges.

    A short one leaves out what changes nothing or was worked out before.
    """

    def __init__(self, one: _Recording, two: _Recording, short: bool) -> None:
        self.one, self.two = _Numbered(one), _Numbered(two)
        self.constants: dict[int, Tensor] = {}
        self.lines: list[_Call] = []
        if [c.op for c in one.calls] != [c.op for c in two.calls]:
            raise Unrecordable("other operations for other numbers of edges")
        self.pure = not any(call.op._schema.is_mutable for call in one.calls)
        self._short = short and self.pure
        self._same: dict[int, int] = {}
        self._known: dict[Any, Any] = {}
        for a, b in zip(one.calls, two.calls, strict=True):
            self._append(a, b)
        self.outputs = [self._read(a, b) for a, b in zip(one.outputs, two.outputs, strict=True)]

    def _append(self, a: _Call, b: _Call) -> None:
        if _of_a_number(a) and _of_a_number(b):
            return  # what is read of it later is a constant
        args = tuple(self._read(x, y) for x, y in zip(a.args, b.args, strict=True))
        if not self.pure and isinstance(a.out, Tensor) and self.one.find(a.out) is not None:
            self.lines.append(_Call(a.op, args, None))  # in place: what it gave has a number already
            return
        out = self._out(a.out, b.out)
        if self._short:
            known = self._known.get((a.op, repr(args)))
            if known is None and _passes_on(a) and _passes_on(b):
                known = args[0]
            if known is not None:
                for new, old in zip(_values_in(out), _values_in(known), strict=True):
                    self._same[new.number] = old.number
                return
            self._known[a.op, repr(args)] = out
        self.lines.append(_Call(a.op, args, out))

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
                if a.shape != b.shape or not torch.equal(a, b):
                    raise Unrecordable("a constant that depends on the number of edges")
                self.two.add(b)
                value = self.one.add(a)
                self.constants[value.number] = a.detach()
                return value
            if self.two.find(b) != value:
                raise Unrecordable("other tensors for other numbers of edges")
            return _Value(self._same.get(value.number, value.number))
        if isinstance(a, tuple | list):
            return [self._read(x, y) for x, y in zip(a, b, strict=True)]
        if a == b and type(a) is type(b):
            return a
        if type(a) is int and type(b) is int:
            times = b - a
            return _Size(times, a - times * FEW[0])
        raise Unrecordable(f"{a} for {FEW[0]} edges and {b} for {FEW[1]}")


def _values_in(what: Any) -> list[_Value]:
    return [leaf for leaf in pytree.tree_leaves(what) if isinstance(leaf, _Value)]


COPIES = ("aten::_to_copy", "aten::clone")


def _passes_on(call: _Call) -> bool:
    """Whether what comes out is the first argument: the same memory seen in the same way, or a copy."""
    given, out, name = call.args[0] if call.args else None, call.out, call.op._schema.name
    if not (isinstance(given, Tensor) and isinstance(out, Tensor)):
        return False
    alike = (given.shape, given.dtype, given.device) == (out.shape, out.dtype, out.device)
    if not alike or given.stride() != out.stride():
        return False
    times_one = name == "aten::mul" and type(call.args[1]) in (int, float) and call.args[1] == 1
    return given.data_ptr() == out.data_ptr() or name in COPIES or times_one


def _of_a_number(call: _Call) -> bool:
    """Whether a plain number becomes a tensor, as in a step whose size is one."""
    return call.op._schema.name == "aten::_to_copy" and type(call.args[0]) in (int, float)


def _needed(draft: _Draft) -> list[_Call]:
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


class _Script:
    """Lines as a TorchScript function of a list of tensors: inputs, then constants."""

    def __init__(self, draft: _Draft, inputs: int) -> None:
        self._graph = cast(Any, torch._C.Graph())
        self._pure = draft.pure
        self._sizes: dict[_Size, Any] = {}
        given = self._graph.addInput()
        given.setType(TENSORS)
        numbers = [*range(inputs), *draft.constants]
        self._values = dict(zip(numbers, self._unpacked(given, len(numbers)), strict=True))
        self._edges = self._node("aten::size", [self._values[0], self._graph.insertConstant(0)], INT)
        for line in _needed(draft):
            self._append(line)
        results = [self._values[value.number] for value in draft.outputs]
        self._graph.registerOutput(self._node("prim::ListConstruct", results, TENSORS))
        self.function = torch._C._create_function_from_graph("program", self._graph)

    def _append(self, line: _Call) -> None:
        schema = line.op._schema
        args = [self._value(value, a.type) for value, a in zip(line.args, schema.arguments, strict=True)]
        # tensors may lie otherwise in memory than when recorded
        name = "aten::reshape" if self._pure and schema.name in VIEWS else schema.name
        node = self._graph.create(name, args, len(schema.returns))
        self._graph.appendNode(node)
        if line.out is None:
            return
        outs = line.out if isinstance(line.out, tuple) else (line.out,)
        for out, value, returned in zip(outs, node.outputs(), schema.returns, strict=True):
            value.setType(returned.type)
            if out is None:
                continue
            if isinstance(out, list):
                pieces = zip(out, self._unpacked(value, len(out)), strict=True)
                self._values |= {piece.number: unpacked for piece, unpacked in pieces}
            else:
                self._values[out.number] = value

    def _value(self, value: Any, kind: Any) -> Any:
        if isinstance(value, _Value):
            return self._values[value.number]
        if isinstance(value, _Size):
            if value not in self._sizes:
                times, more = (self._graph.insertConstant(n) for n in (value.times, value.more))
                made = self._edges if value.times == 1 else self._node("aten::mul", [self._edges, times], INT)
                self._sizes[value] = self._node("aten::add", [made, more], INT) if value.more else made
            return self._sizes[value]
        if isinstance(value, list):
            kind = kind.getElementType() if kind.kind() == "OptionalType" else kind
            each = [self._value(v, kind.getElementType()) for v in value]
            return self._node("prim::ListConstruct", each, kind)
        if value in FORMATS and isinstance(value, torch.memory_format):
            value = FORMATS.index(value)
        return self._graph.insertConstant(value)

    def _node(self, kind: str, args: Sequence[Any], gives: Any) -> Any:
        node = self._graph.create(kind, args, 1)
        self._graph.appendNode(node)
        node.output().setType(gives)
        return node.output()

    def _unpacked(self, several: Any, count: int) -> list[Any]:
        node = self._graph.create("prim::ListUnpack", [several], count)
        self._graph.appendNode(node)
        values = list(node.outputs())
        for value in values:
            value.setType(TENSOR)
        return values


class Program(NamedTuple):
    """A function of tensors [edge, ...] for any number of edges.

    function    of inputs and constants, both in one list
    constants   tensors that the function holds
    spec        the structure of its result
    """

    function: Any
    constants: Flat
    spec: Any

    def __call__(self, flat: Flat) -> Flat:
        out: Flat = self.function([*flat, *self.constants])
        return out


def program(function: Callable[[Flat], Any], flat: Flat) -> Program:
    """What the function does, recorded; refused if it cannot be."""
    runs = []
    for edges in FEW:
        given = _few(flat, edges)
        with torch.no_grad(), _Recorder() as recorder:
            outputs, spec = pytree.tree_flatten(function(given))
        runs.append(_Recording(given, recorder.calls, outputs, spec))
    one, two = runs
    other = _few(flat, ANOTHER)
    with torch.no_grad():
        expected = pytree.tree_leaves(function(other))
    for short in (True, False):
        draft = _Draft(one, two, short)
        try:
            made = Program(_Script(draft, len(flat)).function, list(draft.constants.values()), two.spec)
            with torch.no_grad():
                found = made(other)
        except RuntimeError as error:  # an operation that TorchScript does not know
            raise Unrecordable(str(error).splitlines()[0]) from None
        if all(map(_same_bits, found, expected)) and _shared(found, other) == _shared(expected, other):
            return made
    raise Unrecordable("replaying gives other numbers")


def _same_bits(a: Tensor, b: Tensor) -> bool:
    alike = a.dtype == b.dtype and a.shape == b.shape
    return alike and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)


def _shared(outputs: Flat, inputs: Flat) -> list[int]:
    """Whose memory each output lies in: that of the first such input or output."""
    places = [t.untyped_storage().data_ptr() for t in (*inputs, *outputs)]
    return [places.index(place) for place in places[len(inputs) :]]
