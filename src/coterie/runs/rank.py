"""A ranking as a run of one round, in a folder like any other; one that fails leaves nothing behind."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from coterie.core.errors import BadData
from coterie.core.kernel import Scorer, Trainer, scores
from coterie.core.net import Net, Replies
from coterie.runs.experiment import Experiment
from coterie.runs.folder import Folder
from coterie.runs.record import Record
from coterie.runs.runner import run


def rank(experiment: Experiment, path: Path, tick: Callable[[], None] = lambda: None) -> Record:
    """Ranks and writes it down; `tick` is called after each training visit."""
    made = [place for place in (path, *path.parents) if not place.exists()]
    watched = replace(experiment, net=cast(Net, Watched(experiment.net, tick)))
    folder = Folder.create(path, experiment.config, experiment.about)
    try:
        record = run(watched, folder, str(experiment.config["method"])).record
        refuse_empty(record)
    except BaseException:
        folder.close()
        remove(path, made)
        raise
    folder.close()
    return record


def remove(path: Path, made: Sequence[Path]) -> None:
    """The folder's content, and of the folders that were made for it those that nobody else uses by now."""
    shutil.rmtree(path, ignore_errors=True)
    if path not in made:
        path.mkdir()
    for place in made[1:]:
        with contextlib.suppress(OSError):
            place.rmdir()


def refuse_empty(record: Record) -> None:
    """A ranking in which nobody is ranked is none."""
    if not any(np.isfinite(m).any() for by_round in record.matrices.values() for m in by_round.values()):
        gone = record.config.get("absent", 0.0)
        raise BadData(
            f"nobody could be ranked: the requester or all others did not answer (absent={gone:g}): "
            "lower absent, or take another seed"
        )


class Watched:
    """A net that tells of every training visit once it is over."""

    def __init__(self, net: Net, tick: Callable[[], None]) -> None:
        self._net, self._tick = net, tick

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._net, verb)

    def visit(self, kernel: Trainer | Scorer, *told: Any) -> Replies:
        replies = self._net.visit(kernel, *told)
        if len(replies) and not scores(kernel):
            self._tick()
        return replies
