"""A method's state as one file of named tensors, without knowing the method.

A state is a frozen dataclass of handles, tensors, maps, lists, and plain values. Its tensors are stored by
their path; the rest is a JSON skeleton in the file's header, beside what the state belongs to. In one process
a handle's beliefs are in the file; elsewhere sites keep theirs, and the file has ids and places. Beside the
state is what the net asks to be kept (`Net.kept`).

What comes back is what went in, maps in their order and values of their types: a run that is cut and goes on
computes what the whole one does. What would come back as something else is refused by its name when it is
first saved (`Unsavable`), before anything rests on it. Reading a file runs no code: dataclasses inside a
state are found by the annotations of its class, never by what a file says.

Nobody else knows how any of this is written: nets spell what they keep by `named` and `as_tensor`, and a site
writes a round of its own by `write_round`.
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
from coterie.storage.versioned import Schema

SCHEMA = 3
"""Of states and of this file: count up when either changes. Files of schema 2 had their maps sorted, so that
nobody can tell which order they had: they are refused like any other.
"""
FILE = Schema(SCHEMA, "go on with the version that began it, or start anew with another --out", oldest=SCHEMA)
SITE_FILE = Schema(1, "go on with the version that began the run, or start the run anew")

_STATE, KEPT = "state", "kept/"
PLAIN = (bool, int, float, str, type(None))
TENSORS: tuple[type, ...] = (Tensor, nn.Parameter)
_MAPS: dict[str, type[dict[str, Any]]] = {"map": dict, "ordered": OrderedDict}
_LISTS: dict[str, Any] = {"list": list, "tuple": tuple, "size": torch.Size}


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
    skeleton = Packing(_dataclasses_of(state.__class__), tensors).packed(state, _STATE)
    tensors |= {KEPT + name: t for name, t in (kept or {}).items()}
    write_tensors(path, tensors, {"stamp": dataclasses.asdict(stamp), "state": skeleton}, durable)


def load(path: Path, kind: type, config: str) -> Saved:
    """The state, as an instance of `kind`; refused if it belongs to another config or schema."""
    try:
        tensors, header = read_tensors(path)
        written, skeleton = dict(header["stamp"]), header["state"]
        if type(written.get("schema", 1)) is not int:
            raise ValueError("its schema is no number")
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise BadRun(f"{path} is damaged ({error}): delete it to start this run anew") from None
    FILE.check(written, path)
    stamp = Stamp(**written)
    if stamp.config != config:
        why = f"belongs to another config ({stamp.config}, not {config})"
        raise BadRun(f"{path} {why}: start anew with another --out")
    kept = {name.removeprefix(KEPT): t for name, t in tensors.items() if name.startswith(KEPT)}
    try:
        state = _unpack(skeleton, tensors, {**_dataclasses_of(kind), "": kind})
    except (LookupError, AttributeError, TypeError, ValueError) as error:
        why = f"holds no state of this method ({error})"
        raise BadRun(f"{path} {why}: start anew with another --out") from None
    return Saved(state, stamp, kept)


def copy_as(old: Path, new: Path, round: int, config: str) -> None:
    """A checkpoint as that of another run, which goes on from it."""
    tensors, header = read_tensors(old)
    stamp = {**header["stamp"], "round": round, "config": config}  # of the schema that it has
    write_tensors(new, tensors, {**header, "stamp": stamp})


# what nets keep beside a state


def named(name: str | int, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors below a name, which may itself be below one."""
    return {f"{name}|{rest}": t for rest, t in tensors.items()}


