"""What the server made, kept on disk: many runs of one comparison share one pretraining and one pass.

A file's name is a hash of everything that decides what is in it: the clients' samples, the server's first
weights, what the network computes, the options, the seed, the one that deals its rows if that is another, and
`VERSION`. So an entry is never out of date, and any file may be deleted at any time. Entries lie in the
folder `features` beside downloaded data.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from coterie.core import belief as tree
from coterie.core.belief import Belief
from coterie.core.client import Client, add_tensors, bytes_of
from coterie.core.errors import BadRun
from coterie.data.downloads import store
from coterie.engines.threads import one_thread_each
from coterie.storage.tensors import read_tensors, write_tensors

VERSION = 1  # of the server's training and of φ: count up when either gives other numbers
SERVER, FEATURES = "server/", "features/"


@dataclass(frozen=True)
class Figures:
    """Of the server's work: its training rows, a metric on the clients' test rows, seconds of training."""

    rows: int
    metric: str
    value: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Entry:
    """The server's tensors; the features of each set of samples, in order; figures."""

    server: Belief
    features: tuple[Tensor, ...]
    figures: Figures


def place_of(clients: Sequence[Client], model: nn.Module, x: Tensor, decided: Mapping[str, Any]) -> Path:
    """The file for this server on these clients; x is a few inputs, `decided` what else matters."""
    first = tree.stack([tree.belief_of(model)])
    with one_thread_each(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        computed = copy.deepcopy(model).eval()(x)  # two modules may differ in nothing but their forward
    told = {
        "version": VERSION,
        "data": fingerprint(clients, first),
        "model": repr(model),
        "computed": fingerprint([], {"": computed}),
        **decided,
    }
    name = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:24]
    return store("features") / f"{name}.safetensors"


def write(path: Path, entry: Entry) -> None:
    tensors = {SERVER + n: t for n, t in entry.server.items()}
    tensors |= {f"{FEATURES}{i}": t for i, t in enumerate(entry.features)}
    write_tensors(path, tensors, {"figures": asdict(entry.figures), "sum": _sum(tensors)})


def read(path: Path) -> Entry | None:
    """The entry as it was written; None if there is none. A damaged one is refused."""
    if not path.exists():
        return None
    try:
        tensors, header = read_tensors(path)
        if header["sum"] != _sum(tensors):
            raise ValueError("its checksum is wrong")
        figures = Figures(**header["figures"])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise BadRun(f"{path} is damaged ({error}): delete it") from None
    server = {n.removeprefix(SERVER): t for n, t in tensors.items() if n.startswith(SERVER)}
    parts = range(len(tensors) - len(server))
    return Entry(server, tuple(tensors[f"{FEATURES}{i}"] for i in parts), figures)


def fingerprint(clients: Sequence[Client], tensors: Mapping[str, Tensor]) -> str:
    """Rows and tensors in a few letters."""
    total = hashlib.sha256()
    for client in clients:
        total.update(client.name.encode())
        for part in (client.train, client.validation, client.test):
            total.update(bytes_of(part.x))
            total.update(bytes_of(part.y))
    add_tensors(total, tensors)
    return total.hexdigest()[:16]


def _sum(tensors: Mapping[str, Tensor]) -> str:
    return fingerprint([], {n: tensors[n] for n in sorted(tensors)})
