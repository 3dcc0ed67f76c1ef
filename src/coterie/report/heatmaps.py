"""Who listened to whom, and who collected from whom: matrices of clients, for plotly.js.

Clients stand by the group that a split put them in, with a line where one group ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from coterie.report import inks as colours
from coterie.report import plotly_data, views

FRAMES = 40  # of a matrix
CELLS = 1_000_000  # of all matrices of a section together: 2.7 MB
SIDE = 240  # clients that a matrix shows one by one


def matrix_plot(by_label: views.Groups) -> plotly_data.Plot | None:
    """Who listened to whom: {"names", "runs": [{"label", "seed", "rounds", "low", "high", "packed"}], ...}.

    `packed` holds [round, receiver, sender] as little-endian 16-bit numbers in base64: 0 to 65534 stand for
    `low` to `high`, 65535 for nothing. That is finer than three digits and a third of the same as text.
    `edges` are where groups of clients end.
    """
    order = views.client_order(next(iter(by_label.values()))[0])
    n = min(SIDE, len(order))
    frames = max(1, min(FRAMES, CELLS // (n * n * len(by_label))))
    found = [views.matrices(label, runs, order, frames, SIDE) for label, runs in by_label.items()]
    said = {"to": "listens", "from": "is listened to", "pair": "listens to", "value": "weight"}
    return _heat([m for m in found if m is not None], views.baseline(by_label), said)


def collected_plot(by_label: views.Groups) -> plotly_data.Plot | None:
    """In how many rounds each collected each other's model, laid out as `matrix_plot` is: one frame a run."""
    order = views.client_order(next(iter(by_label.values()))[0])
    found = [views.collected(label, runs, order, SIDE) for label, runs in by_label.items()]
    said = {"to": "collects", "from": "is collected from", "pair": "collected from", "value": "rounds"}
    return _heat([m for m in found if m is not None], views.baseline(by_label), said)


def _heat(
    shown: Sequence[views.Matrices], alone: str | None, said: Mapping[str, str]
) -> plotly_data.Plot | None:
    if not shown:
        return None
    runs = [
        {"label": m.label, "seed": m.seed, "rounds": m.rounds[-len(m.values) :], "of": m.of_rounds}
        | plotly_data.pack(m.values)
        for m in shown
    ]
    names = {
        "names": plotly_data.ticks(shown[0].names),
        "full": [plotly_data.plain(n) for n in shown[0].names],
    }
    others = ~np.eye(len(shown[0].names), dtype=bool)
    apart = [float(np.nan_to_num(m.values[-1][others]).std()) if others.any() else 0.0 for m in shown]
    # at first where it matters most who is listened to
    first = max(range(len(shown)), key=lambda i: (apart[i], shown[i].label != alone))
    return names | {
        "kind": "matrix",
        "first": first,
        "runs": runs,
        "edges": shown[0].edges,
        "said": said,
        "scale": plotly_data.ramp(colours.SCALE),
        "signed": plotly_data.ramp(colours.SCALE_SIGNED),
    }


def places(plot: plotly_data.Plot, by_label: views.Groups) -> str:
    """In which order clients stand in a matrix, how many there are, and of which seed."""
    first = next(iter(by_label.values()))[0]
    n, drawn, said = len(first.clients), len(plot["names"]), ""
    if plot["edges"]:
        said += " Clients are sorted by the group that the split put them in; dark lines separate the groups."
    if drawn < n:
        said += f" {n} clients are drawn as {drawn} groups of neighbours, each the mean of its members."
    if len({views.seed(r) for runs in by_label.values() for r in runs}) > 1:
        said += f" Of several seeds, seed {plot['runs'][0]['seed']} is shown."
    return said
