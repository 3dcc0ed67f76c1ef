"""What crosses a wire: a message of JSON and named tensors, in the format of safetensors. Reading it runs no
code, and takes no more memory than a few times the bytes that came.

The library for that format would copy every tensor three times on the way out and twice on the way in, which
models of 100 MB feel: here it is once each, into memory where torch would have put it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coterie.core.errors import BadData, shown

HEAD = 8  # bytes that say how long the header is
ALIGNMENT = 64  # bytes
MOST_AXES = 64  # torch's own bound
MOST_HEADER = 16 << 20  # bytes: JSON takes some twenty times as much once it is read
MOST_EMPTY = 1 << 24  # numbers that the other axes of a tensor without any may promise
KINDS = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "C64": torch.complex64,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
NAMES = {kind: name for name, kind in KINDS.items()}
UNREADABLE = (AttributeError, KeyError, RecursionError, RuntimeError, TypeError, ValueError)


def pack(message: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bytes:
    """The same bytes for the same content in the same order: the header lists tensors in theirs."""
    header: dict[str, Any] = {"__metadata__": {"coterie": json.dumps(message)}, **dict.fromkeys(tensors)}
    at, parts = 0, []
    for name in sorted(tensors, key=lambda n: (-tensors[n].itemsize, n)):
        t = tensors[name].detach().cpu().contiguous()
        header[name] = {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
        parts.append(_bytes_of(t).data)
    told = json.dumps(header, separators=(",", ":")).encode()
    told += b" " * (-len(told) % HEAD)
    return b"".join([len(told).to_bytes(HEAD, "little"), told, *parts])


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The inverse of `pack`, tensors in their order and in memory of their own; all else is refused."""
    try:
        header, message = _read(data)
        return message, _tensors(header, memoryview(data)[_start(data) :])
    except UNREADABLE as error:
        raise _unreadable(data, error) from None


def message_in(data: bytes) -> dict[str, Any]:
    """The message alone: its tensors are left where they are, and not looked at."""
    try:
        return _read(data)[1]
    except UNREADABLE as error:
        raise _unreadable(data, error) from None


def _read(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is told of each tensor, and the message."""
    start = _start(data)
    if start > len(data):
        raise ValueError(f"its header should be {start - HEAD} bytes long")
    if start - HEAD > MOST_HEADER:
        raise ValueError(f"its header has {start - HEAD} bytes, of at most {MOST_HEADER}")
    header = json.loads(bytes(data[HEAD:start]))
    message = json.loads(header.pop("__metadata__")["coterie"])
    if not isinstance(message, dict):
        raise ValueError("it is no table")
    return header, message


def _tensors(header: Mapping[str, Any], room: memoryview) -> dict[str, Tensor]:
    """Every byte belongs to one tensor, so that nobody is made to take more memory than came."""
    found, at = dict[str, Tensor](), 0
    for name, told in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        kind, shape, (begin, end) = KINDS[told["dtype"]], told["shape"], told["data_offsets"]
        if len(shape) > MOST_AXES or not all(type(n) is int and 0 <= n < 2**63 for n in (*shape, begin, end)):
            raise ValueError(f"{shown(name)} has no sizes")
        if begin != at or end > len(room) or end - begin != math.prod(shape) * kind.itemsize:
            raise ValueError(f"{shown(name)} does not fill its place")
        if begin == end and math.prod(max(n, 1) for n in shape) > MOST_EMPTY:
            raise ValueError(f"{shown(name)} promises more than it has")
        if kind == torch.bool and bytes(room[begin:end]).strip(b"\0\1"):
            raise ValueError(f"{shown(name)} has what is neither true nor false")
        found[name] = t = torch.empty(shape, dtype=kind)
        _bytes_of(t)[:] = np.frombuffer(room[begin:end], np.uint8)
        at = end
    if at != len(room):
        raise ValueError(f"{len(room) - at} bytes belong to no tensor")
    return {name: found[name] for name in header}


def _bytes_of(tensor: Tensor) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The memory of a tensor that lies in one piece."""
    if tensor.numel() == 0:  # whose strides may be anything
        return np.empty(0, np.uint8)
    found: np.ndarray[Any, np.dtype[np.uint8]] = tensor.reshape(-1).view(torch.uint8).numpy()
    return found


def _unreadable(data: bytes, error: BaseException) -> BadData:
    why = " ".join(str(error).split())[:200]
    return BadData(f"a message of {len(data)} bytes cannot be read ({why}): is it one of Coterie's?")


def aligned(tensor: Tensor) -> Tensor:
    """The same numbers where torch would have put them: elsewhere, products may round otherwise."""
    return tensor if tensor.data_ptr() % ALIGNMENT == 0 else tensor.clone()


def payload(data: bytes) -> int:
    """Bytes of tensors in a message, seen without reading it."""
    return len(data) - _start(data)


def _start(data: bytes) -> int:
    return HEAD + int.from_bytes(data[:HEAD], "little")
