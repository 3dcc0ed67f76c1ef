"""What did I give away: what left this client, to whom, how often; what it costs its patients and the planet.

Counted by the net where it passed (`nets/counting.py`), over all rounds; first models and scoring are not in
it. What a method reveals, its file says itself, and a test holds it against what passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from coterie.core.errors import CoterieError
from coterie.core.method import Reveals
from coterie.core.options import coerced
from coterie.federation.energy import site_energy
from coterie.methods import METHODS
from coterie.page.cards.base import Card, Picture, Table
from coterie.page.catalogue import Words
from coterie.page.view import View
from coterie.report import inks as colours
from coterie.report.plotly_data import ticks, tidy
from coterie.runs.energy import Energy, energy_of
from coterie.runs.tracker import read_tracked

COLUMNS = ("from", "to", "models", "bytes", "numbers")
BARS = 20  # receivers of a picture


def card(view: View, say: Words) -> Card:
    passed = entries(view)
    out = passed[passed[:, 0] == view.number]
    energy = view.study.once(("energy", view.label), lambda: energy_of(view.record))
    return Card(
        "given",
        answer(view, out, say),
        [
            *numbers(view, say),
            *rows_line(view, say),
            *privacy(view, say),
            *energy_lines(energy, read_tracked(view.path), say),
            *own_work(view, say),
        ],
        pictures(view, out, say),
        table(view, passed, say),
        COLUMNS,
        [say("given.how"), say("given.how_model"), say("given.how_energy"), *factors(energy, say)],
    )


def parties(view: View, say: Words) -> list[str]:
    return [*view.names, say("given.coordinator")]


def entries(view: View) -> np.ndarray:
    """[entry, 5] what passed from and to this client; sums of rounds that are over are kept."""
    kept: dict[str, Any] = view.study.kept.setdefault(("passed", view.path, view.number), {"upto": 0})
    for r in sorted(view.record.passed):
        if r <= kept["upto"]:
            continue
        for sender, receiver, *counts in np.asarray(view.record.passed[r]).tolist():
            if view.number in (sender, receiver):
                before = kept.setdefault("sums", {}).get((sender, receiver), (0, 0, 0))
                kept["sums"][sender, receiver] = tuple(a + b for a, b in zip(before, counts, strict=True))
        kept["upto"] = r
    found = [[*pair, *counts] for pair, counts in sorted(kept.get("sums", {}).items())]
    return np.array(found, dtype=np.int64).reshape(len(found), 5)


def answer(view: View, out: np.ndarray, say: Words) -> str:
    if not len(out):
        return say("given.nothing") if view.record.done else say("given.not_yet")
    names = parties(view, say)
    models = out[out[:, 2] > 0]
    told = say.size(float(out[:, 3].sum()))
    if not len(models):
        return say("given.numbers_only", numbers=say.whole(out[:, 4].sum()))
    order = models[np.argsort(-models[:, 2], kind="stable")]
    listed = say.listed([f"{names[to]} ({say.whole(n)})" for _, to, n, *_ in order.tolist()])
    return say("given.models", models=say.whole(models[:, 2].sum()), names=listed, size=told)


def reveals_of(view: View) -> Reveals | None:
    """What the method says that it shows; None for one that is not registered here."""
    if view.method not in METHODS:
        return None
    kind = METHODS[view.method]
    try:
        return kind(**coerced(kind, view.record.config.get(view.method, {}), "method")).reveals()
    except (CoterieError, TypeError, ValueError):
        return None


def numbers(view: View, say: Words) -> list[str]:
    told = reveals_of(view)
    lines = []
    if told is not None:
        names = [say.of(f"number.{name.replace(' ', '-')}", name) for name in dict.fromkeys(told.numbers)]
        if names:
            lines.append(say("given.numbers", names=say.listed(names, 12)))
        if told.coordinator:
            lines.append(say("given.opened" if told.opened else "given.mixed"))
        if told.sites:
            lines.append(say("given.peers"))
    if any(str(spec).startswith("sealed") for spec in view.record.config.get("wrap", ())):
        lines.append(say("given.sealed"))
    return lines


def rows_line(view: View, say: Words) -> list[str]:
    moved = sum(m["rows"][view.number] for m in view.record.metrics if "rows" in m)
    return [say.count("given.rows", int(moved)) if moved else say("given.no_rows")]


def privacy(view: View, say: Words) -> list[str]:
    """Epsilon, where looking at rows has a bound."""
    told = view.record.privacy()
    if told is None:
        noisy = any(word in str(view.record.config.get("kernel", "")) for word in ("dp(", "bounded("))
        return [say("given.epsilon_later" if noisy and not view.record.finished else "given.no_epsilon")]
    site = next((s for s in told["sites"] if s["name"] == view.client), None)
    if site is None or site["epsilon"] is None:
        return [say("given.no_epsilon")]
    return [say("given.epsilon", epsilon=say.number(site["epsilon"]), delta=say.number(told["delta"], 1))]


def energy_lines(energy: Energy, tracked: Mapping[str, Any] | None, say: Words) -> list[str]:
    """What was measured first; then what is guessed from it, as ranges."""
    if energy.cpu_seconds is None or energy.bytes is None:
        return [say("given.no_energy")]
    cpu, size = say.number(energy.cpu_seconds), say.size(energy.bytes)
    key = "given.cpu" if energy.whole else "given.cpu_part"
    lines = [say(key, cpu=cpu, bytes=size, where=energy.where)]
    if (part := energy.compute) is not None:
        energy_range = say.scaled(1000 * part.kwh.low, 1000 * part.kwh.high, "Wh")
        lines.append(say("given.kwh", energy=energy_range, carbon=say.scaled(*part.co2[::2], "g")))
    if energy.passed and (part := energy.network) is not None:
        lines.append(say("given.network", energy=say.scaled(1000 * part.kwh.low, 1000 * part.kwh.high, "Wh")))
    if tracked is not None and tracked.get("kwh") and energy.compute is not None:
        usual = energy.compute.kwh.usual
        ratio = max(tracked["kwh"], usual) / min(tracked["kwh"], usual)
        value = say.scaled(1000 * tracked["kwh"], 1000 * tracked["kwh"], "Wh")
        told = {"name": str(tracked.get("tracker", "")), "energy": value, "ratio": say.number(ratio, 2)}
        lines.append(say("given.tracker", **told))
    return lines


def own_work(view: View, say: Words) -> list[str]:
    """A site's own CPU seconds, which it tells nobody."""
    if view.site is None:
        return []
    spent = site_energy(view.site.state).get(view.path.name)
    return [] if spent is None else [say("given.own_cpu", cpu=say.number(spent.cpu_seconds))]


