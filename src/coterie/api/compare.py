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
from coterie.core.method import survey
from coterie.core.options import options_of
from coterie.core.seeds import Key
from coterie.methods import METHODS
from coterie.report.page import Section, write_report
from coterie.report.tables import summary_frame
from coterie.runs.compare import parsed, slug
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
    if not methods:
        raise BadInput("no methods to compare: try local, fedavg, finetune")
    options.setdefault("init", "common")
    out = options.pop("out", None)
    specs = {spec: parsed(spec) for spec in methods}
    if len({slug(spec) for spec in specs}) < len(methods):
        raise BadInput(f"methods {', '.join(methods)} name one twice: name each once")
    of = {name: {o.name for o in options_of(METHODS[name])} for name, _ in specs.values()}
    alone = {option for names in of.values() for option in names}
    chosen = {
        spec: {
            **{k: v for k, v in options.items() if k not in alone or k in of[name]},
            **{k.rpartition(".")[2]: v for k, v in own.items()},
        }
        for spec, (name, own) in specs.items()
    }
    for spec, (name, _) in specs.items():
        mine = {k: v for k, v in chosen[spec].items() if k in of[name]}
        survey(METHODS.make(name, **mine), clients, Key(seed, rounds=options.get("rounds", 30)))
    results: dict[str, list[Result]] = {}
    for spec, (name, _) in specs.items():
        results[spec] = [
            train(
                model,
                clients,
                name,
                seed=seed + i,
                out=None if out is None else Path(out) / slug(spec) / f"seed-{seed + i}",
                **chosen[spec],
            )
            for i in range(seeds)
        ]
        for result in results[spec]:
            result.record.label = spec
    return Compared(results)
