"""In the end each client's own model is asked how sure it is on its own test rows."""

from __future__ import annotations

from functools import partial

from coterie.core.method import Models
from coterie.features.calibration.record import write_calibration
from coterie.kernels import Tallied
from coterie.kernels.calibrate import unpacked
from coterie.metrics.calibration import Calibration
from coterie.runs.experiment import Experiment
from coterie.runs.hooks import Hook, Run
from coterie.runs.record import known
from coterie.runs.scoring import positive_in, score_models


class CalibrationHook(Hook):
    order = 10

    def asks(self, experiment: Experiment, models: Models, round: int) -> Calibration | None:
        """How sure each client's own model is on its own test set, and how often right; None where there are
        no classes. A client that is away in the end, or has no model, has no counts.
        """
        if experiment.roster.task != "classification":
            return None
        numbers = score_models(experiment, Tallied(positive=positive_in(experiment)), models, round)
        return unpacked({name: t.nan_to_num(nan=0.0) for name, t in numbers.items()}) if numbers else None

    def look(self, run: Run) -> None:
        self.found = run.at_sites(partial(self.asks, run.experiment, run.ended_models, run.done))
        if run.folder is None:
            run.record.more["calibration"] = partial(known, self.found)

    def save(self, run: Run) -> None:
        if run.folder and self.found is not None:
            write_calibration(run.folder.path, self.found)


HOOK = CalibrationHook
