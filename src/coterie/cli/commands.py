"""Every subcommand, in the order in which a newcomer meets them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coterie.cli.compare import compare
from coterie.cli.completion import completion
from coterie.cli.data import data
from coterie.cli.demo import demo
from coterie.cli.listing import methods
from coterie.cli.report import report
from coterie.cli.resume import resume
from coterie.cli.run import run

Command = Callable[[Sequence[str]], int]

COMMANDS: dict[str, tuple[Command, str]] = {
    "demo": (demo, "compare three methods on real data and write a report (a minute)"),
    "run": (run, "train with one method and write a run folder with a report"),
    "compare": (compare, "train with several methods and seeds on the same clients, one table"),
    "resume": (resume, "go on with a run or a comparison that was cut off"),
    "report": (report, "write the page, CSV or figures of a run or a comparison again"),
    "data": (data, "list, fetch or show data: who has how many of which label"),
    "methods": (methods, "list methods, splits, models and kernels, or explain one"),
    "completion": (completion, "print a completion script for bash, zsh or tcsh"),
}
