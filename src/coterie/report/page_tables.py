"""The page's words and tables: cost, clients, notes on the data, settings, and how to repeat a run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from coterie.methods.baselines import NOTHING
from coterie.report import little, views, words
from coterie.report.glossary import linked
from coterie.report.inks import Ink
from coterie.report.notes import Thing, gathered
from coterie.report.withdrawals import withdrawals
from coterie.runs.record import COORDINATOR, Record


def table(header: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table from cells that are HTML already; the first of a row names it."""
    head = "".join(f'<th scope="col">{linked(h)}</th>' for h in header)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{c}</td>" for c in rest)}</tr>'
        for first, *rest in rows
    )
    inner = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="box" tabindex="0"><table class="{kind}">{inner}</table></div>'


def swatch(label: str, inks: Mapping[str, Ink]) -> str:
    """A label behind its colour."""
    return f"{inks[label].box()}{escape(label)}"


def what(records: Sequence[Record]) -> str:
    """What was run, in one line."""
    config, by_label = records[0].config, views.groups(records)
    seeds = {views.seed(r) for r in records}
    trained = [r for r in records if views.method(r) != NOTHING] or records  # that has one round
    rounds = sorted({r.done if r.ended else int(r.config["rounds"]) for r in trained})
    parts = [
        str(config.get("data", "own data")) + (f" split by {config['split']}" if config.get("split") else ""),
        words.several(len(records[0].clients), "client"),
        str(config.get("model", "a model")),
    ]
    if records[0].about.get("parameters"):
        parts[-1] += f" with {words.several(records[0].about['parameters'], 'parameter')}"
    parts.append(
        words.several(rounds[0], "round") if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]} rounds"
    )
    listed = ", ".join(map(str, sorted(seeds)))
    parts.append(f"seed {listed}" if len(seeds) == 1 else f"{len(seeds)} seeds ({listed})")
    first, *rest = [*parts, ", ".join(by_label)]
    return " · ".join([linked(first), *map(escape, rest)])


def part(records: Sequence[Record]) -> str:
    """Whose part of a run this is, if it is one."""
    about = records[0].about
    if "lead" not in about:
        return ""
    me, lead = str(about.get("site")), str(about["lead"])
    said = (
        f"This is {me}'s part of a run that {lead} leads. Of other sites it has names, who was away, how "
        f"much {me} listens to each and each to {me}, and what passed between them; other zeros say nothing."
    )
    return f"<p>{escape(said)}</p>"


def spent(seconds: Mapping[str, float] | None) -> str:
    """Where the time of the whole command went, if that is known."""
    if not seconds:
        return ""
    lines = [[escape(cell) for cell in row] for row in words.share_of_time(seconds)]
    said = (
        "Of the command that made these runs, start-up included: a second counts for one part, and those of "
        "processes side by side add up. Tracing is recording the operations of a step, to replay them fast."
    )
    shown = table(["part", "seconds", "per cent"], lines, "figures")
    return f"<h3>Where the time went</h3>{shown}<p>{said}</p>"


def cost(by_label: views.Groups, inks: Mapping[str, Ink]) -> str:
    """Models, bytes and seconds of a whole run, with bars to compare them at a glance."""
    rows = []
    for label, runs in by_label.items():
        traffic = [r.traffic() for r in runs]
        mean = {key: float(np.mean([t[key] for t in traffic])) for key in traffic[0]}
        scoring = float(np.mean([sum(t.get("evaluate_seconds") or 0 for t in r.timings) for r in runs]))
        each = mean["bytes"] / len(runs[0].clients)
        models = (mean["models"], mean["each"])
        rows.append((label, *models, mean["bytes"], each, mean["seconds"], scoring))
    tops = [max(float(row[i]) for row in rows) or 1.0 for i in range(1, 7)]
    show = (*(words.whole,) * 2, *(words.size,) * 2, *(words.duration,) * 2)

    def cell(value: float, i: int) -> str:
        wide = 100 * value / tops[i]
        drawn = f'<rect x="{100 - wide:.1f}" width="{wide:.1f}" height="5"/>'
        box = 'class="bar" viewBox="0 0 100 5" preserveAspectRatio="none" aria-hidden="true"'
        bar = f"<svg {box}>{drawn}</svg>"
        return f"{escape(show[i](value))}{bar}"

    lines = [[swatch(label, inks), *(cell(float(v), i) for i, v in enumerate(rest))] for label, *rest in rows]
    header = [
        "method",
        "models",
        "models per client",
        "traffic",
        "traffic per client",
        "training",
        "scoring",
    ]
    return table(header, lines, "figures cost")


def given_away(by_label: views.Groups, inks: Mapping[str, Ink]) -> str:
    """What each party gave to others in the rounds of a method's first seed; nothing where nothing passed."""
    rows = []
    for label, runs in by_label.items():
        passed, parties = runs[0].passed_in_all(), [*runs[0].clients, COORDINATOR]
        for sender, entries in itertools.groupby(passed.tolist(), key=lambda entry: entry[0]):
            mine = list(entries)
            models, size, numbers = (sum(entry[i] for entry in mine) for i in (2, 3, 4))
            figures = (words.whole(models), words.size(size), words.whole(numbers))
            receivers = _few(parties[entry[1]] for entry in mine)
            rows.append([swatch(label, inks), escape(parties[sender]), escape(receivers), *figures])
    return (
        table(["method", "from", "to", "models", "traffic", "numbers"], rows, "figures given") if rows else ""
    )


