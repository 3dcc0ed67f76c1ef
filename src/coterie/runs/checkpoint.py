"""A method's state as one file of named tensors, without knowing the method.

A state is a frozen dataclass of handles, tensors, maps, lists, and plain values. Its tensors are stored by
their path; the rest is a JSON skeleton in the file's header, beside what the state belongs to. In one process
a handle's beliefs are in the file; elsewhere sites keep theirs, and the file has ids and places. Beside the
state is what the net asks to be kept (`Net.kept`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import torch
from safetensors import SafetensorError
from torch import Tensor

from coterie.core.errors import BadRun
from coterie.core.held import Held, Part, reserve
from coterie.storage.tensors import read_tensors, write_tensors

SCHEMA = 2
"""Of states and of this file: count up when either changes."""

STATE, KEPT = "state", "kept/"


@dataclass(frozen=True)
class Stamp:
    """What a checkpoint belongs to."""

    round: int
    config: str
    schema: int = SCHEMA


class Saved(NamedTuple):
    """A state, what it belongs to, and what the net kept beside it."""

    state: Any
    stamp: Stamp
    kept: Mapping[str, Tensor]


def save(
    path: Path, state: Any, stamp: Stamp, kept: Mapping[str, Tensor] | None = None, durable: bool = True
) -> None:
    tensors: dict[str, Tensor] = {}
    skeleton = _pack(state, STATE, tensors)
    tensors |= {KEPT + name: t for name, t in (kept or {}).items()}
    write_tensors(path, tensors, {"stamp": dataclasses.asdict(stamp), "state": skeleton}, durable)


def load(path: Path, kind: type, config: str) -> Saved:
    """The state, as an instance of `kind`; refused if it belongs to another config or schema."""
    try:
        tensors, header = read_tensors(path)
        written, skeleton = dict(header["stamp"]), header["state"]
        schema = int(written.get("schema", 1))
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise BadRun(f"{path} is damaged ({error}): delete it to start this run anew") from None
    if schema != SCHEMA:
        raise BadRun(
            f"{path} has schema {schema}, this version of Coterie reads {SCHEMA}: go on with the version "
            "that began it, or start anew with another --out"
        )
    stamp = Stamp(**written)
    if stamp.config != config:
        raise BadRun(
            f"{path} belongs to another config ({stamp.config}, not {config}): start anew with another --out"
        )
    kept = {name.removeprefix(KEPT): t for name, t in tensors.items() if name.startswith(KEPT)}
    return Saved(_unpack(skeleton, tensors, kind), stamp, kept)


def _pack(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Held):
        return {"held": [_pack(part._asdict(), f"{path}/{i}", tensors) for i, part in enumerate(value.parts)]}
    if isinstance(value, Tensor):
        if value.device.type == "meta":
            return {"meta": [list(value.shape), str(value.dtype).removeprefix("torch.")]}
        if path in tensors:
            raise TypeError(f"two tensors of a state are both at {path}: rename one")
        tensors[path] = value
        return {"tensor": path} | ({} if value.device.type == "cpu" else {"device": str(value.device)})
    if isinstance(value, dict):
        if not all(isinstance(k, str) for k in value):
            raise TypeError(f"a state's maps have text as keys; {path} has others")
        return {"map": {k: _pack(v, f"{path}/{k}", tensors) for k, v in value.items()}}
    if type(value) in (list, tuple, torch.Size):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_pack(v, f"{path}/{i}", tensors) for i, v in enumerate(value)]}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {
            "fields": {f.name: _pack(getattr(value, f.name), f"{path}/{f.name}", tensors) for f in fields}
        }
    raise TypeError(
        f"a state holds handles, tensors, maps, lists and plain values; {path} is a {type(value).__name__}"
    )


def _unpack(skeleton: Any, tensors: Mapping[str, Tensor], kind: Any = None) -> Any:
    if "tensor" in skeleton:
        return tensors[skeleton["tensor"]].to(skeleton.get("device", "cpu"))
    ((form, content),) = skeleton.items()
    if form == "meta":
        shape, dtype = content
        return torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
    if form == "held":
        parts = tuple(Part(**_unpack(part, tensors)) for part in content)
        reserve(i for part in parts for i in part.ids.tolist())
        return Held(parts)
    if form == "fields":
        hints = get_type_hints(kind)
        return kind(**{k: _unpack(v, tensors, hints.get(k)) for k, v in content.items()})
    if form == "map":
        return {k: _unpack(v, tensors) for k, v in content.items()}
    if form in ("list", "tuple"):
        return (list if form == "list" else tuple)(_unpack(v, tensors) for v in content)
    return content
