"""coterie compare"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from coterie import features
from coterie.cli import screen
from coterie.cli.command import command_with
from coterie.cli.flags import Given, SettingsFlags, kernel_names, method_names
from coterie.cli.run import BESIDE, LANGUAGE, OUT, WATCH, around_runs, close, fresh, out_of, resumable, spoken
from coterie.core.clock import CLOCK
from coterie.core.errors import BadData, BadInput, Diverged, Refused
from coterie.core.options import Option
from coterie.methods.baselines import NOTHING
from coterie.runs.about import command_line
from coterie.runs.builder import Builder
from coterie.runs.compare import Comparison, create, labelled, left_out, read_records, run_cell, with_nothing
from coterie.runs.folder import empty, not_there, read_record
from coterie.runs.jobs import Say, processes, side_by_side
from coterie.runs.loop import Around, Watch, beside_nothing
from coterie.runs.record import Record
from coterie.runs.settings import Settings
from coterie.runs.sweeps import expanded
from coterie.storage.locks import locked
from coterie.watching import both, called_after_rounds, watcher_of

COMMANDS = {"compare": ("study", 10, "train with several methods and seeds on the same clients, one table")}
HELP = """Trains with several methods and seeds on the same clients, and puts them into one table.

A method may carry options: fedavg:weighted=false,sample=0.5, and local work of its own:
"fedavg:kernel=dp(sgd)". Several values of an option, or of several, are a sweep: all combinations are
compared. --grid does the same for every method that has the option. What always the same answer has, each
client's own rate or mean, is beside them as `nothing`.

examples:
  coterie compare --data titanic
  coterie compare --data digits --split shift --shift.distribution F --methods local fedavg finetune --seeds 5
  coterie compare --data digits --methods fedavg fedavg:weighted=false --sgd.lr 0.05
  coterie compare --data digits --methods fedavg "fedavg:kernel=dp(sgd)" --dp.sigma 0.5
  coterie compare --data digits --methods fedavg "finetune:tune=1|5" --grid "sgd.lr=0.03|0.1|0.3"
