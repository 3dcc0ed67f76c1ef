"""Where and on what a run was computed: versions, commit, machine, clients; which of two classes is the
outcome that one looks for, and which clients' figures rest on little (each counts as much as any other):

    few test rows    below TEST: half of the 95 % interval of an accuracy p on n rows, 1.96 √(p (1 - p) / n),
                     is 14 points at p = 0.8 and n = 30, more than most differences between methods
    one class        among training rows, where there is nothing to learn, or among test rows, where whoever
                     always names it is right; of a survival, no event
    much smaller     fewer training rows than SHARE of the median client's

Of a client that keeps its labels to itself only the sizes are known; of one whose sizes are not known either,
because it is not there yet or this is another site's part of a run, nothing is said.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import math
import os
import platform
import shlex
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import coterie
from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.client import add_tensors
from coterie.core.options import plain
from coterie.core.roster import Member, Roster
from coterie.data.kinds.words import NO
from coterie.engines.threads import many
from coterie.show.words import Figure, counted, said, semicolons

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
    classifies = roster.task == "classification"
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
        "classes": list(names) if classifies else [],
        **({"positive": positive_class(roster)} if classifies and len(names) == 2 else {}),
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


# who rests on little


TEST = 30  # test rows
SHARE = 0.1  # of the median client's training rows
LIKELY = 0.8  # an accuracy for which the half width is told
MARK = "†"


def half_width(rows: int, accuracy: float = LIKELY) -> float:
    """Of the 95 % interval of an accuracy on so many rows, in points."""
    return 196 * math.sqrt(accuracy * (1 - accuracy) / rows)


def comments(clients: Sequence[Mapping[str, Any]], task: str = "classification") -> dict[str, str]:
    """By client (name, train, validation, test, labels), of those whose figures rest on little."""
    known = [c for c in clients if c.get("train")]
    median = statistics.median(int(c["train"]) for c in known) if known else 0.0
    found = {}
    for client in known:
        told, train, test = list[str](), int(client["train"]), int(client.get("test") or 0)
        if 0 < test < TEST:
            rows = counted("small.test", test)
            accuracy, half = Figure(f"{100 * LIKELY:.0f} %"), f"{half_width(test):.0f}"
            sure = said("small.known", rows=rows, accuracy=accuracy, half=half)
            told.append(sure if task == "classification" else rows)
        if single := _one_class(client.get("labels") or (), task):
            told.append(single)
        if train < SHARE * median:
            told.append(counted("small.median", train, median=f"{median:.0f}"))
        if told:
            found[str(client["name"])] = semicolons(told)
    return found


def _one_class(labels: Sequence[Sequence[int]], task: str) -> str:
    """Of rows counted by class, of training rows first and of test rows last."""
    if not labels:
        return ""
    parts = {"training": labels[0], "test": labels[-1]}
    single = [name for name, counts in parts.items() if sum(1 for c in counts if c) == 1]
    what = "one_class"
    if task == "survival":  # events alone are no lack: their order is learnt
        what, single = "no_event", [name for name in single if not parts[name][1]]
    return said(f"small.{what}.{'both' if len(single) > 1 else single[0]}") if single else ""


# the class that one looks for


COMMON = 0.8
"""From which share of one class on accuracy is blind: fewer than one row in five is of any other."""
SEEING = "nll"
WELL = {*NO, "well", "healthy", "normal", "benign", "control", "alive", "gesund", "sain", "sano"}
"""Names of a class that is not what one looks for."""


def labels_of(member: Member) -> Sequence[int]:
    """[class] of a client's training rows; empty where nobody knows."""
    return member.labels[0] if member.labels else ()


def positive_class(roster: Roster) -> int:
    """Which of two classes is the outcome, of which sensitivity, specificity and net benefit are: not the one
    that is called well; else the one that is rare in all training rows that are known; else the second.
    """
    if roster.task != "classification" or roster.outputs != 2:
        return 1
    well = [name.strip().lower() in WELL for name in roster.classes]
    if len(well) == 2 and well[0] != well[1]:
        return int(well[0])
    known = [counts for counts in map(labels_of, roster.members) if len(counts) == 2]
    first, second = (sum(counts[c] for counts in known) for c in (0, 1))
    return int(not second or second < COMMON * (first + second))


def commonest(counts: Sequence[int]) -> int:
    return max(range(len(counts)), key=lambda c: counts[c])
