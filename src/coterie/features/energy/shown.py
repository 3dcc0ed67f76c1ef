"""CPU time and bytes of runs, and what they may come to in kWh and CO2e: a piece of the report's costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from coterie.core.errors import UnknownName
from coterie.features.energy.record import COUNTRY, Energy, Part, Range, asked_country, grid
from coterie.runs.record import Record
from coterie.show import numbers, parts, views
from coterie.show.blocks import Block, More, Sentence, Table
from coterie.show.parts import Runs
from coterie.show.words import Figure, known, said, semicolons, sentences

Cells = tuple[list[str], list[list[str]]]
ENDS = ("low", "usual", "high")


def _energy_part(runs: Runs) -> list[Block]:
    """A line for each method; factors and sources on demand."""
    country, wrong = asked_country(), list[str]()
    try:
        grid(country)
    except UnknownName as error:  # the environment names one that nobody knows
        country, wrong = "", [said("energy.world", variable=COUNTRY, error=str(error))]
    by_method = {label: mean_of(some, country) for label, some in runs.by_label.items()}
    first = next(iter(by_method.values()))
    header: list[str] = [said("column.method"), said("energy.column.cpu"), said("energy.column.bytes")]
    header += _parts_of(first)
    rows = []
    for label, e in by_method.items():
        plus = [said("energy.plus", one=one, other=other) for one, other in _spent(e)]
        rows.append([label, *plus, _both(e.compute), _both(e.network)])
    text = sentences(_said_of(first), *tracked(runs.by_label), *wrong)
    listed: list[Block] = [Table(*_factors(first)), *map(Sentence, _sources(first))]
    return [runs.table(header, rows), Sentence(text), More(said("energy.factors"), listed)]


PARTS = (parts.Part("energy", "energy.title", 211, _energy_part, within="cost"),)


def mean_of(runs: Sequence[Record], country: str) -> Energy:
    """Of a whole run, the mean over seeds; not known where it is not of every seed."""
    every: list[Energy] = [r.energy(country) for r in runs]

    def mean(name: str) -> Any:
        values = [getattr(e, name) for e in every]
        return None if None in values else sum(values) / len(values)

    return replace(every[0], **{n: mean(n) for n in ("cpu_seconds", "scoring", "bytes", "scoring_bytes")})


def _ranged(found: Range, unit: Callable[[float], Figure]) -> str:
    """3.1 mWh (1 to 13 mWh)"""
    low, usual, high = map(unit, found)
    return usual if found.low == found.high else said("energy.range", low=low, usual=usual, high=high)


def _both(part: Part | None) -> str:
    """kWh and CO2e in a line."""
    if part is None:
        return said("energy.unknown")
    return said("energy.both", kwh=_ranged(part.kwh, numbers.energy), co2=_ranged(part.co2, numbers.grams))


def measured(by_label: Mapping[str, Energy]) -> Cells:
    """CPU time and bytes, of training and of scoring."""
    header: list[str] = [said("column.method")]
    header += [said(f"energy.{what}.{of}") for what in ("cpu", "bytes") for of in ("training", "scoring")]
    return header, [[label, *chain(*_spent(e))] for label, e in by_label.items()]


def in_full(by_label: Mapping[str, Energy]) -> tuple[list[Cells], list[str]]:
    """Tables of what was measured, what is guessed from it and by which factors; what to know of them."""
    first = next(iter(by_label.values()))
    return [measured(by_label), guessed(by_label), _factors(first)], [_said_of(first), *_sources(first)]


def _spent(found: Energy) -> list[list[str]]:
    """CPU time of training and of scoring, and bytes likewise."""
    units = ((found.cpu, numbers.duration), (found.moved, numbers.size))
    return [[said("energy.unknown") if v is None else unit(v) for v in two] for two, unit in units]


def guessed(by_label: Mapping[str, Energy]) -> Cells:
    """Low, usual and high of both parts."""
    rows: list[list[str]] = []
    for label, found in by_label.items():
        for name, part in _parts_of(found).items():
            unknown = [said("energy.unknown")] * 3
            kwh = unknown if part is None else list(map(numbers.energy, part.kwh))
            co2 = unknown if part is None else list(map(numbers.grams, part.co2))
            rows.append([said("energy.of", method=label, part=name), *kwh])
            rows.append([said("energy.co2", method=label), *co2])
    return [said("energy.guessed"), *(said(f"energy.{end}") for end in ENDS)], rows


def _parts_of(found: Energy) -> dict[str, Part | None]:
    """By what each is of."""
    computing = said("energy.computing") if found.whole else said("energy.computing_of", where=found.where)
    network = said("energy.network" if found.passed else "energy.network_apart")
    return {computing: found.compute, network: found.network}


def _factors(found: Energy) -> Cells:
    rows = []
    for f in found.factors:
        ends = [Figure(f"{v:g}") for v in (f.low, f.usual, f.high)]
        rows.append([known("factor", f.name), *ends, known("factor", f.unit)])
    return [said("energy.factor"), *(said(f"energy.{end}") for end in ENDS), said("energy.unit")], rows


def _sources(found: Energy) -> list[str]:
    words = [{key: known("factor", getattr(f, key)) for key in ("name", "about")} for f in found.factors]
    return [said("energy.source", **w, source=f.source) for w, f in zip(words, found.factors, strict=True)]


def tracked(by_label: views.Groups) -> list[str]:
    """A line for each method that a tracker watched, of the first seed that has one."""
    lines = []
    for label, runs in by_label.items():
        if (told := next((t for r in runs if (t := r.tracked()) is not None), None)) is not None:
            line = _tracked(told, runs[0].done)
            lines.append(said("report.of", who=label, said=line) if len(by_label) > 1 else line)
    return lines


def _tracked(told: Mapping[str, Any], done: int) -> str:
    name = f"{told['tracker']} {told.get('version', '')}".strip()
    how = f"{told['how']}, {told.get('watts')} W, {told.get('cpu_model')}; of the {told.get('tracking')}"
    if told["kwh"] is None:
        return said("energy.no_figure", tracker=name, how=how)
    first, last = told["rounds"]
    of = said("energy.tracked_rounds", first=first, last=last)
    if last < done or first:
        of = said("energy.tracked_some", first=first, last=last, done=done)
    kwh, co2 = numbers.energy(told["kwh"]), numbers.grams(1e3 * told["co2_kg"])
    return said("energy.tracked", tracker=name, kwh=kwh, co2=co2, how=how, of=of, grid=str(told.get("grid")))


def _said_of(found: Energy) -> str:
    """What to know of the figures, in a few sentences."""
    return sentences(
        said("energy.measured"),
        "" if found.whole else said("energy.not_whole", where=found.where),
        "" if found.passed else said("energy.not_passed"),
        said("energy.not_counted", things=semicolons(found.not_counted)),
    )
