"""Every page that a reader may open: all that there is, a study, a client of it and its own data, reports.

Of a client: how its study stands, its cards, what it decided, and what came of it; and that of its own data:
what a check found in them, in which columns others differ, how many rows there are. A site of a federation
sees which rows a check is about, as they are its own (`quality.json` of its state); of others it knows by how
much their columns differ from its own, and nothing else.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from coterie.core.errors import CoterieError
from coterie.data.tables.texts import some
from coterie.features.advice.question import ANSWERS, read_advice
from coterie.features.advice.report import answers_part, gains_part, gifts_part, partners_part
from coterie.features.quality.shown import report_blocks as quality_blocks
from coterie.features.similarity.record import Similarity
from coterie.features.similarity.shown import blocks_of as similarity_blocks
from coterie.methods.baselines import NOTHING
from coterie.metrics.learnt import Learnt
from coterie.metrics.summary import mean_over_clients
from coterie.metrics.table import METRICS
from coterie.page.cards import CARDS
from coterie.page.decisions import asked, decision_forms, offers, plans
from coterie.page.differences import nearest, partners, similarity_plots
from coterie.page.library import KINDS, Entry, Library, summary_of
from coterie.page.live import events_list, status_line, status_of, status_or_error
from coterie.page.render import Frame, address, render_page, render_part
from coterie.page.studies import Study, quality_of
from coterie.page.view import View, figure, labels_of, similarity_of_study
from coterie.report.clients import holdings_part
from coterie.report.learnable import learns
from coterie.report.page import report_blocks
from coterie.show import views
from coterie.show.blocks import Block, Code, Group, More, Note, Section, Sentence, Table
from coterie.show.html import blocks_to_html, glossary_of
from coterie.show.parts import Runs
from coterie.show.words import LANGUAGES, Words
from coterie.storage.tail import last_lines

_LINES = 20  # rows of the site's file that are named
_MANY = 200  # findings, labels, and columns, that are shown
_SIDES = 12  # studies side by side


# all that there is


def home_page(library: Library, frame: Frame, trouble: str = "") -> str:
    """All runs; of a site, who asks for it above them, and below its models and what it was asked."""
    say, sites = frame.say, library.sites
    title = say("site.title", name=", ".join(s.name for s in sites)) if sites else say("run_list.head")
    shown = [
        {
            "offers": offers(site, say),
            "plans": plans(site, say),
            "models": sorted(p.name for p in (site.state / "models").glob("*") if p.is_dir()),
            "asked": asked(site),
            "state": site.state,
        }
        for site in sites
    ]
    figure_of = "figure_own" if sites else "figure"  # whose page it is decides whose figure it is
    columns = ("name", "kind", "data", "methods", "clients", "state", figure_of, "changed")
    parts = {"kinds": tuple(KINDS), "columns": columns, "rows": _rows(library, say), "sites": shown}
    return render_page("home.html", replace(frame, title=title, live="/news"), **parts, trouble=trouble)


def home_news(library: Library) -> dict[str, str]:
    """That there is something new: another version, which is a number made of all that is shown."""
    version = zlib.crc32(home_page(library, Frame(Words(), "/", {})).encode())
    return dict.fromkeys(LANGUAGES, json.dumps({"version": version}))


def clients_page(entry: Entry, study: Study, frame: Frame) -> str:
    """Of a study: how it stands, and a link to each client's page."""
    say, record, now = frame.say, study.first, status_or_error(entry)
    metric = views.headline_metric([record])
    trained = [r for r in study.records if views.method(r) != NOTHING] or study.records
    sizes, latest = views.sizes(record)["train"], views.final(trained[0], metric)
    listed = [
        (name, say.whole(size), figure(value, metric, say))
        for name, size, value in zip(record.clients, sizes, latest, strict=True)
    ]
    parts = {"status": status_line(now, say), "events": events_list(now, say), "metric": say.metric(metric)}
    return render_page("clients.html", frame, entry=entry, clients=listed, **parts)


class _Row(NamedTuple):
    """One line. Of what cannot be read, `broken` says why; what has no rounds has no state and no figure."""

    entry: Entry
    to: str
    data: str
    methods: str
    clients: str
    changed: str
    broken: str = ""
    state: str = ""
    rounds: str = ""
    figure: str = ""
    goes_on: bool = False


