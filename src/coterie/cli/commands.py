"""Every subcommand, in the order in which a newcomer meets them; each is loaded when it is called."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Callable, Sequence

Command = Callable[[Sequence[str]], int]

COMMANDS = {
    "demo": "ask seven methods, on real data, with whom to train (under a minute)",
    "run": "train with one method and write a run folder with a report",
    "compare": "train with several methods and seeds on the same clients, one table",
    "rank": "rank the others for one client or all, before training together",
    "similar": "say how alike sites are, and in which columns they differ, before training",
    "advise": "tell a client with whom to train, why, what it gains and what it gives away",
    "tune": "pick learning rates and options for each method, by cross-validation",
    "reproduce": "run a paper's experiments: its tables beside ours, claims, figures",
    "decide": "leave a partner out, rule on a column, approve a circle, say no to one: it is recorded",
    "again": "do a run again, with what was decided of it",
    "resume": "go on with a run, a comparison or a tuning that was cut off",
    "watch": "follow a run or a comparison while it goes on, from another terminal",
    "report": "write the page, CSV or figures of a run or a comparison again",
    "page": "show runs, live federations and a site's own part in them in a browser",
    "contributions": "say what each client of a run gave to each other, and what that was worth",
    "energy": "say what a run took: CPU time, bytes, and guesses of kWh and CO2e with their sources",
    "audit": "attack a finished run: what could be learned about a client's patients",
    "table": "look at tables of your own, all sites at once, and write a recipe",
    "check": "look for mistakes in the data: units, impossible values, copies, gaps, labels",
    "federation": "see a federation of several hosts at work (demo); make and revoke its kits",
    "coordinate": "run the relay of a federation, through which its sites reach each other",
    "site": "take part in a federation with rows that stay here; site check tells what is in the way",
    "helper": "help to seal replies in a federation, so that nobody sees one (two servers, a dealer)",
    "predict": "ask a client's own model about new rows of a table",
    "export": "write a client's own model into a folder that works without its run",
    "withdraw": "say what a client's withdrawal from a run means, and train again without it",
    "ledger": "check or show a run's ledger: its rounds, shares and withdrawals, as sites signed them",
    "posterior": "join posteriors saved apart, let clients come and go, predict",
    "data": "list, fetch or show data: who has how many of which label",
    "methods": "list methods, splits, models and kernels, or explain one",
    "bench": "measure the engines beside plain PyTorch loops",
    "plan-privacy": "say beforehand what epsilon a setting costs, and which noise reaches one",
    "completion": "print a completion script for bash, zsh or fish",
}


def load(name: str) -> Command:
    """The function `name` of the module of that name.

    What is loaded stays to the end. To look through it for garbage takes a tenth of a second, several times
    while it is loaded and every so often in a run: Python is told not to.
    """
    name = name.replace("-", "_")
    module = f"coterie.cli.{name}"
    if module not in sys.modules:
        gc.disable()
        try:
            importlib.import_module(module)
        finally:
            gc.freeze()
            gc.enable()
    command: Command = getattr(sys.modules[module], name)
    return command
