"""A run in its folder: from its start, or on from where it was cut off. Shell and Python come here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from coterie.core.errors import BadRun
from coterie.runs.experiment import Experiment
from coterie.runs.folder import Folder, is_run, read_record
from coterie.runs.loop import Outcome, Watch, run, same_threads
from coterie.runs.record import Record
from coterie.runs.settings import digest

T = TypeVar("T")
Around = Callable[[Path], AbstractContextManager[Any]]
"""What is entered while a run is played in a folder, such as a tracker of energy."""


def beside_nothing(folder: Path) -> AbstractContextManager[Any]:
    return nullcontext()


def run_in(
    path: Path | None,
    prepare: Callable[[], Experiment],
    label: str,
    watch: Watch,
    made: Callable[[Experiment, Outcome], T],
    around: Around = beside_nothing,
    begin: Callable[[], None] = lambda: None,
) -> T:
    """Runs what `prepare` makes, in a folder if one is given, or what is left of it there. Gives what is
    `made` of it while its net is still open. `begin` may put into a new folder what the run goes on from.
    """
    past = read_record(path) if path is not None and is_run(path) else None
    if past is not None:
        same_threads(past)  # before a server trains: their number changes its bits
    experiment = prepare()
    with ExitStack() as inside:
        inside.callback(experiment.net.close)
        folder = None
        if past is not None and path is not None:
            _refuse_other(path, past, experiment)
            folder = inside.enter_context(closing(Folder(path)))
        elif path is not None:
            folder = inside.enter_context(closing(Folder.create(path, experiment.config, experiment.about)))
            begin()
        if path is not None:
            inside.enter_context(around(path))
        return made(experiment, run(experiment, folder, label, watch))


def _refuse_other(path: Path, past: Record, experiment: Experiment) -> None:
    if "given" in experiment.config and digest(past.config) != digest(experiment.config):
        raise BadRun(f"{path} belongs to another config, model or data: start anew with another out")
    if past.about["fingerprint"] != experiment.about["fingerprint"]:
        raise BadRun(f"{path}: the data or the first model differ from those it began with: start anew")
