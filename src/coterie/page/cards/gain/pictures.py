"""Pictures of a gain: by round, how far confidence can be trusted, whether it is worth acting on (a decision
curve), and what silence is worth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from coterie.metrics import operating
from coterie.page.card import FAINT, line, plot_choice
from coterie.page.view import View
from coterie.show import inks, numbers, views
from coterie.show.blocks import Plot
from coterie.show.plotly import Plot as Data
from coterie.show.plotly import tidy, within
from coterie.show.words import Words

_SOLID: Mapping[str, Any] = {"color": inks.COLOURS[0], "dash": "solid", "width": 2.2}
_DASHED: Mapping[str, Any] = {"color": inks.ALONE, "dash": "dash", "width": 2.2}
Rows = tuple[np.ndarray, np.ndarray]
"""Probabilities [row, class], and labels [row]."""
_Sides = Mapping[str, tuple[Rows, Mapping[str, Any]]]
"""Those of the models that are compared, with how they are drawn."""


def pictures(view: View, metric: str, mine: Rows | None, theirs: Rows | None, say: Words) -> list[Plot]:
    made = []
    if (curve := _by_round(view, metric, say)) is not None:
        made.append(Plot("gain-rounds", curve, say("gain.picture_rounds")))
    both = {say("gain.together"): (mine, _SOLID), say("gain.alone"): (theirs, _DASHED)}
    known = {name: (rows, look) for name, (rows, look) in both.items() if rows is not None and len(rows[1])}
    if mine is not None and len(mine[1]):
        made.append(Plot("gain-calibration", _calibration_plot(known, say), say("gain.picture_calibration")))
        if mine[0].shape[1] == 2:
            plot = _decision_plot(known, int(view.record.about.get("positive", 1)), say)
            made.append(Plot("gain-decision", plot, say("gain.picture_decision")))
        made.append(Plot("gain-silent", _abstention_plot(known, say), say("gain.picture_silent")))
    return made


def _by_round(view: View, metric: str, say: Words) -> Data | None:
    """The headline figure by round, together and alone."""
    data, factor = [], numbers.factor(metric)
    sides = ((say("gain.together"), view.runs[:1], _SOLID), (say("gain.alone"), view.alone[:1], _DASHED))
    for name, record, look in ((name, runs[0], look) for name, runs, look in sides if runs):
        rounds, values = views.figures(record, metric)
        if keep := views.thin(range(len(rounds)), 200):
            x, y = [rounds[i] for i in keep], factor * values[keep, view.number]
            more = {"connectgaps": True, "marker": {"color": look["color"], "size": 9}}
            more |= {} if len(keep) > 1 else {"mode": "markers"}
            data.append(line(x, y, name, look, "%{y:.4~g}", **more))
    if not data:
        return None
    unit = f"{say.metric(metric)}{', %' if factor == 100 else ''}"
    return {
        "choices": [plot_choice(data, say("axis.round"), unit, yaxis=within(metric), hovermode="x unified")]
    }


def _calibration_plot(known: _Sides, say: Words) -> Data:
    """How often it is right by how sure it is, in ten steps, with how many rows each has."""
    ideal = {"color": FAINT, "dash": "dot", "width": 1}
    data = [line([0, 100], [0, 100], say("gain.ideal"), ideal, "", hoverinfo="skip")]
    for name, ((p, y), look) in known.items():
        sure, right = p.max(axis=1), p.argmax(axis=1) == y
        bins = np.clip(np.ceil(sure * 10).astype(int) - 1, 0, 9)
        some = np.unique(bins)
        counts = [int((bins == b).sum()) for b in some]
        shares = operating.share(np.array([right[bins == b].sum() for b in some]), np.array(counts))
        over, under = (tidy(100 * d) for d in (shares.high - shares.value, shares.value - shares.low))
        ends = {"type": "data", "symmetric": False, "array": over, "arrayminus": under}
        ink = look["color"]
        data.append(
            line(
                tidy(100 * sure[bins == b].mean() for b in some),
                100 * shares.value,
                name,
                {"color": ink, "width": 1},
                f"%{{x:.0f}} %: %{{y:.0f}} % ({say('gain.rows_of')} %{{customdata}})",
                mode="markers+lines",
                error_y={**ends, "thickness": 1, "width": 3, "color": ink},
                customdata=counts,
                marker={"color": ink, "size": 8},
            )
        )
    ends = {"range": [0, 102]}
    titles = (say("gain.axis_sure"), say("gain.axis_right"))
    return {"choices": [plot_choice(data, *titles, xaxis=ends, yaxis=ends, hovermode="closest")]}


def _decision_plot(known: _Sides, c: int, say: Words) -> Data:
    """Net benefit of acting on class c of two, by threshold, beside treating all and none."""
    places = operating.grid()[1:-1]
    counts = {name: operating.counts(p[:, c], y == c, places) for name, ((p, y), _) in known.items()}
    first = next(iter(counts.values()))
    share = float(first.tp[0] + first.fn[0]) / float(sum(part[0] for part in first))
    everybody = operating.net_benefit(operating.treating_all(first), places)
    lines = [
        (say("gain.treat_all"), everybody, {"color": FAINT, "dash": "dot", "width": 1}),
        (say("gain.treat_none"), np.zeros(len(places)), {"color": FAINT, "dash": "dash", "width": 1}),
        *((name, operating.net_benefit(counts[name], places), look) for name, (_, look) in known.items()),
    ]
    hover = f"{say('gain.from')} %{{x:.0f}} %: %{{y:.3f}}"
    data = [line(tidy(100 * places), values, name, look, hover) for name, values, look in lines]
    titles, range = (say("gain.axis_act"), say("gain.net_benefit")), [-0.15 * share, 1.1 * share]
    xaxis, yaxis = {"range": [0, 100]}, {"range": range}
    return {"choices": [plot_choice(data, *titles, xaxis=xaxis, yaxis=yaxis, hovermode="closest")]}


def _abstention_plot(known: _Sides, say: Words) -> Data:
    """Share of rows that are answered against how many of these are right."""
    hover = f"{say('gain.from')} %{{customdata}} %: %{{x:.0f}} %, %{{y:.0f}} %"
    places, data = [round(100 * t) for t in operating.grid()], []
    for name, ((p, y), look) in known.items():
        answered, right = operating.abstention(p, y, operating.grid())
        data.append(line(tidy(100 * answered.value), 100 * right.value, name, look, hover, customdata=places))
    titles, yaxis = (say("gain.axis_answered"), say("gain.axis_right")), within("accuracy")
    return {
        "choices": [plot_choice(data, *titles, xaxis={"range": [0, 102]}, yaxis=yaxis, hovermode="closest")]
    }
