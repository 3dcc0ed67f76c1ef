"""What commands print: notes, progress, tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from coterie.metrics.summary import HEADLINE, mean_over_clients
from coterie.report.page import Section
from coterie.report.terminal import print_table
from coterie.runs.record import Record
from coterie.runs.runner import Watch


class Screen(Console):
    def on_broken_pipe(self) -> None:
        """Left to `main`, as for whatever else is printed."""
        raise BrokenPipeError


out = Screen(highlight=False)
err = Screen(stderr=True, highlight=False)


def say_notes(about: Mapping[str, Any], said: set[str] | None = None) -> None:
    """What happened to the data; clients with the same note share a line. What was said is not said again."""
    said = set() if said is None else said
    shared: dict[str, list[str]] = {}
    for client in about["clients"]:
        for note in client["notes"]:
            shared.setdefault(note, []).append(client["name"])
    lines = list(about["notes"])
    for note, names in shared.items():
        who = "all clients" if len(names) == len(about["clients"]) > 1 else ", ".join(names)
        lines.append(f"{who}: {note}")
    for line in lines:
        if line not in said:
            err.print(f"[dim]· {escape(line)}[/dim]", soft_wrap=True)
    said.update(lines)


def say_sections(sections: Sequence[Section], page: Path) -> None:
    """A table for each section, and where the page is."""
    for section in sections:
        out.print(f"\n[bold]{escape(section.title)}[/bold]")
        print_table(section.records, out)
    print(f"report: {page}")


@contextmanager
def progress(total: int, name: str = "", unit: str = "rounds", often: float = 10) -> Iterator[Progress]:
    """A bar with the time left, shown from the first start on; in a log it is one last line.

    Of a failure only its own line is seen. `often` is how many times a second the bar is drawn.
    """
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=err,
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
    return lambda record: move(bar, f"{label} {figure(record)}", before + record.done)


def figure(record: Record) -> str:
    """The headline's metric and its last value, the mean over clients."""
    metric = HEADLINE[record.about["task"]]
    scored = next(m["scores"] for m in reversed(record.metrics) if m["scores"] is not None)
    value = mean_over_clients(scored["own/test"][metric])
    return f"{metric} {100 * value:.1f} %" if metric == "accuracy" else f"{metric} {value:.4g}"


def move(bar: Progress, text: str, completed: int) -> None:
    """Shows the bar, if it is not there yet, and moves it to so many rounds."""
    bar.start()
    bar.update(bar.task_ids[0], completed=completed, description=escape(text))
