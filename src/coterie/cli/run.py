"""coterie run"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from coterie.cli import screen
from coterie.cli.command import command_with
from coterie.cli.cost import say_cost
from coterie.cli.flags import Given, SettingsFlags
from coterie.core.clock import CLOCK
from coterie.core.options import Option
from coterie.report.audit import read_audit
from coterie.report.page import Section, write_report
from coterie.report.quality import read_quality
from coterie.runs.about import command_line
from coterie.runs.compare import diverged_in
from coterie.runs.cost import write_cost
from coterie.runs.experiment import Experiment, prepare
from coterie.runs.folder import Folder, refuse_full
from coterie.runs.recalibrating import for_use
from coterie.runs.record import Record
from coterie.runs.runner import Watch
from coterie.runs.runner import run as run_rounds
from coterie.runs.settings import Settings
from coterie.runs.tracker import Tracker, tracked, tracker_of
from coterie.storage.paths import fresh_path, given_folder
from coterie.watching import both, told, watcher_of

HELP = """Trains with one method and writes a run folder with a report.

Options of the chosen data, split, model, method and kernel are flags behind their names.

examples:
  coterie run --data digits
  coterie run --data titanic --method finetune --finetune.tune 10 --sgd.lr 0.5
  coterie run --data digits --split dirichlet --dirichlet.alpha 0.1 --clients 20 --kernel adam
  coterie run --config my-run.toml --seed 3
"""

WATCH = Option(
    "watch", str, "", "Also write each round down for tensorboard:FOLDER, mlflow:EXPERIMENT or wandb:PROJECT."
)
ENERGY = Option(
    "energy", str, "", "Also let codecarbon guess the energy, offline; codecarbon:FR with a country's grid."
)
OUT = Option("out", str, "", "The folder to write; by default one below runs/ named after the run.")


@command_with(SettingsFlags("run", HELP, [OUT, WATCH, ENERGY]))
def run(given: Given) -> int:
    settings, extra, _ = given
    with CLOCK.part("start-up"):
        settings, out = settings.resolved(), out_of(extra)
        watch, tracker = told(watcher_of(extra["watch"])), tracker_of(extra["energy"])
    experiment = for_use(prepare(settings, command_line()))
    screen.say_notes(experiment.about)
    path = out or fresh(default_name(settings))
    return played(experiment, settings, path, watch=watch, tracker=tracker)


def played(
    experiment: Experiment,
    settings: Settings,
    path: Path,
    begin: Callable[[], None] = lambda: None,
    watch: Watch = lambda record: None,
    tracker: Tracker | None = None,
) -> int:
    """A run into a new folder, from its first round to its report. `begin` may put into the folder what the
    run goes on from.
    """
    folder = Folder.create(path, experiment.config, experiment.about)
    try:
        begin()
        with screen.progress(settings.rounds) as bar, tracked(tracker, path):
            bar.follows = path if settings.net == "federation" else None
            seen = both(screen.watcher(bar, settings.method), watch)
            record = run_rounds(experiment, folder, settings.method, seen).record
    except KeyboardInterrupt:
        raise KeyboardInterrupt(how_to_go_on(path)) from None
    finally:
        folder.close()
        experiment.net.close()
    return close(path, [record])


def close(path: Path, records: list[Record]) -> int:
    """The page, and the table; with -v, what took how long. The exit code: 2 if some run has no result."""
    failed = diverged_in(path)
    with CLOCK.part("report"):
        found = partial(read_audit, path), partial(read_quality, path)
        sections = [Section(title(records[0]), records, CLOCK.read, *found, failed)]
        screen.say_sections(sections, write_report(path / "report.html", sections))
    write_cost(path)
    say_cost()
    return 2 if failed else 0


def title(record: Record) -> str:
    return f"{record.config['data']}, split by {record.config['split']}"


def how_to_go_on(path: Path) -> str:
    command = f"coterie resume {shlex.quote(str(path))}"
    return f"stopped; everything up to the last finished round is saved: go on with '{command}'"


def out_of(extra: Mapping[str, Any]) -> Path | None:
    """The folder of --out, checked before anything is computed; None where none is given."""
    if not extra["out"]:
        return None
    path = given_folder(extra["out"])
    refuse_full(path)
    return path


def default_name(settings: Settings) -> str:
    return f"{settings.data}-{settings.split}-{settings.method}-seed{settings.seed}"


def fresh(name: str) -> Path:
    """A folder below runs/ that is not there yet."""
    return fresh_path(Path("runs") / name)
