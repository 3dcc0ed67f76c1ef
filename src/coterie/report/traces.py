"""One client round by round: how it fares, and its row of a matrix that the method named.

    score       of the client's own model, for each method, in the run's seed
    alpha       or any other name: matrices[name][round][client, sender], one line for each sender

As in the papers' figures, the two share their rounds. What is too much for one page is thinned evenly and
counted, so that the caption can say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coterie.core.method import CIRCLE
from coterie.runs.record import Record
from coterie.show import inks as colours
from coterie.show import numbers, plotly, views
from coterie.show.blocks import Block, Control, Plot
from coterie.show.glossary import behind
from coterie.show.inks import Ink
from coterie.show.parts import Runs
from coterie.show.words import said, sentences

CELLS = 300_000  # numbers of all traces of a section: 0.8 MB
FRAMES = 60  # rounds of a trace
SENDERS = 200  # lines of a trace
FEW = 10  # senders that have a colour of their own


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


@dataclass(frozen=True, eq=False)
class Score:
    """A method's figures: values[round, client]."""

    label: str
    rounds: list[int]
    values: np.ndarray


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
    return [Plot(f"{runs.key}-traces", plot, caption(plot, runs.by_label), "traces", controls)]


def traces(by_label: views.Groups, cells: int = CELLS, receivers: int = 10**9) -> list[Trace]:
    """Every named matrix, each of the first seed that has it; a circle of zeros and ones makes no lines."""
    found = []
    for label, runs in by_label.items():
        for name in dict.fromkeys(name for r in runs for name in r.matrices if name != CIRCLE):
            found.append((label, name, next(r for r in runs if name in r.matrices)))
    share = cells // max(1, len(found))
    made = [_trace(label, name, record, share, receivers) for label, name, record in found]
    return [t for t in made if t.receivers]


def _trace(label: str, name: str, record: Record, cells: int, most: int) -> Trace:
    """At most `most` receivers, and no more numbers than `cells` unless one receiver alone has more."""
    by_round = record.matrices[name]
    rounds = views.thin(sorted(by_round), FRAMES)
    senders = views.thin(range(len(record.clients)), SENDERS)
    said = np.zeros(len(record.clients), dtype=bool)
    for round in rounds:
        said |= np.isfinite(by_round[round]).any(axis=1)
    heard = np.flatnonzero(said).tolist()
    room = max(1, cells // max(1, len(rounds) * len(senders)))
    receivers = views.thin(heard, min(room, most))
    values = np.array([by_round[round][np.ix_(receivers, senders)] for round in rounds])
    return Trace(label, name, record, rounds, receivers, senders, values, len(by_round), len(heard))


def scores(by_label: views.Groups, seed: int, metric: str) -> list[Score]:
    """The methods that were run with this seed."""
    alike = [(label, r) for label, runs in by_label.items() for r in runs if views.seed(r) == seed]
    return [Score(label, *views.figures(record, metric)) for label, record in alike]


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
    for score in scores(by_label, seed, metric):
        keep = views.thin(range(len(score.rounds)), plotly.POINTS)
        values = {str(c): plotly.tidy(factor * score.values[keep, c]) for c in chosen}
        look = {"colour": inks[score.label].colour, "dash": inks[score.label].dash}
        about = {"label": score.label, "seed": seed, "rounds": [score.rounds[i] for i in keep]}
        lines.append(about | {"values": values} | look)
    always = commonest(record) if metric == "accuracy" else None
    if always is not None and lines:
        ends = [0, max(r.settings.rounds for runs in by_label.values() for r in runs)]
        flat = {str(c): plotly.tidy(factor * always[[c, c]]) for c in chosen}
        about = {"label": said("traces.commonest"), "seed": seed, "rounds": ends, "values": flat}
        lines.append(about | {"colour": "#9aa5b1", "dash": "dot"})
    return lines


def caption(plot: plotly.Plot, by_label: views.Groups) -> str:
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
