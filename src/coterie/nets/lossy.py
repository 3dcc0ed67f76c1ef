"""How models cross a wire, by name: as they are, or in fewer bytes and a little less exactly.

    none        plain bytes
    delta       exact, in fewer bytes: see `packing.py`
    fp16        changes as half floats
    int8        changes as whole numbers from -127 to 127 times a scale, one scale for each tensor
    topk=0.01   the largest hundredth of each tensor's changes; the others stay as they are at the receiver

A change is what differs from the reference, a model that both ends hold. The last three lose something:

    change = tensor - reference + memory          sent = decode(encode(change))
    receiver's tensor = reference + sent          memory = change - sent

Memory stays at the sender: what is not sent now is sent later (error feedback). It belongs to models that
are made from the reference: what a site makes of the model that it was sent, and the average that a server
makes of such replies. A peer that goes on with a model of its own, whatever the receiver holds, gives no
memory: its next difference has in itself what was not sent, and would have it twice. Keep a new memory only
once the receiver has taken the model; if that has lost the reference, pack again with the memory of before.

Without a reference fp16 and int8 send the tensors themselves, topk sends them exactly and forgets. Only
float32 and float64 lose anything. Whole numbers, switches and small floats go exactly, and so does a tensor
whose change is not finite or too large to be written down: whoever looks for NaN finds it where it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor

from coterie.core.checks import is_number
from coterie.core.errors import BadData, BadInput, lines_of, shown
from coterie.core.options import coerced, read_value, table_of
from coterie.core.registry import Registry
from coterie.nets import packing
from coterie.nets.packing import Layout, Meta, Reference

LEAST = 256  # bytes from which the parts of a model are packed further: whoever asks for them wants few bytes
ROUNDED = ("float32", "float64")
MOST_ROUNDED = 2**31  # numbers of a tensor: places in it are written as int32

Tensors = Mapping[str, Tensor]
Memory = Mapping[str, Tensor]  # what is still owed, by name
Squeezed = tuple[Meta, bytes, Memory | None]


class Squeeze:
    """A way to pack a model; its fields are its options."""

    name: ClassVar[str]

    def pack(
        self, tensors: Tensors, reference: Reference | None = None, memory: Memory | None = None
    ) -> Squeezed:
        raise NotImplementedError


SQUEEZES: Registry[Squeeze] = Registry("squeeze")


def squeeze_of(text: str) -> Squeeze:
    """By its name, topk with its share behind it: topk=0.01."""
    name, equals, value = text.partition("=")
    if equals and SQUEEZES[name] is not TopK:
        raise BadInput(f"squeeze {shown(text)}: {name} has no options: leave {shown(equals + value)} out")
    return TopK(read_value(value)) if equals else SQUEEZES.make(name)


def unpack(
    meta: Mapping[str, Any], data: bytes | memoryview, reference: Reference | None = None
) -> dict[str, Tensor]:
    """A model, by whatever it was packed."""
    how = packing.how_of(meta)
    if how not in SQUEEZES or not issubclass(SQUEEZES[how], Lossy):
        return packing.unpack(meta, data, reference)
    options = meta.get("options", {})
    if not isinstance(options, dict):
        raise BadData(f"a model's packing has a table of options; got {shown(options)}: send it again")
    try:
        squeeze = SQUEEZES[how](**coerced(SQUEEZES[how], options, how))
    except BadInput as error:
        raise BadData(f"a model's packing cannot be read ({lines_of(error)[0]}): send it again") from None
    assert isinstance(squeeze, Lossy)
    return squeeze.open(meta, data, reference)


@SQUEEZES.register("none")
@dataclass(frozen=True)
class _Plain(Squeeze):
    """Models as they are."""

    def pack(
        self, tensors: Tensors, reference: Reference | None = None, memory: Memory | None = None
    ) -> Squeezed:
        layout = Layout.of(tensors)
        return {"how": "plain", "tensors": layout.to_list()}, layout.flat(tensors).tobytes(), None


@SQUEEZES.register("delta")
@dataclass(frozen=True)
class _Delta(Squeeze):
    """Models exactly, in fewer bytes where both ends hold an earlier one."""

    def pack(
        self, tensors: Tensors, reference: Reference | None = None, memory: Memory | None = None
    ) -> Squeezed:
        return *packing.pack(tensors, reference), None


@dataclass(frozen=True)
class Lossy(Squeeze):
    """Changes of floats as parts, each of one dtype: of all tensors one after the other, by name."""

    kinds: ClassVar[Mapping[str, str]]  # dtypes of the parts
    largest: ClassVar[float]  # that a part can hold
    alone: ClassVar[bool] = True  # without a reference too

    def counts(self, n: int) -> dict[str, int]:
        """Numbers in the parts of a tensor of n numbers."""
        raise NotImplementedError

    def encode(self, change: Tensor) -> dict[str, Tensor]:
        """The parts of one flat tensor."""
        raise NotImplementedError

    def decode(self, parts: Tensors, n: int) -> Tensor:
        """What the receiver makes of them: [n]."""
        raise NotImplementedError

    def pack(
        self, tensors: Tensors, reference: Reference | None = None, memory: Memory | None = None
    ) -> Squeezed:
        layout = Layout.of(tensors)
        if reference is not None and reference.layout != layout:
            reference = None
        if reference is None and not self.alone:
            return *packing.pack(tensors), None
        exact, owed = list[str](), dict[str, Tensor]()
        inner: dict[str, list[Tensor]] = {part: [] for part in self.kinds}
        for name in _rounded(layout, ()):
            change = tensors[name].detach().cpu()
            if reference is not None:
                change = change - reference.tensors[name].detach().cpu()
            if memory and name in memory and Layout.of({name: memory[name]})[name] == layout[name]:
                change = change + memory[name]
            if change.numel() and not bool(change.abs().max() <= self.largest):  # nor is NaN
                exact.append(name)
                continue
            parts = self.encode(change.reshape(-1))
            for part, values in parts.items():
                inner[part].append(values)
            sent = self.decode(parts, change.numel()).to(change.dtype)
            owed[name] = change - sent.reshape(change.shape)
        within = self._within(layout, exact)
        joined = {part: torch.cat(some) for part, some in inner.items() if some}
        whole = within.flat({**joined, **{f"exact/{n}": t for n, t in tensors.items()}})
        data = within.shrunk(whole, None, LEAST)
        if data is not None and reference is None and len(data) * packing.MOST_TIMES < whole.nbytes:
            data = None
        meta: Meta = {"how": self.name, "options": table_of(self), "packed": data is not None}
        meta |= {"reference": reference.digest} if reference is not None else {"tensors": layout.to_list()}
        meta |= {"exact": exact} if exact else {}
        return meta, whole.tobytes() if data is None else data, owed

    def open(
        self, meta: Mapping[str, Any], data: bytes | memoryview, reference: Reference | None
    ) -> dict[str, Tensor]:
        """The inverse of `pack`, of what came from elsewhere."""
        if "reference" in meta or not self.alone:
            reference = packing.needed(meta, reference)
            layout = reference.layout
        else:
            reference, layout = None, Layout.read(meta.get("tensors"))
        exact, packed = meta.get("exact", []), meta.get("packed")
        if not (isinstance(exact, list) and all(isinstance(n, str) and n in layout for n in exact)):
            raise BadData(
                f"tensors that came exactly are names of the model's; got {shown(exact)}: send it again"
            )
        if not isinstance(packed, bool):
            raise BadData(f"a squeezed model is packed or not; got {shown(packed)}: send it again")
        within = self._within(layout, exact)
        if reference is None:
            within.check_believable(data)
        parts = within.unflat(within.grown(data, packed))
        found, starts = {}, dict.fromkeys(self.kinds, 0)
        for name in _rounded(layout, exact):
            kind, shape = layout[name]
            own = {}
            for part, count in self.counts(math.prod(shape)).items():
                own[part] = parts[part][starts[part] : starts[part] + count]
                starts[part] += count
            sent = self.decode(own, math.prod(shape)).to(getattr(torch, kind)).reshape(shape)
            found[name] = sent if reference is None else reference.tensors[name].detach().cpu() + sent
        return {n: found[n] if n in found else parts[f"exact/{n}"] for n in layout}

    def _within(self, layout: Layout, exact: Sequence[str]) -> Layout:
        """The layout of the parts, and of the tensors that go as they are."""
        rounded = _rounded(layout, exact)
        sums = dict.fromkeys(self.kinds, 0)
        for name in rounded:
            for part, count in self.counts(math.prod(layout[name][1])).items():
                sums[part] += count
        within = {part: (kind, (sums[part],)) for part, kind in self.kinds.items()} if rounded else {}
        return Layout(within | {f"exact/{n}": layout[n] for n in layout.keys() - set(rounded)})


def _rounded(layout: Layout, exact: Sequence[str]) -> list[str]:
    """The tensors that go as parts, in order."""
    floats = {n for n, (kind, shape) in layout.items() if kind in ROUNDED and math.prod(shape) < MOST_ROUNDED}
    return sorted(floats - set(exact))


@SQUEEZES.register("fp16")
@dataclass(frozen=True)
class Half(Lossy):
    """Changes as half floats: two bytes and three digits each."""

    kinds = MappingProxyType({"half": "float16"})
    largest = 65504.0

    def counts(self, n: int) -> dict[str, int]:
        return {"half": n}

    def encode(self, change: Tensor) -> dict[str, Tensor]:
        return {"half": change.half()}

    def decode(self, parts: Tensors, n: int) -> Tensor:
        return parts["half"].float()


@SQUEEZES.register("int8")
@dataclass(frozen=True)
class Int8(Lossy):
    """Changes in 127 steps either way, of a size that fits each tensor's largest."""

    kinds = MappingProxyType({"steps": "int8", "scales": "float64"})
    largest = 1e300

    def counts(self, n: int) -> dict[str, int]:
        return {"steps": n, "scales": 1}

    def encode(self, change: Tensor) -> dict[str, Tensor]:
        scale = (change.abs().max().double() if len(change) else torch.zeros((), dtype=torch.float64)) / 127
        steps = torch.where(scale > 0, change.double() / scale, 0.0).round().clamp(-127, 127)
        return {"steps": steps.to(torch.int8), "scales": scale.reshape(1)}

    def decode(self, parts: Tensors, n: int) -> Tensor:
        return parts["steps"] * parts["scales"]


