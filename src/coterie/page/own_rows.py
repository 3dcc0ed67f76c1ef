"""A client's own data: what a check found in them, in which columns others differ, how many rows there are.

A site of a federation sees which rows a check is about, as they are its own (`quality.json` of its state);
of others it knows by how much their columns differ from its own, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from coterie.data.tables.texts import some
from coterie.page.cards import why
from coterie.page.cards.base import Picture, Table
from coterie.page.cards.why_pictures import columns_plot, sites_plot
from coterie.page.catalogue import Words
from coterie.page.library import Library
from coterie.page.reading import quality_of
from coterie.page.render import Frame, address, document, grid, picture
from coterie.page.rows import missing, quality_for
from coterie.page.view import View
from coterie.runs.alike import Similarity

LINES = 20  # rows of the site's file that are named
MANY = 200  # findings, labels, and columns, that are shown


def page(library: Library, view: View, frame: Frame) -> str:
    say = frame.say
    parts = {
        "quality": quality(library, view, say),
        "similarity": similarity(view, say),
        "sizes": sizes(view, say),
    }
    inner = "".join(
        f'<section id="{key}"><h2>{escape(say(f"data.{key}"))}</h2>{part}</section>'
        for key, part in parts.items()
    )
    back = address("run", view.entry.id, view.client, label=view.label)
    head = f"""<div class="head"><h1>{escape(say("data.own", name=view.client))}</h1>
<p class="what"><a href="{escape(back)}">{escape(view.entry.name)}</a></p></div>"""
    return document(frame, head + inner)


# what a check found


def quality(library: Library, view: View, say: Words) -> str:
    own = view.site is not None
    table = quality_of(view.site.state) if view.site is not None else None
    table = table if table is not None else quality_for(library, view.entry, view.study)
    if table is None:
        if own:
            return missing(say, "data.no_quality_site", "check --net federation --federation.kit KIT")
        return missing(say, "data.no_quality", "check")
    mine = [f for f in table["findings"] if f["site"] == view.client]
    said = f"<p>{escape(say.count('data.found', len(mine)))} {escape(say('data.advice'))}</p>"
    return said + findings(mine, own, say) + labels(table, view, own, say) + gaps(table, view, say)


def findings(mine: list[Mapping[str, Any]], own: bool, say: Words) -> str:
    if not mine:
        return ""
    names = ("column", "found", "sure", "remedy", *(["rows"] if own else []))
    rows = [
        [
            str(f["column"]) or "–",
            str(f["says"]),
            say.of(f"severity.{f['severity']}", str(f["severity"])),
            str(f["remedy"]),
            *([some(list(map(str, f["lines"])), LINES) or "–"] if own else []),
        ]
        for f in mine[:MANY]
    ]
    english = "" if say.language == "en" else f'<p class="what">{escape(say("data.english"))}</p>'
    header = [say(f"data.column.{name}") for name in names]
    return english + grid(Table(header, rows, ()), say("data.quality"), "wraps")


def labels(table: Mapping[str, Any], view: View, own: bool, say: Words) -> str:
    """Which to review, where the rows are the reader's own."""
    mine = [s for s in table["suspects"] if s["site"] == view.client] if own else []
    if not mine:
        return ""
    header = [say(f"data.column.{name}") for name in ("row", "given", "likely", "chance")]
    rows = [[str(s["line"]), s["given"], s["likely"], say.percent(s["chance"])] for s in mine[:MANY]]
    inner = grid(Table(header, rows, ()), say("data.labels"))
    return f"""<details><summary>{escape(say("data.labels"))} ({len(mine)})</summary>
<p>{escape(say("data.review"))}</p>{inner}</details>"""


def gaps(table: Mapping[str, Any], view: View, say: Words) -> str:
    """Shares of missing values, of columns that have any."""
    columns = next((site["columns"] for site in table["sites"] if site["site"] == view.client), ())
    shares = {c["name"]: c["missing"] / max(1, c["known"] + c["missing"]) for c in columns}
    rows = [[name, say.percent(share, 1)] for name, share in shares.items() if share]
    if not rows:
        return ""
    inner = grid(Table([say("data.column.column"), say("data.missing")], rows, ()), say("data.missing"))
    return f"<details><summary>{escape(say('data.missing'))} ({len(rows)})</summary>{inner}</details>"


# in what others differ


def similarity(view: View, say: Words) -> str:
    found = view.similarity
    if found is None:
        own = "similar --net federation --federation.kit KIT" if view.site is not None else "similar"
        return missing(say, "data.no_similarity", own)
    near, columns = why.nearest(view, found, say)
    said = "".join(f"<p>{escape(line)}</p>" for line in (near, *columns) if line)
    warned = "".join(f'<p class="warning">{escape(line)}</p>' for line in warnings(view, found, say))
    shown = [Picture("why-sites", sites_plot(view, found, say), say("why.picture_sites"))]
    if (plot := columns_plot(view, found, say))["choices"]:
        shown.append(Picture("why-columns", plot, say("why.picture_columns")))
    made = "".join(picture(one, say) for one in shown)
    return f'{warned}{said}<div class="pictures">{made}</div>{by_column(view, found, say)}'


def warnings(view: View, found: Similarity, say: Words) -> list[str]:
    """What to know before trusting a distance."""
    lines = [] if view.same else [say("why.other_rows")]
    lines += [say("why.own_scales")] if found.own_scales else []
    lines += [
        say("why.drowned", measure=say.of(f"measure.{measure}", measure), epsilon=say.number(found.epsilon))
        for measure, sites in found.drowned.items()
        if view.client in sites
    ]
    return lines


def by_column(view: View, found: Similarity, say: Words) -> str:
    """Every column, those in which others differ most first, beside what chance would make of it."""
    known = [j for j in view.others if np.isfinite(found.terms[view.number, j]).any()]
    if not known:
        return ""
    terms, chance = found.terms[view.number][known], found.expected[view.number][known]
    order = np.argsort(-np.nanmax(terms, axis=0), kind="stable")[:MANY]
    header = [say("data.column.column"), *(view.names[j] for j in known)]
    value = [[say.number(v, 2) for v in column] for column in terms.T]
    by_chance = [[say.number(v, 2) for v in column] for column in chance.T]
    rows = [
        [found.columns[c], *(f"{v} ({w})" for v, w in zip(value[c], by_chance[c], strict=True))]
        for c in order
    ]
    inner = grid(Table(header, rows, ()), say("data.similarity"))
    return f"<details open><summary>{escape(say('data.by_column'))}</summary>{inner}</details>"


# how many rows


def sizes(view: View, say: Words) -> str:
    """Of this client, and of others where they are told."""
    header = [say(f"data.column.{name}") for name in ("who", "train", "validation", "test")]
    clients = view.record.about["clients"]
    told = [c for c in clients if c["name"] == view.client or c["train"]]
    rows = [[c["name"], *(say.whole(int(c[part])) for part in ("train", "validation", "test"))] for c in told]
    return grid(Table(header, rows, ()), say("data.sizes"))
