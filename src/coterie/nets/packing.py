"""Models in fewer bytes, without losing a bit.

From one round to the next most of a weight stays as it was: its sign, its exponent, the first bits of its
mantissa. Where both ends of a wire hold an earlier model, the `Reference`, only what has changed needs to go:

    change   bits of the model XOR bits of the reference       what stayed the same is zero
    planes   first bytes of all numbers, then second bytes ... zeros lie side by side
    zstd     long runs of zeros take next to nothing

Both ends name a reference by its digest, so that nobody adds a change to the wrong model: a receiver that
has no such model raises `LostReference`, and the sender packs again without one. Without a reference the
planes of the model itself are packed. What is small, or hardly becomes smaller, goes as plain bytes.

A `Layout` tells dtype and shape of each tensor by its name. Its `flat` lays all of their bytes one after the
other in an order that depends on the layout alone, `unflat` takes them apart again.

A packed model is `meta`, which JSON can hold, and `data`. Meta comes from elsewhere as well, so that `unpack`
believes none of it: sizes are checked before memory is taken for them.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from coterie.core.checks import in_one_line
from coterie.core.errors import BadData, BadInput, BadRun, shown

LEAST = 16 * 1024  # bytes: what is smaller leaves in one go over a new connection, packed or not
WORTH = 0.9  # of the bytes: what stays above costs about as many seconds as it saves at 100 Mbit/s
LEVEL = 1  # of zstd: 3 and 9 take two and six times as long and save no more
MOST_TIMES = 64  # so many times its bytes may a model without a reference become, so that none fills a memory
LOOK, LOOKS = 4096, 32  # numbers side by side, and in how many places, that tell whether packing pays
WHOLE = "send it whole"
LONGEST_NAME, MOST_DIMENSIONS, MOST_NUMBERS = 512, 16, 2**48

# bytes of a number by its dtype; a complex one is two numbers
WIDTHS = {
    **dict.fromkeys(("float64", "int64", "uint64", "complex128"), 8),
    **dict.fromkeys(("float32", "int32", "uint32", "complex64"), 4),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("int8", "uint8", "bool", "float8_e4m3fn", "float8_e5m2"), 1),
}

Bytes = npt.NDArray[np.uint8]
Meta = dict[str, Any]


class Layout(dict[str, tuple[str, tuple[int, ...]]]):
    """Dtype and shape of each tensor by its name."""

    @staticmethod
    def of(tensors: Mapping[str, Tensor]) -> Layout:
        layout = Layout()
        for name, t in tensors.items():
            kind = str(t.dtype).removeprefix("torch.")
            if kind not in WIDTHS:
                what = f"tensor {shown(name)} of dtype {kind}"
                raise BadInput(f"{what} cannot be sent: use one of {', '.join(WIDTHS)}")
            layout[name] = (kind, tuple(t.shape))
        return layout

    @staticmethod
    def read(told: Any) -> Layout:
        """The inverse of `to_list`, of what came from elsewhere."""
        if not isinstance(told, list):
            raise BadData(f"a packed model lists its tensors; got {shown(told)}: send it again")
        layout = Layout()
        for entry in told:
            name, kind, shape = entry if isinstance(entry, list) and len(entry) == 3 else ("", "", [])
            if not (isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and in_one_line(name)):
                what = "a packed tensor has a name, a dtype and a shape"
                raise BadData(f"{what}; got {shown(entry)}: send it again")
            if name in layout:
                raise BadData(f"a packed model has tensor {shown(name)} twice: send it again")
            if not (isinstance(kind, str) and kind in WIDTHS):
                raise BadData(f"packed tensor {shown(name)} is of dtype {shown(kind)}: use float32")
            fine = isinstance(shape, list) and all(type(d) is int and d >= 0 for d in shape)
            # also where a zero makes the tensor empty: torch multiplies the others for its strides
            if not fine or len(shape) > MOST_DIMENSIONS or math.prod(max(d, 1) for d in shape) > MOST_NUMBERS:
                why = f"cannot have the shape {shown(shape)}"
                raise BadData(f"packed tensor {shown(name)} {why}: send it again")
            layout[name] = (kind, tuple(shape))
        return layout

    def to_list(self) -> list[list[Any]]:
        """As JSON holds it."""
        return [[name, kind, list(shape)] for name, (kind, shape) in self.items()]

    def places(self) -> list[tuple[str, int, int]]:
        """Where each tensor's bytes start and stop: numbers of eight bytes first, then of four, two and one;
        within these by name, so that the order in which a model lists its tensors does not matter.
        """
        places, start = [], 0
        for name in sorted(self, key=lambda n: (-WIDTHS[self[n][0]], n)):
            kind, shape = self[name]
            stop = start + math.prod(shape) * WIDTHS[kind] * (2 if kind.startswith("complex") else 1)
            places.append((name, start, stop))
            start = stop
        return places

    def widths(self) -> list[tuple[int, int, int]]:
        """Where the numbers of each width start and stop: (width, start, stop), empty ones left out."""
        found: dict[int, tuple[int, int]] = {}
        for name, start, stop in self.places():
            width = WIDTHS[self[name][0]]
            found[width] = (found.get(width, (start, stop))[0], stop)
        return [(width, *ends) for width, ends in found.items() if ends[0] < ends[1]]

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return max((stop for _, _, stop in self.places()), default=0)

    def flat(self, tensors: Mapping[str, Tensor]) -> Bytes:
        """All bytes in their places; the lowest byte of a number comes first."""
        whole = np.empty(self.size, np.uint8)
        for name, start, stop in self.places():
            if start < stop:
                t = tensors[name].detach().cpu().resolve_conj().resolve_neg().contiguous()
                whole[start:stop] = t.reshape(-1).view(torch.uint8).numpy()
        return whole

    def unflat(self, whole: Bytes) -> dict[str, Tensor]:
        """The tensors, in memory of their own and in the layout's order."""
        found = {}
        for name, start, stop in self.places():
            kind, shape = self[name]
            if kind == "bool" and (whole[start:stop] > 1).any():
                what = f"packed tensor {shown(name)}"
                raise BadData(f"{what} holds what is neither true nor false: send it again")
            own = torch.empty(stop - start, dtype=torch.uint8)
            own.numpy()[:] = whole[start:stop]
            found[name] = own.view(getattr(torch, kind)).reshape(shape)
        return {name: found[name] for name in self}

    def shrunk(self, whole: Bytes, earlier: Bytes | None, least: int) -> bytes | None:
        """The planes of what differs from earlier bytes, which are used up; None if it does not pay."""
        if whole.nbytes < max(least, 1) or not _looks_worth(whole, earlier, self):
            return None
        change = whole if earlier is None else np.bitwise_xor(whole, earlier, out=earlier)
        data: bytes = _zstd().ZstdCompressor(level=LEVEL).compress(planes(change, self))
        return data if len(data) <= WORTH * whole.nbytes else None

    def grown(self, data: bytes | memoryview, packed: bool) -> Bytes:
        """The bytes of tensors, packed or as they are; without its reference, of a change."""
        size = self.size
        if not packed:
            if len(data) != size:
                raise BadData(f"a model of {size} bytes came in {len(data)}: send it again")
            return np.frombuffer(data, np.uint8)
        zstd, whole = _zstd(), b""
        try:
            told = zstd.frame_content_size(data)  # what `decompress` takes memory for
            if told == size:
                one = zstd.ZstdDecompressor()
                whole = one.decompress(data, max_output_size=size, allow_extra_data=False)
        except zstd.ZstdError as error:
            raise BadData(f"{len(data)} packed bytes cannot be read ({error}): send it again") from None
        if not told == size == len(whole):
            raise BadData(f"packed bytes expand to {told} instead of {size}: send it again")
        made = np.frombuffer(whole, np.uint8)
        found = np.empty_like(made)
        for width, start, stop in self.widths():  # the inverse of `planes`
            found[start:stop].reshape(-1, width)[:] = made[start:stop].reshape(width, -1).T
        return found

    def check_believable(self, data: bytes | memoryview) -> None:
        """Nobody takes memory for a model without a reference that is far larger than what came."""
        if (size := self.size) > MOST_TIMES * len(data):
            large = f"more than {MOST_TIMES} times as large"
            raise BadData(f"a model of {size} bytes in {len(data)} is {large}: send it plain")


