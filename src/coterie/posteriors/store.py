"""A posterior as one file, to be joined later: named tensors, and a header of what they are.

Format: safetensors. Tensors `shift`, `diagonal`, `dense` (full form) and `factor/0`, `factor/1`, ... in
float64; `buffer/NAME` is what the model has outside the posterior (batch norm's statistics, frozen weights),
in its own dtype. The header entry `coterie` is JSON: the client, its number of training rows, the form, the
model's tensors (name, shape, dtype), the factors' scales, how to build the network (the name of its model,
that model's options, the shape of an input, the number of outputs), and what its inputs and outputs are:
their names, how the client makes inputs of raw columns, and the recipe by which it reads them, if there is
one. Reading it runs no code of the writer's.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from coterie.core.belief import Belief, first_not_finite
from coterie.core.errors import BadData, shown
from coterie.data.preparation import Preparation, preparation_from_dict
from coterie.posteriors.gaussian import Gaussian, checked
from coterie.posteriors.precision import Factor, Precision
from coterie.posteriors.slots import Slot, Slots, size
from coterie.storage.tensors import read_tensors, write_tensors

if TYPE_CHECKING:
    from coterie.data.tables.recipe import Recipe

KIND = "posterior 2"
BUFFER = "buffer/"
MOST_ROWS = 2**63
REMEDY = "ask its client to save it anew"

Tensors = dict[str, Tensor]
Header = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Saved:
    """A client's posterior and the number of training rows behind it.

    model         how to build its network: {"name": "mlp", "options": {...}, "shape": [64], "outputs": 10}
    buffers       the network's tensors outside the posterior
    features      names of the network's inputs, in order; none for inputs without
    classes       names of its outputs; none where they are numbers
    preparation   how the client makes inputs of raw columns; None where it takes them as they are
    recipe        how it reads rows from files, if by a recipe
    """

    client: str
    samples: int
    posterior: Gaussian
    model: Mapping[str, Any] = field(default_factory=dict)
    buffers: Belief = field(default_factory=dict)
    features: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    preparation: Preparation | None = None
    recipe: Recipe | None = None


def write(path: Path, saved: Saved) -> Path:
    """Readers see the whole file or none; folders on the way are made."""
    tensors, header = pack(saved)
    return write_tensors(path, tensors, {"kind": KIND, **header})


def read(path: Path) -> Saved:
    """The posterior in a file; refused if it is damaged or something else."""
    if not path.is_file():
        raise BadData(f"no posterior at {path}: check the path")
    with intact(path, "posterior", REMEDY):
        saved = unpack(*of_kind(path, KIND, REMEDY))
    checked(saved.posterior, f"the posterior in {path} has", REMEDY)
    return saved


def pack(saved: Saved) -> tuple[Tensors, Header]:
    """All of it as tensors and what JSON holds."""
    tensors, header = pack_gaussian(saved.posterior)
    tensors |= {BUFFER + name: t for name, t in saved.buffers.items()}
    way = saved.preparation
    return tensors, {
        **header,
        "client": saved.client,
        "samples": saved.samples,
        "network": dict(saved.model),
        "features": list(saved.features),
        "classes": list(saved.classes),
        "preparation": None if way is None else way.without_training().to_dict(),  # the file is for others
        "recipe": None if saved.recipe is None else saved.recipe.table(),
    }


def unpack(tensors: Tensors, header: Header) -> Saved:
    """The inverse of `pack`; what does not fit together is a ValueError, KeyError or TypeError."""
    buffers = {n.removeprefix(BUFFER): t for n, t in tensors.items() if n.startswith(BUFFER)}
    if strange := first_not_finite(buffers):
        raise ValueError(f"{BUFFER}{strange} is not finite")
    if not 1 <= (rows := int(header["samples"])) < MOST_ROWS:
        raise ValueError(f"samples is {shown(rows)}")
    if not (client := str(header["client"])) or re.search(r"[\x00-\x1f\x7f]", client):
        raise ValueError(f"client is {client!r}")
    rest = {n: t for n, t in tensors.items() if not n.startswith(BUFFER)}
    features, classes = tuple(map(str, header["features"])), tuple(map(str, header["classes"]))
    way = None if header["preparation"] is None else preparation_from_dict(header["preparation"])
    if way is not None and way.features != features:
        raise ValueError("its columns do not make its inputs")
    network = dict(header.get("network", {}))
    if len(classes) > int(network.get("outputs", len(classes))):
        raise ValueError(f"it has {len(classes)} classes for {network['outputs']} outputs")
    posterior, recipe = unpack_gaussian(rest, header), _recipe(header["recipe"])
    return Saved(client, rows, posterior, network, buffers, features, classes, way, recipe)


def _recipe(table: Any) -> Recipe | None:
    if table is None:
        return None
    from coterie.data.tables.recipe_file import recipe_of

    try:
        return recipe_of(table)
    except BadData as error:
        raise ValueError(f"its recipe cannot be read, {str(error).splitlines()[0]}") from None


def pack_gaussian(gaussian: Gaussian) -> tuple[Tensors, Header]:
    precision = gaussian.precision
    tensors = {"shift": gaussian.shift, "diagonal": precision.diagonal}
    tensors |= {f"factor/{i}": f.columns for i, f in enumerate(precision.factors)}
    if precision.dense is not None:
        tensors["dense"] = precision.dense
    return tensors, {
        "form": gaussian.form,
        "model": [[s.name, list(s.shape), str(s.dtype).removeprefix("torch.")] for s in gaussian.slots],
        "scales": [f.scale for f in precision.factors],
    }


def unpack_gaussian(tensors: Tensors, header: Header) -> Gaussian:
    slots: Slots = tuple(Slot(n, tuple(shape), getattr(torch, dtype)) for n, shape, dtype in header["model"])
    if not all(isinstance(s.dtype, torch.dtype) and s.dtype.is_floating_point for s in slots):
        raise ValueError("its model has a dtype that is no kind of real number")
    if (names := [s.name for s in slots]) != sorted(set(names)):  # sums go by place
        raise ValueError("its model's tensors are not in the order of their names")
    p = size(slots)
    for name, t in tensors.items():
        wanted = {"dense": (p, p), "shift": (p,), "diagonal": (p,)}.get(name, (p, *t.shape[1:2]))
        if tuple(t.shape) != wanted or t.dtype != torch.float64:
            raise ValueError(f"{name} is {t.dtype} {list(t.shape)}")
        if not bool(torch.isfinite(t).all()):
            raise ValueError(f"{name} is not finite")
    factors = tuple(Factor(tensors[f"factor/{i}"], float(s)) for i, s in enumerate(header["scales"]))
    if not all(math.isfinite(f.scale) for f in factors):
        raise ValueError("a scale is not finite")
    precision = Precision(tensors["diagonal"], factors, tensors.get("dense"))
    if precision.form != header["form"]:
        raise ValueError(f"its form is {header['form']}, its tensors make {precision.form}")
    return Gaussian(slots, tensors["shift"], precision)


def of_kind(path: Path, kind: str, remedy: str) -> tuple[Tensors, Header]:
    tensors, header = read_tensors(path)
    if header["kind"] == f"{kind.split()[0]} 1":
        raise BadData(f"{path} is of an earlier version, which kept no names of columns: {remedy}")
    if header["kind"] != kind:
        raise ValueError(f"its kind is {header['kind']!r}, not {kind!r}")
    return tensors, header


@contextlib.contextmanager
def intact(path: Path, what: str, remedy: str) -> Iterator[None]:
    """Whatever a file that is not what it should be may raise becomes one line."""
    try:
        yield
    except (SafetensorError, OSError, LookupError, TypeError, ValueError, AttributeError, OverflowError) as e:
        reason = f"no {e}" if isinstance(e, KeyError) else e
        raise BadData(f"{path} is damaged or no {what} ({reason}): {remedy}") from None
