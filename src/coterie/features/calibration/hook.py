"""How sure each client's last model is, and how often right, on its own test rows, [client, bin]; nothing
before the run is over, for a regression, and in runs of earlier versions.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from coterie.core.method import Models
from coterie.kernels import Tallied
from coterie.kernels.calibrate import unpacked
from coterie.metrics.calibration import Calibration, Tally, taus
from coterie.runs.experiment import Experiment
from coterie.runs.hooks import Hook, Run
from coterie.runs.record import Kept, Record, known
from coterie.runs.scoring import positive_in, score_models
from coterie.storage.tensors import read_arrays, write_arrays

if TYPE_CHECKING:
    import pandas as pd

FILE = "calibration.npz"
HEADER = ("client", "by", "low", "high", "samples", "mean", "right")


class _CalibrationHook(Hook):
    order = 10

    def asks(self, experiment: Experiment, models: Models, round: int) -> Calibration | None:
        """None where there are no classes. Who is away in the end, or has no model, has no counts."""
        if experiment.roster.task != "classification":
            return None
        numbers = score_models(experiment, Tallied(positive=positive_in(experiment)), models, round)
        return unpacked({name: t.nan_to_num(nan=0.0) for name, t in numbers.items()}) if numbers else None

    def look(self, run: Run) -> None:
        self.found = run.at_sites(partial(self.asks, run.experiment, run.ended_models, run.done))
        if run.folder is None:
            run.record.more["calibration"] = partial(known, self.found)

    def save(self, run: Run) -> None:
        """Each kind as one array [sum, client, bin], the sums in the order of `Tally`."""
        if run.folder and self.found is not None:
            kinds = {kind: torch.stack(list(t)).numpy() for kind, t in self.found._asdict().items()}
            write_arrays(run.folder.path / FILE, kinds)


def _read_calibration(folder: Path) -> Calibration | None:
    kinds = read_arrays(folder / FILE, Calibration._fields, Calibration._field_defaults)
    return None if kinds is None else Calibration(*(Tally(*torch.from_numpy(kind)) for kind in kinds))


def _reliability(record: Record) -> pd.DataFrame:
    """A row for each client and bin; none without counts.

    `by` is confidence, entropy (a share of the greatest), above (a confidence of at least `low`) or, of two
    classes, positive (a probability of the second of at least `low`); `mean` is the mean confidence or
    probability there, or the mean entropy in nats; `right` is how many were right, or of that class.
    """
    import pandas as pd

    found, n, parts = record.of("calibration"), len(record.clients), []
    for by, tally in found._asdict().items() if found else ():
        from_on = by in ("above", "positive")
        edges = taus(tally.samples.shape[-1] - from_on).numpy()
        low, high = (edges, np.ones_like(edges)) if from_on else (edges[:-1], edges[1:])
        part = {"client": np.repeat(record.clients, len(low)), "by": by}
        part |= {"low": np.tile(low, n), "high": np.tile(high, n)}
        part |= {"samples": tally.samples.long().flatten().numpy(), "mean": tally.mean.flatten().numpy()}
        parts.append(pd.DataFrame(part | {"right": tally.right.long().flatten().numpy()}))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(HEADER))


HOOK = _CalibrationHook
KEPT = {"calibration": Kept(FILE, _read_calibration)}
VIEWS = {"reliability": _reliability}
