"""Recalibration of the models that a run ends with, for those who use them (`metrics/recalibration.py`); in
recalibration.json by client, or why there is none.

What a run scores stays what its method gives: a recalibration is a property of the model in use, applied by
`predict`, exported folders and ONNX alike, with figures on test rows beside those of the run. Per client, of
rows that its model was not trained on and that are no test rows:

    validation   its validation rows, where it has enough of them
    folds        else its training rows, each by a model of the same run without its fold: FOLDS more runs.
                 By default for two classes only, of at most MOST rows and few parameters, in one process,
                 where no budget counts what runs cost
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from coterie.core.errors import BadInput, CoterieError, option
from coterie.core.method import Models
from coterie.features.outcomes.hook import places
from coterie.kernels.outcomes import RowByRow
from coterie.metrics.operating import Probabilities
from coterie.metrics.recalibration import BY_FOLDS, BY_VALIDATION, FOLDS, Recalibrated, settled, too_few
from coterie.metrics.table import BY_ROW
from coterie.nets.wrapped import innermost
from coterie.runs.artifacts import MOST
from coterie.runs.experiment import Experiment
from coterie.runs.hooks import Hook, Run
from coterie.runs.record import Kept
from coterie.runs.scoring import score_models
from coterie.sites.folds import deal_folds
from coterie.storage.atomic import write_whole
from coterie.storage.tensors import damaged

FILE = "recalibration.json"
PARAMETERS = 10_000  # of a model that is trained FOLDS times more without being asked

Each = Mapping[str, Recalibrated]
Rows = list[tuple[np.ndarray, np.ndarray, np.ndarray]]
"""In parts: what is said [row, class], what is true [row], in which fold [row]."""


def _recalibrated(experiment: Experiment, models: Models, said: Probabilities | None) -> Each:
    """For each client with a model of its own; `said` is what these said of test rows, where it is kept."""
    asked = experiment.settings.calibrate
    roster = experiment.roster
    if roster.task != "classification" or not experiment.in_use:
        return {}
    names = [roster.names[i] for i in models.owners.tolist()]
    if asked == "none":
        return {name: Recalibrated(why=option("calibrate", "none")) for name in names}
    if not experiment.net.holds_rows:
        return {}  # each site sees to its own (`use/site_model.py`)
    rows = dict[int, Rows]()
    why, source = "", BY_VALIDATION
    if asked != "folds" and _validated(experiment) and _enough(experiment, 1, models):
        rows = _of_validation(experiment, models)
    elif asked == "validation":
        why = "too few validation rows"
    else:
        source = BY_FOLDS
        why = _impossible(experiment) or (_too_much(experiment) if asked == "auto" else "")
        if not why and models.crowd is not None:
            why = "clients average the predictions of several models"
        if not why and _enough(experiment, 0, models):
            rows, why = _of_folds(experiment)
    found = {}
    for i in models.owners.tolist():
        if i in rows:
            p, y, fold = (np.concatenate(some) for some in zip(*rows[i], strict=True))
            one = settled(p, y, fold, source, None if said is None else said.of(i))
        else:
            one = Recalibrated(why=why or _few_of(experiment, i, int(source == BY_VALIDATION)))
        found[roster.names[i]] = one
    return found


def _validated(experiment: Experiment) -> bool:
    return all(m.validation for m in experiment.roster.members)


def _enough(experiment: Experiment, part: int, models: Models) -> bool:
    """Whether anybody has rows enough: of validation, part 1, or of training, part 0."""
    return any(not _few_of(experiment, i, part) for i in models.owners.tolist())


def _few_of(experiment: Experiment, i: int, part: int) -> str:
    labels = experiment.roster.members[i].labels
    what = ("training", "validation")[part]
    if not labels:
        return f"nobody knows how many {what} rows are of each class"
    said = too_few(list(labels[part]))
    return said and said.replace(" rows", f" {what} rows", 1)


def _impossible(experiment: Experiment) -> str:
    """Why no run can be made without a fold."""
    if not experiment.net.holds_rows:
        return "rows are in other processes"
    if experiment.folds is None or experiment.body is not None:
        return "the model stands on layers that a server trained"
    if experiment.net.accounts or experiment.settings.wrap:
        return "a run around whose net something is, or whose work costs privacy, is made once"
    rows = sum(m.train for m in experiment.roster.members)
    return f"{rows} training rows are more than the {MOST} of which it is kept what is said" * (rows > MOST)


def _too_much(experiment: Experiment) -> str:
    """Why nobody makes runs without folds who was not asked to."""
    if experiment.settings.budget:
        return f"a budget counts what a run costs: folds are more runs ({option('calibrate', 'folds')})"
    parameters = int(experiment.about.get("parameters") or 0)
    if experiment.roster.outputs > 2 or parameters > PARAMETERS:
        what = "more than two classes" if experiment.roster.outputs > 2 else f"{parameters} parameters"
        held, folds = option("validation", 0.2), option("calibrate", "folds")
        return f"{what}: hold out validation rows ({held}), or train {FOLDS} times more ({folds})"
    return ""


def _of_validation(experiment: Experiment, models: Models) -> dict[int, Rows]:
    """What the models in use say of each client's validation rows."""
    kernel = RowByRow(BY_ROW["accuracy"], likely=True, part="validation")
    here = replace(experiment, net=innermost(experiment.net))
    at = score_models(here, kernel, replace(models, crowd=None, shares=None), experiment.rounds).get("at")
    found = {}
    for i, place in enumerate([] if at is None else places(at, [0.0] * len(at))):
        if place is not None:
            p, y = (t.cpu().numpy() for t in kernel.said[place])
            fold = deal_folds(y, FOLDS, experiment.key.at("recalibration", i).numpy())
            found[i] = [(p, y, fold)]
    return found