def _rows(library: Library, say: Words) -> list[_Row]:
    """Those of runs that do not go on are made once."""
    kept: dict[tuple[Entry, str], _Row] = library.rows
    entries = library.all()
    made = {entry: kept.get((entry, say.language)) or _row(library, entry, say) for entry in entries}
    there = {key: row for key, row in kept.items() if key[0] in made}
    done = {(entry, say.language): row for entry, row in made.items() if not row.goes_on}
    library.rows = {**there, **done}
    return list(made.values())


def _row(library: Library, entry: Entry, say: Words) -> _Row:
    told, site = summary_of(entry), library.site_of(entry)
    return _Row(
        entry,
        address("run", entry.id, site.name) if site is not None else address("run", entry.id),
        str(told.get("data", "")),
        say.listed([str(m) for m in told.get("methods", ())], 4),
        str(told.get("clients", "")),
        time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.changed)),
        told.get("broken", ""),
        *(_progress(entry, say) if entry.study else ()),
    )


def _progress(entry: Entry, say: Words) -> tuple[str, str, str, bool]:
    """Its state, how far it is, its headline figure, from the ends of files alone, and whether it goes on."""
    try:
        now = status_of(entry)
    except (CoterieError, OSError):
        return "", "", "", False
    rounds = f"{now.done}/{now.of}"
    if entry.kind != "run":
        return now.state, rounds, "", now.goes_on
    scores: dict[str, Any] = next(
        (m["scores"] for m in reversed(last_lines(entry.path / "metrics.jsonl", 3)) if m.get("scores")), {}
    )
    shown = ""
    for metric in (name for name, known in METRICS.items() if known.headline):
        values = scores.get("own/test", {}).get(metric)
        if not shown and values and any(v is not None for v in values):
            shown = f"{say.metric(metric)} {figure(mean_over_clients(values), metric, say)}"
    return now.state, rounds, shown, now.goes_on


# a client, and its data


def client_page(view: View, frame: Frame, trouble: str = "") -> str:
    say, labels, menus = frame.say, labels_of(view.study), []  # which method, and whose page
    if len(labels) > 1:
        menus.append(("label", say("client.choose_method"), [(x, x) for x in labels], view.label))
    if view.site is None and len(view.names) > 1:  # a reader of a site's own folder is at home
        menus.append(("client", say("client.choose"), [(x, x) for x in view.names], view.client))
    parts = {**_changing(view, say), **decision_forms(view, say)}
    letters = partners(view)
    return render_page("client.html", frame, **parts, letters=letters, menus=menus, trouble=trouble)


def client_news(view: View, say: Words) -> str:
    """What a page that is open brings itself up to date with."""
    return str(render_part("news.html", say, **_changing(view, say)))


def _changing(view: View, say: Words) -> dict[str, Any]:
    now = status_or_error(view.entry)
    # what there is to learn, by all methods of the study, and training alone elsewhere on the same rows
    runs = [r for some in view.study.groups().values() for r in some]
    runs += [r for r in view.alone if r not in runs]
    found: Learnt = view.study.once(("learnt", view.number, len(runs)), lambda: learns(runs, view.number))
    return {
        "view": view,
        "cards": [card(view, say) for card in CARDS.values()],
        "learnable": learnable_words(found, views.baseline(views.groups(runs)) or "", say),
        "status": status_line(now, say),
        "events": events_list(now, say),
    }


def learnable_words(found: Learnt, alone: str, say: Words) -> str:
    """The question and its answer; `alone` is the label of training alone."""
    by = found.by
    if by is None:
        return f"{say('learn.question')} {say('learn.unknown')}"
    blanks = {
        "way": say("learn.alone") if by.way == alone else say("learn.with", method=by.way),
        "metric": say.metric(by.metric),
        "value": figure(by.model, by.metric, say),
        "same": say(f"learn.same.{by.metric}"),
        "level": figure(by.same, by.metric, say),
    }
    no = "near" if by.better else "no"
    said = [say("learn.question"), say(f"learn.{no if found.verdict == 'no' else 'yes'}", **blanks)]
    if found.first is not None:
        said.append(say("learn.not_alone", value=figure(found.first.model, found.first.metric, say)))
    if found.beside is not None:
        metric, (value, level) = found.beside.metric, found.beside[2:4]
        levels = {"value": figure(value, metric, say), "level": figure(level, metric, say)}
        said.append(say("learn.bold", metric=say.metric(metric), **levels))
    return " ".join(said)


