"""What linear models weigh: one number for each feature, side by side for the methods of a comparison.

For a model that is one weight matrix W [output, feature] with a bias b or none:

    numbers         W[0]                              how far the prediction moves with the feature; of a
                                                      survival, the risk, without the intercept
    two classes     W[1] - W[0]                       the same for the log-odds of the second class
    more classes    W[c] - mean over classes of W     the same for class c; softmax does not see the mean

Features are as the model sees them, so after scaling. The bias stands beside them as the intercept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from coterie.core.belief import Belief
from coterie.methods.baselines import NOTHING
from coterie.runs.record import Record
from coterie.show import numbers, plotly, views
from coterie.show.blocks import Block, Control, Plot, Sentence
from coterie.show.inks import Ink
from coterie.show.parts import Runs
from coterie.show.words import Saying, said, sentences

CELLS = 300_000  # numbers of a section: 0.8 MB
DRAWN = 40  # features that are drawn at once
MOST = 200  # features that are embedded at all
INTERCEPT = "(intercept)"


@dataclass(frozen=True, eq=False)
class Weighed:
    """Parameters by method: values[label][seed, client, output, feature]; `outputs` says what they add to.

    Who has no model in a method has NaN there; who has none in any is not among the clients.
    """

    features: list[str]
    outputs: Sequence[str]
    clients: list[str]
    values: dict[str, np.ndarray]
    missing: list[str]


def weighed(by_label: views.Groups) -> Weighed | None:
    """None unless features have names and every model is one matrix on them. Unfinished runs are missing."""
    first = next(iter(by_label.values()))[0]
    names = [str(f) for f in first.about.get("features") or ()]
    if not names or not all(_could_be_linear(r) for runs in by_label.values() for r in runs):
        return None
    classes = [str(c) for c in first.about.get("classes") or ()]
    if len(classes) == 1:
        return None
    timed = views.task(first) == "survival"  # all rows share an intercept, which then says nothing
    looking = {x: runs for x, runs in by_label.items() if views.method(runs[0]) != NOTHING}  # at features
    read = {label: [found for r in runs if (found := r.models())] for label, runs in looking.items()}
    owners = {client for runs in read.values() for models in runs for client in models}
    clients = [client for client in first.clients if client in owners]
    values: dict[str, np.ndarray] = {}
    for label, finished in read.items():
        maps = [{client: linear_map(b, len(names)) for client, b in models.items()} for models in finished]
        if any(m is None for by_client in maps for m in by_client.values()):
            return None
        if maps:
            width = len(names) if timed else None
            told = [
                {c: contrasts(m, len(classes))[:, :width] for c, m in of.items() if m is not None}
                for of in maps
            ]
            nothing = np.full_like(next(iter(told[0].values())), math.nan)
            values[label] = np.array([[of.get(client, nothing) for client in clients] for of in told])
    if not values:
        return None
    width = next(iter(values.values())).shape[-1]
    features = [*names, INTERCEPT][:width]
    outputs = classes if len(classes) > 2 else [said("features.risk" if timed else "features.prediction")]
    if len(classes) == 2:
        outputs = [said("features.odds", one=classes[1], other=classes[0])]
    missing = [label for label in by_label if label not in values]
    return Weighed(features, outputs, clients, values, missing)


def _could_be_linear(record: Record) -> bool:
    """By its number of parameters, so that large models are not read for nothing."""
    columns, parameters = len(record.about.get("features") or ()), int(record.about.get("parameters") or 0)
    return columns > 0 and 0 in (parameters % columns, parameters % (columns + 1))


def linear_map(belief: Belief, columns: int) -> np.ndarray | None:
    """[output, feature] with the bias as last column, if this is all that the model holds."""
    matrix = [t for t in belief.values() if t.ndim == 2 and t.shape[1] == columns]
    if len(matrix) != 1:
        return None
    rest = [t for t in belief.values() if t is not matrix[0]]
    if any(t.shape != matrix[0].shape[:1] for t in rest) or len(rest) > 1:
        return None
    return torch.cat([matrix[0], *(t[:, None] for t in rest)], dim=1).double().numpy()


def contrasts(rows: np.ndarray, classes: int) -> np.ndarray:
    """What tells: [output, feature], see the head of this file."""
    if classes == 0:
        return rows[:1]
    if classes == 2:
        return np.asarray(rows[1:2] - rows[:1])
    return np.asarray(rows[:classes] - rows[:classes].mean(axis=0))


def spread(values: np.ndarray) -> np.ndarray:
    """Mean, least and greatest over seeds: [3, client, output, feature]; the mean alone for one seed."""
    mean = values.mean(axis=0)
    return np.stack([mean, values.min(axis=0), values.max(axis=0)]) if len(values) > 1 else mean[None]


def largest(values: np.ndarray, most: int = DRAWN) -> list[int]:
    """The features [..., feature] that weigh most anywhere, in their own order."""
    size = np.nan_to_num(np.abs(values)).reshape(-1, values.shape[-1]).max(axis=0)
    return sorted(np.argsort(-size, kind="stable")[:most].tolist())


def features_plot(found: Weighed, inks: Mapping[str, Ink]) -> plotly.Plot | None:
    """For each client and method, packed: [mean, low, high][output, feature]. None for too many features."""
    if len(found.features) > MOST:
        return None
    spreads = {label: spread(v) for label, v in found.values.items()}
    each = sum(s[:, 0].size for s in spreads.values())
    chosen = views.thin(range(len(found.clients)), max(1, CELLS // each))
    clients = []
    for i in chosen:
        methods = [plotly.pack(s[:, i]) for s in spreads.values()]
        clients.append({"name": plotly.one_line(found.clients[i]), "methods": methods})
    methods = []
    for label, s in spreads.items():
        look = {"colour": inks[label].colour, "hatch": inks[label].hatch}
        methods.append({"label": plotly.plain(label), **look, "spread": len(s) == 3})
    rows = min(DRAWN, len(found.features))
    return {
        "kind": "features",
        "features": plotly.ticks(found.features),
        "outputs": [name if isinstance(name, Saying) else plotly.one_line(name) for name in found.outputs],
        "clients": clients,
        "methods": methods,
        "of": len(found.clients),
        "drawn": DRAWN,
        "height": 110 + rows * (10 + 9 * len(methods)),
    }


def caption(plot: plotly.Plot, found: Weighed) -> str:
    """How to read it, and what was left out."""
    to = found.outputs[0] if len(found.outputs) == 1 else said("features.logit")
    text = [said("features.said", to=to)]
    if any(method["spread"] for method in plot["methods"]):
        text.append(said("features.spread"))
    if len(found.features) > DRAWN:
        text.append(said("features.drawn", n=len(found.features), drawn=DRAWN))
    if len(plot["clients"]) < plot["of"]:
        text.append(said("features.some", n=len(plot["clients"]), of=plot["of"]))
    if found.missing:
        text.append(said("features.missing", methods=found.missing))
    return sentences(*text)


def features_part(runs: Runs) -> list[Block]:
    """Nothing where models are not linear or features have no names."""
    found = weighed(runs.by_label)
    if found is None:
        return []
    plot = features_plot(found, runs.inks)
    if plot is None:
        parameters = numbers.several(len(found.features), "parameter")
        return [Sentence(said("features.too_many", parameters=parameters, most=MOST))]
    controls = [Control("client", said("traces.client"), choices=[c["name"] for c in plot["clients"]])]
    if len(plot["outputs"]) > 1:
        controls.append(Control("output", said("traces.class"), choices=plot["outputs"]))
    return [Plot(f"{runs.key}-features", plot, caption(plot, found), controls=controls)]
