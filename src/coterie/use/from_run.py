"""The predictor of a client in a run: from the run's folder, or from its record and a module in Python.

Where a client averages the predictions of several models (draws of a posterior, an ensemble), a run keeps the
one that stands for them, and that is the one in use: its scores are those of `point`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from coterie.core import belief as tree
from coterie.core.belief import Belief
from coterie.core.errors import BadRun, CoterieError
from coterie.core.options import coerced
from coterie.models import MODELS
from coterie.report.learnable import worse_than_nothing
from coterie.runs import artifacts
from coterie.runs.artifacts import POINT, Origin, facts_of, read_origin
from coterie.runs.folder import read_models
from coterie.runs.record import Record
from coterie.show.words import said
from coterie.storage.plugins import load_plugins
from coterie.use.cut import Cut, fitting
from coterie.use.folders import one_of, record_in
from coterie.use.forward import outputs_of
from coterie.use.predictor import Predictor

SEVERAL = (
    "clients of this method average several models; what is used here is the one that stands for them, whose "
    "scores are called point"
)


def predictor_of_run(
    folder: Path | str,
    client: str = "",
    model: nn.Module | None = None,
    threshold: float = 0.0,
    cut: Cut | None = None,
) -> Predictor:
    """From a finished run's folder; the client may be left out where only one has a model.

    A run of a module of one's own, started from Python, needs that module to be given. Without a cut, the one
    that was decided for the client is taken, if one was.
    """
    path = Path(folder)
    record = record_in(path)
    own = read_models(path)
    client = one_of(client, list(own), record.clients, str(path))
    origin = read_origin(path)
    whole = network(path, record, own[client], client, model)
    found = predictor_of(record, client, whole, origin, threshold)
    return found.with_cut(cut or fitting(path, client, found.classes))


def predictor_of(
    record: Record, client: str, model: nn.Module, origin: Origin, threshold: float = 0.0
) -> Predictor:
    """From what a run says of itself, and the client's own model, which takes inputs as prepared."""
    about, preparation = record.about, origin.preparations.get(client)
    features = tuple(about["features"]) if preparation is None else preparation.features
    shape = _shape_of(about)
    last: dict[str, Any] = next((m["scores"] for m in reversed(list(record.evaluated()))), {})
    notes = [SEVERAL] if POINT in last else []
    mine = np.array([name == client for name in record.clients])
    if record.metrics and not notes and (worse := worse_than_nothing([record], mine)):
        notes.append(said("nothing.own", worse=worse))
    return Predictor(
        client=client,
        task=about["task"],
        classes=_classes_of(about, model, shape),
        model=model.eval(),
        shape=shape,
        features=features,
        preparation=preparation,
        recipe=origin.recipe,
        threshold=threshold,
        recalibrated=(record.of("recalibration") or {}).get(client),
        made=_made_of(record),
        facts=facts_of(record, client),
        notes=tuple(notes),
    )


def network(path: Path, record: Record, own: Belief, client: str, model: nn.Module | None) -> nn.Module:
    if (path / artifacts.BODY).exists():
        return artifacts.network_of(path, client, model)
    outputs = len(record.about["classes"]) or 1
    return loaded(_made_of(record), _shape_of(record.about), outputs, own, model, str(path))


def _shape_of(about: Mapping[str, Any]) -> tuple[int, ...]:
    if "inputs" not in about:
        raise BadRun("the run was written by an earlier version, which kept no shape of inputs: run it anew")
    return tuple(about["inputs"])


def loaded(
    made: dict[str, Any],
    shape: tuple[int, ...],
    outputs: int,
    own: Belief,
    model: nn.Module | None,
    where: str,
) -> nn.Module:
    """A network with these weights: built by name, or a copy of the given module."""
    if model is None:
        load_plugins(made.get("plugins", ()))
        if made["name"] not in MODELS:
            raise BadRun(
                f"{where} holds a module of your own, a {made['name']}: load it from Python with "
                f"coterie.load({where!r}, model=the module)"
            )
        kind = MODELS[made["name"]]
        maker = kind(**coerced(kind, made.get("options", {}), f"model {made['name']}"))
        try:  # what a file claims costs no memory before its tensors bear it out
            with torch.device("meta"):  # shapes without numbers
                wanted = maker.build(shape, outputs, 0)
        except CoterieError:
            raise
        except Exception:  # a model of somebody's own that cannot be built so is built as it is
            wanted = None
        if wanted is not None:
            tree.fits(wanted, own)
        module = maker.build(shape, outputs, 0)
    else:
        module = copy.deepcopy(model).cpu()
    precision = next((t.dtype for t in own.values() if t.is_floating_point()), None)
    return tree.load(module if precision is None else module.to(precision), own).eval()


def _made_of(record: Record) -> dict[str, Any]:
    name = record.settings.model
    options = dict(record.config.get(name, {})) if name in MODELS else {}
    return {"name": name, "options": options, "plugins": list(record.settings.plugins)}


def _classes_of(about: Any, model: nn.Module, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Names of all outputs; a module of one's own may have more than there are classes."""
    if about["task"] != "classification":
        return ()
    outputs = outputs_of(model.eval(), torch.zeros(1, *shape)).shape[1]
    named = list(about["classes"])
    return tuple(named + [str(c) for c in range(len(named), outputs)])
