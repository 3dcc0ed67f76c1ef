"""coterie compare"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from coterie.cli import screen
from coterie.cli.flags import peek, peek_many, read_settings
from coterie.cli.run import OUT, close, fresh, how_to_go_on
from coterie.core.clock import CLOCK
from coterie.core.options import Option
from coterie.runs.about import command_line
from coterie.runs.compare import Comparison, create, labelled, run_cell
from coterie.runs.experiment import Builder
from coterie.runs.record import Record
from coterie.runs.settings import read_toml

HELP = """Trains with several methods and seeds on the same clients, and puts them into one table.

A method may carry options: fedavg:weighted=false,sample=0.5

examples:
  coterie compare --data titanic
  coterie compare --data digits --split shift --shift.distribution F --methods local fedavg finetune --seeds 5
  coterie compare --data digits --methods fedavg fedavg:weighted=false --sgd.lr 0.05
"""

DEFAULT = ("local", "fedavg", "finetune", "central")
METHODS = Option("methods", tuple[str, ...], DEFAULT, "Methods to compare, with options if wanted.")
SEEDS = Option("seeds", int, 3, "How many seeds, counted from --seed.")


def compare(words: Sequence[str]) -> int:
    with CLOCK.part("start-up"):
        config = peek(words, "config")
        listed = read_toml(Path(config)).get("methods", DEFAULT) if config else DEFAULT
        specs = peek_many(words, "methods") or listed
        names = [str(spec).partition(":")[0] for spec in specs]
        settings, extra = read_settings(words, "compare", HELP, [METHODS, SEEDS, OUT], names)
    comparison = Comparison(settings, tuple(extra["methods"]), extra["seeds"])
    split = comparison.with_method(comparison.methods[0]).split
    path = Path(extra["out"]) if extra["out"] else fresh(f"compare-{settings.data}-{split}")
    builder = Builder()
    create(path, comparison, builder)
    close(path, run_all(path, comparison, command_line(), builder))
    return 0


def run_all(
    path: Path, comparison: Comparison, command: str | None, builder: Builder | None = None
) -> list[Record]:
    """Every run of a comparison that is not finished yet, under one progress bar.

    All methods of a seed come one after the other, as they have the same sites; results are in the order of
    the methods.
    """
    rounds, builder = comparison.settings.rounds, builder or Builder()
    records: dict[str, Record] = {}
    said: set[str] = set()
    cells = list(zip(labelled(comparison), (s for _, s in comparison.cells()), strict=True))
    try:
        with screen.progress(rounds * len(cells)) as bar:
            for (spec, place), cell in sorted(cells, key=lambda entry: entry[1].seed):
                label = f"{spec} seed {cell.seed}"
                watch = screen.watcher(bar, label, before=rounds * len(records))
                record = run_cell(path / place, cell, spec, command, watch, builder)
                watch(record)
                screen.say_notes(record.about, said)
                records[place] = record
    except KeyboardInterrupt:
        raise KeyboardInterrupt(how_to_go_on(path)) from None
    return [records[place] for (_, place), _ in cells]
