"""CPU time and bytes of runs, and what they may come to in kWh and CO2e: cells, sentences, on the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from coterie.core.errors import UnknownName
from coterie.report import page_figures, tables, views, words
from coterie.report.inks import Ink
from coterie.runs.energy import Energy, Part, Range
from coterie.runs.factors import COUNTRY, asked_country, grid
from coterie.runs.record import Record

UNKNOWN = "not known"
Cells = tuple[list[str], list[list[str]]]


def mean_of(runs: Sequence[Record], country: str) -> Energy:
    """Of a whole run, the mean over seeds; not known where it is not of every seed."""
    every = [r.energy(country) for r in runs]

    def mean(name: str) -> Any:
        values = [getattr(e, name) for e in every]
        return None if None in values else sum(values) / len(values)

    return replace(every[0], **{n: mean(n) for n in ("cpu_seconds", "scoring", "bytes", "scoring_bytes")})


def ranged(found: Range, unit: Callable[[float], str]) -> str:
    """3.1 mWh (1 to 13 mWh)"""
    low, usual, high = map(unit, found)
    return usual if found.low == found.high else f"{usual} ({low} to {high})"


def both(part: Part | None) -> str:
    """kWh and CO2e in a line."""
    if part is None:
        return UNKNOWN
    return f"{ranged(part.kwh, words.energy)}; {ranged(part.co2, words.grams)} CO2e"


# what was measured


def measured(by_label: Mapping[str, Energy]) -> Cells:
    """CPU time and bytes, of training and of scoring."""
    header = ["method", "CPU, training", "CPU, scoring", "bytes, training", "bytes, scoring"]
    rows = [
        [label, *_two(e.cpu, words.duration), *_two(e.moved, words.size)] for label, e in by_label.items()
    ]
    return header, rows


def _two(spent: tuple[float | None, float | None], unit: Callable[[float], str]) -> list[str]:
    return [UNKNOWN if value is None else unit(value) for value in spent]


# what it may come to


def guessed(by_label: Mapping[str, Energy]) -> Cells:
    """Low, usual and high of both parts."""
    rows = []
    for label, found in by_label.items():
        for name, part in parts(found).items():
            ends = [UNKNOWN] * 3 if part is None else list(map(words.energy, part.kwh))
            rows.append([f"{label}, {name}", *ends])
            ends = [UNKNOWN] * 3 if part is None else list(map(words.grams, part.co2))
            rows.append([f"{label}, CO2e of that", *ends])
    return ["guessed", "low", "usual", "high"], rows


def parts(found: Energy) -> dict[str, Part | None]:
    """By what each is of."""
    computing = "computing" if found.whole else f"computing of {found.where}"
    return {computing: found.compute, network_of(found): found.network}


def network_of(found: Energy) -> str:
    return "network" if found.passed else "network, were sites apart"


def factors(found: Energy) -> Cells:
    rows = [[f.name, *(f"{v:g}" for v in (f.low, f.usual, f.high)), f.unit] for f in found.factors]
    return ["factor", "low", "usual", "high", "unit"], rows


def sources(found: Energy) -> list[str]:
    return [f"{f.name}: {f.about}. Source: {f.source}." for f in found.factors]


def tracked(by_label: views.Groups) -> list[str]:
    """A line for each method that a tracker watched, of the first seed that has one."""
    told = {
        label: next((t for r in runs if (t := r.tracked()) is not None), None)
        for label, runs in by_label.items()
    }
    several = len(by_label) > 1
    return [
        (f"{label}: " if several else "") + _tracked(one, by_label[label][0].done)
        for label, one in told.items()
        if one is not None
    ]


def _tracked(told: Mapping[str, Any], done: int) -> str:
    name = f"{told['tracker']} {told.get('version', '')}".strip()
    how = f"{told['how']}, {told.get('watts')} W, {told.get('cpu_model')}; of the {told.get('tracking')}"
    if told["kwh"] is None:
        return f"{name} came to no figure ({how})."
    first, last = told["rounds"]
    of = f"rounds {first} to {last}" + (f" of {done} alone" if last < done or first else "")
    guess = f"{words.energy(told['kwh'])}, {words.grams(1e3 * told['co2_kg'])} CO2e"
    return f"{name} says {guess} ({how}; {of}, {told.get('grid')})."


def said(found: Energy) -> str:
    """What to know of the figures, in a few sentences."""
    lines = ["CPU time and bytes are measured; kWh and CO2e are guesses from them, usual (low to high)."]
    if not found.whole:
        lines.append(f"CPU time is of {found.where}: what the whole run took is not known.")
    if not found.passed:
        lines.append("No byte left this machine: the network's part is what it would take, were sites apart.")
    return " ".join([*lines, f"Not counted: {'; '.join(found.not_counted)}."])


# on the page


def part(by_label: views.Groups, colours: Mapping[str, Ink]) -> str:
    """A line for each method; factors and sources on demand."""
    country, wrong = home()
    by_method = {label: mean_of(runs, country) for label, runs in by_label.items()}
    first = next(iter(by_method.values()))
    header = ["method", "CPU time + scoring", "bytes + scoring", *parts(first)]
    rows = [
        [
            label,
            *(
                " + ".join(_two(spent, unit))
                for spent, unit in ((e.cpu, words.duration), (e.moved, words.size))
            ),
            *map(both, (e.compute, e.network)),
        ]
        for label, e in by_method.items()
    ]
    listed = tables.html_of(*factors(first), None)
    listed += "".join(f"<p>{escape(line)}</p>" for line in sources(first))
    return (
        f'<h3>Energy</h3><div class="box" tabindex="0">{tables.html_of(header, rows, colours)}</div>'
        f"<p>{escape(' '.join([said(first), *tracked(by_label), *wrong]))}</p>"
        + page_figures.more("Factors and sources", listed)
    )


def home() -> tuple[str, list[str]]:
    """The country that the environment names, and what is wrong with it if nobody knows it."""
    country = asked_country()
    try:
        grid(country)
    except UnknownName as error:
        return "", [f"{COUNTRY}: {error}; taken is the world's grid."]
    return country, []
