"""coterie resume"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from coterie import features
from coterie.cli import screen
from coterie.cli.command import Flags, command_with, flag, word
from coterie.cli.compare import run_all
from coterie.cli.run import close, resumable
from coterie.core.errors import BadRun
from coterie.runs.about import command_line
from coterie.runs.compare import is_comparison, read_comparison, run_cell
from coterie.runs.folder import read_record, way_on
from coterie.runs.settings import from_table
from coterie.show.words import speaking
from coterie.storage.paths import given_path

COMMANDS = {"resume": ("after", 20, "go on with a run, a comparison or a tuning that was cut off")}
HELP = """Goes on with what was cut off: a run, comparison, tuning or advice; to the same numbers in the end.

example:
  coterie resume runs/digits-shift-fedavg-seed0
"""


@dataclass(frozen=True)
class _Resume:
    path: str = word("The folder of the run, comparison, tuning or advice.")
    language: Literal["en", "fr", "de"] = flag("en", "The language of what it says and shows.")


@command_with(Flags(_Resume, "resume", HELP))
def resume(asked: _Resume) -> int:
    path = given_path(asked.path)
    with speaking(asked.language):
        return _go_on(path)


def _go_on(path: Path) -> int:
    if is_comparison(path):
        return close(path, run_all(path, read_comparison(path), command_line()))
    for other in features.brought("resume"):
        if (path / other.FILE).exists():
            return int(other.resume(path))
    past = read_record(path)
    if "lead" in past.about:
        raise BadRun(f"{path} cannot be resumed here: {way_on(path)}")
    if "given" in past.config:
        raise BadRun(f"{path} was started from Python: {way_on(path)}")
    settings = from_table(past.config, str(path / "config.toml"))
    with resumable(path), screen.progress(settings.rounds) as bar:
        bar.follows = path if settings.connector.meets else None
        watch = screen.watcher(bar, past.label)
        record = run_cell(path, settings, past.label, past.about["command"], watch, in_use=True)
        watch(record)
    began = "it was finished" if past.finished else f"it went on after round {past.done}"
    screen.err.print(f"{record.done} of {settings.rounds} rounds: {began}")
    return close(path, [record])
