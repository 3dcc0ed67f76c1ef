"""Can one trust how sure a model says it is: charts and a table for every method, Bayesian or not.

The charts pool samples: counts of all clients and seeds are added before anything is divided, as a client's
own test set rarely fills twenty bins. In the table, what a run scores stays the mean over clients.

    reliability      accuracy by confidence; the diagonal is perfect      below: samples
    gap              accuracy minus confidence, by confidence             below: samples
    gap-above        the same among answers at least as sure as τ         below: how many those are
    abstention       accuracy of a model that keeps silent below τ        below: how often it answers
    entropy          samples of at most so much entropy                   below: accuracy
    decision         of two classes, net benefit of acting from t on      below: how many are acted on
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from coterie.metrics.calibration import NO_TALLY, Calibration, Tally, ece_of, mce_of, taus
from coterie.metrics.operating import Counts, net_benefit, treating_all
from coterie.metrics.summary import Interval, mean_over_clients
from coterie.report import canvas, decisions, plotly_data, tables, views, words
from coterie.report.glossary import behind
from coterie.report.inks import Ink

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Counted = Mapping[str, Sequence[Calibration]]

SCORED = ("ece", "brier", "nll")
CONFIDENCE, TAU, RIGHT = f"{behind('confidence')}, %", f"{behind('τ')}, %", "accuracy, %"
GAP, SAMPLES, ANSWERED = "accuracy − confidence, points", "samples", "answered, %"
ENTROPY = behind("entropy")


@dataclass(frozen=True, eq=False)
class Line:
    """A method's points: across, above, below, and how many samples are behind each."""

    label: str
    x: np.ndarray
    y: np.ndarray
    below: np.ndarray
    samples: np.ndarray


@dataclass(frozen=True, eq=False)
class Chart:
    """Two panels, one above the other. `guides` are points [(x, y)] to hold lines against, by their name in
    the legend: where a perfect model would be, without a name, or what one would have without any model.
    """

    key: str
    name: str
    titles: tuple[str, str, str]
    lines: Sequence[Line]
    guides: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    range: Sequence[float] | None = None


def counted(by_label: views.Groups) -> Counted:
    """What was counted in the finished runs of each method: one file for each run, read here alone."""
    return {
        label: [found for found in (r.calibration() for r in runs) if found is not None]
        for label, runs in by_label.items()
    }


def pooled(found: Counted) -> dict[str, Calibration]:
    """All clients and seeds of a method as one, where any run has counts."""
    return {
        label: Calibration(*(_together(kind) for kind in zip(*known, strict=True)))
        for label, known in found.items()
        if known
    }


def _together(tallies: Sequence[Tally]) -> Tally:
    """Those of several runs, [client, bin] each, as one [bin]; runs without bins of a kind are left out."""
    known = [tally for tally in tallies if tally.samples.shape[-1]]
    return Tally(*(torch.cat(sums) for sums in zip(*known, strict=True))).pooled() if known else NO_TALLY


def charts(found: Counted) -> list[Chart]:
    """What can be drawn; nothing where there are no counts."""
    whole = pooled(found)
    if not whole:
        return []
    by = {label: c.confidence for label, c in whole.items()}
    above = {label: c.above for label, c in whole.items()}
    shares = {label: 100 * t.samples / t.samples[0] for label, t in above.items()}
    right = {label: 100 * t.accuracy for label, t in above.items()}
    edges = 100 * taus()
    level = {"": [(0.0, 0.0), (100.0, 0.0)]}
    return [
        Chart(
            "reliability",
            "is it right as often as it is sure? (reliability)",
            (CONFIDENCE, RIGHT, SAMPLES),
            [_line(k, t, 100 * t.mean, 100 * t.accuracy, t.samples) for k, t in by.items()],
            {"": [(0.0, 0.0), (100.0, 100.0)]},
        ),
        Chart(
            "gap",
            "accuracy − confidence, by how sure it is",
            (CONFIDENCE, GAP, SAMPLES),
            [_line(k, t, 100 * t.mean, 100 * (t.accuracy - t.mean), t.samples) for k, t in by.items()],
            level,
        ),
        Chart(
            "gap-above",
            "accuracy − confidence, if it answers only when sure enough (above τ)",
            (TAU, GAP, ANSWERED),
            [_line(k, t, edges, 100 * (t.accuracy - t.mean), shares[k]) for k, t in above.items()],
            level,
        ),
        Chart(
            "abstention",
            "accuracy, if it answers only when sure enough (above τ)",
            (TAU, RIGHT, ANSWERED),
            [_line(k, t, edges, right[k], shares[k]) for k, t in above.items()],
        ),
        Chart(
            "entropy",
            "how unsure its answers are (entropy)",
            (f"{ENTROPY}, % of the greatest", "samples up to there, %", RIGHT),
            [_entropy(label, c.entropy) for label, c in whole.items()],
        ),
        *_decision({label: decisions.counts_of(c.positive) for label, c in whole.items()}),
    ]