@SQUEEZES.register("topk")
@dataclass(frozen=True)
class TopK(Lossy):
    """The largest changes of each tensor, and where they are."""

    share: float = 0.01
    """Of a tensor's numbers, those that are sent in a round; at least one."""

    kinds = MappingProxyType({"gaps": "int32", "values": "float32"})
    largest = 3e38
    alone = False

    def __post_init__(self) -> None:
        if not (is_number(self.share) and 0 < self.share <= 1):
            raise BadInput(f"squeeze topk: share={shown(self.share)} must lie above 0 and up to 1: try 0.01")

    def counts(self, n: int) -> dict[str, int]:
        return dict.fromkeys(self.kinds, math.ceil(self.share * n))

    def encode(self, change: Tensor) -> dict[str, Tensor]:
        places = change.abs().topk(math.ceil(self.share * len(change)), sorted=False).indices.sort().values
        return {
            "gaps": places.diff(prepend=places.new_zeros(1)).to(torch.int32),
            "values": change[places].float(),
        }

    def decode(self, parts: Tensors, n: int) -> Tensor:
        places, values = parts["gaps"].long().cumsum(0), parts["values"]
        if len(places) and not (bool((parts["gaps"][1:] > 0).all()) and places[0] >= 0 and places[-1] < n):
            raise BadData(f"places of changes must rise within a tensor of {n} numbers: send it again")
        return torch.zeros(n, dtype=values.dtype).index_copy(0, places, values)
