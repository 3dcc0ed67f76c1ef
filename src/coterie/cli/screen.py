"""What commands print: notes, progress, tables."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from coterie.report.about import gathered, short
from coterie.report.learnable import first_sentence, worse_lines
from coterie.report.progress import Bar, bar_of, figure, move, watcher
from coterie.report.summary import print_table
from coterie.runs.record import Record
from coterie.show import parts
from coterie.show.parts import Runs as Section
from coterie.show.terminal import texts_of
from coterie.show.words import say
from coterie.sites.leaks import look_first
from coterie.storage.atomic import write_whole

__all__ = ["Bar", "figure", "move", "watcher"]  # of `report.progress`, beside what is here

LARGE = 10**7  # bytes of files that take longer than a moment


class _Screen(Console):
    def on_broken_pipe(self) -> None:
        """Left to `main`, as for whatever else is printed."""
        raise BrokenPipeError


out = _Screen(highlight=False)
err = _Screen(stderr=True, highlight=False)


def say_notes(about: Mapping[str, Any]) -> None:
    """What happened to the data of one run, and which column to look at before it is trained on."""
    _say([(0, about)])
    if line := look_first(about.get("leaks") or ()):
        err.print(escape(line), soft_wrap=True)


def say_gathered(records: Sequence[Record]) -> None:
    _say([(r.settings.seed, r.about) for r in records])


def _say(told: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
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
    out.print(f"\n[bold]{escape(say.again(section.title))}[/bold]")
    out.print(escape(say.again(first_sentence(section.records))))
    print_table(section.records, out)
    lines = [*section.failed, *worse_lines(section.by_label)]
    lines += [text for block in parts.blocks("ended", section) for text in texts_of(block)]
    lines += [line for record in section.records for line in record.absences()]
    lines += [text for block in parts.blocks("notes", section) for text in texts_of(block)]
    say_dim(list(dict.fromkeys(lines)))  # several methods may have the same to say of a seed


def say_dim(lines: Sequence[str]) -> None:
    for line in lines:
        err.print(f"[dim]· {escape(say.again(line))}[/dim]", soft_wrap=True)


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
