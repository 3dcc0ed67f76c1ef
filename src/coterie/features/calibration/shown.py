"""Can one trust how sure a model says it is: charts and a table for every method, Bayesian or not.

The charts pool samples: counts of all clients and seeds are added before anything is divided, as a client's
own test set rarely fills twenty bins. In the table, what a run scores stays the mean over clients.

    reliability      accuracy by confidence; the diagonal is perfect      below: samples
    gap              accuracy minus confidence, by confidence             below: samples
    gap-above        the same among answers at least as sure as τ         below: how many those are
    abstention       accuracy of a model that keeps silent below τ        below: how often it answers
    entropy          samples of at most so much entropy                   below: accuracy
    decision         of two classes, net benefit of acting from t on      below: how many are acted on

Is a model worth acting on: the decision curve is net benefit by threshold probability, beside treating all
and none. A site that keeps to itself how many rows are of each class has no counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from coterie.metrics.calibration import NO_TALLY, THRESHOLDS, Calibration, Tally, taus
from coterie.metrics.operating import Counts, net_benefit, treating_all
from coterie.metrics.summary import Interval, mean_over_clients
from coterie.report.tables import calibration_frame
from coterie.show import figures, numbers, plotly, views
from coterie.show.blocks import Block, Plot, Section, Sentence
from coterie.show.inks import Ink
from coterie.show.parts import Part, Runs
from coterie.show.words import Saying, said, say, sentences

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Counted = Mapping[str, Sequence[Calibration]]

POINT = "point/test"


@dataclass(frozen=True, eq=False)
class _Line:
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
    axes: tuple[str, str, str]  # across, above, below
    lines: Sequence[_Line]
    guides: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    range: Sequence[float] | None = None

    @property
    def name(self) -> Saying:
        return said(f"calibration.chart.{'above' if self.key == 'gap-above' else self.key}")

    @property
    def titles(self) -> list[Saying]:
        return [said(f"calibration.axis.{axis}") for axis in self.axes]


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
    sure, gaps, from_on, silent, unsure = (list[_Line]() for _ in range(5))
    for label, c in whole.items():
        by, above, of = c.confidence, c.above, c.entropy
        sure.append(_line(label, by, 100 * by.mean, 100 * by.accuracy, by.samples))
        gaps.append(_line(label, by, 100 * by.mean, 100 * (by.accuracy - by.mean), by.samples))
        edges, shares = 100 * taus(), 100 * above.samples / above.samples[0]
        from_on.append(_line(label, above, edges, 100 * (above.accuracy - above.mean), shares))
        silent.append(_line(label, above, edges, 100 * above.accuracy, shares))
        upto = 100 * of.samples.cumsum(dim=0) / of.samples.sum()
        unsure.append(_line(label, of, 100 * taus(len(upto))[1:], upto, 100 * of.accuracy))
    level = {"": [(0.0, 0.0), (100.0, 0.0)]}
    diagonal = {"": [(0.0, 0.0), (100.0, 100.0)]}
    return [
        Chart("reliability", ("confidence", "right", "samples"), sure, diagonal),
        Chart("gap", ("confidence", "gap", "samples"), gaps, level),
        Chart("gap-above", ("tau", "gap", "answered"), from_on, level),
        Chart("abstention", ("tau", "right", "answered"), silent),
        Chart("entropy", ("entropy", "upto", "right"), unsure),
        *_decision(_counts_by(whole)),
    ]


def _decision(known: Mapping[str, Counts]) -> list[Chart]:
    if not known:
        return []
    t, between = taus(THRESHOLDS).numpy(), slice(1, THRESHOLDS)  # at 0 and 1 one acts on all or on nobody
    at, lines, best = 100 * t[between], [], 0.0
    for label, c in known.items():
        called, benefit = (c.tp + c.fp)[between], net_benefit(c, t)[between]
        rows = float(c.tp[0] + c.fp[0])
        lines.append(_Line(label, at, benefit, 100 * called / rows, called))
        best = max(best, float(benefit.max()), float(c.tp[0]) / rows)
    everybody = net_benefit(treating_all(next(iter(known.values()))), t)[between]
    guides: dict[str, Any] = {said("decision.all"): list(zip(at.tolist(), everybody.tolist(), strict=True))}
    guides[said("decision.none")] = [(0.0, 0.0), (100.0, 0.0)]
    return [Chart("decision", ("threshold", "benefit", "called"), lines, guides, [-0.15 * best, 1.1 * best])]


def _line(label: str, t: Tally, x: torch.Tensor, y: torch.Tensor, below: torch.Tensor) -> _Line:
    some = t.samples > 0
    return _Line(label, *(values[some].numpy() for values in (x, y, below, t.samples)))


def plot(found: Counted, inks: Mapping[str, Ink]) -> plotly.Plot | None:
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
        shared: dict[str, Any] = {"type": "scatter", "x": plotly.tidy(line.x), "legendgroup": line.label}
        shared |= {"name": plotly.plain(line.label), "mode": "lines+markers"}
        shared["line"] = {"color": ink.colour, "dash": ink.dash, "width": 1.6}
        shared["customdata"] = [numbers.several(float(n), "sample") for n in line.samples]
        mark, sizes = {"color": ink.colour, "symbol": ink.mark}, plotly.tidy(4 + 8 * np.sqrt(share))
        hovers = [said("calibration.hover", name=across, other=other) for other in (above, below)]
        top = {"y": plotly.tidy(line.y), "hovertemplate": hovers[0]}
        data.append({**shared, **top, "marker": {**mark, "size": sizes, "opacity": 0.85}})
        low = {"y": plotly.tidy(line.below), "hovertemplate": hovers[1], "yaxis": "y2", "showlegend": False}
        data.append({**shared, **low, "marker": {**mark, "size": 4}})
    scale = {"type": "log", "dtick": 1} if chart.axes[2] == "samples" else {"range": [-4, 104]}
    limits = {} if chart.range is None else {"range": list(chart.range)}
    layout = {
        "xaxis": {"title": {"text": across}, "anchor": "y2", "range": [-2, 102], "zeroline": False},
        "yaxis": {"title": {"text": above}, "domain": [0.42, 1], **limits},
        "yaxis2": {"title": {"text": below}, "domain": [0, 0.33], **scale},
        "hovermode": "closest",
    }
    return {"name": chart.name, "data": data, "layout": layout}


def _caption(by_label: views.Groups, found: Counted) -> str:
    """How to read the charts."""
    without = [label for label in by_label if not found[label]]
    several = any(len(runs) > 1 for runs in by_label.values())
    curve = any(c.positive.samples.sum() for known in found.values() for c in known)
    return sentences(
        said("calibration.caption_seeds" if several else "calibration.caption"),
        said("decision.caption") if curve else "",
        said("calibration.not_counted", methods=without) if without else "",
    )


def cells(by_label: views.Groups, counts: Counted) -> tuple[list[str], list[list[str]]]:
    """Accuracy and calibration side by side: header and rows as text, the method first."""
    header = [said("column.method"), numbers.unit("accuracy"), "ECE"]
    header += [said("calibration.pooled.ece"), said("calibration.pooled.mce")]
    header += [numbers.label("brier"), numbers.label("nll"), said("calibration.entropy")]
    rows = []
    for label, runs in by_label.items():
        together = [tallies.confidence.pooled() for tallies in counts[label]]
        each = [  # [client] of its samples
            c.entropy.total.sum(dim=-1) / c.entropy.samples.sum(dim=-1) for c in counts[label]
        ]
        pooled_ece, pooled_mce = [float(t.ece) for t in together], [float(t.mce) for t in together]
        figures: list[tuple[Interval, str]] = [(views.over_seeds(runs, m), m) for m in ("accuracy", "ece")]
        figures += [(views.over_splits(runs, values), "ece") for values in (pooled_ece, pooled_mce)]
        figures += [(views.over_seeds(runs, m), m) for m in ("brier", "nll")]
        figures.append((views.over_splits(runs, [mean_over_clients(e.tolist()) for e in each]), "nll"))
        rows.append([label, *(numbers.spread(value, metric) for value, metric in figures)])
    return header, rows


def _figure(chart: Chart, inks: Mapping[str, Ink]) -> Figure:
    figure, _ = figures.sheet(4.5, 4, axes=False)
    top, low = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    for (name, points), dash in zip(chart.guides.items(), (":", "--"), strict=False):
        look = {"color": "#7b8794", "linewidth": 0.8, "linestyle": dash}
        top.plot(*zip(*points, strict=True), label=say.again(name) or None, **look)
    for line in chart.lines:
        ink = inks[line.label]
        look = {"color": ink.colour, "linestyle": figures.DASHES[ink.dash], "marker": "."}
        top.plot(line.x, line.y, label=figures.plain(line.label), **look)
        low.plot(line.x, line.below, **look)
    across, above, below = map(say.again, chart.titles)
    if chart.axes[2] == "samples":
        low.set_yscale("log")
        low.yaxis.set_major_formatter("{x:g}")  # not as powers: mathematics is not set here
        low.yaxis.set_minor_formatter("")
    top.set(ylabel=above)
    if chart.range is not None:
        top.set_ylim(*chart.range)
    low.set(xlabel=across, ylabel=below, xlim=(-2, 102))
    top.legend(fontsize=7, ncols=2 if len(chart.lines) > 4 else 1)
    return figure


AT = (0.05, 0.1, 0.2, 0.3, 0.5)  # of a table


def counts_of(positive: Tally) -> Counts | None:
    """By threshold, from samples called positive [threshold]; None where none were counted."""
    if not positive.samples.sum():
        return None
    called, found = positive.samples.numpy(), positive.right.numpy()
    ill, rows = found[0], called[0]
    wrongly = called - found
    return Counts(found, wrongly, rows - ill - wrongly, ill - found)


def _counts_by(whole: Mapping[str, Calibration]) -> dict[str, Counts]:
    """By method; nothing where classes are not two, or sites keep to themselves how many rows are of each."""
    counts = {label: counts_of(found.positive) for label, found in whole.items()}
    return {label: c for label, c in counts.items() if c is not None}


def decision_cells(whole: Mapping[str, Calibration]) -> tuple[list[str], list[list[str]]]:
    """Net benefit at a few thresholds: header and rows as text, treating all last; no rows without counts."""
    known = _counts_by(whole)
    if not known:
        return [], []
    t = taus(THRESHOLDS).numpy()
    places = [round(at * THRESHOLDS) for at in AT]
    everybody = treating_all(next(iter(known.values())))
    rows = [
        [label, *(numbers.figure(float(v), "net_benefit") for v in net_benefit(c, t)[places])]
        for label, c in {**known, said("decision.all"): everybody}.items()
    ]
    return [said("column.method"), *(said("decision.from", t=f"{100 * at:.0f}") for at in AT)], rows


def _calibration_part(runs: Runs) -> list[Block]:
    """Nothing for a regression, and in runs of earlier versions."""
    if "ece" not in views.metrics(runs.records):
        return []
    found = counted(runs.by_label)
    made: list[Block] = []
    if (drawn := plot(found, runs.inks)) is not None:
        made.append(Plot(f"{runs.key}-calibration", drawn, _caption(runs.by_label, found)))
    return [*made, runs.table(*cells(runs.by_label, found)), Sentence(said("calibration.said"))]


def _decision_part(runs: Runs) -> list[Block]:
    if "ece" not in views.metrics(runs.records):
        return []
    header, rows = decision_cells(pooled(counted(runs.by_label)))
    if not rows:
        return []
    legend = Sentence(said("decision.said", name=views.positive_name(runs.records)))
    return [Section(said("decision.title"), [runs.table(header, rows), legend])]


def _on_screen(runs: Runs) -> list[Block]:
    """Accuracy beside calibration, where methods average predictions."""
    if "ece" not in views.metrics(runs.records, POINT):
        return []
    table = runs.table(*cells(runs.by_label, counted(runs.by_label)))
    return [table, Sentence(said("calibration.screen"))]


def _on_paper(runs: Runs) -> list[Block]:
    made = charts(counted(runs.by_label))
    return [Plot(f"calibration-{c.key}", {}, c.name, paper=partial(_figure, c, runs.inks)) for c in made]


PARTS = (
    Part("calibration", "", 70, _on_paper, on="paper"),
    Part("calibration", "calibration.title", 70, _calibration_part),
    Part("decision", "", 75, _decision_part, within="calibration"),
    Part("trust", "", 40, _on_screen, on="screen"),
)
FRAMES = {"calibration.csv": calibration_frame}
