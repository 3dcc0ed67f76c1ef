"""Where a reader begins: all that there is, a site's own page, the clients of a study."""

from __future__ import annotations

import json
import time
import zlib
from dataclasses import dataclass, replace
from typing import Any

from coterie.core.errors import CoterieError
from coterie.methods.baselines import NOTHING
from coterie.metrics.summary import mean_over_clients
from coterie.metrics.table import METRICS
from coterie.page.decisions import asked, offers, plans
from coterie.page.library import KINDS, Entry, Library, summary_of
from coterie.page.live import events_list, status_line, status_of, status_or_error
from coterie.page.render import Frame, address, render_page
from coterie.page.studies import Study
from coterie.page.view import figure
from coterie.show import views
from coterie.show.words import LANGUAGES, Words
from coterie.storage.tail import last_lines


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


@dataclass(frozen=True)
class Row:
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


def _rows(library: Library, say: Words) -> list[Row]:
    """Those of runs that do not go on are made once."""
    kept: dict[tuple[Entry, str], Row] = library.rows
    entries = library.all()
    made = {entry: kept.get((entry, say.language)) or _row(library, entry, say) for entry in entries}
    there = {key: row for key, row in kept.items() if key[0] in made}
    done = {(entry, say.language): row for entry, row in made.items() if not row.goes_on}
    library.rows = {**there, **done}
    return list(made.values())


def _row(library: Library, entry: Entry, say: Words) -> Row:
    told, site = summary_of(entry), library.site_of(entry)
    return Row(
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