def planes(whole: Bytes, layout: Layout) -> Bytes:
    made = np.empty_like(whole)
    for width, start, stop in layout.widths():
        made[start:stop].reshape(width, -1)[:] = whole[start:stop].reshape(-1, width).T
    return made


class LostReference(BadRun):
    """A change arrived, but not the model that it is to be added to: the sender should send the whole."""

    def __init__(self, digest: str) -> None:
        self.digest = digest
        super().__init__(f"a model came as a change of model {shown(digest)}, which is not here: {WHOLE}")


@dataclass(frozen=True, eq=False)
class Reference:
    """A model that both ends hold, and what it is called. Its tensors must not change any more."""

    tensors: Mapping[str, Tensor]
    digest: str
    layout: Layout

    @staticmethod
    def of(tensors: Mapping[str, Tensor]) -> Reference:
        """A model with its digest: 16 letters of the SHA-256 of its names, dtypes, shapes and bytes."""
        layout = Layout.of(tensors)
        found = hashlib.sha256(json.dumps(sorted(layout.items())).encode())
        found.update(layout.flat(tensors).data)
        return Reference(tensors, found.hexdigest()[:16], layout)


def pack(
    tensors: Mapping[str, Tensor], reference: Reference | None = None, least: int = LEAST
) -> tuple[Meta, bytes]:
    """A model in as few bytes as is worth the time; a reference of other names, dtypes or shapes is not used.

    What is below `least` bytes goes as it is.
    """
    layout = Layout.of(tensors)
    if reference is not None and layout != reference.layout:
        reference = None
    whole = layout.flat(tensors)
    data = layout.shrunk(whole, None if reference is None else layout.flat(reference.tensors), least)
    if data is not None and reference is not None:
        return {"how": "delta", "reference": reference.digest}, data
    if data is None or len(data) * MOST_TIMES < whole.nbytes:  # so much smaller that no receiver believes it
        return {"how": "plain", "tensors": layout.to_list()}, whole.tobytes()
    return {"how": "planes", "tensors": layout.to_list()}, data


