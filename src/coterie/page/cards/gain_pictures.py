"""Pictures of a gain: by round, how far confidence can be trusted, whether it is worth acting on (a decision
curve), and what silence is worth.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.metrics import operating
from coterie.page.cards.base import Picture
from coterie.page.catalogue import Words
from coterie.page.view import View
from coterie.report import inks as colours
from coterie.report import views, words
from coterie.report.plotly_data import Plot, tidy, within

TOGETHER, ALONE = colours.COLOURS[0], colours.ALONE
Rows = tuple[np.ndarray, np.ndarray]
"""Probabilities [row, class], and labels [row]."""


def pictures(view: View, metric: str, mine: Rows | None, theirs: Rows | None, say: Words) -> list[Picture]:
    made = []
    if (curve := by_round(view, metric, say)) is not None:
        made.append(Picture("gain-rounds", curve, say("gain.picture_rounds")))
    both = {say("gain.together"): (mine, TOGETHER), say("gain.alone"): (theirs, ALONE)}
    known = {name: (rows, ink) for name, (rows, ink) in both.items() if rows is not None and len(rows[1])}
    if mine is not None and len(mine[1]):
        made.append(
            Picture("gain-calibration", calibration_plot(known, say), say("gain.picture_calibration"))
        )
        if mine[0].shape[1] == 2:
            plot = decision_plot(known, int(view.record.about.get("positive", 1)), say)
            made.append(Picture("gain-decision", plot, say("gain.picture_decision")))
        made.append(Picture("gain-silent", abstention_plot(known, say), say("gain.picture_silent")))
    return made


def by_round(view: View, metric: str, say: Words) -> Plot | None:
    """The headline figure by round, together and alone."""
    data, factor = [], words.factor(metric)
    for name, runs, ink, dash in (
        (say("gain.together"), view.runs[:1], TOGETHER, "solid"),
        (say("gain.alone"), view.alone[:1], ALONE, "dash"),
    ):
        for record in runs:
            rounds, values = views.figures(record, metric)
            keep = views.thin(range(len(rounds)), 200)
            if keep:
                line = {
                    "type": "scatter",
                    "mode": "lines" if len(keep) > 1 else "markers",
                    "x": [rounds[i] for i in keep],
                    "y": tidy(factor * values[keep, view.number]),
                    "name": name,
                    "connectgaps": True,
                    "line": {"color": ink, "dash": dash, "width": 2.2},
                    "marker": {"color": ink, "size": 9},
                    "hovertemplate": "%{y:.4~g}",
                }
                data.append(line)
    if not data:
        return None
    unit = f"{say.metric(metric)}{', %' if factor == 100 else ''}"
    layout = {
        "xaxis": {"title": {"text": say("axis.round")}},
        "yaxis": {"title": {"text": unit}, **within(metric)},
        "hovermode": "x unified",
    }
    return {"choices": [{"name": "", "data": data, "layout": layout}]}


def calibration_plot(known: dict[str, tuple[Any, str]], say: Words) -> Plot:
    """How often it is right by how sure it is, in ten steps, with how many rows each has."""
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [0, 100],
            "y": [0, 100],
            "name": say("gain.ideal"),
            "line": {"color": "#9aa5b1", "dash": "dot", "width": 1},
            "hoverinfo": "skip",
        }
    ]
    for name, (rows, ink) in known.items():
        sure, right = rows[0].max(axis=1), rows[0].argmax(axis=1) == rows[1]
        bins = np.clip(np.ceil(sure * 10).astype(int) - 1, 0, 9)
        some = np.unique(bins)
        counts = [int((bins == b).sum()) for b in some]
        shares = operating.share(np.array([right[bins == b].sum() for b in some]), np.array(counts))
        data.append(
            {
                "type": "scatter",
                "mode": "markers+lines",
                "x": tidy([100 * sure[bins == b].mean() for b in some]),
                "y": tidy(100 * shares.value),
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": tidy(100 * (shares.high - shares.value)),
                    "arrayminus": tidy(100 * (shares.value - shares.low)),
                    "thickness": 1,
                    "width": 3,
                    "color": ink,
                },
                "customdata": counts,
                "name": name,
                "marker": {"color": ink, "size": 8},
                "line": {"color": ink, "width": 1},
                "hovertemplate": f"%{{x:.0f}} %: %{{y:.0f}} % ({say('gain.rows_of')} %{{customdata}})",
            }
        )
    layout = {
        "xaxis": {"title": {"text": say("gain.axis_sure")}, "range": [0, 102]},
        "yaxis": {"title": {"text": say("gain.axis_right")}, "range": [0, 102]},
        "hovermode": "closest",
    }
    return {"choices": [{"name": "", "data": data, "layout": layout}]}


def decision_plot(known: dict[str, tuple[Any, str]], c: int, say: Words) -> Plot:
    """Net benefit of acting on class c of two, by threshold, beside treating all and none."""
    places = operating.grid()[1:-1]
    counts = {
        name: operating.counts(rows[0][:, c], rows[1] == c, places) for name, (rows, _) in known.items()
    }
    first = next(iter(counts.values()))
    share = float(first.tp[0] + first.fn[0]) / float(sum(part[0] for part in first))
    everybody = operating.net_benefit(operating.treating_all(first), places)
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": tidy(100 * places),
            "y": tidy(values),
            "name": name,
            "line": {"color": ink, "dash": dash, "width": width},
            "hovertemplate": f"{say('gain.from')} %{{x:.0f}} %: %{{y:.3f}}",
        }
        for name, values, ink, dash, width in (
            (say("gain.treat_all"), everybody, "#9aa5b1", "dot", 1),
            (say("gain.treat_none"), np.zeros(len(places)), "#9aa5b1", "dash", 1),
            *(
                (name, operating.net_benefit(own, places), ink, "solid" if ink == TOGETHER else "dash", 2.2)
                for (name, own), (_, ink) in zip(counts.items(), known.values(), strict=True)
            ),
        )
    ]
    layout = {
        "xaxis": {"title": {"text": say("gain.axis_act")}, "range": [0, 100]},
        "yaxis": {"title": {"text": say("gain.net_benefit")}, "range": [-0.15 * share, 1.1 * share]},
        "hovermode": "closest",
    }
    return {"choices": [{"name": "", "data": data, "layout": layout}]}


def abstention_plot(known: dict[str, tuple[Any, str]], say: Words) -> Plot:
    """Share of rows that are answered against how many of these are right."""
    data = []
    for name, (rows, ink) in known.items():
        answered, right = operating.abstention(rows[0], rows[1], operating.grid())
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": tidy(100 * answered.value),
                "y": tidy(100 * right.value),
                "customdata": [round(100 * t) for t in operating.grid()],
                "name": name,
                "line": {"color": ink, "width": 2.2, "dash": "solid" if ink == TOGETHER else "dash"},
                "hovertemplate": f"{say('gain.from')} %{{customdata}} %: %{{x:.0f}} %, %{{y:.0f}} %",
            }
        )
    layout = {
        "xaxis": {"title": {"text": say("gain.axis_answered")}, "range": [0, 102]},
        "yaxis": {"title": {"text": say("gain.axis_right")}, **within("accuracy")},
        "hovermode": "closest",
    }
    return {"choices": [{"name": "", "data": data, "layout": layout}]}
