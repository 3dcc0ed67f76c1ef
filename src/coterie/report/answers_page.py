"""Advice as a page that opens offline: the answers in words, and what they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from coterie.core.method import Reveals
from coterie.methods.advised import ALONE
from coterie.metrics.summary import Interval
from coterie.report import glossary, page_tables, plotly_data, reveals, words
from coterie.report.answer_words import called
from coterie.report.answers import cells, cost_of_asking, how, legend, sentences
from coterie.report.inks import Ink, inks
from coterie.report.learnable import of_answers
from coterie.report.page import document
from coterie.report.page_figures import figure, more
from coterie.report.tuning import command
from coterie.runs.advising import FOLLOW
from coterie.runs.answers import Advice
from coterie.runs.record import Record
from coterie.storage.atomic import write_whole

PROMISED = "#1F2933"


def write_advice(path: Path, advice: Advice, folder: Path | None = None) -> Path:
    """Writes the page; `folder` holds the file of a run that follows the advice."""
    return write_whole(path, render_advice(advice, folder))


def render_advice(advice: Advice, folder: Path | None = None) -> str:
    """The page as text."""
    record = Record("", {}, advice.about)
    shown = [
        ("answers", "The answer", answers_part(advice)),
        ("gains", "What each way would bring", gains_part(advice)),
        ("with", "With whom", partners_part(advice)),
        ("gives", "What is given away", gifts_part(advice)),
        ("how", "How this was found", how_part(advice, folder)),
        ("notes", "What happened to the data", page_tables.notes([record])),
        ("repeat", "How to repeat it", page_tables.repeat([record]) + _settings(advice)),
    ]
    links = " ".join(f'<a href="#{key}">{escape(name)}</a>' for key, name, _ in shown)
    inner = "".join(
        f'<section id="{key}"><h2>{escape(name)}</h2>{content}</section>' for key, name, content in shown
    )
    together, clients = sum(not a.alone for a in advice.answers), words.several(len(advice.answers), "client")
    what = [
        str(advice.config.get("data", "")),
        words.several(int(advice.config["rounds"]), "round"),
        f"seed {advice.config['seed']}",
        f"{len(advice.ways)} ways tried",
    ]
    header = (
        f'<div class="outcome"><p class="headline">{escape(of_answers(advice))}</p>'
        f'<p class="headline">For {together} of {clients} another way was clearly '
        f"better than alone: {escape(words.called(advice.metric))} on held-out training rows.</p>"
        f'<p class="what">{escape(" · ".join(what))}</p></div>'
    )
    main = f'<article><nav aria-label="Parts">{links}</nav>{inner}</article>'
    return document("Coterie advice", header, main, str(advice.about.get("coterie", "")))


def answers_part(advice: Advice) -> str:
    """What each client is told."""
    parts = []
    for name, (first, *rest) in sentences(advice).items():
        listed = "".join(f"<li>{glossary.linked(line)}</li>" for line in rest)
        parts.append(f"<h3>{escape(name)}</h3><p><strong>{escape(first)}</strong></p><ul>{listed}</ul>")
    return "".join(parts)


def gains_part(advice: Advice) -> str:
    header, rows = cells(advice)
    lines = [[escape(cell) for cell in row] for row in rows]
    said = (
        "Bars: 95 % intervals, where there are any. 0 is training alone; the large mark is what is advised."
    )
    plot = figure("gains-plot", gains_plot(advice, inks(list(advice.ways), ALONE)), said)
    return f"{plot}{page_tables.table(header, lines, 'figures')}<p>{glossary.linked(legend(advice))}</p>"


def gains_plot(advice: Advice, colours: Mapping[str, Ink]) -> plotly_data.Plot:
    """For each client, the gain of every way with its interval; the advised one larger."""
    unit, choices = "points of " if words.in_percent(advice.metric) else "", []
    for a in advice.answers:
        data = [
            _mark(advice, spec, gain, {"color": colours[spec].colour, "size": 15 if spec == a.choice else 8})
            for spec, gain in a.gains.items()
        ]
        if a.expected is not None and a.best != ALONE:
            data.append(
                _mark(advice, "promised", a.expected, {"color": PROMISED, "symbol": "diamond", "size": 12})
            )
        title = f"gain over alone, {unit}{words.called(advice.metric)}"
        layout = {
            "hovermode": "closest",
            "xaxis": {"title": {"text": title}},
            "yaxis": {"autorange": "reversed", "automargin": True},
        }
        choices.append({"name": a.client, "data": data, "layout": layout})
    return {"choices": choices}


def _mark(advice: Advice, name: str, gain: Interval, marker: Mapping[str, Any]) -> dict[str, Any]:
    factor, (low, high) = words.factor(advice.metric), gain.bounds
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plotly_data.plain(name),
        "y": [plotly_data.plain(name)],
        "x": plotly_data.tidy([factor * gain.mean]),
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": plotly_data.tidy([factor * (high - gain.mean)]),
            "arrayminus": plotly_data.tidy([factor * (gain.mean - low)]),
        },
        "marker": dict(marker),
        "showlegend": False,
    }


def partners_part(advice: Advice) -> str:
    """How much of whose model comes from whom."""
    names, rows = [c["name"] for c in advice.about["clients"]], []
    for a in advice.answers:
        own = 1 - sum(a.partners.values())
        shares = [own if n == a.client else a.partners.get(n, 0.0) for n in names]
        shown = (f"{s:.2f}" if s > 0.005 else "" for s in shares)
        rows.append([escape(a.client), escape(called(a.choice)), *shown])
    said = "How much of each client's model comes from whom, the mean over rounds and parts."
    return page_tables.table(["client", "advised", *names], rows, "figures") + f"<p>{said}</p>"


def gifts_part(advice: Advice) -> str:
    """What passes from and to each client, from the net's book; and what its way reveals."""
    rows = [
        [
            *map(escape, (a.client, called(a.choice), g.sender, g.receiver)),
            *(words.whole(g.models), words.size(g.bytes), words.whole(g.numbers)),
        ]
        for a in advice.answers
        for g in a.gifts
    ]
    told = {
        called(a.choice): reveals.in_words(Reveals(**_tuples(advice.reveals[a.choice])))
        for a in advice.answers
    }
    listed = "".join(f"<li>{escape(way)}: {escape(text)}</li>" for way, text in told.items())
    said = (
        "In one run of the advised way, as the net counted it while it was tried: models, their size, and "
        "single numbers such as a loss. What such a run reveals to whom:"
    )
    header = ["client", "advised", "from", "to", "models", "traffic", "numbers"]
    table = page_tables.table(header, rows, "figures given") if rows else ""
    return f"{table}<p>{said}</p><ul>{listed}</ul>"


def _tuples(told: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in told.items()}


def how_part(advice: Advice, folder: Path | None) -> str:
    rows = [[escape(called(s)), escape(how(s)), escape(advice.failed.get(s, ""))] for s in advice.ways]
    said = (
        f"Each client's training rows were cut into {advice.folds} parts. Every way trained without each "
        "part in turn, at every client, and was scored on it. "
    )
    if advice.inner:
        said += (
            f"For the promise, each part's rest was cut into {advice.inner} again: these chose, and the part "
            "that they had not seen judged what they chose. "
        )
    said += f"Test rows were in none of it. {cost_of_asking(advice)}"
    use = ""
    if folder is not None:
        again = escape(command("run", folder / FOLLOW))
        use = f"<p>A run that follows the advice:</p><pre tabindex='0'>{again}</pre>"
    return f"<p>{escape(said)}</p>{page_tables.table(['way', 'what it does', 'failed'], rows)}{use}"


def _settings(advice: Advice) -> str:
    rows = [[escape(k), escape(v)] for k, v in page_tables.flatten(advice.config).items()]
    return more("Settings", page_tables.table(["setting", "value"], rows, "settings"))
