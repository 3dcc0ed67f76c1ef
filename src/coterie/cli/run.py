"""coterie run"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from coterie import features
from coterie.cli import screen
from coterie.cli.command import command_with
from coterie.cli.flags import Given, SettingsFlags
from coterie.core.clock import CLOCK
from coterie.core.options import Option
from coterie.report.outcome import share_of_time
from coterie.report.page import write_report
from coterie.runs.about import command_line
from coterie.runs.builder import prepare
from coterie.runs.compare import diverged_in
from coterie.runs.experiment import Experiment, for_use
from coterie.runs.folder import refuse_full, write_cost
from coterie.runs.loop import Around, Watch, beside_nothing, run_in
from coterie.runs.record import Record
from coterie.runs.settings import Settings
from coterie.show.parts import Runs as Section
from coterie.show.words import said, speaking
from coterie.storage.paths import fresh_path, given_folder
from coterie.watching import both, called_after_rounds, watcher_of

COMMANDS = {"run": ("try", 20, "train with one method and write a run folder with a report")}
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
BESIDE = [module.OPTION for module in features.brought("option")]
"""Options by which features do something around runs."""
LANGUAGE = Option("language", Literal["en", "fr", "de"], "en", "The language of what it says and shows.")
OUT = Option("out", str, "", "The folder to write; by default one below runs/ named after the run.")


def spoken(do: Callable[[Given], int]) -> Callable[[Given], int]:
    """A command that says what it says in the language that it is asked to."""

    def speak(given: Given) -> int:
        with speaking(given[1]["language"]):
            return do(given)

    return speak


@command_with(SettingsFlags("run", HELP, [OUT, WATCH, *BESIDE, LANGUAGE]))
@spoken
def run(given: Given) -> int:
    settings, extra, _ = given
    with CLOCK.part("start-up"):
        settings, out = settings.resolved(), out_of(extra)
        watch, around = called_after_rounds(watcher_of(extra["watch"])), around_runs(extra)
    experiment = for_use(prepare(settings, command_line()))
    screen.say_notes(experiment.about)
    path = out or fresh(f"{settings.data}-{settings.split}-{settings.method}-seed{settings.seed}")
    return played(experiment, settings, path, watch=watch, around=around)


def played(
    experiment: Experiment,
    settings: Settings,
    path: Path,
    begin: Callable[[], None] = lambda: None,
    watch: Watch = lambda record: None,
    around: Around = beside_nothing,
) -> int:
    """A run into a new folder, from its first round to its report. `begin` may put into the folder what the
    run goes on from.
    """
    with resumable(path), screen.progress(settings.rounds) as bar:
        bar.follows = path if settings.connector.meets else None
        seen, name = both(screen.watcher(bar, settings.method), watch), settings.method
        record = run_in(path, lambda: experiment, name, seen, lambda _, ran: ran.record, around, begin)
    return close(path, [record])


def around_runs(extra: Mapping[str, Any]) -> Around:
    """What options of features (`BESIDE`) ask for around each run; refused before anything is computed."""
    brought = {module: extra[module.OPTION.name] for module in features.brought("option")}
    asked = [module.around(text) for module, text in brought.items() if text]

    @contextmanager
    def entered(folder: Path) -> Iterator[None]:
        with ExitStack() as inside:
            for around in asked:
                inside.enter_context(around(folder))
            yield

    return entered


def close(path: Path, records: list[Record]) -> int:
    """The page, and the table; with -v, what took how long. The exit code: 2 if some run has no result."""
    failed = diverged_in(path)
    with CLOCK.part("report"):
        sections = [Section(title(records[0]), records, path, CLOCK.read, failed)]
        screen.say_sections(sections, write_report(path / "report.html", sections))
    write_cost(path)
    _say_cost()
    return 2 if failed else 0


def title(record: Record) -> str:
    return said("run.title", data=record.settings.data, split=record.settings.split)


@contextmanager
def resumable(path: Path, saved: str = "everything up to the last finished round") -> Iterator[None]:
    """Whoever stops it is told how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        command = f"coterie resume {shlex.quote(str(path))}"
        raise KeyboardInterrupt(f"stopped; {saved} is saved: go on with '{command}'") from None


def out_of(extra: Mapping[str, Any]) -> Path | None:
    """The folder of --out, checked before anything is computed; None where none is given."""
    if not extra["out"]:
        return None
    path = given_folder(extra["out"])
    refuse_full(path)
    return path


def fresh(name: str) -> Path:
    """A folder below runs/ that is not there yet."""
    return fresh_path(Path("runs") / name)


def _say_cost() -> None:
    """A table of seconds and per cent by part, for who asked to be told more."""
    if not logging.getLogger("coterie").isEnabledFor(logging.INFO):
        return
    table = Table("part", box=None, title="where the time went", title_justify="left", title_style="bold")
    for heading in ("seconds", "per cent"):
        table.add_column(heading, justify="right")
    for row in share_of_time(CLOCK.read()):
        table.add_row(*row)
    screen.err.print("", table)
