"""A tuning that was cut off goes on from its folder."""

from pathlib import Path

from coterie.features.tuning.tuning import TUNING, read_tuning
from coterie.runs.about import command_line

FILE = TUNING


def resume(path: Path) -> int:
    from coterie.features.tuning.command import run_trials  # only here: it takes a while to import

    return run_trials(path, read_tuning(path), command_line())


report = None