"""

JOBS = Option("jobs", int, 0, "Processes side by side; 0: one for each core if models and data are small.")
Cell = tuple[tuple[str, str], Settings]
"""(spec, place) of a run, and its settings."""
OFTEN = 0.1  # seconds between what a process says of a run
DEFAULT = ("local", "fedavg", "finetune", "central")
METHODS = Option("methods", tuple[str, ...], DEFAULT, "Methods to compare, with options if wanted.")
GRID = Option("grid", tuple[str, ...], (), "Values for every method that has the option: sgd.lr=0.01|0.1.")
SEEDS = Option("seeds", int, 3, "How many seeds, counted from --seed.")


OWN = (METHODS, GRID, SEEDS, OUT, JOBS, WATCH, *BESIDE, LANGUAGE)


@command_with(
    SettingsFlags("compare", HELP, OWN, methods=partial(method_names, default=DEFAULT), kernels=kernel_names)
)
@spoken
def compare(given: Given) -> int:
    settings, extra, _ = given
    watch, around = called_after_rounds(watcher_of(extra["watch"])), around_runs(extra)
    alone = {module.WHO: extra[module.OPTION.name] for module in features.brought("option")}
    for who, given in {"who watches": extra["watch"], **alone}.items():
        if given:  # runs one after the other: logs and counters are no place for several processes
            if extra["jobs"] > 1:
                raise BadInput(f"--jobs {extra['jobs']}: {who} sees one run at a time: leave it out")
            extra["jobs"] = 1
    methods = expanded(
        extra["methods"], extra["grid"], lambda name: replace(settings, method=name).with_work().kernel
    )
    comparison, out, builder = Comparison(settings, methods, extra["seeds"]), out_of(extra), Builder()
    split = comparison.with_method(comparison.methods[0]).split
    path = out or fresh(f"compare-{settings.data}-{split}")
    asked, (comparison, without) = comparison, with_nothing(comparison, builder)
    made = not_there(path)
    create(path, comparison, builder)
    screen.say_dim([without] if without else [])
    try:
        records = run_all(path, comparison, command_line(), builder, extra["jobs"], watch, around)
    except (BadInput, BadData, Refused):  # a mistake that only the work itself could show
        if not any((path / place / "metrics.jsonl").exists() for place, _ in asked.cells()):
            empty(path, made)
        raise
    return close(path, records)


def run_all(
    path: Path,
    comparison: Comparison,
    command: str | None,
    builder: Builder | None = None,
    jobs: int = 0,
    watch: Watch = lambda record: None,
    around: Around = beside_nothing,
) -> list[Record]:
    """Every run of a comparison that is not finished yet, under one progress bar; then notes on the data.

    All methods of a seed come one after the other, as they have the same sites; results are in the order of
    the methods. One that diverges does not keep the others from their results (`read_records`).
    """
    builder = builder or Builder()
    cells = list(zip(labelled(comparison), (s for _, s in comparison.cells()), strict=True))
    order = sorted(cells, key=lambda entry: entry[1].seed)
    if jobs > 1 and comparison.settings.connector.meets:
        raise BadInput(f"--jobs {jobs}: sites of a federation are in one run at a time: leave it out")
    jobs = processes(jobs, len(cells), builder.small(order[0][1]))
    rounds = sum(cell.rounds for _, cell in cells)
    with resumable(path), closing(locked(path)), screen.progress(rounds) as bar:
        if jobs > 1:
            records = _in_processes(path, order, command, builder, jobs, bar)
        else:
            records = _one_by_one(path, order, command, builder, bar, watch, around)
    found = read_records(path) if len(records) < len(cells) else [records[place] for (_, place), _ in cells]
    screen.say_gathered(found)
    return found


def _one_by_one(
    path: Path,
    order: Sequence[Cell],
    command: str | None,
    builder: Builder,
    bar: screen.Bar,
    told: Watch,
    around: Around,
) -> dict[str, Record]:
    """The records of all runs, by place."""
    records, before = dict[str, Record](), 0
    for (spec, place), cell in order:
        bar.follows = path / place if cell.connector.meets else None
        watch = screen.watcher(bar, f"{spec} seed {cell.seed}", before=before)
        seen, before = both(watch, told), before + cell.rounds
        try:
            records[place] = record = run_cell(path / place, cell, spec, command, seen, builder, around)
            watch(record)
        except Diverged:
            pass  # its folder says so
        except Refused as error:
            # sites that allow no such work refuse `nothing`, which nobody asked them for: the others go on
            if spec != NOTHING or len(order) == 1:
                raise
            screen.say_dim([left_out(error)])
    return records


def _in_processes(
    path: Path, order: Sequence[Cell], command: str | None, builder: Builder, jobs: int, bar: screen.Bar
) -> dict[str, Record]:
    """The same by several processes; each says how far it is, some times a second."""

    def work(task: int, say: Say) -> None:
        (spec, place), cell = order[task]
        last = time.monotonic()

        def watch(record: Record) -> None:
            nonlocal last
            if time.monotonic() - last > OFTEN:
                last = time.monotonic()
                say({"task": task, "done": record.done, "figure": screen.figure(record)})

        with suppress(Diverged):
            record = run_cell(path / place, cell, spec, command, watch, builder)
            say({"task": task, "done": record.done, "figure": screen.figure(record), "over": True})

    done, records = [0] * len(order), dict[str, Record]()
    for entry in side_by_side(len(order), jobs, work):
        if "spent" in entry:
            CLOCK.add(entry["spent"])
            continue
        (spec, place), cell = order[entry["task"]]
        done[entry["task"]] = entry["done"]
        screen.move(bar, f"{spec} seed {cell.seed} {entry['figure']}", sum(done))
        if "over" in entry:
            records[place] = read_record(path / place, spec)
    return records
