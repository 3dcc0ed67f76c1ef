"""Named tensors and a header of JSON as one file, in the format of safetensors: reading it runs no code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
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
    replace(path, lambda draft: save_file(own, draft, metadata={"coterie": text}))
    return path


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What is no such file ends in a KeyError, ValueError, OSError or SafetensorError."""
    with safe_open(path, framework="pt") as file:
        header = json.loads((file.metadata() or {})["coterie"])
        return {name: file.get_tensor(name) for name in file.keys()}, header  # noqa: SIM118
