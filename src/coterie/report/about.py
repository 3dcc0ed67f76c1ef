"""What was run and what happened to the data, what it cost, with which settings, and how to repeat it.

A note on the data reads "thing done: details", or "client 'a' thing done (details)". Notes of one thing are
gathered, whichever client and seed they are of; a note without details stands for itself. The record keeps
all in full.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coterie.methods.baselines import NOTHING
from coterie.report.outcome import share_of_time
from coterie.runs.record import Record
from coterie.show import numbers, parts, views
from coterie.show.blocks import Block, Cell, Code, Facts, More, Points, Sentence, Table
from coterie.show.numbers import several
from coterie.show.parts import Runs
from coterie.show.words import Figure, known, said, sentences

MORE = "details with -v"
OF_ONE = re.compile(r"client '(?P<name>.+?)' (?P<note>(?P<what>.+?)( \(.*\))?)")


def what(records: Sequence[Record]) -> str:
    """What was run, in one line."""
    config, by_label = records[0].config, views.groups(records)
    seeds = sorted({views.seed(r) for r in records})
    trained = [r for r in records if views.method(r) != NOTHING] or records  # that has one round
    rounds = sorted({r.done if r.ended else int(r.config["rounds"]) for r in trained})
    data: str = str(config.get("data") or said("what.own"))
    if config.get("split"):
        data = said("what.split", data=data, split=str(config["split"]))
    model: str = str(config.get("model") or said("what.model"))
    if records[0].about.get("parameters"):
        parameters = several(records[0].about["parameters"], "parameter")
        model = said("what.with", model=model, parameters=parameters)
    listed = (
        data,
        several(len(records[0].clients), "client"),
        model,
        several(rounds[0], "round")
        if len(rounds) == 1
        else said("what.rounds", low=rounds[0], high=rounds[-1]),
        said("what.seeds", n=len(seeds), seeds=seeds) if len(seeds) > 1 else said("what.seed", seed=seeds[0]),
        ", ".join(by_label),
    )
    return functools.reduce(lambda line, item: said("list.dot", first=line, second=item), listed)


def notes_part(runs: Runs) -> list[Block]:
    """Everything that happened to the data, each thing said once; and who was away in the end."""
    seeds = len({views.seed(r) for r in runs.records})
    points: list[str | Sentence | More] = []
    for thing in gathered((views.seed(r), r.about) for r in runs.records):
        whom = thing.whom(seeds)
        if len(thing.notes) == 1 and len(thing.clients) <= 1:
            tail = said("notes.whom", whom=whom) if whom else ""
            points.append(Sentence(next(iter(thing.notes)), kind="note", tail=tail))
        else:  # several notes on it, or several clients, are shown on demand
            points.append(More(thing.what, [Points(thing.lines())], whom=whom))
    lines = [
        point for block in parts.blocks("notes", runs) if isinstance(block, Points) for point in block.points
    ]
    for record in runs.records:
        own = said("notes.run", method=record.label, seed=views.seed(record))
        if gone := record.away():
            who = few(said("notes.away_since", who=client, round=round) for client, round in gone.items())
            points.append(Sentence(said("notes.away", who=who), lead=own))
        points += [Sentence(line, lead=own) for line in record.absences()]
        points += [line for line in lines if isinstance(line, Sentence) and line.lead == own]
    return [Points(points) if points else Sentence(said("notes.nothing"))]


def repeat_part(runs: Runs) -> list[Block]:
    """The commands, on what they ran, and with which settings."""
    records = runs.records
    commands = list(dict.fromkeys(c for r in records if (c := r.about.get("command"))))
    led = list(dict.fromkeys(str(lead) for r in records if (lead := r.about.get("lead"))))
    how: Block = Sentence(said("repeat.lead", who=led) if led else said("repeat.python"))
    facts: dict[str, dict[str, None]] = {"versions": {}, "commit": {}, "machine": {}}
    for about in (record.about for record in records):
        versions = {"coterie": about.get("coterie") or "", **(about.get("versions") or {})}
        machine = {k: v for k, v in (about.get("machine") or {}).items() if v not in (None, "")}
        facts["versions"][", ".join(f"{k} {v}" for k, v in versions.items() if k != "coterie" or v)] = None
        facts["commit"][str(about.get("commit") or "")] = None
        facts["machine"][", ".join(f"{k} {v}" for k, v in machine.items())] = None
    told = [(said(f"repeat.{name}"), "; ".join(found)) for name, found in facts.items()]
    return [
        Code(commands) if commands else how,
        Facts([(name, value or said("repeat.unknown")) for name, value in told]),
        More(said("repeat.settings"), [settings(runs.by_label)]),
    ]


def settings(by_label: views.Groups) -> Table:
    """The resolved settings: those all runs share, then those in which methods differ."""
    flat = {label: flatten(runs[0].config) for label, runs in by_label.items()}
    keys = [k for k in dict.fromkeys(k for f in flat.values() for k in f) if k != "seed"]
    values = {k: {label: f[k] for label, f in flat.items() if k in f} for k in keys}
    seeds = sorted({views.seed(r) for runs in by_label.values() for r in runs})
    rows = [["seed", ", ".join(map(str, seeds))]]
    for key, found in values.items():
        same = len(found) == len(flat) and len(set(found.values())) == 1
        texts = [next(iter(found.values()))] if same else [f"{label}: {v}" for label, v in found.items()]
        if len(flat) > 1 and not same and all(v == label for label, v in found.items()):
            texts = list(found)
        rows.append([key, "\n".join(texts)])
    return Table([said("column.setting"), said("column.value")], rows, kind="settings")


def flatten(config: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Settings by dotted name, as text."""

    def text(value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(text, value))}]"
        return numbers.NONE if value is None else str(value)

    flat: dict[str, str] = {}
    for key, value in config.items():
        inside = isinstance(value, Mapping)
        flat |= flatten(value, f"{before}{key}.") if inside else {f"{before}{key}": text(value)}
    return flat


