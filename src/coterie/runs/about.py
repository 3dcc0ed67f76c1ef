"""Where and on what a run was computed: versions, commit, machine, clients."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import coterie
from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.client import add_tensors
from coterie.core.options import plain
from coterie.core.roster import Roster
from coterie.engines.threads import many
from coterie.runs.small import comments
from coterie.runs.yardstick import positive_class

LIBRARIES = ("torch", "numpy", "scikit-learn", "pandas")


@functools.cache  # git is asked once: what is loaded stays the same
def origin() -> dict[str, Any]:
    """The program that computes something, to be kept with every result."""
    libraries = {library: importlib.metadata.version(library) for library in LIBRARIES}
    return {
        "coterie": coterie.__version__,
        "versions": {"python": platform.python_version(), **libraries},
        "commit": commit(),
    }


def about_run(roster: Roster, beliefs: Beliefs, notes: Sequence[str], command: str | None) -> dict[str, Any]:
    belief = tree.row(beliefs, 0)
    members = [{k: plain(v) for k, v in asdict(m).items() if k != "digest"} for m in roster.members]
    names = roster.classes or tuple(str(c) for c in range(roster.outputs))
    return {
        **origin(),
        "machine": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "threads": many(),
        },
        "command": command,
        "task": roster.task,
        "classes": list(names) if roster.task == "classification" else [],
        **(
            {"positive": positive_class(roster)}
            if len(names) == 2 and roster.task == "classification"
            else {}
        ),
        "features": list(roster.features),
        "clients": members,
        "notes": list(notes),
        "small": comments(members, roster.task),
        "parameters": sum(t.numel() for t in belief.values()),
        "belief_bytes": tree.size_in_bytes(belief),
        "fingerprint": fingerprint(roster, beliefs),
        "rows": fingerprint(roster, {}) if all(m.digest for m in roster.members) else "",
    }


def fingerprint(roster: Roster, beliefs: Beliefs) -> str:
    """Data and first weights in a few letters: what a run must find again to go on. Without weights: whose
    runs are trained and tested on the same rows.
    """
    total = hashlib.sha256("/".join(m.digest for m in roster.members).encode())
    add_tensors(total, beliefs)
    return total.hexdigest()[:16]


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
