"""Several methods and seeds on one's own clients, from Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from torch import nn

from coterie.api.result import Result
from coterie.api.train import train
from coterie.core.client import Client
from coterie.core.errors import BadInput
from coterie.report.page import Section, write_report
from coterie.report.tables import summary_frame
from coterie.runs.compare import parsed
from coterie.runs.record import Record


@dataclass(frozen=True, eq=False)
class Compared:
    """Results by method, one for each seed."""

    results: dict[str, list[Result]]

    @property
    def records(self) -> list[Record]:
        return [r.record for results in self.results.values() for r in results]

    def summary(self) -> pd.DataFrame:
        """One line for each method: mean over clients with its interval over seeds, worst client, cost."""
        return summary_frame(self.records)

    def report(self, path: str | Path) -> Path:
        """Writes one HTML page that opens offline."""
        target = Path(path)
        write_report(target, [Section("comparison", self.records)])
        return target


def compare(
    model: nn.Module | str,
    clients: Sequence[Client],
    methods: Sequence[str] = ("local", "fedavg", "finetune"),
    *,
    seeds: int = 3,
    seed: int = 0,
    **options: Any,
) -> Compared:
    """Trains with each method and seed on the same clients; further keywords are those of `train`.

    A method may carry options: "fedavg:weighted=false". With seeds, first weights are drawn anew for each
    (init="common") unless `init` says otherwise.
    """
    if seeds < 1:
        raise BadInput(f"seeds={seeds} must be at least 1: try 3")
    options.setdefault("init", "common")
    results: dict[str, list[Result]] = {}
    for spec in methods:
        name, own = parsed(spec)
        results[spec] = [
            train(model, clients, name, seed=seed + i, **{**options, **own}) for i in range(seeds)
        ]
        for result in results[spec]:
            result.record.label = spec
    return Compared(results)
