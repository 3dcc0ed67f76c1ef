"""coterie resume"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from coterie.cli import screen
from coterie.cli.advise import answer
from coterie.cli.command import Flags, command_with
from coterie.cli.compare import run_all
from coterie.cli.run import close, how_to_go_on
from coterie.cli.tune import run_trials
from coterie.core.errors import BadRun
from coterie.runs.about import command_line
from coterie.runs.advising import is_advice, read_question
from coterie.runs.compare import is_comparison, read_comparison, run_cell
from coterie.runs.folder import read_record, way_on
from coterie.runs.settings import from_table
from coterie.runs.trials import is_tuning, read_tuning
from coterie.storage.paths import given_path

HELP = """Goes on with what was cut off: a run, comparison, tuning or advice; to the same numbers in the end.

example:
  coterie resume runs/digits-shift-fedavg-seed0
"""


@dataclass(frozen=True)
class Resume:
    path: Annotated[
        tyro.conf.Positional[str], tyro.conf.arg(help="The folder of the run, comparison, tuning or advice.")
    ]


@command_with(Flags(Resume, "resume", HELP))
def resume(asked: Resume) -> int:
    path = given_path(asked.path)
    if is_comparison(path):
        return close(path, run_all(path, read_comparison(path), command_line()))
    if is_advice(path):
        return answer(path, read_question(path), command_line())
    if is_tuning(path):
        return run_trials(path, read_tuning(path), command_line())
    past = read_record(path)
    if "lead" in past.about:
        raise BadRun(f"{path} cannot be resumed here: {way_on(path)}")
    if "given" in past.config:
        raise BadRun(f"{path} was started from Python: {way_on(path)}")
    settings = from_table(past.config, str(path / "config.toml"))
    try:
        with screen.progress(settings.rounds) as bar:
            bar.follows = path if settings.net == "federation" else None
            watch = screen.watcher(bar, past.label)
            record = run_cell(path, settings, past.label, past.about["command"], watch, in_use=True)
            watch(record)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(how_to_go_on(path)) from None
    began = "it was finished" if past.finished else f"it went on after round {past.done}"
    screen.err.print(f"{record.done} of {settings.rounds} rounds: {began}")
    return close(path, [record])
