"""What a notebook shows: a bar that moves with the rounds, and results as small tables."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Sequence

from coterie.report import leaks, views, words
from coterie.report.learnable import first_sentence
from coterie.report.tables import summary_html
from coterie.runs.record import Record

OFTEN = 0.2  # seconds between two pictures of the bar
MANY = 40  # methods that are not listed any more


def in_notebook() -> bool:
    """Whether what is displayed goes to a notebook: one that is running has loaded its kernel already."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and hasattr(shell, "kernel")


def notebook_bar(total: int, unit: str) -> Callable[[str, int], None]:
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
    said = f"{done}/{total} {unit}, {words.duration(seconds)}; {text}"
    return f'<progress value="{done}" max="{total}"></progress> <small>{html.escape(said)}</small>'


def runs_html(kind: str, records: Sequence[Record]) -> str:
    """Runs as what came out in one sentence, and the summary."""
    many = len(views.groups(records))
    table = summary_html(records) if many <= MANY else ""
    more = f"<p>{words.several(many, 'method')}: .summary() has them all</p>" if not table else ""
    first = f"<p>{html.escape(leaking)}</p>" if (leaking := leaks.line(records)) else ""
    said = f"{first_sentence(records)} {words.headline(records)}"
    return f"<div><p><b>{kind}</b> {html.escape(said)}</p>{first}{table}{more}</div>"


def lines_html(kind: str, lines: Sequence[str]) -> str:
    """What there is to say of a thing, line by line."""
    items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    return f"<div><p><b>{html.escape(kind)}</b></p><ul>{items}</ul></div>"
