"""What did I give away: what left this client, to whom, how often; what it costs its patients and the planet.

Counted by the net where it passed (`nets/counting.py`), over all rounds; first models and scoring are not in
it. What a method reveals, its file says itself, and a test holds it against what passed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.core.errors import CoterieError
from coterie.core.method import Reveals
from coterie.core.options import coerced
from coterie.federation.site.request_log import site_energy
from coterie.methods import METHODS
from coterie.nets.ground import wrappers
from coterie.page.card import NAMES, Card, bars, plot_choice, table_of
from coterie.page.view import View
from coterie.show.blocks import Plot, Table
from coterie.show.plotly import ticks
from coterie.show.words import Words

if TYPE_CHECKING:
    from coterie.features.energy.record import Energy

NAME, ORDER = "given", 40
_COLUMNS = ("from", "to", "models", "bytes", "numbers")
_BARS = 20  # receivers of a picture


def card(view: View, say: Words) -> Card:
    passed = _entries(view)
    out = passed[passed[:, 0] == view.number]
    energy = view.study.once(("energy", view.label), lambda: view.record.of("energy"))
    lines = _numbers(view, say)
    moved = sum(m["rows"][view.number] for m in view.record.metrics if "rows" in m)
    lines.append(say.count("given.rows", int(moved)) if moved else say("given.no_rows"))
    lines += [_privacy(view, say), *_energy_lines(energy, view.record.of("tracked"), say)]
    # a site's own CPU seconds, which it tells nobody
    spent = site_energy(view.site.state).get(view.path.name) if view.site is not None else None
    lines += [] if spent is None else [say("given.own_cpu", cpu=say.number(spent.cpu_seconds))]
    how = [say("given.how"), say("given.how_model"), say("given.how_energy")]
    for f in energy.factors if energy is not None else ():
        ends = {"low": say.number(f.low), "high": say.number(f.high)}
        how.append(say("given.factor", name=f.name, unit=f.unit, source=f.source, **ends))
    pictures, shown = _pictures(view, out, say), _table(view, passed, say)
    return Card(NAME, _answer(view, out, say), lines, pictures, shown, how)


def _parties(view: View, say: Words) -> list[str]:
    return [*view.names, say("given.coordinator")]


def _entries(view: View) -> np.ndarray:
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


def _answer(view: View, out: np.ndarray, say: Words) -> str:
    if not len(out):
        return say("given.nothing") if view.record.done else say("given.not_yet")
    names = _parties(view, say)
    models = out[out[:, 2] > 0]
    told = say.size(float(out[:, 3].sum()))
    if not len(models):
        return say("given.numbers_only", numbers=say.whole(out[:, 4].sum()))
    order = models[np.argsort(-models[:, 2], kind="stable")]
    listed = say.listed([f"{names[to]} ({say.whole(n)})" for _, to, n, *_ in order.tolist()])
    return say("given.models", models=say.whole(models[:, 2].sum()), names=listed, size=told)


def _reveals_of(view: View) -> Reveals | None:
    """What the method says that it shows; None for one that is not registered here."""
    if view.method not in METHODS:
        return None
    kind = METHODS[view.method]
    try:
        return kind(**coerced(kind, view.record.config.get(view.method, {}), "method")).reveals()
    except (CoterieError, TypeError, ValueError):
        return None


def _numbers(view: View, say: Words) -> list[str]:
    told, lines = _reveals_of(view), list[str]()
    if told is not None:
        names = [say.of(f"number.{name.replace(' ', '-')}", name) for name in dict.fromkeys(told.numbers)]
        lines += [say("given.numbers", names=say.listed(names, 12))] if names else []
        lines += [say("given.opened" if told.opened else "given.mixed")] if told.coordinator else []
        lines += [say("given.peers")] if told.sites else []
    with contextlib.suppress(CoterieError, LookupError):  # of a wrapper that is not here, nothing is claimed
        if any(wrapper.always_seals for wrapper, _ in wrappers(view.record.settings.wrap)):
            lines.append(say("given.sealed"))
    return lines


def _privacy(view: View, say: Words) -> str:
    """Epsilon, where looking at rows has a bound."""
    told = view.record.of("privacy")
    if told is None:
        noisy = any(word in view.record.settings.kernel for word in ("dp(", "bounded("))
        return say("given.epsilon_later" if noisy and not view.record.finished else "given.no_epsilon")
    site = next((s for s in told["sites"] if s["name"] == view.client), None)
    if site is None or site["epsilon"] is None:
        return say("given.no_epsilon")
    return say("given.epsilon", epsilon=say.number(site["epsilon"]), delta=say.number(told["delta"], 1))


def _energy_lines(energy: Energy | None, tracked: Mapping[str, Any] | None, say: Words) -> list[str]:
    """What was measured first; then what is guessed from it, as ranges."""
    if energy is None or energy.cpu_seconds is None or energy.bytes is None:
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


def _pictures(view: View, out: np.ndarray, say: Words) -> list[Plot]:
    if not len(out):
        return []
    names = _parties(view, say)
    order = out[np.argsort(-out[:, 3], kind="stable")][:_BARS]
    to = ticks([names[j] for j in order[:, 1].tolist()])
    choices = []
    for name, column in (("models", 2), ("bytes", 3), ("numbers", 4)):
        data = [bars(to, order[:, column].astype(float), "%{y}: %{x:,}<extra></extra>")]
        called = say(f"given.column.{name}")
        choices.append(plot_choice(data, called, name=called, xaxis={"rangemode": "tozero"}, yaxis=NAMES))
    plot = {"choices": choices, "height": 130 + 30 * len(to)}
    return [Plot("given-to", plot, say("given.picture"))]


def _table(view: View, passed: np.ndarray, say: Words) -> Table:
    """What left first."""
    names, rows = _parties(view, say), []
    mine = passed[np.lexsort((passed[:, 1], passed[:, 0] != view.number))] if len(passed) else passed
    for sender, receiver, models, size, count in mine.tolist():
        figures = ((models, say.whole(models)), (size, say.size(size)), (count, say.whole(count)))
        rows.append([*((names[who], names[who]) for who in (sender, receiver)), *figures])
    return table_of(NAME, _COLUMNS, rows, say)
