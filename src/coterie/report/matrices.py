"""Who listened to whom, who collected from whom, and who weighs how much in which layer.

Clients stand by the group that a split put them in, with a line where one group ends. Methods that average
layer by layer say of each round

    extras["layer_weights"][layer][client]    null for a client that did not answer

of which one heat map shows the last round, layer by client; then one for each client shows layer by round.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.methods.server.guided import LAYERS
from coterie.runs.record import Record
from coterie.show import inks as colours
from coterie.show import plotly, views
from coterie.show.blocks import Block, Control, Plot, Sentence
from coterie.show.parts import Runs
from coterie.show.words import said, sentences

FRAMES = 40  # of a matrix
CELLS = 1_000_000  # of all matrices of a section together: 2.7 MB
SIDE = 240  # clients that a matrix shows one by one
LAYER_CELLS = 60_000  # numbers of the layers' maps: 0.4 MB
LAYER_FRAMES = 60  # rounds of such a map


@dataclass(frozen=True, eq=False)
class Matrices:
    """Who listened to whom in one run: [frame, receiver, sender], for some of its rounds.

    `edges` are the places between the names where one group of clients ends and the next begins.
    """

    label: str
    seed: int
    rounds: list[int]
    of_rounds: int
    values: np.ndarray
    names: list[str]
    edges: list[float]


def matrices(
    label: str, runs: Sequence[Record], order: Sequence[int], frames: int = 1, side: int = 10**9
) -> Matrices | None:
    """The first seed's weights, clients in this order: at most `frames`, evenly chosen, and the last."""
    record = next((r for r in runs if r.weights), None)
    if record is None:
        return None
    chosen = views.thin(sorted(record.weights), frames)
    return _drawn(label, record, chosen, (record.weights[round] for round in chosen), order, side)


def collected(label: str, runs: Sequence[Record], order: Sequence[int], side: int = 10**9) -> Matrices | None:
    """In how many rounds, of all of the first seed, each gave each other a weight above 0: one frame."""
    record = next((r for r in runs if r.weights), None)
    if record is None:
        return None
    times = record.collected()
    np.fill_diagonal(times, math.nan)
    return _drawn(label, record, sorted(record.weights), [times], order, side)


def _drawn(
    label: str,
    record: Record,
    rounds: list[int],
    frames: Iterable[np.ndarray],
    order: Sequence[int],
    side: int,
) -> Matrices:
    """Clients in this order; more than `side` as means of neighbours, so that a thousand fit on a screen.

    One frame is looked at after the other: of a thousand clients each has a million numbers.
    """
    clients, step = record.clients, math.ceil(len(order) / side)
    values = np.stack([_block_means(np.asarray(f, float)[np.ix_(order, order)], step) for f in frames])
    blocks = [order[i : i + step] for i in range(0, len(order), step)]
    names = [" … ".join(dict.fromkeys((clients[b[0]], clients[b[-1]]))) for b in blocks]
    group = [record.about["clients"][i].get("cluster") for i in order]
    borders = [] if None in group else [i for i in range(1, len(group)) if group[i] != group[i - 1]]
    edges = [i / step - 0.5 for i in borders]
    return Matrices(label, views.seed(record), rounds, len(record.weights), values, names, edges)


def _block_means(values: np.ndarray, step: int) -> np.ndarray:
    """The means of what is known in blocks of [step, step], of which the last may be smaller; NaN where
    nothing is.
    """
    if step == 1:
        return values
    known, starts = np.isfinite(values), range(0, len(values), step)
    total, count = (
        np.add.reduceat(np.add.reduceat(part, starts, axis=0), starts, axis=1)
        for part in (np.where(known, values, 0.0), known.astype(float))
    )
    return np.asarray(np.divide(total, count, out=np.full(total.shape, math.nan), where=count > 0))


def matrix_part(runs: Runs) -> list[Block]:
    plot = matrix_plot(runs.by_label)
    if plot is None:
        return [Sentence(said("matrix.none"))]
    text = [said("matrix.said"), *_places(plot, runs.by_label)]
    thinned = [run for run in plot["runs"] if len(run["rounds"]) < run["of"]]
    if thinned:
        most, of = max(len(run["rounds"]) for run in thinned), max(run["of"] for run in thinned)
        text.append(said("matrix.thinned", most=most, of=of))
    controls = (
        _method_menu(plot),
        Control("round", said("matrix.round"), "slider"),
        Control("self", said("matrix.self"), "box"),
    )
    return [Plot(f"{runs.key}-matrix", plot, sentences(*text), "matrix", controls)]


def collected_part(runs: Runs) -> list[Block]:
    """Nothing before the first round."""
    plot = collected_plot(runs.by_label)
    if plot is None:
        return []
    text = sentences(said("collected.said"), *_places(plot, runs.by_label))
    return [Plot(f"{runs.key}-collected", plot, text, "matrix", [_method_menu(plot)])]


def _method_menu(plot: plotly.Plot) -> Control:
    labels = [run["label"] for run in plot["runs"]]
    return Control("run", said("matrix.method"), choices=labels, first=plot["first"])


