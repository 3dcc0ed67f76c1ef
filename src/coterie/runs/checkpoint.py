"""A method's state as one file of named tensors, without knowing the method.

A state is a frozen dataclass of handles, tensors, maps, lists, and plain values. Its tensors are stored by
their path; the rest is a JSON skeleton in the file's header, beside what the state belongs to. In one process
a handle's beliefs are in the file; elsewhere sites keep theirs, and the file has ids and places. Beside the
state is what the net asks to be kept (`Net.kept`).

What comes back is what went in, maps in their order and values of their types: a run that is cut and goes on
computes what the whole one does. What would come back as something else is refused by its name when it is
first saved (`Unsavable`), before anything rests on it. Reading a file runs no code: dataclasses inside a
state are found by the annotations of its class, never by what a file says.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from coterie.core.errors import BadInput, BadRun, shown
from coterie.core.held import Held, Part, reserve
from coterie.storage.tensors import read_tensors, write_tensors

SCHEMA = 3
"""Of states and of this file: count up when either changes. Files of schema 2 had their maps sorted, so that
nobody can tell which order they had: they are refused like any other.
"""

STATE, KEPT = "state", "kept/"
PLAIN = (bool, int, float, str, type(None))
TENSORS: tuple[type, ...] = (Tensor, nn.Parameter)
MAPS: dict[str, type[dict[str, Any]]] = {"map": dict, "ordered": OrderedDict}
LISTS: dict[str, Any] = {"list": list, "tuple": tuple, "size": torch.Size}


class Unsavable(BadInput, TypeError):
    """A state that would come back as something else."""


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
    path: Path,
    state: Any,
    stamp: Stamp,
    kept: Mapping[str, Tensor] | None = None,
    durable: bool = True,
    kind: type | None = None,
) -> None:
    """`kind` is what `load` will be asked for, if that is known already."""
    if kind is not None and type(state) is not kind:
        raise Unsavable(
            f"the state is a {type(state).__name__}, but init says {kind.__name__}: name in init's signature "
            "the dataclass that init and round return"
        )
    tensors: dict[str, Tensor] = {}
    skeleton = Packing(dataclasses_of(state.__class__), tensors).packed(state, STATE)
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
    try:
        state = _unpack(skeleton, tensors, {**dataclasses_of(kind), "": kind})
    except (LookupError, AttributeError, TypeError, ValueError) as error:
        raise BadRun(
            f"{path} holds no state of this method ({error}): start anew with another --out"
        ) from None
    return Saved(state, stamp, kept)


@functools.cache
def dataclasses_of(kind: type) -> dict[str, type]:
    """The dataclasses that the annotations of one name, at any depth, by module and name."""
    found, open_ends = dict[str, type](), [kind]
    while open_ends:
        try:
            hints = get_type_hints(open_ends.pop()).values()
        except (NameError, TypeError, AttributeError):  # names that only a type checker can follow
            continue
        for one in (one for hint in hints for one in classes_in(hint)):
            if dataclasses.is_dataclass(one) and one is not Held and full_name(one) not in found:
                found[full_name(one)] = one
                open_ends.append(one)
    return found


def classes_in(hint: Any) -> Iterator[type]:
    """Those that an annotation names: of dict[str, A | None] dict, str, A and the type of None."""
    if isinstance(hint, type):
        yield hint
    for part in (get_origin(hint), *get_args(hint), getattr(hint, "__value__", None)):  # the last of an alias
        if part is not None:
            yield from classes_in(part)


def full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


@dataclass(frozen=True)
class Packing:
    """A state on its way into a file: `known` dataclasses will be found again, `tensors` fills up."""

    known: Mapping[str, type]
    tensors: dict[str, Tensor]

    def packed(self, value: Any, path: str) -> Any:
        """The skeleton of a value, {form: content}."""
        kind = type(value)
        if kind is Held:
            parts = [self.packed(part._asdict(), f"{path}/{i}") for i, part in enumerate(value.parts)]
            return {"held": parts}
        if isinstance(value, Tensor):
            return self._tensor(value, path)
        for form, made in MAPS.items():
            if kind is made:
                return {form: self._map(value, path)}
        for form, one in LISTS.items():
            if kind is one:
                return {form: [self.packed(v, f"{path}/{i}") for i, v in enumerate(value)]}
        if kind in PLAIN:
            return {"value": value}
        if isinstance(value, np.generic) and value.dtype.kind in "biuf" and value.itemsize <= 8:
            return {"numpy": [value.dtype.str, value.item()]}
        if dataclasses.is_dataclass(value) and not isinstance(value, (type, dict, list, tuple)):
            return self._fields(value, path)
        raise Unsavable(
            f"a state holds handles, tensors, maps, lists and plain values; {path} is a {kind.__name__}: "
            f"{REMEDIES.get(kind.__name__, remedy_for(value))}"
        )

    def _tensor(self, value: Tensor, path: str) -> dict[str, Any]:
        if type(value) not in TENSORS or value.layout is not torch.strided:
            what = f"{value.layout} tensor" if type(value) is Tensor else type(value).__name__
            raise Unsavable(f"{path} of a state is a {what}: keep plain tensors, to_dense() makes one")
        if value.grad_fn is not None:
            raise Unsavable(f"{path} of a state remembers how it was computed: keep detach() of it")
        if value.is_quantized or (value.is_complex() and value.dtype is not torch.complex64):
            raise Unsavable(f"{path} of a state is of {value.dtype}, which no file holds: keep view_as_real")
        how: dict[str, Any] = {} if value.device.type == "cpu" else {"device": str(value.device)}
        how |= {"parameter": value.requires_grad} if type(value) is nn.Parameter else {}
        how |= {"grad": True} if type(value) is Tensor and value.requires_grad else {}
        if value.device.type == "meta":
            return {"meta": [list(value.shape), str(value.dtype).removeprefix("torch.")], **how}
        if path in self.tensors:
            raise Unsavable(f"two tensors of a state are both at {path}: rename one")
        self.tensors[path] = value
        return {"tensor": path, **how}

    def _map(self, value: Mapping[Any, Any], path: str) -> dict[str, Any]:
        for key in value:
            if type(key) is not str or key.encode(errors="ignore").decode() != key:
                raise Unsavable(
                    f"a state's maps have text as keys; {path} has {shown(key)}: write str(key), and read "
                    "int(key)"
                )
        return {k: self.packed(v, f"{path}/{k}") for k, v in value.items()}

    def _fields(self, value: Any, path: str) -> dict[str, Any]:
        """All fields of a dataclass; the state itself goes without a name."""
        kind = type(value)
        if path != STATE and self.known.get(full_name(kind)) is not kind:
            raise Unsavable(
                f"{path} is a {kind.__name__}, which a checkpoint does not find again: name the class in the "
                "annotation of that field"
            )
        names = [f.name for f in dataclasses.fields(value)]
        lazy = {
            n for c in kind.__mro__ for n, v in vars(c).items() if isinstance(v, functools.cached_property)
        }
        if beside := sorted(getattr(value, "__dict__", {}).keys() - lazy - set(names)):
            raise Unsavable(f"{path}.{beside[0]} is no field of {kind.__name__}: make it one")
        fields = {n: self.packed(getattr(value, n), f"{path}/{n}") for n in names}
        return {"fields": fields} if path == STATE else {"fields": fields, "class": full_name(kind)}


REMEDIES = {
    "ndarray": "keep torch.from_numpy(x)",
    "set": "keep sorted(x) as a list",
    "frozenset": "keep sorted(x) as a list",
}


def remedy_for(value: Any) -> str:
    """What to keep instead."""
    if isinstance(value, dict):
        return "keep dict(x)"
    if isinstance(value, tuple):
        return "make it a frozen dataclass that the annotation of its field names, or keep tuple(x)"
    for kind in (bool, int, float, str, list):
        if isinstance(value, kind):
            return f"keep {kind.__name__}(x)"
    return "keep what it is made of"


def _unpack(skeleton: Any, tensors: Mapping[str, Tensor], known: Mapping[str, type]) -> Any:
    form, content = next(iter(skeleton.items()))
    if form in ("tensor", "meta"):
        return _tensor_of(form, content, skeleton, tensors)
    if form == "held":
        parts = tuple(Part(**_unpack(part, tensors, known)) for part in content)
        reserve(i for part in parts for i in part.ids.tolist())
        return Held(parts)
    if form == "fields":
        kind = known[skeleton.get("class", "")]
        if content.keys() != {f.name for f in dataclasses.fields(kind)}:
            raise ValueError(f"{kind.__name__} has other fields")
        made: Any = object.__new__(kind)  # as it was: what its class does to new ones was done to it already
        for name, value in content.items():
            object.__setattr__(made, name, _unpack(value, tensors, known))
        return made
    if form in MAPS:
        return MAPS[form]((k, _unpack(v, tensors, known)) for k, v in content.items())
    if form in LISTS:
        return LISTS[form](_unpack(v, tensors, known) for v in content)
    if form == "numpy":
        return np.dtype(content[0]).type(content[1])
    return content


def _tensor_of(form: str, content: Any, how: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Tensor:
    if form == "meta":
        shape, dtype = content
        made = torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
    else:
        made = tensors[content].to(how.get("device", "cpu"))
    if "parameter" in how:
        return nn.Parameter(made, requires_grad=how["parameter"])
    return made.requires_grad_() if how.get("grad") else made
