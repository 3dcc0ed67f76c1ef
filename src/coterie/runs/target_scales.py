"""The scale that a regression's targets are learnt in: one for all sites, so that models can be averaged.

Centre and unit are the mean and the deviation of all training rows' targets. They become options of the
model, which stand in a run's config and go wherever the model goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from coterie.core.client import Client, Task
from coterie.core.errors import BadInput, option
from coterie.core.options import options_of
from coterie.models import MODELS

Targets = Literal["auto", "raw", "scaled"]
AUTO: Targets = "auto"
RAW: Targets = "raw"
SCALED: Targets = "scaled"
CENTRE, UNIT = "centre", "unit"


def takes_scale(model: str) -> bool:
    """Whether a model, by name, has a place for it."""
    return model in MODELS and {CENTRE, UNIT} <= {o.name for o in options_of(MODELS[model])}


def options_with_scale(
    targets: str, task: Task, model: str, own: Mapping[str, Any], clients: Sequence[Client]
) -> dict[str, Any]:
    """The options of a model, with the scale of these clients' training rows where one is wanted and none is
    given.
    """
    if targets != SCALED or task != "regression" or has_scale(own):
        return dict(own)
    if not takes_scale(model):
        raise BadInput(
            f"{option('targets', SCALED)}, but model {model or 'of your own'} has no centre and unit: take "
            f"linear or mlp, or {option('targets', RAW)}"
        )
    centre, unit = scale_of_targets(c.train.y for c in clients)
    return {**own, CENTRE: centre, UNIT: unit}


def has_scale(options: Mapping[str, Any]) -> bool:
    return options.get(CENTRE) is not None or options.get(UNIT) is not None


def scale_of_targets(targets: Iterable[Tensor]) -> tuple[float, float]:
    """Mean and deviation, to six digits: they are to be read."""
    y = torch.cat([t.double().cpu() for t in targets])
    unit = float(f"{float(y.std(correction=0)):.6g}")
    return float(f"{float(y.mean()):.6g}"), unit or 1.0


def note_on_scale(options: Mapping[str, Any]) -> tuple[str, ...]:
    """What to say of a model that has one."""
    if not has_scale(options):
        return ()
    centre, unit = options.get(CENTRE) or 0.0, options.get(UNIT) or 1.0
    return (f"targets are learnt as (y - {centre:g}) / {unit:g}, the same at all sites; predictions are y",)


def note_on_sites(targets: str, task: Task, model: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """What to say where rows are at their sites, which tell neither the mean nor the deviation of targets."""
    if targets != SCALED or task != "regression" or has_scale(options):
        return note_on_scale(options)
    asked = f"{option(CENTRE, '...', model)} and {option(UNIT, '...', model)}"
    return (f"targets are learnt as they are: sites tell no mean of them: give {asked}",)
