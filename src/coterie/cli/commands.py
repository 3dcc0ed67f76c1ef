"""Every command, in the order in which a newcomer meets them; each is loaded when it is called."""

from __future__ import annotations

import gc
import importlib
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from coterie.cli.command import Command

NETWORK = ("cryptography", "nvflare", "msgpack", "zstandard")  # of the extra coterie[network]

TRY, STUDY, TABLES = "Try it", "Study methods", "Look at tables of your own"
PARTNERS, AFTER, PRIVACY = "Train with partners", "After a run", "Privacy and proof"


class Entry(NamedTuple):
    """What `coterie --help` says of a command, and among which others; its flags are at its function."""

    group: str
    about: str


COMMANDS = {
    "demo": Entry(TRY, "ask seven methods, on real data, with whom to train (under a minute)"),
    "run": Entry(TRY, "train with one method and write a run folder with a report"),
    "methods": Entry(TRY, "list methods, splits, models and kernels, or explain one"),
    "data": Entry(TRY, "list, fetch or show data: who has how many of which label"),
    "completion": Entry(TRY, "print a completion script for bash, zsh or fish"),
    "compare": Entry(STUDY, "train with several methods and seeds on the same clients, one table"),
    "tune": Entry(STUDY, "pick learning rates and options for each method, by cross-validation"),
    "reproduce": Entry(STUDY, "run a paper's experiments: its tables beside ours, claims, figures"),
    "bench": Entry(STUDY, "measure the engines beside plain PyTorch loops"),
    "table": Entry(TABLES, "look at tables of your own, all sites at once, and write a recipe"),
    "check": Entry(TABLES, "look for mistakes in the data: units, impossible values, copies, gaps, labels"),
    "similar": Entry(PARTNERS, "say how alike sites are, and in which columns they differ, before training"),
    "rank": Entry(PARTNERS, "rank the others for one client or all, before training together"),
    "advise": Entry(PARTNERS, "tell a client with whom to train, why, what it gains and gives away"),
    "federation": Entry(PARTNERS, "see a federation of several hosts at work; make and revoke its kits"),
    "coordinate": Entry(PARTNERS, "run the relay of a federation, through which its sites reach each other"),
    "site": Entry(PARTNERS, "take part in a federation, with rows that stay on this machine"),
    "helper": Entry(PARTNERS, "help to seal replies in a federation, so that nobody sees one"),
    "posterior": Entry(PARTNERS, "join posteriors saved apart, let clients come and go, predict"),
    "watch": Entry(AFTER, "follow a run or a comparison while it goes on, from another terminal"),
    "resume": Entry(AFTER, "go on with a run, a comparison or a tuning that was cut off"),
    "report": Entry(AFTER, "write the page, CSV or figures of a run or a comparison again"),
    "page": Entry(AFTER, "show runs, live federations and a site's own part in them in a browser"),
    "contributions": Entry(AFTER, "say what each client gave to each other, and what that was worth"),
    "energy": Entry(AFTER, "say what a run took: CPU time and bytes, and guesses of kWh and CO2e"),
    "decide": Entry(AFTER, "record what people decide: a partner left out, a column, a circle, a no"),
    "again": Entry(AFTER, "do a run again, with what was decided of it"),
    "predict": Entry(AFTER, "ask a client's own model about new rows of a table"),
    "export": Entry(AFTER, "write a client's own model into a folder that works without its run"),
    "plan-privacy": Entry(PRIVACY, "say beforehand what epsilon a setting costs, or which noise reaches one"),
    "audit": Entry(PRIVACY, "attack a finished run: what could be learned about a client's patients"),
    "withdraw": Entry(PRIVACY, "say what a client's withdrawal from a run means; train without it"),
    "ledger": Entry(PRIVACY, "check or show what sites signed of a run: rounds, shares, withdrawals"),
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