def _few(names: Iterable[str], most: int = 5) -> str:
    """Some of the names, and how many more there are."""
    listed = list(names)
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")


def clients(by_label: views.Groups) -> str:
    """Every client: sizes, and its final figure by method."""
    record = next(iter(by_label.values()))[0]
    main = views.headline_metric([record])
    drawn = [views.bars(label, runs, main) for label, runs in by_label.items()]
    splits = views.sizes(record)
    groups = [c.get("cluster") for c in record.about["clients"]]
    grouped = any(g is not None for g in groups)
    header = ["client", *splits, *(["group"] if grouped else []), *(b.label for b in drawn)]
    rows = []
    found = little.commented([r for runs in by_label.values() for r in runs])
    for i, name in enumerate(record.clients):
        known = splits["train"][i] > 0  # who is not there yet, or another site, in a site's part of a run
        sizes = [words.whole(counts[i]) if known else words.NONE for counts in splits.values()]
        row = [escape(little.marked(name, found)), *sizes]
        row += [words.NONE if groups[i] is None else str(groups[i])] if grouped else []
        rows.append([*row, *(words.figure(float(b.mean[i]), main) for b in drawn)])
    notes = little.notes([r for runs in by_label.values() for r in runs])
    return table(header, rows, "figures") + "".join(f"<p>{escape(note)}</p>" for note in notes)


def notes(records: Sequence[Record]) -> str:
    """Everything that happened to the data, each thing said once; and who was away in the end."""
    seeds = len({views.seed(r) for r in records})
    lines = [_thing(thing, seeds) for thing in gathered((views.seed(r), r.about) for r in records)]
    for record in records:
        if gone := record.away():
            who = _few(f"{client} (round {round})" for client, round in gone.items())
            lines.append(
                f"<b>{escape(record.label)}, seed {views.seed(record)}</b>: away when models were scored "
                f"last, so that the figures are those of an earlier round: {escape(who)}"
            )
        for line in [*record.absences(), *withdrawals(record)]:
            lines.append(f"<b>{escape(record.label)}, seed {views.seed(record)}</b>: {escape(line)}")
    if not lines:
        return "<p>Nothing was changed, filled in or left out.</p>"
    return f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>"


def _thing(thing: Thing, seeds: int) -> str:
    """What was done and to whom; several notes on it, or several clients, are shown on demand."""
    whom = thing.whom(seeds)
    if len(thing.notes) == 1 and len(thing.clients) <= 1:
        note = escape(next(iter(thing.notes)))
        return f"{note} <b>({escape(whom)})</b>" if whom else note
    inner = "".join(f"<li>{escape(line)}</li>" for line in thing.lines())
    said = f"{escape(thing.what)}{f': <b>{escape(whom)}</b>' if whom else ''}"
    return f"<details><summary>{said}</summary><ul>{inner}</ul></details>"


def settings(by_label: views.Groups) -> str:
    """The resolved settings: those all runs share, then those in which methods differ."""
    flat = {label: flatten(runs[0].config) for label, runs in by_label.items()}
    keys = [k for k in dict.fromkeys(k for f in flat.values() for k in f) if k != "seed"]
    values = {k: {label: f[k] for label, f in flat.items() if k in f} for k in keys}
    rows = [
        ["seed", escape(", ".join(map(str, sorted({views.seed(r) for rs in by_label.values() for r in rs}))))]
    ]
    for key, found in values.items():
        same = len(found) == len(flat) and len(set(found.values())) == 1
        texts = [next(iter(found.values()))] if same else [f"{label}: {v}" for label, v in found.items()]
        if len(flat) > 1 and not same and all(v == label for label, v in found.items()):
            texts = list(found)
        rows.append([escape(key), "<br>".join(escape(t) for t in texts)])
    return table(["setting", "value"], rows, "settings")


def flatten(config: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Settings by dotted name, as text."""
    flat: dict[str, str] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{before}{key}.")
        else:
            flat[f"{before}{key}"] = _text(value)
    return flat


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_text(v) for v in value)}]"
    return words.NONE if value is None else str(value)


def repeat(records: Sequence[Record]) -> str:
    """The commands, and on what they ran."""
    commands = list(dict.fromkeys(c for r in records if (c := r.about.get("command"))))
    led = list(dict.fromkeys(str(lead) for r in records if (lead := r.about.get("lead"))))
    if commands:
        said = "".join(f"<pre tabindex='0'>{escape(c)}</pre>" for c in commands)
    elif led:
        said = f"<p>Whoever leads the run can repeat it: {escape(', '.join(led))}.</p>"
    else:
        said = "<p>Started from Python: pass the settings below to <code>coterie.train</code>.</p>"
    facts: dict[str, dict[str, None]] = {}
    for record in records:
        for name, value in _facts(record.about):
            facts.setdefault(name, {})[value] = None
    lines = "".join(f"<dt>{escape(k)}</dt><dd>{escape('; '.join(v))}</dd>" for k, v in facts.items())
    return f"{said}<dl>{lines}</dl>"


def _facts(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    versions, machine = about.get("versions") or {}, about.get("machine") or {}
    listed = [f"coterie {about['coterie']}"] if about.get("coterie") else []
    listed += [f"{name} {version}" for name, version in versions.items()]
    return [
        ("versions", ", ".join(listed) or "unknown"),
        ("commit", str(about.get("commit") or "unknown")),
        ("machine", ", ".join(f"{k} {v}" for k, v in machine.items() if v not in (None, "")) or "unknown"),
    ]
