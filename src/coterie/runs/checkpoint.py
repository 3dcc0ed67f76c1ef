"""A method's state as one file of named tensors, without knowing the method.

A state is a frozen dataclass of tensors, dictionaries, lists, and plain values. Its tensors are stored by
their path; the rest is a JSON skeleton in the file's header, beside what the state belongs to.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

import coterie
from coterie.core.errors import BadRun
from coterie.storage.tensors import read_tensors, write_tensors


@dataclass(frozen=True)
class Stamp:
    """What a checkpoint belongs to."""

    round: int
    config: str
    version: str = coterie.__version__


def save(path: Path, state: Any, stamp: Stamp) -> None:
    tensors: dict[str, Tensor] = {}
    fields = {f.name: getattr(state, f.name) for f in dataclasses.fields(state)}
    skeleton = _pack(fields, "", tensors)
    write_tensors(path, tensors, {"stamp": dataclasses.asdict(stamp), "state": skeleton})


def load(path: Path, kind: type, config: str) -> tuple[Any, Stamp]:
    """The state, as an instance of `kind`; refused if it belongs to another config or version."""
    try:
        tensors, header = read_tensors(path)
        stamp, skeleton = Stamp(**header["stamp"]), header["state"]
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise BadRun(f"{path} is damaged ({error}): delete it to start this run anew") from None
    if stamp.version != coterie.__version__:
        raise BadRun(
            f"{path} was written by coterie {stamp.version}, this is {coterie.__version__}: "
            f"install {stamp.version} or start anew"
        )
    if stamp.config != config:
        raise BadRun(
            f"{path} belongs to another config ({stamp.config}, not {config}): start anew with another --out"
        )
    return kind(**_unpack(skeleton, tensors)), stamp


def _pack(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
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
    raise TypeError(
        f"a state holds tensors, maps, lists and plain values; {path} is a {type(value).__name__}"
    )


def _unpack(skeleton: Any, tensors: dict[str, Tensor]) -> Any:
    if "tensor" in skeleton:
        return tensors[skeleton["tensor"]].to(skeleton.get("device", "cpu"))
    ((kind, content),) = skeleton.items()
    if kind == "map":
        return {k: _unpack(v, tensors) for k, v in content.items()}
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)(_unpack(v, tensors) for v in content)
    return content
