"""What training returns: a model for each client, and how it came about."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from coterie.core import belief as tree
from coterie.core.checks import FILE, FOLDER, NUMBER, SWITCH, TEXT, checked
from coterie.core.held import Held
from coterie.report.learnable import worse_lines
from coterie.report.outcome import brief
from coterie.report.page import write_report
from coterie.report.summary import runs_html
from coterie.report.tables import summary_frame
from coterie.runs.artifacts import Origin
from coterie.runs.experiment import Experiment
from coterie.runs.loop import Outcome
from coterie.runs.record import Record
from coterie.show.parts import Runs as Section
from coterie.show.views import groups
from coterie.storage.paths import given_file, given_folder

if TYPE_CHECKING:
    import pandas as pd

    from coterie.use import Predictor


@dataclass(frozen=True, eq=False)
class Result:
    """A finished run. `models` are modules of their own by name, one for each client that has one: with one
    requester, its own alone.

    Where a client averages the predictions of several, it is the one that stands for them: `point` in scores.
    """

    record: Record
    models: Mapping[str, nn.Module]
    shared: nn.Module | None
    origin: Origin = field(default_factory=Origin)

    def __repr__(self) -> str:
        return f"Result({brief([self.record])})"

    def _repr_html_(self) -> str:
        return runs_html("Result", [self.record])

    @cached_property
    def history(self) -> pd.DataFrame:
        """Long form: round, client, model (own, shared or point), split, metric, value."""
        return self.record.history()

    @cached_property
    def weights(self) -> np.ndarray:
        """[round, receiver, sender] who listened to whom, how much; the first entry is round 1."""
        return np.stack([self.record.weights[r] for r in sorted(self.record.weights)])

    @cached_property
    def matrices(self) -> dict[str, np.ndarray]:
        """By name: [round, receiver, sender] as in `weights`; NaN where the method said nothing."""
        rounds, nothing = sorted(self.record.weights), np.full((len(self.record.clients),) * 2, np.nan)
        return {
            name: np.stack([by_round.get(r, nothing) for r in rounds])
            for name, by_round in self.record.matrices.items()
        }

    @cached_property
    def collaboration(self) -> pd.DataFrame:
        """A row for each round and client: sent, received (models), bytes, drift; precision and recall of
        whom it chose, where clients have clusters. NaN where there is nothing to measure.
        """
        return self.record.collaboration()

    @cached_property
    def contributions(self) -> pd.DataFrame:
        """What each client gave to each other over all rounds: by (rounds, weight, or an estimate of the
        wrapper contributions), receiver, sender, value, half (of its interval; 0 for what is exact).
        """
        return self.record.contributions().frame()

    @cached_property
    def calibration(self) -> pd.DataFrame:
        """A row for each client and bin of 20: by (confidence, entropy or above a threshold), low, high,
        samples, mean, right. Empty for a regression.
        """
        return self.record.reliability()

    @property
    def notes(self) -> list[str]:
        """What happened to the data, and anything else worth knowing before trusting a figure; a client's own
        behind its name.
        """
        about = self.record.about
        own = [f"{c['name']}: {note}" for c in about["clients"] for note in c["notes"]]
        return [*about["notes"], *own, *worse_lines(groups([self.record]))]

    def summary(self) -> pd.DataFrame:
        """One line: mean over clients, worst client, cost."""
        return summary_frame([self.record])

    @checked(client=TEXT, threshold=NUMBER)
    def predictor(self, client: str = "", threshold: float = 0.0) -> Predictor:
        """A client's model with all that it needs to be asked about new rows; the name may be left out where
        only one has a model. A class less probable than `threshold` is not said.
        """
        from coterie.use.folders import one_of
        from coterie.use.from_run import predictor_of

        client = one_of(client, list(self.models), self.record.clients, "this result")
        return predictor_of(self.record, client, self.models[client], self.origin, threshold)

    @checked(client=TEXT, folder=FOLDER, onnx=SWITCH)
    def export(self, client: str, folder: str | Path, onnx: bool = False) -> Path:
        """Writes a folder that works without this run: `coterie.load(folder)` reads it."""
        from coterie.use import save

        return save(self.predictor(client), given_folder(str(folder), "folder"), onnx)

    @checked(path=FILE)
    def report(self, path: str | Path) -> Path:
        """Writes one HTML page that opens offline."""
        target = given_file(str(path), "path")
        write_report(target, [Section(self.record.label, [self.record])])
        return target


def result_of(experiment: Experiment, outcome: Outcome) -> Result:
    """Models as modules of their own that take raw inputs: behind frozen layers, if there are any. Who
    started the sites may have them, wherever they are.
    """
    net, models, body = experiment.net, outcome.models, experiment.body

    def modules(held: Held) -> list[nn.Module]:
        seen = net.peek(held)
        tensors = net.open(held) if seen is None else seen
        found = [copy.deepcopy(experiment.model).cpu() for _ in range(len(held))]
        loaded = [tree.load(model, tree.row(tensors, i)).eval() for i, model in enumerate(found)]
        return loaded if body is None else [body.with_last(model) for model in loaded]

    owners = [outcome.record.clients[i] for i in models.owners.tolist()]
    used, of = torch.unique(models.of[models.owners], return_inverse=True)
    each = modules(models.beliefs.rows(used))
    own = {name: copy.deepcopy(each[row]) for name, row in zip(owners, of.tolist(), strict=True)}
    shared = None if models.shared is None else modules(models.shared)[0]
    return Result(outcome.record, own, shared, experiment.origin)