def _of_folds(experiment: Experiment) -> tuple[dict[int, Rows], str]:
    """What models without a fold say of each client's rows in it; or why they cannot."""
    from coterie.runs.loop import run  # which recalibrates itself

    rows = dict[int, Rows]()
    assert experiment.folds is not None
    try:
        for f, fold in enumerate(experiment.folds(FOLDS)):
            try:
                said = run(fold, None, "fold").record.probabilities()
            finally:
                fold.net.close()
            if said is None:
                return {}, "what models without a fold say of its rows is not known"
            for i in range(len(said.sizes)):
                p, y = said.of(i)
                rows.setdefault(i, []).append((p, y, np.full(len(y), f)))
    except CoterieError as error:
        return {}, f"no run can be made without a fold ({error})"
    return rows, ""


class _RecalibrationHook(Hook):
    order = 30
    meets = ("calibrate",)

    def use(self, experiment: Experiment) -> None:
        asked = experiment.settings.calibrate
        if asked in ("auto", "none"):
            return
        said = option("calibrate", asked)
        if experiment.roster.task != "classification":
            raise BadInput(f"{said}, but a {experiment.roster.task} has no probabilities: leave it out")
        if asked == "validation" and not _validated(experiment):
            raise BadInput(f"{said} needs validation rows of every client: try {option('validation', 0.2)}")
        if asked == "folds" and (why := _impossible(experiment)):
            raise BadInput(f"{said}, but {why}: leave it out")

    def look(self, run: Run) -> None:
        said = run.found.get("probabilities")
        self.each = _recalibrated(run.experiment, run.ended_models, said)
        if run.folder is None:
            run.record.more["recalibration"] = partial(dict, self.each)

    def save(self, run: Run) -> None:
        if run.folder and self.each:
            table = {name: one.to_dict() for name, one in self.each.items()}
            write_whole(run.folder.path / FILE, json.dumps(table, indent=1) + "\n")


def _read_recalibration(folder: Path) -> Each:
    """By client; nothing in runs of earlier versions, and where nobody uses models."""
    try:
        table = json.loads((folder / FILE).read_bytes())
        return {str(name): Recalibrated.read(entry) for name, entry in table.items()}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise damaged(folder / FILE, str(error)) from None


HOOK = _RecalibrationHook
KEPT = {"recalibration": Kept(FILE, _read_recalibration, dict)}
