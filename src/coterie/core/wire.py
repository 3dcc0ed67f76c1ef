"""What crosses a wire: a message of JSON and named tensors, in the format of safetensors. Reading it runs no
code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from coterie.core.errors import BadData
from coterie.core.seeds import Key

HEAD = 8  # bytes that say how long the header is
ALIGNMENT = 64  # bytes


def pack(message: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bytes:
    """The same bytes for the same content."""
    # copies of their own: views and expanded tensors share memory, which the format refuses
    own = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    return save(own, metadata={"coterie": json.dumps(message)})


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The inverse of `pack`; anything else is refused."""
    try:
        header = json.loads(data[HEAD : _start(data)])
        message = json.loads(header["__metadata__"]["coterie"])
        tensors = {name: aligned(t) for name, t in load(data).items()}
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise BadData(
            f"a message of {len(data)} bytes cannot be read ({error}): is it one of Coterie's?"
        ) from None
    return message, tensors


def aligned(tensor: Tensor) -> Tensor:
    """The same numbers where torch would have put them: products of matrices may round otherwise elsewhere."""
    return tensor if tensor.data_ptr() % ALIGNMENT == 0 else tensor.clone()


def payload(data: bytes) -> int:
    """Bytes of tensors in a message, seen without reading it."""
    return len(data) - _start(data)


def _start(data: bytes) -> int:
    return HEAD + int.from_bytes(data[:HEAD], "little")


def told_key(key: Key) -> dict[str, Any]:
    return {"seed": key.seed, "path": list(key.path), "round": key.round, "rounds": key.rounds}


def key_of(told: Mapping[str, Any]) -> Key:
    return Key(int(told["seed"]), tuple(told["path"]), int(told["round"]), int(told["rounds"]))
