"""Where a reader begins: a site's own page, the clients of a study, and what has none: advice, checks."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from html import escape

from coterie.methods.baselines import NOTHING
from coterie.page import gallery, offers, plans
from coterie.page.cards import gain
from coterie.page.catalogue import LANGUAGES, Words
from coterie.page.library import Entry, Library, Site
from coterie.page.reading import Study, quality_of
from coterie.page.render import Frame, address, document, note
from coterie.page.standing import happened, live_strip, standing
from coterie.report import views
from coterie.report.quality import quality_part
from coterie.runs.advising import ANSWERS
from coterie.storage.tail import last_lines

ASKED = 12  # lines of a site's diary


def page(library: Library, frame: Frame, trouble: str = "") -> str:
    """All runs; of a site, who asks for it above them, and below its models and what it was asked."""
    say, sites = frame.say, library.sites
    title = say("site.title", name=", ".join(s.name for s in sites)) if sites else say("gallery.head")
    above = "".join(
        f'<section id="offers{i or ""}"><h2>{escape(say("offer.title"))}</h2>'
        f'<div id="offers-{i}" data-live>{offers.offers(site, say)}</div></section>'
        f'<section id="plans{i or ""}"><h2>{escape(say("plan.title"))}</h2>'
        f'<div id="plans-{i}" data-live>{plans.plans(site, say)}</div></section>'
        for i, site in enumerate(sites)
    )
    below = "".join(of_site(site, i, say) for i, site in enumerate(sites))
    main = f"""<div class="head" data-refresh="/"><h1>{escape(title)}</h1></div>{note(trouble)}{above}
{gallery.gallery(library, say)}{below}"""
    return document(replace(frame, title=title), main, live="/news")


def of_site(site: Site, number: int, say: Words) -> str:
    return f"""<section id="models{number or ""}"><h2>{escape(say("site.models"))}</h2>
<div id="models-{number}" data-live>{models(site, say)}</div></section>
<section id="asked{number or ""}"><h2>{escape(say("site.asked"))}</h2>
<details><summary>{escape(say("site.diary"))}</summary>
<div id="asked-{number}" data-live>{diary(site)}</div></details></section>"""


def news(library: Library) -> dict[str, str]:
    """That there is something new: another version, which is a number made of all that is shown."""
    version = zlib.crc32(page(library, Frame(Words(), "/", {})).encode())
    return dict.fromkeys(LANGUAGES, json.dumps({"version": version}))


def diary(site: Site) -> str:
    lines = "".join(
        f"<li><time>{escape(str(one.get('time', ''))[:19])}</time> {escape(str(one.get('by', '')))}: "
        f"{escape(str(one.get('asked', '')))} – {escape(str(one.get('outcome', '')))}</li>"
        for one in reversed(last_lines(site.state / "asked.jsonl", ASKED))
    )
    return f'<ol class="events" reversed>{lines}</ol>'


def models(site: Site, say: Words) -> str:
    names = sorted(p.name for p in (site.state / "models").glob("*") if p.is_dir())
    if not names:
        return f"<p>{escape(say('site.no_models'))}</p>"
    using = f"coterie predict {site.state / 'models'}/NAME patients.csv"
    listed = "".join(f"<li>{escape(name)}</li>" for name in names)
    return f"<ul>{listed}</ul><pre tabindex='0'>{escape(using)}</pre>"


def clients(library: Library, entry: Entry, study: Study, frame: Frame) -> str:
    """Of a study: how it stands, and a link to each client's page."""
    say, record = frame.say, study.first
    metric = views.headline_metric([record])
    trained = [r for r in study.records if views.method(r) != NOTHING] or study.records
    latest = views.final(trained[0], metric)
    rows = "".join(
        f'<tr><th scope="row"><a href="{escape(address("run", entry.id, name))}">{escape(name)}</a></th>'
        f"<td>{escape(say.whole(size))}</td><td>{escape(gain.figure(value, metric, say))}</td></tr>"
        for name, size, value in zip(record.clients, views.sizes(record)["train"], latest, strict=True)
    )
    heads = (say("gallery.clients_name"), say("gallery.rows"), say.metric(metric))
    head = "".join(f'<th scope="col">{escape(h)}</th>' for h in heads)
    links = [
        (address("report", entry.id), say("client.report")),
        (address("data", entry.id), say("client.data")),
    ]
    listed = "".join(f'<li><a href="{escape(to)}">{escape(text)}</a></li>' for to, text in links)
    live = standing(entry).live
    here = escape(address("run", entry.id))
    main = f"""<div class="head" data-refresh="{here}"><h1>{escape(entry.name)}</h1>
{live_strip(entry, say)}</div>
<section id="clients"><h2>{escape(say("gallery.choose_client"))}</h2>
<div class="box" tabindex="0" role="region" aria-label="{escape(say("gallery.choose_client"))}">
<table class="figures"><thead><tr>{head}</tr></thead>
<tbody id="clients-rows" data-live>{rows}</tbody></table></div></section>
<section id="events"><h2>{escape(say("client.events"))}</h2>
<div id="happened" data-live>{happened(live.events if live else (), say)}</div></section>
<section id="more"><h2>{escape(say("client.more"))}</h2><ul>{listed}</ul></section>"""
    return document(frame, main, live=address("news", entry.id))


def other(entry: Entry, frame: Frame) -> str:
    """Advice in its own words, or what a check found."""
    say = frame.say
    if entry.kind == "check":
        table = quality_of(entry.path)
        body = quality_part(table) if table is not None else note(say("shell.trouble"))
    else:
        body = advice_part(entry, say)
    english = f'<p class="what">{escape(say("gallery.english"))}</p>' if say.language != "en" else ""
    main = f"""<div class="head"><h1>{escape(entry.name)}</h1>{english}</div>
<div class="report" lang="en"><section>{body}</section></div>"""
    return document(frame, main)


def advice_part(entry: Entry, say: Words) -> str:
    """What each client was told, as the folder's own page has it."""
    from coterie.report.answers_page import answers_part, gains_part, gifts_part, partners_part
    from coterie.runs.advising import read_advice

    if not (entry.path / ANSWERS).exists():
        return f"<p>{escape(say('live.before'))}</p>"
    advice = read_advice(entry.path)
    return answers_part(advice) + gains_part(advice) + partners_part(advice) + gifts_part(advice)
