"""A bar that moves with the rounds: on standard error for the shell and for Python, or in a notebook."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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

from coterie.metrics.summary import mean_over_clients
from coterie.metrics.table import headline
from coterie.runs.loop import Watch
from coterie.runs.record import Record
from coterie.show import numbers, parts
from coterie.show.parts import Runs
from coterie.show.terminal import texts_of
from coterie.show.words import say

Lines = Sequence[Mapping[str, Any]]
REST = 43  # characters that the bar and its counts need beside what is said
LOOK = 1.0  # seconds between two looks at who is there
OFTEN = 0.2  # seconds between two pictures of a notebook's bar


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
            found = parts.blocks("bar", Runs("", (), self.follows))
            self._missing = "; ".join(say.again(text) for block in found for text in texts_of(block))
        return self._missing


@contextmanager
def bar_of(
    total: int, console: Console, name: str = "", unit: str = "rounds", often: float = 10
) -> Iterator[Bar]:
    """A bar with the time left, shown from the first start on; in a log it is one last line.

    Of a failure only its own line is seen. `often` is how many times a second the bar is drawn.
    """
    room = Column(no_wrap=True, overflow="ellipsis", max_width=max(20, console.width - REST))
    done, spent, left = (
        kind(table_column=Column(no_wrap=True))
        for kind in (MofNCompleteColumn, TimeElapsedColumn, TimeRemainingColumn)
    )
    named = TextColumn("{task.description}", table_column=room)  # the bar alone gives way
    columns = (named, BarColumn(), done, TextColumn(unit), spent, TextColumn("left"), left)
    bar = Bar(*columns, console=console, refresh_per_second=often)
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
    return figure_of(record.about["task"], record.metrics)


def figure_of(task: str, lines: Lines) -> str:
    """The headline's metric and its last value, the mean over clients; nothing where none is known."""
    metric = headline(task)
    scored: Mapping[str, Any] = next((line["scores"] for line in reversed(lines) if line["scores"]), {})
    values = scored.get("own/test", {}).get(metric)
    if not values:
        return ""
    value = mean_over_clients(values)
    return f"{metric} {100 * value:.1f} %" if numbers.in_percent(metric) else f"{metric} {value:.4g}"


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
        yield _notebook_bar(total, unit)
    else:
        with bar_of(total, Console(stderr=True, highlight=False), unit=unit) as bar:
            yield lambda text, done: move(bar, text, done)


def in_notebook() -> bool:
    """Whether what is displayed goes to a notebook: one that is running has loaded its kernel already."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and hasattr(shell, "kernel")


def _notebook_bar(total: int, unit: str) -> Callable[[str, int], None]:
    """What shows how many are done, and what was done last, in one place of the notebook."""
    from IPython.display import HTML, display

    handle, last, began = None, 0.0, time.monotonic()

    def move(text: str, done: int) -> None:
        nonlocal handle, last
        now = time.monotonic()
        if handle is not None and done < total and now - last < OFTEN:
            return
        last, drawn = now, HTML(bar_html(text, done, total, unit, now - began))
        if handle is None:
            handle = display(drawn, display_id=True)
        else:
            handle.update(drawn)

    return move


def bar_html(text: str, done: int, total: int, unit: str, seconds: float) -> str:
    said = f"{done}/{total} {unit}, {numbers.duration(seconds)}; {text}"
    return f'<progress value="{done}" max="{total}"></progress> <small>{html.escape(said)}</small>'
