"""The model that a run of a federation ends with at a site: an exported folder, made where its rows are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.core.belief import Belief
from coterie.core.client import Client
from coterie.data.tables.recipe import Recipe
from coterie.storage.paths import fresh_path
from coterie.use import bundle
from coterie.use.of_run import loaded
from coterie.use.predictor import Predictor


def keep_model(
    folder: Path,
    client: Client,
    made: Mapping[str, Any],
    belief: Belief,
    facts: Mapping[str, Any],
    recipe: Recipe | None,
) -> Path:
    """Writes it into a new folder below this one, called by the run's method; `made` is how it was begun."""
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
        preparation=client.preparation,
        recipe=recipe,
        made=how,
        facts={**facts, "notes": list(client.notes)},
    )
    folder.mkdir(parents=True, exist_ok=True)
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in str(facts.get("method", "model")))[:60]
    return bundle.save(predictor, fresh_path(folder / name))
