"""Where a command's time went, as -v shows it."""

from __future__ import annotations

import logging

from rich.table import Table

from coterie.cli import screen
from coterie.core.clock import CLOCK
from coterie.report.words import share_of_time


def say_cost() -> None:
    """A table of seconds and per cent by part, for who asked to be told more."""
    if not logging.getLogger("coterie").isEnabledFor(logging.INFO):
        return
    table = Table("part", box=None, title="where the time went", title_justify="left", title_style="bold")
    for heading in ("seconds", "per cent"):
        table.add_column(heading, justify="right")
    for row in share_of_time(CLOCK.read()):
        table.add_row(*row)
    screen.err.print("", table)
