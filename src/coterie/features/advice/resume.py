"""Advice that was cut off goes on, and is told again, from its folder."""

from pathlib import Path

from coterie.core.errors import BadRun
from coterie.features.advice.question import QUESTION, read_question
from coterie.runs.about import command_line

FILE = QUESTION


def resume(path: Path) -> int:
    from coterie.features.advice.command import answer  # only here: it takes a while to import

    return answer(path, read_question(path), command_line())


def report(path: Path, latex: Path | None) -> int:
    if latex is not None:
        raise BadRun(f"{path} is advice, of which there is no LaTeX table: leave out --latex")
    return resume(path)
