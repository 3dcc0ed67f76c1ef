"""The binary version of CIFAR: each record is 1 or 2 label bytes, then 3 x 32 x 32 pixels, red first."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from coterie.core.errors import BadData
from coterie.data.dataset import Arrays

SHAPE = (3, 32, 32)
PIXELS = 3072


def read_records(parts: Mapping[str, bytes], names: Sequence[str], label_bytes: int, label: int) -> Arrays:
    """The named parts, one after the other; `label` is which of the label bytes counts."""
    size = label_bytes + PIXELS
    for name in names:
        if len(parts[name]) % size or not parts[name]:
            raise BadData(f"{name} has {len(parts[name])} bytes, not a multiple of {size}: fetch it again")
    blocks = [np.frombuffer(parts[name], np.uint8).reshape(-1, size) for name in names]
    x = np.concatenate([block[:, label_bytes:] for block in blocks]).reshape(-1, *SHAPE)
    return Arrays(x, np.concatenate([block[:, label] for block in blocks]).astype(np.int64))


def read_archive(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """The named members of a tar.gz, in whichever folder they lie there; nothing is unpacked to the disk."""
    parts: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                content = archive.extractfile(member) if name in names else None
                if content is not None:
                    parts[name] = content.read()
    except (OSError, EOFError, tarfile.TarError, zlib.error):
        raise BadData(f"{path} is not a whole tar.gz: delete it, then it is fetched again") from None
    lacking = [name for name in names if name not in parts]
    if lacking:
        raise BadData(f"{path} lacks {', '.join(lacking)}: delete it, then it is fetched again")
    return parts
