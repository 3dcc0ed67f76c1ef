"""Named tensors and a header of JSON as one file, in the format of safetensors: reading it runs no code."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from coterie.storage.atomic import readable_errors, replace_atomically, replace_quickly


def write_tensors(
    path: Path | str, tensors: Mapping[str, Tensor], header: Mapping[str, Any], durable: bool = True
) -> Path:
    """The same bytes for the same content; folders on the way are made. See `atomic.py` for `durable`."""
    path = Path(path)
    # one entry only: the format keeps several in no particular order
    text = json.dumps(header, sort_keys=True)
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
    """What is no such file ends in a KeyError, ValueError, OSError or SafetensorError."""
    with safe_open(path, framework="pt") as file:
        header = json.loads((file.metadata() or {})["coterie"])
        return {name: file.get_tensor(name) for name in file.keys()}, header  # noqa: SIM118
