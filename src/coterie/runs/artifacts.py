"""What a run leaves beside the models of its clients, so that they can be used later on such rows.

preparation.json        {client: how its inputs are made, with the numbers that were fitted}
recipe.toml             how rows were read from files, if they were
features.safetensors    the layers before the last one, in last-layer mode; the clients' last layers are
                        models.safetensors
probabilities.npz       what the last models said of each test row: a person moves a threshold over it and
                        sees what comes of it (`metrics/operating.py`)

A run in one process has these probabilities for all clients, a site of a federation for itself alone, beside
its model (`use/site_model.py`). There are no rows in them, but the label of each: they are to be kept where
those may be.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from torch import nn

from coterie.core import belief as tree
from coterie.core.client import Client
from coterie.core.errors import BadRun, UnknownName
from coterie.core.options import coerced
from coterie.data.preparation import Preparation, as_they_are, preparation_from_dict
from coterie.metrics.operating import Probabilities
from coterie.models import MODELS
from coterie.runs.folder import read_models
from coterie.runs.record import Record
from coterie.runs.settings import read_toml
from coterie.sites.last_layer import Body, headless
from coterie.storage.atomic import write_whole
from coterie.storage.plugins import load_plugins
from coterie.storage.tensors import damaged, read_arrays, read_tensors, write_arrays, write_tensors

if TYPE_CHECKING:
    from coterie.data.tables.recipe import Recipe

PREPARATION = "preparation.json"
RECIPE = "recipe.toml"


@dataclass(frozen=True, eq=False)
class Origin:
    """Preparations by client, for those that have one, and the recipe of their tables."""

    preparations: Mapping[str, Preparation] = field(default_factory=dict)
    recipe: Recipe | None = None


def preparation_of(client: Client) -> Preparation | None:
    """A client's own; where it takes columns with names as they are, one that tells training's ranges."""
    x = client.train.x
    if client.preparation is not None or x.dim() != 2 or x.shape[1] != len(client.features) or not len(x):
        return client.preparation  # type: ignore[no-any-return]
    return as_they_are(client.features, x.numpy())


def save_origin(folder: Path, origin: Origin) -> None:
    """Nothing where inputs have no names."""
    if origin.preparations:
        table = {name: p.to_dict() for name, p in origin.preparations.items()}
        write_whole(folder / PREPARATION, json.dumps(table, indent=1) + "\n")
    if origin.recipe is not None:
        from coterie.data.tables.recipe_file import write_recipe

        write_recipe(folder / RECIPE, origin.recipe)


def read_origin(folder: Path) -> Origin:
    """Of a run: preparations where inputs have names, a recipe where rows came from files."""
    path, ways, recipe = folder / PREPARATION, {}, None
    try:
        told = json.loads(path.read_text()) if path.exists() else {}
        ways = {name: preparation_from_dict(way) for name, way in told.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadRun(f"{path} is damaged ({error}): run it again with another --out") from None
    if (folder / RECIPE).exists():
        from coterie.data.tables.recipe_file import read_recipe

        recipe = read_recipe(folder / RECIPE)
    return Origin(ways, recipe)


# frozen layers, and whole networks

BODY = "features.safetensors"


def save_body(folder: Path, body: Body | None) -> None:
    """Writes φ into a run folder; nothing if nothing was frozen."""
    if body is None:
        return
    shape = {"last": body.last, "inputs": list(body.inputs), "width": body.width, "outputs": body.outputs}
    write_tensors(folder / BODY, dict(tree.belief_of(body.network)), shape)


def body_of(folder: Path | str, model: nn.Module | None = None) -> Body:
    """φ of a run: `body_of(folder).features(x)` takes raw inputs.

    A run of a module of one's own, started from Python, needs that module to be given.
    """
    path = Path(folder) / BODY
    if not path.exists():
        raise BadRun(f"{folder} has no {BODY}: finish the run, or it froze no layers")
    try:
        tensors, shape = read_tensors(path)
        last, inputs, outputs = str(shape["last"]), tuple(shape["inputs"]), int(shape["outputs"])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise BadRun(f"{path} is damaged ({error}): run it again with another --out") from None
    if model is None:
        config = read_toml(Path(folder) / "config.toml")
        load_plugins(config.get("plugins", ()))
        name = config["model"]
        if name not in MODELS:
            raise BadRun(f"{folder} trained a module of your own, a {name}: give it as model=")
        options = coerced(MODELS[name], config.get(name, {}), f"model {name}")
        model = MODELS[name](**options).build(inputs, outputs, 0)
    body = headless(model, last, inputs)
    precision = next(t.dtype for t in tensors.values() if t.is_floating_point())
    tree.load(body.network.to(precision), tensors)
    return body


def network_of(folder: Path | str, client: str, model: nn.Module | None = None) -> nn.Module:
    """A client's whole network, for raw inputs: φ, then its own last layer."""
    body, own = body_of(folder, model), read_models(Path(folder))
    if client not in own:
        raise UnknownName("client", client, own)
    last = nn.Linear(body.width, body.outputs, bias="bias" in own[client], dtype=own[client]["weight"].dtype)
    return body.with_last(tree.load(last, own[client]))


