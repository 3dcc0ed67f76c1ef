"""Options searched without a command: what studies stand on that tune every method alike."""

from __future__ import annotations

from coterie.features.tuning.tuning import Tuned, Tuning, tune
from coterie.runs.builder import Builder
from coterie.runs.loop import run
from coterie.runs.record import Record
from coterie.runs.settings import Settings

__all__ = ["Builder", "Record", "Settings", "Tuned", "Tuning", "run_once", "tune"]


def run_once(settings: Settings, builder: Builder) -> Record:
    """One run without a folder; its data are those that the builder has, if it has them."""
    experiment = builder.prepare(settings)
    try:
        return run(experiment, None, settings.method, lambda record: None).record
    finally:
        experiment.net.close()