def client_data_page(library: Library, view: View, frame: Frame) -> str:
    say = frame.say
    # how many rows there are of this client, and of others where they are told
    parts = ("train", "validation", "test")
    told = [c for c in view.record.about["clients"] if c["name"] == view.client or c["train"]]
    rows = [[c["name"], *(say.whole(int(c[part])) for part in parts)] for c in told]
    header = [say(f"data.column.{name}") for name in ("who", *parts)]
    shown: dict[str, Sequence[Block]] = {
        "quality": _quality(library, view, say),
        "similarity": _similarity(view, say),
        "sizes": [Table(header, rows, say("data.sizes"))],
    }
    sections = [Section(say(f"data.{key}"), blocks, key) for key, blocks in shown.items()]
    return render_page("client_data.html", frame, view=view, sections=sections)


def _missing(say: Words, key: str, command: str) -> list[Block]:
    """What nobody has asked for yet, and the command that asks for it."""
    return [Sentence(say(key)), Code([f"coterie {command}"])]


def _quality(library: Library, view: View, say: Words) -> list[Block]:
    """What a check found."""
    own = view.site is not None
    table = quality_of(view.site.state) if view.site is not None else None
    table = table if table is not None else library.quality(view.entry)
    if table is None:
        if own:
            return _missing(say, "data.no_quality_site", "check --net federation --federation.kit KIT")
        return _missing(say, "data.no_quality", "check")
    mine = [f for f in table["findings"] if f["site"] == view.client]
    blocks: list[Block] = [Sentence(f"{say.count('data.found', len(mine))} {say('data.advice')}")]
    blocks += _findings(mine, own, say)
    suspects = [s for s in table["suspects"] if s["site"] == view.client] if own else []
    if suspects:  # labels to review, where the rows are the reader's own
        header = [say(f"data.column.{name}") for name in ("row", "given", "likely", "chance")]
        rows = [[str(s["line"]), s["given"], s["likely"], say.percent(s["chance"])] for s in suspects[:_MANY]]
        labels, title = Table(header, rows, say("data.labels")), f"{say('data.labels')} ({len(suspects)})"
        blocks.append(More(title, [Sentence(say("data.review")), labels]))
    columns = next((site["columns"] for site in table["sites"] if site["site"] == view.client), ())
    shares = {c["name"]: c["missing"] / max(1, c["known"] + c["missing"]) for c in columns}
    if gaps := [[name, say.percent(share, 1)] for name, share in shares.items() if share]:
        title = say("data.missing")
        missed = Table([say("data.column.column"), title], gaps, title)
        blocks.append(More(f"{title} ({len(gaps)})", [missed]))
    return blocks


def _findings(mine: list[Mapping[str, Any]], own: bool, say: Words) -> list[Block]:
    """In the reader's language; of earlier checks as they wrote it down, in English."""
    if not mine:
        return []
    names = ("column", "found", "sure", "remedy", *(["rows"] if own else []))
    rows = []
    for f in mine[:_MANY]:
        what, remedy = f.get("said") or (None, None)
        severity = say.of(f"severity.{f['severity']}", str(f["severity"]))
        row = [str(f["column"]) or "–", say.again(what, f["says"]), severity, say.again(remedy, f["remedy"])]
        rows.append([*row, *([some(list(map(str, f["lines"])), _LINES) or "–"] if own else [])])
    english = [] if say.language == "en" or all("said" in f for f in mine) else [say("data.english")]
    table = Table([say(f"data.column.{n}") for n in names], rows, say("data.quality"), "wraps")
    return [*(Sentence(text, kind="what") for text in english), table]


