"""What commands print: notes, progress, tables."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from coterie.report.choices import alone_in_short
from coterie.report.costs import ended
from coterie.report.learnable import first_sentence
from coterie.report.notes import Told, gathered, short
from coterie.report.nothing import worse_lines
from coterie.report.page import Section
from coterie.report.progress import Bar, bar_of, figure, move, watcher
from coterie.report.terminal import print_table
from coterie.report.views import groups
from coterie.report.withdrawals import withdrawals
from coterie.runs.record import Record
from coterie.sites.leaning import look_first
from coterie.storage.atomic import write_whole

__all__ = [
    "Bar",
    "err",
    "figure",
    "move",
    "out",
    "progress",
    "say_dim",
    "say_gathered",
    "say_notes",
    "say_sections",
    "say_table",
    "stages",
    "watcher",
]

LARGE = 10**7  # bytes of files that take longer than a moment


class Screen(Console):
    def on_broken_pipe(self) -> None:
        """Left to `main`, as for whatever else is printed."""
        raise BrokenPipeError


out = Screen(highlight=False)
err = Screen(stderr=True, highlight=False)


def say_notes(about: Mapping[str, Any]) -> None:
    """What happened to the data of one run, and which column to look at before it is trained on."""
    _say([(0, about)])
    if line := look_first(about.get("leaks") or ()):
        err.print(escape(line), soft_wrap=True)


def say_gathered(records: Sequence[Record]) -> None:
    """The same of several runs together."""
    _say([(int(r.config.get("seed", 0)), r.about) for r in records])


def _say(told: Sequence[Told]) -> None:
    """A line for each thing done; with -v, every note in full."""
    things, seeds = gathered(told), len({seed for seed, _ in told})
    lines = short(things, err.width - 2, seeds)
    if logging.getLogger("coterie").isEnabledFor(logging.INFO):
        lines = [line for thing in things for line in thing.lines()]
    say_dim(lines)


def say_sections(sections: Sequence[Section], page: Path) -> None:
    """A table for each section, and where the page is."""
    for section in sections:
        say_section(section)
    print(f"report: {page}")


def say_section(section: Section) -> None:
    out.print(f"\n[bold]{escape(section.title)}[/bold]")
    out.print(escape(first_sentence(section.records)))
    print_table(section.records, out)
    by_label = groups(section.records)
    said = [*section.failed, *worse_lines(by_label), *ended(section.records), *alone_in_short(by_label)]
    said += [line for record in section.records for line in (*record.absences(), *withdrawals(record))]
    say_dim(list(dict.fromkeys(said)))  # several methods may have the same to say of a seed


def say_dim(lines: Sequence[str]) -> None:
    """What is worth knowing, a line each."""
    for line in lines:
        err.print(f"[dim]· {escape(line)}[/dim]", soft_wrap=True)


def progress(
    total: int, name: str = "", unit: str = "rounds", often: float = 10
) -> AbstractContextManager[Bar]:
    """A bar on standard error, see `bar_of`."""
    return bar_of(total, err, name, unit, often)


@contextmanager
def stages(*files: str) -> Iterator[Callable[[str, int], None]]:
    """What shows what is being done and how much of it is, in per cent: on a terminal, for files so large
    that a person waits.
    """
    sizes = [Path(f).stat().st_size for f in files if Path(f).is_file()]
    if not err.is_terminal or sum(sizes) < LARGE:
        yield lambda doing, done: None
        return
    with progress(100, unit="%") as bar:
        yield lambda doing, done: move(bar, doing, done)


def say_table(notes: Sequence[str], text: str, out: str, said: str = "") -> None:
    """Notes, then a table as CSV: printed, or written to a file and what there is to say of it."""
    say_dim(notes)
    if not out:
        print(text, end="")
        return
    path = write_whole(Path(out), text)
    if said:
        print(said)
    print(f"table: {path}")