def by_name(kept: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """What is below each first name: the inverse of `named`."""
    found: dict[str, dict[str, Tensor]] = {}
    for key, t in kept.items():
        name, _, rest = key.partition("|")
        found.setdefault(name, {})[rest] = t
    return found


def taken(name: str, kept: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What is below a name, and the rest."""
    found = by_name(kept).get(name, {})
    return found, {key: t for key, t in kept.items() if not key.startswith(f"{name}|")}


def as_tensor(content: str | bytes) -> Tensor:
    """A text or bytes; `bytes_in` is the inverse."""
    data = bytearray(content.encode() if isinstance(content, str) else content)
    return torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


def bytes_in(tensor: Tensor) -> bytes:
    return tensor.numpy().tobytes()


# a round of a site that keeps its own


def write_round(path: Path, held: Mapping[int, Mapping[str, Tensor]], slots: Mapping[str, Tensor]) -> None:
    """What a site holds, by id, and what its work remembers."""
    kept = {f"held/{id}/{name}": t for id, belief in held.items() for name, t in belief.items()}
    write_tensors(path, kept | {f"slots/{name}": t for name, t in slots.items()}, SITE_FILE.headed({}))


def read_round(path: Path) -> tuple[dict[int, dict[str, Tensor]], dict[str, Tensor]]:
    """The inverse of `write_round`."""
    tensors, header = read_tensors(path)
    SITE_FILE.check(header, path)
    held, slots = dict[int, dict[str, Tensor]](), dict[str, Tensor]()
    for name, t in tensors.items():
        where, _, rest = name.partition("/")
        if where == "held":
            id, _, rest = rest.partition("/")
            held.setdefault(int(id), {})[rest] = t
        elif where == "slots":
            slots[rest] = t
    return held, slots


# a state as a tree


@functools.cache
def _dataclasses_of(kind: type) -> dict[str, type]:
    """The dataclasses that the annotations of one name, at any depth, by module and name."""
    found, open_ends = dict[str, type](), [kind]
    while open_ends:
        try:
            hints = get_type_hints(open_ends.pop()).values()
        except (NameError, TypeError, AttributeError):  # names that only a type checker can follow
            continue
        for one in (one for hint in hints for one in _classes_in(hint)):
            if dataclasses.is_dataclass(one) and one is not Held and _full_name(one) not in found:
                found[_full_name(one)] = one
                open_ends.append(one)
    return found


def _classes_in(hint: Any) -> Iterator[type]:
    """Those that an annotation names: of dict[str, A | None] dict, str, A and the type of None."""
    if isinstance(hint, type):
        yield hint
    for part in (get_origin(hint), *get_args(hint), getattr(hint, "__value__", None)):  # the last of an alias
        if part is not None:
            yield from _classes_in(part)


def _full_name(kind: type) -> str:
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
        for form, made in _MAPS.items():
            if kind is made:
                return {form: self._map(value, path)}
        for form, one in _LISTS.items():
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
            f"{_remedy_for(value)}"
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
        if path != _STATE and self.known.get(_full_name(kind)) is not kind:
            raise Unsavable(
                f"{path} is a {kind.__name__}, which a checkpoint does not find again: name the class in the "
                "annotation of that field"
            )
        names = [f.name for f in dataclasses.fields(value)]
        values = [item for c in kind.__mro__ for item in vars(c).items()]
        lazy = {n for n, v in values if isinstance(v, functools.cached_property)}
        if beside := sorted(getattr(value, "__dict__", {}).keys() - lazy - set(names)):
            raise Unsavable(f"{path}.{beside[0]} is no field of {kind.__name__}: make it one")
        fields = {n: self.packed(getattr(value, n), f"{path}/{n}") for n in names}
        return {"fields": fields} if path == _STATE else {"fields": fields, "class": _full_name(kind)}


def _remedy_for(value: Any) -> str:
    """What to keep instead."""
    if type(value) is np.ndarray:
        return "keep torch.from_numpy(x)"
    if type(value) in (set, frozenset):
        return "keep sorted(x) as a list"
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
        if form == "meta":
            shape, dtype = content
            tensor = torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
        else:
            tensor = tensors[content].to(skeleton.get("device", "cpu"))
        if "parameter" in skeleton:
            return nn.Parameter(tensor, requires_grad=skeleton["parameter"])
        return tensor.requires_grad_() if skeleton.get("grad") else tensor
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
    if form in _MAPS:
        return _MAPS[form]((k, _unpack(v, tensors, known)) for k, v in content.items())
    if form in _LISTS:
        return _LISTS[form](_unpack(v, tensors, known) for v in content)
    if form == "numpy":
        return np.dtype(content[0]).type(content[1])
    return content