def _similarity(view: View, say: Words) -> list[Block]:
    """In what others differ."""
    found = view.similarity
    if found is None:
        own = "similar --net federation --federation.kit KIT" if view.site is not None else "similar"
        return _missing(say, "data.no_similarity", own)
    warnings = [] if view.same else [say("alike.other_rows")]  # before trusting a distance
    warnings += [say("alike.own_scales")] if found.own_scales else []
    for measure in (m for m, sites in found.drowned.items() if view.client in sites):
        called, epsilon = say.of(f"measure.{measure}", measure), say.number(found.epsilon)
        warnings.append(say("alike.drowned", measure=called, epsilon=epsilon))
    near, columns = nearest(view, found, say)
    lines = [line for line in (near, *columns) if line]
    pictures = Group(similarity_plots(view, found, say), "pictures")
    return [*map(Note, warnings), *map(Sentence, lines), pictures, *_by_column(view, found, say)]


def _by_column(view: View, found: Similarity, say: Words) -> list[Block]:
    """Every column, those in which others differ most first, beside what chance would make of it."""
    known = [j for j in view.others if np.isfinite(found.terms[view.number, j]).any()]
    if not known:
        return []
    terms, chance = found.terms[view.number][known], found.expected[view.number][known]
    order = np.argsort(-np.nanmax(terms, axis=0), kind="stable")[:_MANY]
    header = [say("data.column.column"), *(view.names[j] for j in known)]
    rows = []
    for c in order:
        both = zip(terms[:, c], chance[:, c], strict=True)
        rows.append([found.columns[c], *(f"{say.number(v, 2)} ({say.number(w, 2)})" for v, w in both)])
    return [More(say("data.by_column"), [Table(header, rows, say("data.similarity"))], open=True)]


# reports


def side_by_side_page(library: Library, entries: Sequence[Entry], frame: Frame) -> str:
    """Runs on the same clients in one section, others below each other."""
    sections: dict[tuple[str, ...], list[tuple[Entry, Study]]] = {}
    for entry in entries[:_SIDES]:
        study = library.study(entry)
        if study.records:
            key = (views.task(study.first), *study.first.clients, str(study.first.about.get("rows", "")))
            sections.setdefault(key if key[-1] else (*key, entry.id), []).append((entry, study))
    made = []
    for alike in sections.values():
        records = []
        for entry, study in alike:
            for record in study.records:
                label = f"{record.label} ({entry.name})" if len(alike) > 1 else record.label
                records.append(replace(record, label=label))
        made.append(Runs(" · ".join(entry.name for entry, _ in alike), records))
    return report_page(made, frame)


def report_page(sections: Sequence[Runs], frame: Frame) -> str:
    """The parts of a report."""
    if not sections:
        return render_page("report.html", frame, body=frame.say("run_list.no_round"))
    head, main = report_blocks(sections)
    outcomes, body = blocks_to_html(head), blocks_to_html(main)
    return render_page("report.html", frame, outcomes=outcomes, body=body + glossary_of(outcomes + body))


def advice_or_check_page(entry: Entry, frame: Frame) -> str:
    """Advice as the folder's own page has it, or what a check found."""
    if entry.kind == "check":
        table = quality_of(entry.path)
        body = blocks_to_html(quality_blocks(table)) if table is not None else frame.say("shell.trouble")
    elif (entry.path / ANSWERS).exists():
        advice = read_advice(entry.path)
        parts = (answers_part, gains_part, partners_part, gifts_part)
        body = blocks_to_html([block for part in parts for block in part(advice)])
    else:
        body = frame.say("live.before")
    return render_page("report.html", frame, body=body)


def study_data_page(library: Library, entry: Entry, frame: Frame) -> str:
    """What is known of the data behind a study: what a check found, how alike clients are, how many rows."""
    say, study = frame.say, library.study(entry)
    found, same = similarity_of_study(study, library.kin(entry, study.first.clients), study.first)
    parts = {
        "quality": blocks_to_html(_missing(say, "data.no_quality", "check")),
        "similarity": blocks_to_html(_missing(say, "data.no_similarity", "similar")),
        "sizes": blocks_to_html(holdings_part(Runs("", study.records or [study.first], key="data"))),
    }
    if (quality := library.quality(entry)) is not None:
        parts["quality"] = blocks_to_html(quality_blocks(quality))
    if found is not None:
        parts["similarity"] = blocks_to_html(similarity_blocks(found, "alike"))
    glossary = glossary_of(Markup("").join(parts.values()))
    warning = "" if same or found is None else say("alike.other_rows")
    return render_page("study_data.html", frame, parts=parts, warning=warning, glossary=glossary)
