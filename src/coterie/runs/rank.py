"""A ranking as a run of one round, in a folder like any other; one that fails leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from coterie.core.errors import BadData
from coterie.core.kernel import Kernel
from coterie.core.net import Replies
from coterie.nets import Counting
from coterie.runs.experiment import Experiment
from coterie.runs.folder import Folder
from coterie.runs.record import Record
from coterie.runs.runner import run


def rank(
    experiment: Experiment,
    path: Path,
    tick: Callable[[], None] = lambda: None,
    check: Callable[[Record], None] | None = None,
) -> Record:
    """Ranks and writes it down; `tick` is called after each training visit. What `check` refuses is not kept:
    by default, a ranking of nobody.
    """
    watched = replace(experiment, net=Watched(experiment.net.net, tick))
    folder = Folder.create(path, experiment.config, experiment.about)
    try:
        record = run(watched, folder, str(experiment.config["method"])).record
        (check or refuse_empty)(record)
    except BaseException:
        folder.discard()
        raise
    finally:
        watched.net.close()
    folder.close()
    return record


def refuse_empty(record: Record) -> None:
    """A ranking in which nobody is ranked is none."""
    if not any(np.isfinite(m).any() for by_round in record.matrices.values() for m in by_round.values()):
        around = ", ".join(record.config.get("wrap", ())) or "nothing"
        raise BadData(
            f"nobody could be ranked: the requester or all others did not answer (around the net: {around}): "
            "lower absent, or take another seed"
        )


@dataclass(frozen=True, eq=False)
class Watched(Counting):
    """A net that tells of every training visit once it is over."""

    tick: Callable[[], None] = lambda: None

    def visit(self, kernel: Kernel, *told: Any, **more: Any) -> Replies:
        replies = super().visit(kernel, *told, **more)
        if len(replies) and hasattr(kernel, "plan"):
            self.tick()
        return replies