@dataclass
class _Thing:
    """Something that was done; `notes` has the clients by note, none of them where it is of all the data."""

    what: str
    notes: dict[str, dict[str, None]] = field(default_factory=dict)
    seeds: set[int] = field(default_factory=set)

    @property
    def clients(self) -> list[str]:
        return list(dict.fromkeys(name for names in self.notes.values() for name in names))

    def whom(self, of_seeds: int) -> str:
        """How many sites and seeds, the only site by name; seeds only where there are several."""
        clients, whom = self.clients, list[str]()
        if clients:
            whom.append(clients[0] if len(clients) == 1 else several(len(clients), "site"))
        if of_seeds > 1 and (clients or len(self.notes) > 1 or len(self.seeds) < of_seeds):
            whom.append(several(len(self.seeds), "seed"))
        return said("list.plain", names=whom) if whom else ""

    def lines(self) -> list[str]:
        """Every note in full, behind the clients it is of."""
        return [
            f"{', '.join(names)}: {note}" if names else note
            for note, names in sorted(self.notes.items(), key=lambda entry: [*entry[1]][:1])
        ]


def gathered(told: Iterable[tuple[int, Mapping[str, Any]]]) -> list[_Thing]:
    """All that was done, by seed and what its run says of itself, in the order in which it was said: first to
    all of the data, then to clients'.
    """
    general, own = dict[str, _Thing](), dict[str, _Thing]()
    for seed, about in told:
        for note in about.get("notes") or ():
            if found := OF_ONE.fullmatch(note):
                _add(own, found["note"], seed, found["what"])[found["name"]] = None
            else:
                _add(general, note, seed)
        for client in about["clients"]:
            for note in client.get("notes") or ():
                _add(own, note, seed)[client["name"]] = None
    return [*general.values(), *own.values()]