def _decision(counts: Mapping[str, Counts | None]) -> list[Chart]:
    """Nothing where classes are not two, or sites keep to themselves how many rows are of each."""
    known = {label: c for label, c in counts.items() if c is not None}
    if not known:
        return []
    t = decisions.thresholds()
    lines, best = [], 0.0
    for label, c in known.items():
        called, benefit = (c.tp + c.fp)[t.places], net_benefit(c, t.all)[t.places]
        rows = float(c.tp[0] + c.fp[0])
        lines.append(Line(label, 100 * t.shown, benefit, 100 * called / rows, called))
        best = max(best, float(benefit.max()), float(c.tp[0]) / rows)
    c = next(iter(known.values()))
    everybody = net_benefit(treating_all(c), t.all)[t.places]
    ends = [(0.0, 0.0), (100.0, 0.0)]
    guides = {decisions.ALL: list(zip((100 * t.shown).tolist(), everybody.tolist(), strict=True))}
    return [
        Chart(
            "decision",
            "is it worth acting on? (decision curve)",
            (f"{behind('threshold probability')}, %", "net benefit", "called positive, %"),
            lines,
            {**guides, decisions.NONE: ends},
            [-0.15 * best, 1.1 * best],
        )
    ]


def _line(label: str, t: Tally, x: torch.Tensor, y: torch.Tensor, below: torch.Tensor) -> Line:
    some = t.samples > 0
    return Line(label, *(values[some].numpy() for values in (x, y, below, t.samples)))


def _entropy(label: str, t: Tally) -> Line:
    upto = 100 * t.samples.cumsum(dim=0) / t.samples.sum()
    return _line(label, t, 100 * taus(len(upto))[1:], upto, 100 * t.accuracy)


def plot(found: Counted, inks: Mapping[str, Ink]) -> plotly_data.Plot | None:
    """For the page, a choice for each chart."""
    made = charts(found)
    return {"choices": [_choice(c, inks) for c in made], "height": 540} if made else None


def _choice(chart: Chart, inks: Mapping[str, Ink]) -> dict[str, Any]:
    data: list[dict[str, Any]] = []
    for (name, points), dash in zip(chart.guides.items(), ("dot", "dash"), strict=False):
        x, y = zip(*points, strict=True)
        guide = {"type": "scatter", "mode": "lines", "x": x, "y": y, "name": name, "showlegend": bool(name)}
        data.append(guide | {"hoverinfo": "skip", "line": {"color": "#7b8794", "width": 1, "dash": dash}})
    across, above, below = chart.titles
    for line in chart.lines:
        ink = inks[line.label]
        share = line.samples / max(1.0, float(line.samples.max(initial=0)))
        shared: dict[str, Any] = {"type": "scatter", "x": plotly_data.tidy(line.x), "legendgroup": line.label}
        shared |= {"name": plotly_data.plain(line.label), "mode": "lines+markers"}
        shared["line"] = {"color": ink.colour, "dash": ink.dash, "width": 1.6}
        said = "{}: %{{x}}<br>{}: %{{y}}<br>%{{customdata}}<extra>%{{fullData.name}}</extra>"
        shared["customdata"] = [words.several(float(n), "sample") for n in line.samples]
        sizes = plotly_data.tidy(4 + 8 * np.sqrt(share))
        data.append(
            shared
            | {"y": plotly_data.tidy(line.y), "hovertemplate": said.format(across, above)}
            | {"marker": {"color": ink.colour, "symbol": ink.mark, "size": sizes, "opacity": 0.85}}
        )
        data.append(
            shared
            | {"y": plotly_data.tidy(line.below), "hovertemplate": said.format(across, below), "yaxis": "y2"}
            | {"showlegend": False, "marker": {"color": ink.colour, "symbol": ink.mark, "size": 4}}
        )
    scale = {"type": "log", "dtick": 1} if below == SAMPLES else {"range": [-4, 104]}
    limits = {} if chart.range is None else {"range": list(chart.range)}
    layout = {
        "xaxis": {"title": {"text": across}, "anchor": "y2", "range": [-2, 102], "zeroline": False},
        "yaxis": {"title": {"text": above}, "domain": [0.42, 1], **limits},
        "yaxis2": {"title": {"text": below}, "domain": [0, 0.33], **scale},
        "hovermode": "closest",
    }
    return {"name": chart.name, "data": data, "layout": layout}


