"""A bar that moves with the rounds, on standard error; for the shell and for Python."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from coterie.core.errors import BadRun
from coterie.report.live import figure_of, missing
from coterie.report.notebook import in_notebook, notebook_bar
from coterie.runs.live import read_live
from coterie.runs.record import Record
from coterie.runs.runner import Watch

REST = 43  # characters that the bar and its counts need beside what is said
LOOK = 1.0  # seconds between two looks at who is there


class Bar(Progress):
    """With a line below for who is late or away, of a run whose folder it follows."""

    follows: Path | None = None
    _looked, _missing = 0.0, ""

    def get_renderables(self) -> Iterator[RenderableType]:
        yield from super().get_renderables()
        if line := self.missing():
            yield Text(line, style="yellow", no_wrap=True, overflow="ellipsis")

    def missing(self) -> str:
        """Nothing if nobody is missing, or nothing is followed."""
        if self.follows is not None and time.monotonic() - self._looked > LOOK:
            self._looked, self._missing = time.monotonic(), ""
            with contextlib.suppress(BadRun, OSError):  # before it begins, there is nothing to see
                self._missing = missing(read_live(self.follows))
        return self._missing


@contextmanager
def bar_of(
    total: int, console: Console, name: str = "", unit: str = "rounds", often: float = 10
) -> Iterator[Bar]:
    """A bar with the time left, shown from the first start on; in a log it is one last line.

    Of a failure only its own line is seen. `often` is how many times a second the bar is drawn.
    """
    room = Column(no_wrap=True, overflow="ellipsis", max_width=max(20, console.width - REST))
    bar = Bar(
        TextColumn("{task.description}", table_column=room),
        BarColumn(),  # the only one that gives way
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TextColumn(unit),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
        TextColumn("left"),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
        console=console,
        refresh_per_second=often,
    )
    bar.add_task(escape(name), total=total)
    try:
        yield bar
    except BaseException:
        bar.live.transient = True
        bar.live.stop()
        raise
    if bar.live.is_started:
        bar.stop()


def watcher(bar: Progress, label: str, before: int = 0) -> Watch:
    """Moves the bar after each round; `before` rounds belong to earlier runs."""
    return lambda record: move(bar, f"{label} {figure(record)}".strip(), before + record.done)


def figure(record: Record) -> str:
    """The headline's metric and its last value, the mean over clients; nothing where none is known."""
    return figure_of(record.about["task"], record.metrics)


def move(bar: Progress, text: str, completed: int) -> None:
    """Shows the bar, if it is not there yet, and moves it to so many rounds."""
    bar.start()
    bar.update(bar.task_ids[0], completed=completed, description=escape(text))


@contextmanager
def watched(total: int, asked: bool | None, watch: Watch) -> Iterator[Callable[[str, int], Watch]]:
    """For Python: what makes, of a label and the rounds before it, a run's `watch`, one's own included.

    With `asked` None there is a bar in a terminal and in a notebook.
    """
    with counted(total, asked, "rounds") as show:

        def both(label: str, before: int) -> Watch:
            def seen(record: Record) -> None:
                show(f"{label} {figure(record)}".strip(), before + record.done)
                watch(record)

            return seen

        yield both


@contextmanager
def counted(total: int, asked: bool | None, unit: str) -> Iterator[Callable[[str, int], None]]:
    """For Python: what shows how many are done, and what was done last; `asked` as in `watched`."""
    if not (sys.stderr.isatty() or in_notebook() if asked is None else asked):
        yield lambda text, done: None
    elif in_notebook():
        yield notebook_bar(total, unit)
    else:
        with bar_of(total, Console(stderr=True, highlight=False), unit=unit) as bar:
            yield lambda text, done: move(bar, text, done)