def factors(energy: Energy, say: Words) -> list[str]:
    return [
        say(
            "given.factor",
            name=f.name,
            low=say.number(f.low),
            high=say.number(f.high),
            unit=f.unit,
            source=f.source,
        )
        for f in energy.factors
    ]


def pictures(view: View, out: np.ndarray, say: Words) -> list[Picture]:
    if not len(out):
        return []
    names = parties(view, say)
    order = out[np.argsort(-out[:, 3], kind="stable")][:BARS]
    to = ticks([names[j] for j in order[:, 1].tolist()])
    choices = []
    for name, column in (("models", 2), ("bytes", 3), ("numbers", 4)):
        bars = {
            "type": "bar",
            "orientation": "h",
            "y": to,
            "x": tidy(order[:, column].astype(float)),
            "marker": {"color": colours.COLOURS[0]},
            "hovertemplate": "%{y}: %{x:,}<extra></extra>",
        }
        layout = {
            "xaxis": {"title": {"text": say(f"given.column.{name}")}, "rangemode": "tozero"},
            "yaxis": {"type": "category", "autorange": "reversed", "automargin": True},
        }
        choices.append({"name": say(f"given.column.{name}"), "data": [bars], "layout": layout})
    plot = {"choices": choices, "height": 130 + 30 * len(to)}
    return [Picture("given-to", plot, say("given.picture"))]


def table(view: View, passed: np.ndarray, say: Words) -> Table:
    names, rows, raw = parties(view, say), list[list[str]](), list[list[Any]]()
    mine = passed[np.lexsort((passed[:, 1], passed[:, 0] != view.number))] if len(passed) else passed
    for sender, receiver, models, size, numbers in mine.tolist():
        raw.append([names[sender], names[receiver], models, size, numbers])
        figures = (say.whole(models), say.size(size), say.whole(numbers))
        rows.append([names[sender], names[receiver], *figures])
    return Table([say(f"given.column.{name}") for name in COLUMNS], rows, raw)
