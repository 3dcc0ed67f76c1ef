"""The model that a run of a federation ends with at a site: an exported folder, made where its rows are."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from coterie.core.belief import Belief
from coterie.core.client import Client, Samples
from coterie.core.errors import BadInput
from coterie.data.tables.recipe import Recipe
from coterie.metrics.operating import Probabilities
from coterie.metrics.recalibration import BY_VALIDATION, FOLDS, Recalibrated, settled, too_few
from coterie.runs.artifacts import few_enough, preparation_of
from coterie.sites.folds import deal_folds
from coterie.storage.paths import fresh_path
from coterie.use import bundle
from coterie.use.from_run import loaded
from coterie.use.predictor import Predictor

log = logging.getLogger("coterie")


def keep_model(
    folder: Path,
    client: Client,
    made: Mapping[str, Any],
    belief: Belief,
    facts: Mapping[str, Any],
    recipe: Recipe | None,
) -> Path:
    """Writes it into a new folder below this one, called by the run's method; `made` is how it was begun.

    What it says of the site's own test rows goes there too, and nowhere else.
    """
    how = {"name": str(made["model"]), "options": dict(made["options"])}
    shape, outputs = tuple(made["shape"]), int(made["outputs"])
    names = client.classes or tuple(str(c) for c in range(outputs))
    predictor = Predictor(
        client=client.name,
        task=client.task,
        classes=names if client.task == "classification" else (),
        model=loaded(how, shape, outputs, belief, None, "the run's model").eval(),
        shape=shape,
        features=client.features,
        preparation=preparation_of(client),
        recipe=recipe,
        made=how,
        facts={**facts, "notes": list(client.notes)},
    )
    if facts.get("calibrate") != "none":
        predictor = recalibrated(predictor, client.validation)
    folder.mkdir(parents=True, exist_ok=True)
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in str(facts.get("method", "model")))[:60]
    # who leads may have asked for other outputs than rows have classes
    said = _said_of(predictor, client.test) if outputs == len(names) else None
    return bundle.save(predictor, fresh_path(folder / name), said=said)


def recalibrated(predictor: Predictor, rows: Samples) -> Predictor:
    """By the site's own validation rows, of which nothing leaves it (`metrics/recalibration.py`)."""
    if not predictor.classifies:
        return predictor
    y = rows.y.numpy().astype(np.int64)
    counts = np.bincount(y, minlength=len(predictor.classes)).tolist()
    found = Recalibrated(why=too_few(counts).replace(" rows", " validation rows", 1))
    if not too_few(counts):
        fold = deal_folds(y, FOLDS, np.random.default_rng(0))
        found = settled(predictor.answers(rows.x.numpy()), y, fold, BY_VALIDATION)
    return replace(predictor, recalibrated=found)


def _said_of(predictor: Predictor, rows: Samples) -> Probabilities | None:
    """Of rows whose inputs are made; None where there are no classes, no rows, or more than are kept."""
    if not predictor.classifies or not len(rows):
        return None
    if not few_enough(len(rows), len(predictor.classes)):
        log.info("%d test rows: no probabilities are kept of so many", len(rows))
        return None
    try:
        p = predictor.answered(rows.x.numpy())
    except BadInput:  # no finite number for some row; the model is kept all the same
        return None
    return Probabilities(np.array([len(rows)]), p, rows.y.numpy())
