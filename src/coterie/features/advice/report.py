"""Advice as a page that opens offline: the answers in words, and what they rest on."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.core.method import Reveals
from coterie.features.advice.answers import Advice
from coterie.features.advice.question import FOLLOW
from coterie.features.advice.sentences import called, cells, cost_of_asking, how, legend
from coterie.features.advice.sentences import sentences as lines_of
from coterie.features.tuning.report import command
from coterie.methods.advised import ALONE
from coterie.metrics.summary import Interval
from coterie.report import reveals
from coterie.report.about import flatten, notes_part, repeat_part
from coterie.report.learnable import of_all
from coterie.runs.record import COORDINATOR, Record
from coterie.show import html, numbers, plotly
from coterie.show.blocks import Block, Code, Group, More, Plot, Points, Section, Sentence, Table
from coterie.show.inks import inks
from coterie.show.parts import Runs
from coterie.show.words import Figure, said, sentences
from coterie.storage.atomic import write_whole

PROMISED = "#1F2933"
OWN = ("advised", "way", "does", "failed")  # columns of advice alone


def write_advice(path: Path, advice: Advice, folder: Path | None = None) -> Path:
    return write_whole(path, render_advice(advice, folder))


def render_advice(advice: Advice, folder: Path | None = None) -> str:
    """The page as text; `folder` holds the file of a run that follows the advice."""
    runs = Runs("", [Record("", {}, advice.about)])
    header = [said("column.setting"), said("column.value")]
    config = Table(header, [*flatten(advice.config).items()], kind="settings")
    shown = [
        Section(said("advise.part.answers"), answers_part(advice), "answers"),
        Section(said("advise.part.gains"), gains_part(advice), "gains"),
        Section(said("advise.part.with"), partners_part(advice), "with"),
        Section(said("advise.part.gives"), gifts_part(advice), "gives"),
        Section(said("advise.part.how"), _how_part(advice, folder), "how"),
        Section(said("notes.title"), notes_part(runs), "notes"),
        Section(
            said("repeat.title"), [*repeat_part(runs)[:2], More(said("repeat.settings"), [config])], "repeat"
        ),
    ]
    together = sum(not a.alone for a in advice.answers)
    what = [str(advice.config.get("data", "")), numbers.several(int(advice.config["rounds"]), "round")]
    what += [said("what.seed", seed=advice.config["seed"]), said("advise.tried", n=len(advice.ways))]
    clients = numbers.several(len(advice.answers), "client")
    came = said("advise.came", n=together, clients=clients, metric=numbers.called(advice.metric))
    learnt = of_all([answer.learnt for answer in advice.answers])
    head = [Sentence(text, kind="headline") for text in (learnt, came)]
    line = functools.reduce(lambda first, second: said("list.dot", first=first, second=second), what)
    outcome = Group([*head, Sentence(line, kind="what")], "outcome")
    main = Section("", shown, "advice", "article")
    return html.document(said("advise.title"), [outcome], [main], str(advice.about.get("coterie", "")))


def answers_part(advice: Advice) -> list[Block]:
    """What each client is told."""
    return [
        Section(name, [Sentence("", lead=first), Points([Sentence(line) for line in rest])])
        for name, (first, *rest) in lines_of(advice).items()
    ]


def gains_part(advice: Advice) -> list[Block]:
    """For each client, the gain of every way with its interval; the advised one larger."""
    colours = inks(list(advice.ways), ALONE)
    key, choices = "advise.plot.points" if numbers.in_percent(advice.metric) else "advise.plot.gain", []
    for a in advice.answers:
        data = []
        for spec, gain in a.gains.items():
            marker = {"color": colours[spec].colour, "size": 15 if spec == a.choice else 8}
            data.append(_mark(advice, plotly.plain(spec), gain, marker))
        if a.expected is not None and a.best != ALONE:
            marker = {"color": PROMISED, "symbol": "diamond", "size": 12}
            data.append(_mark(advice, said("advise.column.promised"), a.expected, marker))
        title = said(key, metric=numbers.called(advice.metric))
        layout = {
            "hovermode": "closest",
            "xaxis": {"title": {"text": title}},
            "yaxis": {"autorange": "reversed", "automargin": True},
        }
        choices.append({"name": a.client, "data": data, "layout": layout})
    plot = Plot("gains", {"choices": choices}, said("advise.plot.said"))
    return [plot, Table(*cells(advice)), Sentence(legend(advice))]


def _mark(advice: Advice, name: str, gain: Interval, marker: Mapping[str, Any]) -> dict[str, Any]:
    factor, (low, high) = numbers.factor(advice.metric), gain.bounds
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "y": [name],
        "x": plotly.tidy([factor * gain.mean]),
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": plotly.tidy([factor * (high - gain.mean)]),
            "arrayminus": plotly.tidy([factor * (gain.mean - low)]),
        },
        "marker": dict(marker),
        "showlegend": False,
    }


def partners_part(advice: Advice) -> list[Block]:
    """How much of whose model comes from whom."""
    names, rows = [c["name"] for c in advice.about["clients"]], []
    for a in advice.answers:
        own = 1 - sum(a.partners.values())
        shares = [own if n == a.client else a.partners.get(n, 0.0) for n in names]
        rows.append([a.client, called(a.choice), *(Figure(f"{s:.2f}") if s > 0.005 else "" for s in shares)])
    return [Table([*_columns("client", "advised"), *names], rows), Sentence(said("advise.shares"))]


def _columns(*names: str) -> list[str]:
    return [said(f"advise.column.{name}" if name in OWN else f"column.{name}") for name in names]


def gifts_part(advice: Advice) -> list[Block]:
    """What passes from and to each client, from the net's book; and what its way reveals."""
    rows = []
    for a, g in ((answer, gift) for answer in advice.answers for gift in answer.gifts):
        passed = (numbers.whole(g.models), numbers.size(g.bytes), numbers.whole(g.numbers))
        parties = (said("given.coordinator") if p == COORDINATOR else p for p in (g.sender, g.receiver))
        rows.append([a.client, called(a.choice), *parties, *passed])
    told = {}
    for a in advice.answers:
        facts: dict[str, Any] = {
            name: tuple(v) if isinstance(v, list) else v for name, v in advice.reveals[a.choice].items()
        }
        told[called(a.choice)] = reveals.in_words(Reveals(**facts))
    header = _columns("client", "advised", "from", "to", "models", "traffic", "numbers")
    table = [Table(header, rows, kind="figures given")] if rows else []
    points = [said("report.of", who=way, said=text) for way, text in told.items()]
    return [*table, Sentence(said("advise.passed")), Points(points)]


def _how_part(advice: Advice, folder: Path | None) -> list[Block]:
    outer = said("advise.how.outer", parts=advice.folds)
    inner = said("advise.how.inner", parts=advice.inner) if advice.inner else ""
    done = sentences(outer, inner, said("advise.how.test"), cost_of_asking(advice))
    rows = [[called(s), how(s), advice.failed.get(s, "")] for s in advice.ways]
    ways = Table(_columns("way", "does", "failed"), rows, kind="")
    use: list[Block] = []
    if folder is not None:
        use = [Sentence(said("advise.how.follow")), Code([command("run", folder / FOLLOW)])]
    return [Sentence(done), ways, *use]
