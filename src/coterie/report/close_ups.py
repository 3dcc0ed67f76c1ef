"""Close-ups of clients: round by round how one fares, and what its model weighs in the end.

Traces: a client's score, and its row of a matrix that the method named.

    score       of the client's own model, for each method, in the run's seed
    alpha       or any other name: matrices[name][round][client, sender], one line for each sender

As in the papers' figures, the two share their rounds. What is too much for one page is thinned evenly and
counted, so that the caption can say so.

Features: what linear models weigh, one number for each, side by side for the methods of a comparison.

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
from coterie.core.method import CIRCLE
from coterie.methods.baselines import NOTHING
from coterie.runs.record import Record
from coterie.show import inks as colours
from coterie.show import numbers, plotly, views
from coterie.show.blocks import Block, Control, Plot, Sentence
from coterie.show.glossary import behind
from coterie.show.inks import Ink
from coterie.show.parts import Runs
from coterie.show.words import Saying, said, sentences

CELLS = 300_000  # numbers of all traces, or of all features, of a section: 0.8 MB
FRAMES = 60  # rounds of a trace
SENDERS = 200  # lines of a trace
FEW = 10  # senders that have a colour of their own
DRAWN = 40  # features that are drawn at once
MOST = 200  # features that are embedded at all
INTERCEPT = "(intercept)"


# round by round


@dataclass(frozen=True, eq=False)
class Trace:
    """A named matrix of one run: values[round, receiver, sender], for some of each.

    Of `of_rounds` rounds there are `rounds`; of `of_receivers` that the matrix says anything of, `receivers`.
    """

    label: str
    name: str
    record: Record
    rounds: list[int]
    receivers: list[int]
    senders: list[int]
    values: np.ndarray
    of_rounds: int
    of_receivers: int


def traces_part(runs: Runs) -> list[Block]:
    """Nothing where no method named a matrix."""
    plot = traces_plot(runs.by_label, runs.inks)
    if plot is None:
        return []
    several = len({run["label"] for run in plot["runs"]}) > 1
    of = [said("layers.of", method=run["label"], name=run["name"]) for run in plot["runs"]]
    names = of if several else [run["name"] for run in plot["runs"]]
    # the second is filled by the page
    controls = (Control("run", said("traces.show"), choices=names), Control("client", said("traces.client")))
    return [Plot(f"{runs.key}-traces", plot, traces_caption(plot, runs.by_label), "traces", controls)]


def traces(by_label: views.Groups, cells: int = CELLS, receivers: int = 10**9) -> list[Trace]:
    """Every named matrix, each of the first seed that has it; a circle of zeros and ones makes no lines.

    At most so many receivers, and no more numbers than `cells` unless one receiver alone has more.
    """
    found = []
    for label, runs in by_label.items():
        for name in dict.fromkeys(name for r in runs for name in r.matrices if name != CIRCLE):
            found.append((label, name, next(r for r in runs if name in r.matrices)))
    made = []
    for label, name, record in found:
        by_round = record.matrices[name]
        rounds = views.thin(sorted(by_round), FRAMES)
        senders = views.thin(range(len(record.clients)), SENDERS)
        told = [np.isfinite(by_round[round]).any(axis=1) for round in rounds]
        heard = np.flatnonzero(np.any(told, axis=0)).tolist()
        room = max(1, cells // max(1, len(found)) // max(1, len(rounds) * len(senders)))
        some = views.thin(heard, min(room, receivers))
        values = np.array([by_round[round][np.ix_(some, senders)] for round in rounds])
        made.append(Trace(label, name, record, rounds, some, senders, values, len(by_round), len(heard)))
    return [t for t in made if t.receivers]


def scores(by_label: views.Groups, seed: int, metric: str) -> list[tuple[str, list[int], np.ndarray]]:
    """Of the methods that were run with this seed: label, rounds, and figures [round, client]."""
    alike = [(label, r) for label, runs in by_label.items() for r in runs if views.seed(r) == seed]
    return [(label, *views.figures(record, metric)) for label, record in alike]


def commonest(record: Record) -> np.ndarray | None:
    """Each client's accuracy if it always named its commonest class; None for numbers."""
    found = views.labels(record)
    if found is None:
        return None
    counts = found[1]["test"]
    return np.asarray(counts.max(axis=0) / np.maximum(1, counts.sum(axis=0)))


