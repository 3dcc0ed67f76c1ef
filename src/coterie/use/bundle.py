"""A model in a folder that works without its run.

    weights.safetensors   the whole network
    bundle.json           what it predicts, how its inputs are made, how the network is built, versions
    recipe.toml           how rows are read from tables, if there was a recipe; of other sites nothing
    card.md               a model card, with a few lines for a person to fill in
    cut.json              where its probabilities are cut, if somebody decided that, then or later
    model.onnx            the same for other programs, if asked for
    probabilities.npz     what it said of its client's test rows: only at a site, for the site's own eyes

Reading it runs no code of the writer's. A folder is there whole or not at all.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from safetensors import SafetensorError
from torch import nn

import coterie
from coterie.core import belief as tree
from coterie.core.checks import NAME
from coterie.core.client import Task
from coterie.core.errors import BadRun, shown
from coterie.data.preparation import preparation_from_dict
from coterie.metrics.operating import Probabilities
from coterie.metrics.recalibration import Recalibrated
from coterie.runs.artifacts import write_probabilities
from coterie.runs.folder import whole_folder
from coterie.storage.tensors import read_tensors, write_tensors
from coterie.use.card import card
from coterie.use.cut import OF_ONE, Cut, fitting, text_of
from coterie.use.folders import BUNDLE, is_exported, one_of
from coterie.use.from_run import loaded, predictor_of_run
from coterie.use.predictor import Predictor

KIND = "coterie model 1"
WEIGHTS, RECIPE, CARD, ONNX = "weights.safetensors", "recipe.toml", "card.md", "model.onnx"
DAMAGED = (
    SafetensorError,
    OSError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    RecursionError,
)


def save(
    predictor: Predictor, folder: Path | str, onnx: bool = False, said: Probabilities | None = None
) -> Path:
    """Writes a folder that `load` reads; with `onnx`, the network for other programs beside it. What was
    `said` of rows is readable by their owner alone.
    """
    path = Path(folder)
    if path.exists():
        raise BadRun(f"{path} is there already: choose another folder")
    if onnx:
        from coterie.use.onnx import need_onnx, write_onnx

        need_onnx()
    with whole_folder(path) as draft:
        write_tensors(draft / WEIGHTS, dict(tree.belief_of(predictor.model)), {"kind": KIND})
        (draft / BUNDLE).write_text(json.dumps(_told(predictor), indent=1) + "\n")
        (draft / CARD).write_text(card(predictor))
        if predictor.cut is not None:
            (draft / OF_ONE).write_text(text_of(asdict(predictor.cut)))
        if predictor.recipe is not None:
            from coterie.data.tables.recipe_file import write_recipe

            write_recipe(draft / RECIPE, predictor.recipe.for_site(predictor.client))
        if onnx:
            write_onnx(draft / ONNX, predictor)
        if said is not None:
            write_probabilities(draft, said, mode=0o600)
    return path


def load(
    folder: Path | str,
    client: str = "",
    model: nn.Module | None = None,
    threshold: float = 0.0,
    cut: Cut | None = None,
) -> Predictor:
    """The predictor in an exported folder, or that of a client in the folder of a run.

    A module of one's own must be given as `model`: a copy of it gets the saved weights. Without a cut, the
    one that was decided for this model is taken, if one was.
    """
    path = Path(folder)
    if not is_exported(path):
        return predictor_of_run(path, client, model, threshold, cut)
    try:
        bundle = json.loads((path / BUNDLE).read_text())
        if bundle["kind"] != KIND:
            raise ValueError(f"its kind is {bundle['kind']!r}, not {KIND!r}")
        own, header = read_tensors(path / WEIGHTS)
        if header["kind"] != KIND:
            raise ValueError(f"{WEIGHTS} is something else")
        parts = _fields_of(bundle)
        name = bundle["client"]
        if not NAME.fits(name):
            raise ValueError(f"its client is {shown(name)}")
    except DAMAGED as error:
        raise BadRun(f"{path} is damaged ({error}): export it again") from None
    one_of(client or name, [name], [name], str(path))
    recipe = None
    if (path / RECIPE).exists():
        from coterie.data.tables.recipe_file import read_recipe

        recipe = read_recipe(path / RECIPE)
    network = loaded(parts["made"], parts["shape"], len(parts["classes"]) or 1, own, model, str(path))
    cut = cut or fitting(path, name, parts["classes"])
    return Predictor(client=name, model=network, recipe=recipe, threshold=threshold, cut=cut, **parts)


def _told(predictor: Predictor) -> dict[str, Any]:
    """All but tensors and recipe, as JSON holds it."""
    way = predictor.preparation
    made = {k: v for k, v in predictor.made.items() if k != "plugins"}
    return {
        "kind": KIND,
        "client": predictor.client,
        "task": predictor.task,
        "classes": list(predictor.classes),
        "features": list(predictor.features),
        "preparation": None if way is None else way.to_dict(),
        "model": {**made, "inputs": list(predictor.shape), "outputs": len(predictor.classes) or 1},
        "recalibration": None if predictor.recalibrated is None else predictor.recalibrated.to_dict(),
        "coterie": coterie.__version__,
        "facts": dict(predictor.facts),
        "notes": list(predictor.notes),
    }


def _fields_of(bundle: dict[str, Any]) -> dict[str, Any]:
    """What `_told` said, as `Predictor` has it."""
    if bundle["task"] not in get_args(Task):
        raise ValueError(f"its task is {bundle['task']!r}")
    way = None if bundle["preparation"] is None else preparation_from_dict(bundle["preparation"])
    classes, features = tuple(map(str, bundle["classes"])), tuple(map(str, bundle["features"]))
    if bool(classes) != (bundle["task"] == "classification"):
        raise ValueError(f"a {bundle['task']} with {len(classes)} classes")
    if way is not None and way.features != features:
        raise ValueError("its columns do not make its inputs")
    recalibrated = None  # not known in folders of earlier versions
    if bundle.get("recalibration") is not None:
        recalibrated = Recalibrated.read(bundle["recalibration"])
        if recalibrated.found and len(recalibrated.found.intercepts) != len(classes):
            raise ValueError("its recalibration is of other classes")
    return {
        "recalibrated": recalibrated,
        "task": bundle["task"],
        "classes": classes,
        "features": features,
        "preparation": way,
        "shape": tuple(map(int, bundle["model"]["inputs"])),
        "made": {"name": str(bundle["model"]["name"]), "options": dict(bundle["model"]["options"])},
        "facts": dict(bundle["facts"]),
        "notes": tuple(map(str, bundle["notes"])),
    }
