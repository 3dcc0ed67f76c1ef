"""Which columns pushed a prediction most, each against its usual value and with all others as they are.

Usual is for a number the center it is scaled by (the mean of training rows where it was fitted); else what
stands in for missing values, the median or the most frequent value; else 0, of a category all values alike.

    linear models    the column's terms of the log-odds of what is said against the mean of all other classes,
                     Σ_j (w_cj - w̄_j) (x_j - u_j); of a number or risk, Σ_j w_j (x_j - u_j)
    other models     how far the probability of what is said, or the number or risk, falls if the usual value
                     is put in the column's place
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from torch import nn

from coterie.data.intake import Array
from coterie.data.preparation import Part

if TYPE_CHECKING:
    from coterie.use.intake import Asked, Intake


@dataclass(frozen=True)
class Push:
    """A column, its value in the row as people write it, and how far it pushed towards what is said."""

    column: str
    value: str
    push: float

    def __str__(self) -> str:
        return f"{self.column}={self.value} ({self.push:+.3g})"


def pushes(
    model: nn.Module,
    intake: Intake,
    asked: Asked,
    answered: Callable[[Array], Array],
    said: Array,
    most: int,
    slope: float = 1.0,
) -> list[list[Push]]:
    """For each row that is not refused the strongest towards the output that is said [row], and no column
    that did not push. The log-odds of a linear model are its own times the `slope` of a recalibration.
    """
    way, linear = intake.way, linear_of(model)
    assert way is not None
    assert asked.raw is not None
    usual, owners = np.concatenate([usual_of(p) for p in way.parts]), np.array(way.owners)
    strength = np.zeros((len(asked.inputs), len(way.parts)))  # [row, column]
    if linear is not None:
        w = linear.weight.detach().double().numpy()  # [output, input]
        k = len(w)
        apart = w if k == 1 else w - (w.sum(axis=0, keepdims=True) - w) / (k - 1)
        each = apart[said] * (np.asarray(asked.inputs, dtype=np.float64) - usual)
        for i, owner in enumerate(owners):
            strength[:, owner] += each[:, i]
        strength *= slope
    else:
        rows, x = np.arange(len(asked.inputs)), asked.inputs
        before = answered(x)[rows, said]
        for column in sorted(set(owners.tolist())):
            other = np.where(owners == column, usual.astype(x.dtype), x)
            strength[:, column] = before - answered(other)[rows, said]
    found = []
    for row, strengths in zip(asked.raw[asked.kept], strength, strict=True):
        order = [i for i in np.argsort(-np.abs(strengths), kind="stable")[:most] if strengths[i] != 0]
        found.append(
            [Push(way.columns[i], _written(way.parts[i], row[i]), float(strengths[i])) for i in order]
        )
    return found


def usual_of(part: Part) -> Array:
    """[input] of a column's usual value; of one that is not looked at, what always stands there."""
    column = part.column
    if not part.read:
        return np.asarray(part.made(np.zeros(1))[0], dtype=np.float64)
    raw = column.of.usual(column, part.fill)
    if raw is None:
        made = np.full(len(column.inputs), 1 / max(len(column.inputs), 1))
        return np.append(made, 0.0) if part.told else made
    return np.asarray(part.made(np.array([raw]))[0], dtype=np.float64)


def _written(part: Part, raw: float) -> str:
    """A raw value as people write it; what stands in for a missing one in brackets."""
    if np.isnan(raw):
        return "missing" if part.fill is None else f"missing, taken as {part.column.text(part.fill)}"
    return part.column.text(float(raw))


def linear_of(model: nn.Module) -> nn.Linear | None:
    """The only layer of a linear model; None for any other."""
    around = [m for m in model.modules() if any(True for _ in m.children())]
    leaves = [m for m in model.modules() if m not in around]
    layers = [m for m in leaves if isinstance(m, nn.Linear)]
    rest = [m for m in leaves if not isinstance(m, nn.Linear | nn.Flatten | nn.Identity)]
    plain = all(type(m) is nn.Sequential for m in around)
    return layers[0] if plain and len(layers) == 1 and not rest else None
