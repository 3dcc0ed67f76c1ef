"""Every subcommand, in the order in which a newcomer meets them; each is loaded when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

Command = Callable[[Sequence[str]], int]

COMMANDS = {
    "demo": "compare four methods on real data and write a report (a minute)",
    "run": "train with one method and write a run folder with a report",
    "compare": "train with several methods and seeds on the same clients, one table",
    "rank": "rank the others for one client or all, before training together",
    "tune": "pick learning rates and options for each method, by cross-validation",
    "reproduce": "run a paper's experiments: its tables beside ours, claims, figures",
    "resume": "go on with a run, a comparison or a tuning that was cut off",
    "report": "write the page, CSV or figures of a run or a comparison again",
    "posterior": "join posteriors saved apart, let clients come and go, predict",
    "data": "list, fetch or show data: who has how many of which label",
    "methods": "list methods, splits, models and kernels, or explain one",
    "bench": "measure the engines beside plain PyTorch loops",
    "completion": "print a completion script for bash, zsh or fish",
}


def load(name: str) -> Command:
    """The function `name` of the module of that name."""
    command: Command = getattr(importlib.import_module(f"coterie.cli.{name}"), name)
    return command
