"""Who weighs how much in which layer: what methods that average layer by layer say of each round.

    extras["layer_weights"][layer][client]    of a round, null for a client that did not answer

One heat map shows the last round, layer by client; then one for each client shows layer by round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coterie.methods.server.guided import LAYERS
from coterie.report import inks as colours
from coterie.report import plotly_data, views
from coterie.runs.record import Record

CELLS = 60_000  # numbers of a section: 0.4 MB
FRAMES = 60  # rounds of a map
SIDE = 240  # clients of the last round


def layer_weights(record: Record) -> tuple[list[int], list[str], np.ndarray]:
    """Rounds, layers and weights [round, layer, client], NaN where a client did not answer."""
    told = [(m["round"], m["extras"][LAYERS]) for m in record.metrics if LAYERS in m["extras"]]
    layers = list(told[0][1]) if told else []
    rows = [[table[layer] for layer in layers] for _, table in told]
    shape = (len(told), len(layers), len(record.clients))
    return [round for round, _ in told], layers, np.array(rows, dtype=float).reshape(shape)


def layers_plot(by_label: views.Groups) -> plotly_data.Plot | None:
    """Maps of the first seed of each method that has layers' weights; None if none has."""
    found = [(label, runs[0], *layer_weights(runs[0])) for label, runs in by_label.items()]
    found = [f for f in found if f[2]]
    if not found:
        return None
    choices, most = [], max(len(f[3]) for f in found)
    for label, record, rounds, layers, values in found:
        names, several = plotly_data.ticks(record.clients), f"{label}: " if len(found) > 1 else ""
        keep = views.thin(range(len(rounds)), FRAMES)
        room = max(1, CELLS // (len(found) * len(layers) * len(keep)))
        shown = views.thin(range(len(names)), SIDE)
        last = _map([names[i] for i in shown], layers, values[-1][:, shown], "client")
        choices.append({"name": f"{several}round {rounds[-1]}"} | last)
        for i in views.thin(range(len(names)), room):
            one = _map([rounds[r] for r in keep], layers, values[keep][:, :, i].T, "round")
            choices.append({"name": f"{several}{plotly_data.one_line(record.clients[i])}"} | one)
    return {"choices": choices, "height": 120 + 18 * most}


def _map(across: Sequence[Any], layers: Sequence[str], values: np.ndarray, what: str) -> dict[str, Any]:
    """A heat map [layer, across]."""
    heat = {
        "type": "heatmap",
        "x": list(across),
        "y": plotly_data.ticks(layers, 28),
        "z": [plotly_data.tidy(row) for row in values],
        "colorscale": plotly_data.ramp(colours.SCALE),
        "colorbar": {"thickness": 10, "outlinewidth": 0, "title": {"text": "weight"}},
        "hovertemplate": f"{what} %{{x}}, %{{y}}: %{{z}}<extra></extra>",
    }
    rows = {"type": "category", "autorange": "reversed"}
    columns = {"title": {"text": what}} | ({"type": "category"} if what == "client" else {})
    return {"data": [heat], "layout": {"xaxis": columns, "yaxis": rows}}


def caption(by_label: views.Groups) -> str:
    """How to read it."""
    said = (
        "Each layer is averaged with weights of its own. Colour: a client's weight in a layer, from the "
        "least to the greatest of the map; nothing where it did not answer."
    )
    if any(len(runs) > 1 for runs in by_label.values()):
        said += " Of several seeds, the first is shown; "
        said += "long runs show some rounds and clients, evenly chosen."
    else:
        said += " Long runs show some rounds and clients, evenly chosen."
    return said
