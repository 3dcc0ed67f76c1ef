"""Operations recorded once and replayed for any number of edges.

Under vmap every operation passes through layers of dispatch, which for small tensors costs more than the
operation. So the plain operations that a function consists of are written down (`recording.py`), and become a
program for torch's own interpreter (TorchScript), which does the same operations in the same order, so with
the same bits, however many edges there are; it is tried on five before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch
import torch.utils._pytree as pytree
from torch import Tensor

from coterie.engines.recording import (
    FEW,
    Call,
    Draft,
    Flat,
    Size,
    Unrecordable,
    Value,
    few,
    needed,
    record,
)

ANOTHER = 5  # edges on which a program is tried
TENSOR, TENSORS, INT = torch._C.TensorType.get(), torch._C.ListType.ofTensors(), torch._C.IntType.get()
VIEWS = ("aten::view", "aten::_unsafe_view")
FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)


class _Script:
    """Lines as a TorchScript function of a list of tensors: inputs, then constants."""

    def __init__(self, draft: Draft, inputs: int) -> None:
        self._graph = cast(Any, torch._C.Graph())
        self._pure = draft.pure
        self._sizes: dict[Size, Any] = {}
        given = self._graph.addInput()
        given.setType(TENSORS)
        numbers = [*range(inputs), *draft.constants]
        self._values = dict(zip(numbers, self._unpacked(given, len(numbers)), strict=True))
        self._edges = self._node("aten::size", [self._values[0], self._graph.insertConstant(0)], INT)
        for line in needed(draft):
            self._append(line)
        results = [self._values[value.number] for value in draft.outputs]
        self._graph.registerOutput(self._node("prim::ListConstruct", results, TENSORS))
        self.function = torch._C._create_function_from_graph("program", self._graph)

    def _append(self, line: Call) -> None:
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
        if isinstance(value, Value):
            return self._values[value.number]
        if isinstance(value, Size):
            if value not in self._sizes:
                self._sizes[value] = self._size(value)
            return self._sizes[value]
        if isinstance(value, list):
            kind = kind.getElementType() if kind.kind() == "OptionalType" else kind
            each = [self._value(v, kind.getElementType()) for v in value]
            return self._node("prim::ListConstruct", each, kind)
        if value in FORMATS and isinstance(value, torch.memory_format):
            value = FORMATS.index(value)
        return self._graph.insertConstant(value)

    def _size(self, size: Size) -> Any:
        times, more = (self._graph.insertConstant(n) for n in (size.times, size.more))
        scaled = self._edges if size.times == 1 else self._node("aten::mul", [self._edges, times], INT)
        return self._node("aten::add", [scaled, more], INT) if size.more else scaled

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
    one, two = (record(function, few(flat, edges)) for edges in FEW)
    other = few(flat, ANOTHER)
    with torch.no_grad():
        expected = pytree.tree_leaves(function(other))
    for short in (True, False):
        draft = Draft(one, two, short)
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
