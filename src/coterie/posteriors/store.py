"""A posterior as one file, to be joined later: named tensors, and a header of what they are.

Format: safetensors. Tensors `shift`, `diagonal`, `dense` (full form) and `factor/0`, `factor/1`, ... in
float64; the header entry `coterie` is JSON: the client, its number of training rows, the form, the model's
tensors (name, shape, dtype), the factors' scales. Reading it runs no code of the writer's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from coterie.core.errors import BadData
from coterie.core.files import write_whole
from coterie.posteriors.gaussian import Gaussian
from coterie.posteriors.precision import Factor, Precision
from coterie.posteriors.slots import Slot, Slots, size

KIND = "posterior 1"


@dataclass(frozen=True, eq=False)
class Saved:
    """A client's posterior and the number of training rows behind it."""

    client: str
    samples: int
    posterior: Gaussian


def write(path: Path, saved: Saved) -> Path:
    """Readers see the whole file or none; folders on the way are made."""
    gaussian = saved.posterior
    precision = gaussian.precision
    tensors = {"shift": gaussian.shift, "diagonal": precision.diagonal}
    tensors |= {f"factor/{i}": f.columns for i, f in enumerate(precision.factors)}
    if precision.dense is not None:
        tensors["dense"] = precision.dense
    header = {
        "kind": KIND,
        "client": saved.client,
        "samples": saved.samples,
        "form": gaussian.form,
        "model": [[s.name, list(s.shape), str(s.dtype).removeprefix("torch.")] for s in gaussian.slots],
        "scales": [f.scale for f in precision.factors],
    }
    own = {name: t.contiguous().clone() for name, t in tensors.items()}  # the format refuses shared memory
    return write_whole(path, save(own, metadata={"coterie": json.dumps(header, sort_keys=True)}))


def read(path: Path) -> Saved:
    """The posterior in a file; refused if it is damaged or something else."""
    if not path.is_file():
        raise BadData(f"no posterior at {path}: check the path")
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {})["coterie"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if header["kind"] != KIND:
            raise ValueError(f"its kind is {header['kind']!r}, not {KIND!r}")
        return Saved(str(header["client"]), int(header["samples"]), _gaussian(tensors, header))
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else error
        raise BadData(
            f"{path} is damaged or no posterior ({reason}): ask its client to save it anew"
        ) from None


def _gaussian(tensors: dict[str, Tensor], header: dict[str, Any]) -> Gaussian:
    slots: Slots = tuple(Slot(n, tuple(shape), getattr(torch, dtype)) for n, shape, dtype in header["model"])
    if not all(isinstance(s.dtype, torch.dtype) for s in slots):
        raise ValueError("its model has a dtype that torch lacks")
    p = size(slots)
    for name, t in tensors.items():
        wanted = {"dense": (p, p), "shift": (p,), "diagonal": (p,)}.get(name, (p, *t.shape[1:2]))
        if tuple(t.shape) != wanted or t.dtype != torch.float64:
            raise ValueError(f"{name} is {t.dtype} {list(t.shape)}")
        if not bool(torch.isfinite(t).all()):
            raise ValueError(f"{name} is not finite")
    factors = tuple(Factor(tensors[f"factor/{i}"], float(s)) for i, s in enumerate(header["scales"]))
    precision = Precision(tensors["diagonal"], factors, tensors.get("dense"))
    if precision.form != header["form"]:
        raise ValueError(f"its form is {header['form']}, its tensors make {precision.form}")
    return Gaussian(slots, tensors["shift"], precision)
