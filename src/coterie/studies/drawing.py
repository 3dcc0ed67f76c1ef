"""What the papers' figures share: curves by round with weights below them, and heat maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.metrics.summary import interval
from coterie.show.figures import DASHES
from coterie.show.inks import ALONE, COLOURS, Ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


INKS = {
    "weight-erosion": Ink(COLOURS[0], "solid", "circle", ""),
    "global": Ink(COLOURS[1], "solid", "square", ""),
    "fedavg": Ink(COLOURS[1], "solid", "square", ""),
    "local": Ink(ALONE, "dash", "circle-open", ""),
}
FEW = 10  # agents whose weights have a colour of their own


def at_hand() -> bool:
    """Whether figures can be drawn; tables do without."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def canvas(width: float, height: float, rows: int, columns: int, **options: Any) -> tuple[Figure, Any]:
    """A figure and its axes [row, column]."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def curves(
    axes: Axes, by_method: Mapping[str, np.ndarray], labels: Mapping[str, str], overlap: float = 0.0
) -> None:
    """Accuracy [seed, round] of each method: means, and shades for 95 % intervals over seeds."""
    for method, values in by_method.items():
        ink, found = INKS[method], [interval(list(column), overlap=overlap) for column in values.T]
        mean, half = (np.array([100 * getattr(f, part) for f in found]) for part in ("mean", "half"))
        rounds = np.arange(len(mean))
        if np.isfinite(half).all():
            axes.fill_between(rounds, mean - half, mean + half, color=ink.colour, alpha=0.16, linewidth=0)
        axes.plot(
            rounds, mean, color=ink.colour, linestyle=DASHES[ink.dash], linewidth=1.3, label=labels[method]
        )
    axes.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]


def weights(axes: Axes, alpha: np.ndarray, names: Sequence[str], own: int) -> None:
    """α [round, agent] by round, 1 at first; few agents in colours, many in grey with their mean."""
    begun = np.vstack([np.ones(alpha.shape[1]), alpha])
    others = [i for i in range(alpha.shape[1]) if i != own]
    for i in others:
        if len(others) <= FEW:
            dash = "-" if i < len(COLOURS) else "--"
            style: dict[str, Any] = {"color": COLOURS[i % len(COLOURS)], "linestyle": dash}
            axes.plot(begun[:, i], linewidth=1, label=names[i], **style)
        else:
            axes.plot(begun[:, i], linewidth=0.4, color="#9aa5b1")
    if len(others) > FEW:
        axes.plot(begun[:, others].mean(axis=1), linewidth=1.3, color=COLOURS[0], label="mean")
    axes.set(ylim=(-0.03, 1.03), xlabel="round")
    axes.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]


def heat_map(
    axes: Axes,
    values: np.ndarray,
    names: tuple[Sequence[str], Sequence[str]],
    most: float,
    turn: float,
    label: Callable[[float], str],
) -> Any:
    """Points [row, column], blue above 0 and red below, each with its number; NaN is left empty. Gives the
    image, of which a scale is drawn, and the texts by cell.
    """
    shown = axes.imshow(values, cmap="RdBu", vmin=-most, vmax=most, aspect="auto")
    axes.set_xticks(range(len(names[1])), names[1], rotation=turn, ha="right", fontsize=7)
    axes.set_yticks(range(len(names[0])), names[0], fontsize=7)
    numbers = {}
    for (row, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            look: dict[str, Any] = {"color": "white" if abs(value) > 0.6 * most else "black", "fontsize": 6}
            numbers[row, column] = axes.text(column, row, label(value), ha="center", va="center", **look)
    return shown, numbers