def _add(things: dict[str, _Thing], note: str, seed: int, what: str = "") -> dict[str, None]:
    """Puts a note where it belongs, and gives its clients."""
    what = what or note.partition(": ")[0]
    thing = things.setdefault(what, _Thing(what))
    thing.seeds.add(seed)
    return thing.notes.setdefault(note, {})


def short(things: Sequence[_Thing], width: int, of_seeds: int) -> list[str]:
    """A line for each thing that fits the width: the note itself if there is one only and it has room, else
    what was done and to whom.
    """
    lines = []
    for thing in things:
        whom, note = thing.whom(of_seeds), next(iter(thing.notes))
        brief = f"{thing.what}: {f'{whom}; ' if whom else ''}{MORE}"
        whole = f"{note} ({whom})" if whom else note
        fits = note == thing.what or len(whole) <= max(width, len(brief))
        lines.append(whole if fits and len(thing.notes) == 1 else brief)
    return lines


def cost_part(runs: Runs) -> list[Block]:
    record = next(iter(runs.by_label.values()))[0]
    text = [said("cost.said", one=numbers.size(int(record.about["belief_bytes"])))]
    for label, some in runs.by_label.items():
        if n := sum(m["extras"].get("samples_moved", 0) for m in some[0].metrics):
            text.append(said("cost.moved", method=label, samples=several(n, "sample")))
    # models, bytes and seconds of a whole run, with bars to compare them at a glance
    totals = []
    for some in runs.by_label.values():
        mean = views.mean_traffic(some)
        scoring = float(np.mean([sum(t.get("evaluate_seconds") or 0 for t in r.timings) for r in some]))
        each = mean["bytes"] / len(some[0].clients)
        totals.append((mean["models"], mean["each"], mean["bytes"], each, mean["seconds"], scoring))
    tops = [max(column) or 1.0 for column in zip(*totals, strict=True)]
    show = (*(numbers.whole,) * 2, *(numbers.size,) * 2, *(numbers.duration,) * 2)
    lines = [
        [label, *(Cell(write(v), share=v / top) for v, top, write in zip(row, tops, show, strict=True))]
        for label, row in zip(runs.by_label, totals, strict=True)
    ]
    columns = ["method", "models", "models_each", "traffic", "traffic_each", "training", "scoring"]
    made: list[Block] = [runs.table([said(f"column.{name}") for name in columns], lines, "figures cost")]
    # what each party gave to others in the rounds of a method's first seed
    rows = []
    for label, some in runs.by_label.items():
        passed, parties = some[0].passed_in_all(), [*some[0].clients, said("given.coordinator")]
        for sender, entries in itertools.groupby(passed.tolist(), key=lambda entry: entry[0]):
            mine = list(entries)
            models, size, single = (sum(entry[i] for entry in mine) for i in (2, 3, 4))
            figures = (numbers.whole(models), numbers.size(size), numbers.whole(single))
            receivers = few(parties[entry[1]] for entry in mine)
            rows.append([label, parties[sender], receivers, *figures])
    if rows:
        columns = ["method", "from", "to", "models", "traffic", "numbers"]
        given = runs.table([said(f"column.{name}") for name in columns], rows, "figures given")
        seed = said("cost.given_seed", seed=views.seed(record))
        over = seed if runs.several_seeds else said("cost.given_said")
        made.append(More(said("cost.given"), [given, Sentence(over)]))
    return [*made, Sentence(sentences(*text))]


def few(names: Iterable[str], most: int = 5) -> str:
    """Some of the names, and how many more there are."""
    listed = list(names)
    if len(listed) > most:
        return said("cost.more", names=listed[:most], n=len(listed) - most)
    return said("list.plain", names=listed)


def time_part(runs: Runs) -> list[Block]:
    """Where the time of the whole command went, if that is known."""
    seconds = runs.spent()
    if not seconds:
        return []
    header = [said(f"column.{name}") for name in ("part", "seconds", "per_cent")]
    rows = [[known("time", part), Figure(spent), share] for part, spent, share in share_of_time(seconds)]
    return [Table(header, rows), Sentence(said("cost.time_said"))]
