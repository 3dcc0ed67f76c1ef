"""All that there is, newest first, to be filtered and put side by side; and a study as in its report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import Any, get_args

from coterie.core.errors import CoterieError
from coterie.metrics.summary import mean_over_clients
from coterie.metrics.table import METRICS
from coterie.page.catalogue import Words
from coterie.page.library import Entry, Kind, Library, glance
from coterie.page.reading import Study
from coterie.page.render import Frame, address, document
from coterie.page.standing import standing
from coterie.report import page as report
from coterie.report import views, words
from coterie.report.page import Section
from coterie.storage.tail import last_lines

SIDES = 12  # studies side by side


def gallery(library: Library, say: Words) -> str:
    """A table of all, the newest first, that follows runs which go on."""
    mine = "figure_own" if library.sites else "figure"
    names = ("", "name", "kind", "data", "methods", "clients", "state", mine, "changed")
    head = "".join(f'<th scope="col">{escape(say(f"gallery.{n}")) if n else mark(say)}</th>' for n in names)
    kinds = (f'<option value="{kind}">{escape(say(f"kind.{kind}"))}</option>' for kind in get_args(Kind))
    return f"""<section id="runs"><h2>{escape(say("gallery.title"))}</h2><form action="/side" method="get">
<div class="controls"><label>{escape(say("gallery.filter"))}
<input type="search" id="filter" autocomplete="off"></label>
<label>{escape(say("gallery.kind"))} <select id="kind">
<option value="">{escape(say("gallery.every"))}</option>{"".join(kinds)}</select></label>
<button type="submit">{escape(say("gallery.side"))}</button></div>
<p id="found" aria-live="polite" data-of="{escape(say("gallery.found", n="{n}", of="{of}"))}"></p>
<div class="box" tabindex="0" role="region" aria-label="{escape(say("gallery.title"))}">
<table class="gallery" id="gallery"><thead><tr>{head}</tr></thead>
<tbody id="gallery-rows" data-live>{rows(library, say)}</tbody></table></div>
<div id="gallery-empty" data-live>{nothing(library, say)}</div></form></section>"""


def rows(library: Library, say: Words) -> str:
    """Those of runs that do not go on are made once."""
    entries, kept = library.all(), dict[tuple[Entry, str], str]()
    made = list[str]()
    for entry in entries:
        key = (entry, say.language)
        text, goes_on = (library.rows[key], False) if key in library.rows else row(library, entry, say)
        made.append(text)
        kept |= {} if goes_on else {key: text}
    there = set(entries)
    others = {key: text for key, text in library.rows.items() if key[1] != say.language and key[0] in there}
    library.rows = {**others, **kept}
    return "".join(made)


def nothing(library: Library, say: Words) -> str:
    if library.all():
        return ""
    if library.sites:
        return f"<p>{escape(say('gallery.nothing_site'))}</p>"
    return f"<p>{escape(say('gallery.nothing'))}</p><pre tabindex='0'>coterie compare --data digits</pre>"


def mark(say: Words) -> str:
    return f'<span class="hidden">{escape(say("gallery.mark"))}</span>'


def row(library: Library, entry: Entry, say: Words) -> tuple[str, bool]:
    """And whether it goes on."""
    told = glance(entry)
    to, site = address("run", entry.id), library.site_of(entry)
    if site is not None:
        to = address("run", entry.id, site.name)
    box = ""
    if entry.study:
        label = escape(say("gallery.pick", name=entry.name))
        box = f'<input type="checkbox" name="id" value="{entry.id}" aria-label="{label}">'
    state, figure, goes_on = stands(entry, say) if entry.study else ("", "", False)
    cells = [
        escape(say(f"kind.{entry.kind}")),
        escape(str(told.get("data", ""))),
        escape(say.listed([str(m) for m in told.get("methods", ())], 4)),
        escape(str(told.get("clients", ""))),
        state,
        escape(figure),
        escape(time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.changed))),
    ]
    broken = f' <span class="warning">{escape(told["broken"])}</span>' if "broken" in told else ""
    name = f'<a href="{escape(to)}">{escape(entry.name)}</a>{broken}'
    inner = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr data-kind="{entry.kind}"><td>{box}</td><th scope="row">{name}</th>{inner}</tr>', goes_on


def stands(entry: Entry, say: Words) -> tuple[str, str, bool]:
    """How far it is, its headline figure, from the ends of files alone, and whether it goes on."""
    try:
        now = standing(entry)
    except (CoterieError, OSError):
        return "", "", False
    state = f'<span class="state {now.state}">{escape(say(f"state.{now.state}"))}</span> {now.done}/{now.of}'
    if entry.kind != "run":
        return state, "", now.goes_on
    scores: dict[str, Any] = next(
        (m["scores"] for m in reversed(last_lines(entry.path / "metrics.jsonl", 3)) if m.get("scores")), {}
    )
    for metric in (name for name, known in METRICS.items() if known.headline):
        values = scores.get("own/test", {}).get(metric)
        if values and any(v is not None for v in values):
            mean = mean_over_clients(values)
            text = say.percent(mean, 1) if words.in_percent(metric) else say.number(mean)
            return state, f"{say.metric(metric)} {text}", now.goes_on
    return state, "", now.goes_on


def whole(entry: Entry, study: Study, frame: Frame) -> str:
    """A study in full: the parts of its report, in English as there."""
    return shown(frame, [study.section(entry.name)], live=address("news", entry.id))


def side_by_side(library: Library, entries: Sequence[Entry], frame: Frame) -> str:
    """Runs on the same clients in one section, others below each other."""
    sections: dict[tuple[str, ...], list[tuple[Entry, Study]]] = {}
    for entry in entries[:SIDES]:
        study = library.study(entry)
        if study.records:
            key = (views.task(study.first), *study.first.clients, str(study.first.about.get("rows", "")))
            sections.setdefault(key if key[-1] else (*key, entry.id), []).append((entry, study))
    made = []
    for some in sections.values():
        records = []
        for entry, study in some:
            for record in study.records:
                label = f"{record.label} ({entry.name})" if len(some) > 1 else record.label
                records.append(replace(record, label=label))
        made.append(Section(" · ".join(entry.name for entry, _ in some), records))
    return shown(frame, made)


def shown(frame: Frame, sections: Sequence[Section], live: str = "") -> str:
    say = frame.say
    if not sections:
        return document(frame, f"<p>{escape(say('gallery.no_round'))}</p>", live=live)
    outcomes, body = report.parts(sections)
    english = f'<p class="what">{escape(say("gallery.english"))}</p>' if say.language != "en" else ""
    body += report.glossary_part(outcomes + body)
    head = f'<div class="head"><h1>{escape(frame.title)}</h1>{english}</div>'
    inner = f'{head}<div class="report" lang="en"><header>{outcomes}</header>{body}</div>'
    return document(frame, inner, live=live)
