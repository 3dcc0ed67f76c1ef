"""A client's page: how its study stands, its cards, what it decided, and what came of it; and that of its own
data: what a check found in them, in which columns others differ, how many rows there are.

A site of a federation sees which rows a check is about, as they are its own (`quality.json` of its state);
of others it knows by how much their columns differ from its own, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coterie.data.tables.texts import some
from coterie.features.similarity.record import Similarity
from coterie.metrics.learnt import Learnt
from coterie.page import decisions, feedback
from coterie.page.cards import CARDS
from coterie.page.library import Library
from coterie.page.live import events_list, status_line, status_or_error
from coterie.page.render import Frame, render_page, render_part
from coterie.page.similarity import nearest, similarity_plots
from coterie.page.studies import quality_of
from coterie.page.view import View, figure, labels_of
from coterie.report.learnable import learns
from coterie.show import views
from coterie.show.blocks import Block, Code, Group, More, Note, Section, Sentence, Table
from coterie.show.words import Words


def client_page(view: View, frame: Frame, trouble: str = "") -> str:
    say, labels, menus = frame.say, labels_of(view.study), []  # which method, and whose page
    if len(labels) > 1:
        menus.append(("label", say("client.choose_method"), [(x, x) for x in labels], view.label))
    if view.site is None and len(view.names) > 1:  # a reader of a site's own folder is at home
        menus.append(("client", say("client.choose"), [(x, x) for x in view.names], view.client))
    parts = {**_changing(view, say), **decisions.decision_forms(view, say)}
    letters = feedback.partners(view)
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


_LINES = 20  # rows of the site's file that are named
_MANY = 200  # findings, labels, and columns, that are shown


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


def missing(say: Words, key: str, command: str) -> list[Block]:
    """What nobody has asked for yet, and the command that asks for it."""
    return [Sentence(say(key)), Code([f"coterie {command}"])]


def _quality(library: Library, view: View, say: Words) -> list[Block]:
    """What a check found."""
    own = view.site is not None
    table = quality_of(view.site.state) if view.site is not None else None
    table = table if table is not None else library.quality(view.entry)
    if table is None:
        if own:
            return missing(say, "data.no_quality_site", "check --net federation --federation.kit KIT")
        return missing(say, "data.no_quality", "check")
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
        return missing(say, "data.no_similarity", own)
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