# the facts of a model card

OWN, POINT = "own/test", "point/test"


def facts_of(record: Record, client: str) -> dict[str, Any]:
    number, about, settings = record.clients.index(client), record.about, record.settings
    member = about["clients"][number]
    scored = list(record.evaluated())
    scores = scored[-1]["scores"] if scored else {}
    which = POINT if POINT in scores else OWN
    finals = {metric: record.final(metric, which)[number] for metric in scores.get(which, {})}
    return {
        "method": settings.method,
        "data": settings.data,
        "split": settings.split,
        "rounds": record.done,
        "seed": settings.seed,
        "clients": len(record.clients),
        "rows": {part: member[part] for part in ("train", "validation", "test")},
        "labels": None if member["labels"] is None else [list(part) for part in member["labels"]],
        "notes": [str(note) for note in member["notes"]],
        "leaks": [dict(leak) for leak in about.get("leaks") or () if leak["site"] in ("", client)],
        "circle": _circle_of(record, number),
        "scores": {m: v if math.isfinite(v) else None for m, v in finals.items()},
        "of": which,
        "calibrate": settings.calibrate,
        "calibration": [] if which == POINT else _bins_of(record, number),
        "parameters": about.get("parameters"),
        "versions": {"coterie": about.get("coterie"), **about.get("versions", {})},
    }


def _circle_of(record: Record, number: int) -> dict[str, list[float]]:
    """{client: its weight in the last round, and the mean over all}, the heaviest first; 0 is left out."""
    rounds = sorted(record.weights)
    if not rounds:
        return {}
    rows = np.stack([np.asarray(record.weights[r], dtype=float)[number] for r in rounds])
    last, mean = rows[-1], rows.mean(axis=0)
    order = sorted(np.flatnonzero(mean), key=lambda j: (-last[j], -mean[j], j))
    return {record.clients[j]: [float(last[j]), float(mean[j])] for j in order}


def _bins_of(record: Record, number: int) -> list[list[float]]:
    """[low, high, samples, mean confidence, right] of each bin with any test row."""
    found = record.of("calibration")
    if found is None:
        return []
    tally, bins = found.confidence, found.confidence.samples.shape[-1]
    return [
        [b / bins, (b + 1) / bins, *(float(t[number, b]) for t in (tally.samples, tally.mean, tally.right))]
        for b in range(bins)
        if tally.samples[number, b] > 0
    ]


# what the models said of test rows

PROBABILITIES = "probabilities.npz"
MOST = 2**15  # rows: so many say within half a point what others would
NUMBERS = 2**20  # of them all: some megabytes


def few_enough(rows: int, classes: int) -> bool:
    return rows <= MOST and rows * classes <= NUMBERS


def write_probabilities(folder: Path, found: Probabilities, mode: int = 0o644) -> None:
    """`sizes` [client], `p` [row, class] in float32, `y` [row]."""
    write_arrays(folder / PROBABILITIES, found._replace(p=found.p.astype(np.float32))._asdict(), mode)


def read_probabilities(folder: Path) -> Probabilities | None:
    """None where there are none: see `Record`."""
    arrays = read_arrays(folder / PROBABILITIES, Probabilities._fields)
    if arrays is None:
        return None
    sizes, p, y = arrays
    whole = all(a.dtype.kind in "iu" for a in (sizes, y)) and p.dtype.kind == "f" and p.ndim == 2
    if not whole or sizes.ndim != 1 or not len(p) == sizes.sum() == len(y) or y.shape != p.shape[:1]:
        raise damaged(folder / PROBABILITIES, "sizes do not add up")
    if not ((p >= 0) & (p <= 1)).all() or not ((y >= 0) & (y < p.shape[1])).all():
        raise damaged(folder / PROBABILITIES, "it has what is no probability, or no class")
    return Probabilities(sizes, p, y)
