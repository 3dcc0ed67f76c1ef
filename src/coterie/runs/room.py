"""What does not fit into memory is refused before anything is built or written."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from coterie.core.errors import BadInput
from coterie.core.learner import COUPLED, LOSSES, NO_ROW, Loss
from coterie.core.method import Method
from coterie.core.roster import Roster
from coterie.engines.memory import free_bytes
from coterie.models.base import count_parameters

FLOAT, INDEX = 4, 8  # bytes
BESIDE = 2  # copies of a model beside those of the clients: the first one, and its gradient


def check_model(model_of: Any, name: str, roster: Roster) -> None:
    """Refuses a model of which memory has no room for one to each client."""
    try:
        with torch.device("meta"):  # shapes without numbers
            numbers = count_parameters(model_of.build(roster.shape, roster.outputs, 0))
    except BadInput:
        raise
    except Exception:  # a model of somebody's own that cannot be built so is built as it is
        return
    needed, free = FLOAT * numbers * (len(roster) + BESIDE), free_bytes()
    if needed > free:
        raise BadInput(
            f"model {name} has {numbers:,} weights, for {len(roster)} clients {gigabytes(needed)}; "
            f"{gigabytes(free)} are free: take a smaller model or fewer clients"
        )


def check_work(
    method: Method, roster: Roster, model: nn.Module, loss: Loss | None = None, transforms: bool = False
) -> None:
    """Refuses local work of so many steps in a round that the list of its batches does not fit, and work that
    does not suit the model, the loss (the task's own, if none is given) or a client with so few rows.
    """
    local: Any = getattr(method, "local", None)
    if getattr(local, "by_row", False) and (loss or LOSSES[roster.task]) in COUPLED:
        raise BadInput(f"{local.name} cannot train a {roster.task}: {NO_ROW}")
    innermost = local
    while hasattr(innermost, "inner"):
        innermost = innermost.inner
    if transforms and getattr(innermost, "whole", False):
        raise BadInput(
            f"{innermost.name} needs the same rows at each of its steps, which a transform changes: leave it "
            "out, or take sgld"
        )
    if hasattr(local, "suits"):
        local.suits(model)
    if hasattr(local, "tries"):
        local.tries(model, roster.shape)
    for member in roster.members if hasattr(local, "needs") else ():
        try:
            local.needs(member.train)
        except BadInput as error:
            raise BadInput(f"client {member.name!r} has {error}") from None
    told = {"epochs": getattr(local, "epochs", 1), "steps": getattr(local, "steps", 0)}
    passes = getattr(method, "passes", 1)  # of a ranking, which does the work so many times over
    told["passes"] = passes if isinstance(passes, int) else 1
    planned = 0
    for member in roster.members:
        batch = max(1, min(getattr(local, "batch", 1), member.train))
        a_pass = told["steps"] or told["epochs"] * math.ceil(member.train / batch)
        planned += told["passes"] * a_pass * batch
    needed, free = INDEX * planned, free_bytes()
    if needed > free:
        most = max(told, key=lambda name: told[name])
        raise BadInput(
            f"{most}={told[most]} of local work: its batches of one round take {gigabytes(needed)}; "
            f"{gigabytes(free)} are free: lower it, and take more rounds"
        )


def gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"