def groups(record: Record) -> list[int] | None:
    """Clients' groups, where a split made some and there are colours for all."""
    clusters = [c.get("cluster") for c in record.about["clients"]]
    known = {c for c in clusters if c is not None}
    return None if None in clusters or not 1 < len(known) <= len(colours.COLOURS) else clusters


def has_own_line(trace: Trace, i: int) -> bool:
    """Not where it is always 0: a client's distance to itself says nothing."""
    own = trace.values[:, i, [s == trace.receivers[i] for s in trace.senders]]
    return bool((np.nan_to_num(own) != 0).any())


def traces_plot(by_label: views.Groups, inks: Mapping[str, Ink]) -> plotly.Plot | None:
    """{"names", "groups", "runs": [a trace], "scores": [a method's line], ...} for the page."""
    found = traces(by_label)
    if not found:
        return None
    metric = views.headline_metric([found[0].record])
    chosen = sorted({receiver for t in found for receiver in t.receivers})
    runs = [
        {
            "label": t.label,
            "name": behind(t.name),
            "seed": views.seed(t.record),
            "rounds": t.rounds,
            "senders": t.senders,
            "of_rounds": t.of_rounds,
            "of_receivers": t.of_receivers,
            "receivers": [
                {"client": client, "own": has_own_line(t, i)} | plotly.pack(t.values[:, i])
                for i, client in enumerate(t.receivers)
            ],
        }
        for t in found
    ]
    records = {views.seed(t.record): t.record for t in found}
    lines = [line for r in records.values() for line in _score_lines(by_label, r, metric, chosen, inks)]
    return {
        "kind": "traces",
        "names": [plotly.one_line(name) for name in found[0].record.clients],
        "groups": groups(found[0].record),
        "runs": runs,
        "scores": lines,
        "metric": said("scores.test", metric=numbers.unit(metric)),
        "colours": colours.COLOURS,
        "dashes": colours.DASHES,
        "alone": colours.ALONE,
        "few": FEW,
    }


def _score_lines(
    by_label: views.Groups, record: Record, metric: str, chosen: Sequence[int], inks: Mapping[str, Ink]
) -> list[dict[str, object]]:
    """What the upper panel draws: {"label", "seed", "rounds", "values": {client: [round]}, colour, dash}."""
    lines, factor, seed = [], numbers.factor(metric), views.seed(record)
    for label, rounds, figures in scores(by_label, seed, metric):
        keep = views.thin(range(len(rounds)), plotly.POINTS)
        values = {str(c): plotly.tidy(factor * figures[keep, c]) for c in chosen}
        look = {"colour": inks[label].colour, "dash": inks[label].dash}
        about = {"label": label, "seed": seed, "rounds": [rounds[i] for i in keep]}
        lines.append(about | {"values": values} | look)
    always = commonest(record) if metric == "accuracy" else None
    if always is not None and lines:
        ends = [0, max(r.settings.rounds for runs in by_label.values() for r in runs)]
        flat = {str(c): plotly.tidy(factor * always[[c, c]]) for c in chosen}
        about = {"label": said("traces.commonest"), "seed": seed, "rounds": ends, "values": flat}
        lines.append(about | {"colour": "#9aa5b1", "dash": "dot"})
    return lines


def traces_caption(plot: plotly.Plot, by_label: views.Groups) -> str:
    """How to read it, and what was left out."""
    n, runs, text = len(plot["names"]), plot["runs"], [said("traces.said")]
    if n > plot["few"] and plot["groups"]:
        text.append(said("traces.groups"))
    if len({views.seed(r) for rs in by_label.values() for r in rs}) > 1:
        text.append(said("matrix.seed", seed=runs[0]["seed"]))
    kept = {
        "clients": max((run["of_receivers"], len(run["receivers"])) for run in runs),
        "senders": (n, len(runs[0]["senders"])),
        "rounds": max((run["of_rounds"], len(run["rounds"])) for run in runs),
    }
    limits = [said(f"traces.some.{what}", n=some, of=of) for what, (of, some) in kept.items() if some < of]
    if limits:
        text.append(said("traces.limits", limits=limits))
    return sentences(*text)


# what models weigh


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


def features_caption(plot: plotly.Plot, found: Weighed) -> str:
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
    return [Plot(f"{runs.key}-features", plot, features_caption(plot, found), controls=controls)]
