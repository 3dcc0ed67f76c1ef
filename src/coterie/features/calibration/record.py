"""How sure the last models are and how often right, [client, bin]; nothing before the run is over, for a
regression, and in runs of earlier versions.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from coterie.metrics.calibration import Calibration, Tally, taus
from coterie.runs.record import Kept, Record
from coterie.storage.tensors import read_arrays, write_arrays

if TYPE_CHECKING:
    import pandas as pd

FILE = "calibration.npz"


def write_calibration(folder: Path, calibration: Calibration) -> None:
    """Each kind as one array [sum, client, bin], the sums in the order of `Tally`."""
    kinds = {kind: torch.stack(list(t)).numpy() for kind, t in calibration._asdict().items()}
    write_arrays(folder / FILE, kinds)


def _read_calibration(folder: Path) -> Calibration | None:
    kinds = read_arrays(folder / FILE, Calibration._fields, Calibration._field_defaults)
    return None if kinds is None else Calibration(*(Tally(*torch.from_numpy(kind)) for kind in kinds))


def reliability(record: Record) -> pd.DataFrame:
    """A row for each client and bin: client, by, low, high, samples, mean, right; none without counts.

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
    columns = ["client", "by", "low", "high", "samples", "mean", "right"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


KEPT = {"calibration": Kept(FILE, _read_calibration)}
VIEWS = {"reliability": reliability}