def caption(by_label: views.Groups, found: Counted) -> str:
    """How to read the charts."""
    without = [label for label in by_label if not found[label]]
    several = any(len(runs) > 1 for runs in by_label.values())
    said = (
        f"Test samples of all clients{' and seeds' * several} together, each answered by its client's own "
        "last model, in 20 bins by how sure that model is of its answer (confidence). On the dotted line a "
        "model is right as often as it says; below it, it is too sure of itself. Large marks stand for many "
        "samples. Above τ: the answers that are left when a model keeps silent where it is less sure than τ."
    )
    if any(c.positive.samples.sum() for known in found.values() for c in known):
        said += f" {decisions.CAPTION}"
    return said + (f" Not counted: {', '.join(without)}." if without else "")


def scored(by_label: views.Groups) -> bool:
    """Whether any run has something to show."""
    return "ece" in views.metrics([r for runs in by_label.values() for r in runs])


def cells(by_label: views.Groups, counts: Counted) -> tuple[list[str], list[list[str]]]:
    """Accuracy and calibration side by side: header and rows as text, the method first."""
    header = ["method", words.unit("accuracy"), "ECE", "ECE, pooled", "MCE, pooled"]
    header += [words.label("brier"), words.label("nll"), ENTROPY]
    rows = []
    for label, runs in by_label.items():
        known = counts[label]
        together = [found.confidence.pooled() for found in known]
        scores = {m: views.over_seeds(runs, m) for m in ("accuracy", *SCORED)}
        figures: list[tuple[Interval, str]] = [
            (scores["accuracy"], "accuracy"),
            (scores["ece"], "ece"),
            (views.over_splits(runs, [float(ece_of(t)) for t in together]), "ece"),
            (views.over_splits(runs, [float(mce_of(t)) for t in together]), "ece"),
            (scores["brier"], "brier"),
            (scores["nll"], "nll"),
            (views.over_splits(runs, [mean_entropy(found.entropy) for found in known]), "nll"),
        ]
        rows.append([label, *(words.spread(value, metric) for value, metric in figures)])
    return header, rows


def mean_entropy(t: Tally) -> float:
    """Of each client's samples, then over clients."""
    return mean_over_clients((t.total.sum(dim=-1) / t.samples.sum(dim=-1)).tolist())


LEGEND = (
    "ECE: the mean gap between how sure a model says it is and how often it is right, in 20 bins; 0 is best. "
    "Of few test samples it is too large, so it is also given for the samples of all clients pooled, with "
    "the largest gap in a bin (MCE). Brier score: squared error of the probabilities, summed over all "
    "classes, so from 0 (best) to 2; for two classes twice that of one class alone, which ends at 1. "
    "NLL: how surprised the model is by the truth. Entropy: how unsure its answers are; 0 is certain. All "
    "but the pooled ones are means over clients."
)


def table(by_label: views.Groups, counts: Counted, inks: Mapping[str, Ink]) -> str:
    """The same as HTML."""
    return tables.html_of(*cells(by_label, counts), inks)


def draw(by_label: views.Groups, inks: Mapping[str, Ink]) -> dict[str, Figure]:
    """For a paper, by file name."""
    return {f"calibration-{chart.key}": _figure(chart, inks) for chart in charts(counted(by_label))}


def _figure(chart: Chart, inks: Mapping[str, Ink]) -> Figure:
    figure, _ = canvas.sheet(4.5, 4, axes=False)
    top, low = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    for (name, points), dash in zip(chart.guides.items(), (":", "--"), strict=False):
        look = {"color": "#7b8794", "linewidth": 0.8, "linestyle": dash}
        top.plot(*zip(*points, strict=True), label=name or None, **look)
    for line in chart.lines:
        ink = inks[line.label]
        look = {"color": ink.colour, "linestyle": canvas.DASHES[ink.dash], "marker": "."}
        top.plot(line.x, line.y, label=canvas.plain(line.label), **look)
        low.plot(line.x, line.below, **look)
    across, above, below = chart.titles
    if below == SAMPLES:
        low.set_yscale("log")
        low.yaxis.set_major_formatter("{x:g}")  # not as powers: mathematics is not set here
        low.yaxis.set_minor_formatter("")
    top.set(ylabel=above)
    if chart.range is not None:
        top.set_ylim(*chart.range)
    low.set(xlabel=across, ylabel=below, xlim=(-2, 102))
    top.legend(fontsize=7, ncols=2 if len(chart.lines) > 4 else 1)
    return figure
