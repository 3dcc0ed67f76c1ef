"""Named tensors and a header of JSON as one file, in the format of safetensors, and named arrays as one in
that of numpy: reading them runs no code.

What is read is what was written, names and maps in the order they had: whoever goes through a belief by its
names, or adds up its norms, gets the same numbers after a resume. The format itself keeps no order, so the
header lists the names (`ORDER`), each with the order of its axes in memory where that is not the usual one: a
sum over a transposed matrix adds in that order too.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
import zlib
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from coterie.core.errors import BadRun
from coterie.storage.atomic import readable_errors, replace_atomically, replace_quickly

ORDER = "order"
"""In the header of every file: its tensors, NAME or [NAME, axes in memory]."""


def write_tensors(
    path: Path | str, tensors: Mapping[str, Tensor], header: Mapping[str, Any], durable: bool = True
) -> Path:
    """The same bytes for the same content in the same order; folders on the way are made. See `atomic.py` for
    `durable`.
    """
    path = Path(path)
    listed = [[name, axes] if (axes := _axes_in_memory(t)) else name for name, t in tensors.items()]
    # one entry only: the format keeps several in no particular order
    text = json.dumps({**header, ORDER: listed})
    # copies of their own: views and expanded tensors share memory, which the format refuses
    own = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    with readable_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    replace = replace_atomically if durable else replace_quickly
    replace(path, lambda draft: _save(own, draft, text))
    return path


def _save(tensors: dict[str, Tensor], path: Path, text: str) -> None:
    """A disk that refuses is an OSError, as everywhere else; the format's library has an error of its own."""
    try:
        save_file(tensors, path, metadata={"coterie": text})
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from None


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What is no such file ends in a KeyError, ValueError, OSError or SafetensorError.

    Tensors that the order does not list, as in a file of an earlier version, follow by the alphabet.
    """
    with safe_open(path, framework="pt") as file:
        header = json.loads((file.metadata() or {})["coterie"])
        try:  # of each tensor its axes in memory, nothing where they are as usual
            order = header.pop(ORDER, [])
            listed = dict((entry, []) if isinstance(entry, str) else entry for entry in order)
        except (AttributeError, TypeError) as error:
            raise ValueError(f"its header cannot be read: {error}") from None
        names = sorted(file.keys())
        there = set(names)
        axes = {n: along for n, along in listed.items() if n in there}
        axes |= {n: [] for n in names if n not in listed}
        return {name: _laid_out(file.get_tensor(name), along) for name, along in axes.items()}, header


def _axes_in_memory(tensor: Tensor) -> list[int]:
    """A tensor's axes from the widest stride to the narrowest; nothing where that is the order of its shape,
    or where rows are one and the same memory.
    """
    if tensor.is_contiguous() or 0 in tensor.stride():
        return []
    axes = sorted(range(tensor.ndim), key=lambda axis: -tensor.stride()[axis])
    return [] if axes == list(range(tensor.ndim)) else axes


def _laid_out(tensor: Tensor, axes: Sequence[int]) -> Tensor:
    """The same numbers, in memory along these axes."""
    if not axes:
        return tensor
    if sorted(axes) != list(range(tensor.ndim)):
        raise ValueError(f"a tensor of {tensor.ndim} axes cannot lie along {axes}")
    return tensor.permute(*axes).contiguous().permute(*(axes.index(i) for i in range(tensor.ndim)))


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], mode: int = 0o644) -> None:
    def write(draft: Path) -> None:
        with draft.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    replace_atomically(path, write, mode)


def read_arrays(path: Path, names: Sequence[str], optional: Container[str] = ()) -> list[np.ndarray] | None:
    """The arrays of a file, if it is there; those that are optional, which come last, if they are."""
    if not path.exists():
        return None
    try:
        with np.load(path) as file:
            return [file[name] for name in names if name in file or name not in optional]
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError) as error:
        raise damaged(path, str(error)) from None


def damaged(path: Path, why: str) -> BadRun:
    return BadRun(f"{path} is damaged ({why}): delete it to do without")