def unpack(
    meta: Mapping[str, Any], data: bytes | memoryview, reference: Reference | None = None
) -> dict[str, Tensor]:
    """The same tensors, bit by bit, in memory of their own; anything else is refused."""
    how = how_of(meta)
    if how == "delta":
        reference = needed(meta, reference)
        layout = reference.layout
        change = layout.grown(data, packed=True)
        np.bitwise_xor(change, layout.flat(reference.tensors), out=change)
        return layout.unflat(change)
    if how not in ("plain", "planes"):
        raise BadData(f"a model packed by {shown(how)} cannot be read: are both ends of the same version?")
    layout = Layout.read(meta.get("tensors"))
    layout.check_believable(data)
    return layout.unflat(layout.grown(data, packed=how == "planes"))


def how_of(meta: Any) -> str:
    """By what a model was packed."""
    how = meta.get("how") if isinstance(meta, Mapping) else None
    if not isinstance(how, str):
        raise BadData(f"a packed model says by what it was packed; got {shown(how)}: send it again")
    return how


def needed(meta: Mapping[str, Any], reference: Reference | None) -> Reference:
    """The reference that a packed model names, if it is the one at hand."""
    name = meta.get("reference")
    if not isinstance(name, str):
        raise BadData(f"a change names its model by a text; got {shown(name)}: send it whole")
    if reference is None or reference.digest != name:
        raise LostReference(name)
    return reference


def _looks_worth(whole: Bytes, earlier: Bytes | None, layout: Layout) -> bool:
    """What some numbers from all over say; a model of few numbers is worth a try."""
    packed, seen, zstd = 0, 0, _zstd().ZstdCompressor(level=LEVEL)
    for width, start, stop in layout.widths():
        piece, size = LOOK * width, stop - start
        if size <= 2 * LOOKS * piece:
            continue
        firsts = start + np.linspace(0, size // width - LOOK, LOOKS).astype(np.int64) * width
        some = np.concatenate([whole[f : f + piece] for f in firsts])
        if earlier is not None:
            some ^= np.concatenate([earlier[f : f + piece] for f in firsts])
        packed += len(zstd.compress(some.reshape(-1, width).T.tobytes()))
        seen += len(some)
    return bool(packed <= WORTH * seen)


@functools.cache
def _zstd() -> Any:
    try:
        import zstandard
    except ImportError:
        raise BadInput("packing models needs zstandard: pip install 'coterie[network]'") from None
    return zstandard
