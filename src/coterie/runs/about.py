"""Where and on what a run was computed: versions, commit, machine, clients."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import coterie
from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.client import Client
from coterie.core.client import class_count

LIBRARIES = ("torch", "numpy", "scikit-learn", "pandas")


def origin() -> dict[str, Any]:
    """The program that computes something, to be kept with every result."""
    libraries = {library: importlib.metadata.version(library) for library in LIBRARIES}
    return {
        "coterie": coterie.__version__,
        "versions": {"python": platform.python_version(), **libraries},
        "commit": commit(),
    }


def about_run(
    clients: Sequence[Client], beliefs: Beliefs, notes: Sequence[str], command: str | None
) -> dict[str, Any]:
    belief = tree.row(beliefs, 0)
    task = clients[0].task
    classes = class_count(clients)
    names = clients[0].classes or tuple(str(c) for c in range(classes))
    return {
        **origin(),
        "machine": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
        },
        "command": command,
        "task": task,
        "classes": list(names) if task == "classification" else [],
        "features": list(clients[0].features),
        "clients": [_client(c, classes) for c in clients],
        "notes": list(notes),
        "parameters": sum(t.numel() for t in belief.values()),
        "belief_bytes": tree.size_in_bytes(belief),
        "fingerprint": fingerprint(clients, beliefs),
    }


def _client(client: Client, classes: int) -> dict[str, Any]:
    parts = (client.train, client.validation, client.test)
    labels = None
    if client.task == "classification":
        labels = [torch.bincount(p.y.cpu(), minlength=classes).tolist() for p in parts]
    train, validation, test = map(len, parts)
    return {
        "name": client.name,
        "train": train,
        "validation": validation,
        "test": test,
        "labels": labels,
        "cluster": client.cluster,
        "notes": list(client.notes),
    }


def fingerprint(clients: Sequence[Client], beliefs: Beliefs) -> str:
    """Data and first weights in a few letters: what a run must find again to go on."""
    total = hashlib.sha256()
    for client in clients:
        total.update(client.name.encode())
        for part in (client.train, client.validation, client.test):
            total.update(_bytes(part.x))
            total.update(_bytes(part.y))
    for name, tensor in beliefs.items():
        total.update(name.encode())
        total.update(_bytes(tensor))
    return total.hexdigest()[:16]


def _bytes(tensor: Tensor) -> memoryview:
    """A tensor of any kind as it lies in memory; numpy itself does not know all of them."""
    flat = tensor.cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data if len(flat) else memoryview(b"")


def commit() -> str | None:
    """The commit of the checkout this code runs from, with a + if it was changed; None if installed."""
    home = Path(coterie.__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(home), *words], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def command_line() -> str:
    return shlex.join(["coterie", *sys.argv[1:]])