def matrix_plot(by_label: views.Groups) -> plotly.Plot | None:
    """Who listened to whom: {"names", "runs": [{"label", "seed", "rounds", "low", "high", "packed"}], ...}.

    `packed` holds [round, receiver, sender] as little-endian 16-bit numbers in base64: 0 to 65534 stand for
    `low` to `high`, 65535 for nothing. That is finer than three digits and a third of the same as text.
    `edges` are where groups of clients end.
    """
    order = views.client_order(next(iter(by_label.values()))[0])
    n = min(SIDE, len(order))
    frames = max(1, min(FRAMES, CELLS // (n * n * len(by_label))))
    found = [matrices(label, runs, order, frames, SIDE) for label, runs in by_label.items()]
    told = {"to": "listens", "from": "listened", "pair": "listens_to", "value": "weight"}
    return _heat(found, views.baseline(by_label), {key: said(f"matrix.{name}") for key, name in told.items()})


def collected_plot(by_label: views.Groups) -> plotly.Plot | None:
    """In how many rounds each collected each other's model, laid out as `matrix_plot` is: one frame a run."""
    order = views.client_order(next(iter(by_label.values()))[0])
    found = [collected(label, runs, order, SIDE) for label, runs in by_label.items()]
    told = {"to": "collects", "from": "from", "pair": "pair", "value": "rounds"}
    texts = {key: said(f"collected.{name}") for key, name in told.items()}
    return _heat(found, views.baseline(by_label), texts)


def _heat(
    found: Sequence[Matrices | None], alone: str | None, texts: Mapping[str, str]
) -> plotly.Plot | None:
    shown = [m for m in found if m is not None]
    if not shown:
        return None
    names, edges = shown[0].names, shown[0].edges
    runs = [
        {"label": m.label, "seed": m.seed, "rounds": m.rounds[-len(m.values) :], "of": m.of_rounds}
        | plotly.pack(m.values)
        for m in shown
    ]
    others = ~np.eye(len(names), dtype=bool)
    apart = [float(np.nan_to_num(m.values[-1][others]).std()) if others.any() else 0.0 for m in shown]
    return {
        "names": plotly.ticks(names),
        "full": [plotly.plain(n) for n in names],
        "kind": "matrix",
        # at first where it matters most who is listened to
        "first": max(range(len(shown)), key=lambda i: (apart[i], shown[i].label != alone)),
        "runs": runs,
        "edges": edges,
        "said": texts,
        "scale": plotly.ramp(colours.SCALE),
        "signed": plotly.ramp(colours.SCALE_SIGNED),
    }


def _places(plot: plotly.Plot, by_label: views.Groups) -> list[str]:
    """In which order clients stand in a matrix, how many there are, and of which seed."""
    first = next(iter(by_label.values()))[0]
    n, drawn = len(first.clients), len(plot["names"])
    text: list[str] = [said("matrix.sorted")] if plot["edges"] else []
    text += [said("matrix.neighbours", n=n, drawn=drawn)] if drawn < n else []
    if len({views.seed(r) for runs in by_label.values() for r in runs}) > 1:
        text.append(said("matrix.seed", seed=plot["runs"][0]["seed"]))
    return text


def layers_part(runs: Runs) -> list[Block]:
    """Nothing where no method weighed layers one by one."""
    plot = layers_plot(runs.by_label)
    if plot is None:
        return []
    text = sentences(said("layers.said"), said("layers.seeds" if runs.several_seeds else "layers.long"))
    return [Plot(f"{runs.key}-layers", plot, text)]


def layer_weights(record: Record) -> tuple[list[int], list[str], np.ndarray]:
    """Rounds, layers and weights [round, layer, client], NaN where a client did not answer."""
    told = [(m["round"], m["extras"][LAYERS]) for m in record.metrics if LAYERS in m["extras"]]
    layers = list(told[0][1]) if told else []
    rows = [[table[layer] for layer in layers] for _, table in told]
    shape = (len(told), len(layers), len(record.clients))
    return [round for round, _ in told], layers, np.array(rows, dtype=float).reshape(shape)


def layers_plot(by_label: views.Groups) -> plotly.Plot | None:
    """Maps of the first seed of each method that has layers' weights; None if none has."""
    found = [(label, runs[0], *layer_weights(runs[0])) for label, runs in by_label.items()]
    found = [f for f in found if f[2]]
    if not found:
        return None
    choices, most = [], max(len(f[3]) for f in found)
    for label, record, rounds, layers, values in found:
        names = plotly.ticks(record.clients)
        keep = views.thin(range(len(rounds)), LAYER_FRAMES)
        room = max(1, LAYER_CELLS // (len(found) * len(layers) * len(keep)))
        shown = views.thin(range(len(names)), SIDE)
        last = _map([names[i] for i in shown], layers, values[-1][:, shown], "client")
        maps: list[tuple[str, dict[str, Any]]] = [(said("layers.round", n=rounds[-1]), last)]
        for i in views.thin(range(len(names)), room):
            one = _map([rounds[r] for r in keep], layers, values[keep][:, :, i].T, "round")
            maps.append((plotly.one_line(record.clients[i]), one))
        for name, one in maps:
            called = said("layers.of", method=label, name=name) if len(found) > 1 else name
            choices.append({"name": called} | one)
    return {"choices": choices, "height": 120 + 18 * most}


def _map(across: Sequence[Any], layers: Sequence[str], values: np.ndarray, what: str) -> dict[str, Any]:
    """A heat map [layer, across]."""
    heat = {
        "type": "heatmap",
        "x": list(across),
        "y": plotly.ticks(layers, 28),
        "z": [plotly.tidy(row) for row in values],
        "colorscale": plotly.ramp(colours.SCALE),
        "colorbar": {"thickness": 10, "outlinewidth": 0, "title": {"text": said("matrix.weight")}},
        "hovertemplate": plotly.hover(said(f"layers.hover.{what}")),
    }
    rows = {"type": "category", "autorange": "reversed"}
    columns: dict[str, Any] = {"title": {"text": said("plot.round")}}
    if what == "client":
        columns = {"title": {"text": said("column.client")}, "type": "category"}
    return {"data": [heat], "layout": {"xaxis": columns, "yaxis": rows}}
