"""coterie tune"""

from __future__ import annotations

from functools import partial
from operator import getitem
from pathlib import Path
from typing import Literal

from coterie.cli import screen
from coterie.cli.command import command_with
from coterie.cli.compare import DEFAULT
from coterie.cli.flags import SPENDING, Given, SettingsFlags, method_names
from coterie.cli.run import OUT, fresh, resumable
from coterie.core.errors import BadRun
from coterie.core.options import Option
from coterie.features.tuning import tuning as tuner
from coterie.features.tuning.report import command, screen_table, write_tuning
from coterie.features.tuning.tuning import Tuning
from coterie.metrics.table import METRICS
from coterie.runs.about import command_line
from coterie.show import numbers
from coterie.storage.paths import given_folder

COMMANDS = {"tune": ("study", 20, "pick learning rates and options for each method, by cross-validation")}
HELP = """Picks learning rates and method options by cross-validation on the clients' training rows alone.

Each method is tuned by itself. What is searched is an option with a range (sgd.lr=0.01..1:log,
finetune.tune=1..10) or values (fedavg.weighted=true|false, rounds=10|30); by default what matters of the
local work: rate, weight decay, schedule and rounds, or pull and penalty. The same command goes on where it
was cut off.

examples:
  coterie tune --data titanic --methods local fedavg finetune --trials 20 --out runs/tune-titanic
  coterie tune --data digits --methods fedavg --search sgd.lr=0.01..3.0:log fedavg.sample=0.1..1.0
  coterie compare --config runs/tune-titanic/best.toml
"""

TUNED = ("auto", *(name for name, metric in METRICS.items() if not metric.scored))
OWN = (
    Option("methods", tuple[str, ...], DEFAULT, "Methods to tune, each by itself, with options if wanted."),
    Option(
        "search", tuple[str, ...], (), "Options to search: sgd.lr=0.01..1:log fedavg.weighted=true|false."
    ),
    Option("trials", int, 20, "How many trials for each method."),
    Option("folds", int, 3, "Into how many parts each client's training rows are cut."),
    Option(
        "metric",
        getitem(Literal, TUNED),
        "auto",
        "What to tune by; auto takes accuracy, RMSE for a regression, concordance for a survival.",
    ),
    OUT,
)


@command_with(
    SettingsFlags("tune", HELP, OWN, methods=partial(method_names, default=DEFAULT), without=SPENDING)
)
def tune(given: Given) -> int:
    settings, extra, _ = given
    out = given_folder(extra["out"]) if extra["out"] else None
    tuning = Tuning(settings, **{o.name: extra[o.name] for o in OWN if o.name != "out"})
    split = tuning.way(tuning.methods[0]).split
    return run_trials(out or fresh(f"tune-{settings.data}-{split}"), tuning, command_line())


def run_trials(path: Path, tuning: Tuning, typed: str | None) -> int:
    """Every trial that is left, then what came out."""
    total = len(tuning.methods) * tuning.trials * tuning.folds * tuning.settings.rounds
    with resumable(path, "every finished trial"), screen.progress(total) as bar:
        tuned = tuner.tune(tuning, path, watcher(bar), typed)
    screen.say_notes(tuned.about)
    page = write_tuning(path / "report.html", tuned, path)
    screen.out.print(screen_table(tuned))
    if tuned.specs():
        print(f"best: {path / 'best.toml'}, deal = {tuned.deal}: no seed is tested on rows of a trial")
        print(f"compare: {command('compare', path / 'best.toml')}")
    print(f"report: {page}")
    lost = [spec for spec in tuning.methods if tuned.best(spec) is None]
    if lost:
        raise BadRun(f"every trial of {lost[0]} failed, the last with: {tuned.of(lost[0])[-1].error}")
    return 0


def watcher(bar: screen.Bar) -> tuner.Watch:
    def watch(step: tuner.Step) -> None:
        label = f"{step.method} trial {step.number}"
        if step.best is not None and step.best.value is not None:
            label += f", best {numbers.unit(step.metric)} {numbers.figure(step.best.value, step.metric)}"
        screen.move(bar, label, step.done)

    return watch
