"""A client's page: how its study stands, four cards, what it decided, and what came of it."""

from __future__ import annotations

from html import escape

from coterie.page import judgement, learnable, letter
from coterie.page.cards import CARDS
from coterie.page.cards.base import Card
from coterie.page.catalogue import Words
from coterie.page.library import Library
from coterie.page.render import Frame, address, as_json, card_section, document, menu
from coterie.page.standing import happened, live_strip, seen, standing, strip
from coterie.page.view import View, labels_of


def page(library: Library, view: View, frame: Frame, trouble: str = "") -> str:
    say = frame.say
    choose = form(view, say)
    head = f"""<div class="head"><h1>{escape(view.client)}</h1>
<p class="what">{escape(view.entry.name)} · {escape(say("client.method", method=view.label))}</p>{choose}
<p class="headline" id="learnable" data-live>{escape(learnable.sentence(view, say))}</p>
{live_strip(view.entry, say)}</div>"""
    main = f"""{head}
<div class="cards" id="cards" data-refresh="{escape(cards_address(view))}">{cards(view, say)}</div>
{judgement.section(view, say, trouble)}
<section id="events"><h2>{escape(say("client.events"))}</h2>
<div id="happened" data-live>{events(view, say)}</div></section>
{letter.section(view, say)}
<section id="more"><h2>{escape(say("client.more"))}</h2><ul>{links(view, say)}</ul></section>"""
    return document(frame, main, live=address("news", view.entry.id))


def cards_address(view: View) -> str:
    return address("run", view.entry.id, view.client, "cards", label=view.label)


def cards(view: View, say: Words) -> str:
    """All four, and the strip and events for who asks for news; made once for a version."""
    made = [section(CARDS[key](view, say), view, say) for key in CARDS]
    return "".join(made)


def news(view: View, say: Words) -> str:
    """What a page that is open brings itself up to date with."""
    strip_now = f'<div id="standing">{strip(seen(view.entry), say)}</div>'
    strip_now += f'<p id="learnable">{escape(learnable.sentence(view, say))}</p>'
    return f'{strip_now}<div id="happened">{events(view, say)}</div>{cards(view, say)}'


def section(card: Card, view: View, say: Words) -> str:
    return card_section(card, view, say, slider(card, view, say))


def events(view: View, say: Words) -> str:
    live = standing(view.entry).live
    return happened(live.events if live is not None else (), say)


def form(view: View, say: Words) -> str:
    """Which method, and whose page; a reader of a site's own folder is at home."""
    labels = labels_of(view.study)
    parts = []
    if len(labels) > 1:
        parts.append(menu("label", say("client.choose_method"), [(x, x) for x in labels], view.label))
    if view.site is None and len(view.names) > 1:
        parts.append(menu("client", say("client.choose"), [(x, x) for x in view.names], view.client))
    if not parts:
        return ""
    go = f'<button type="submit">{escape(say("client.go"))}</button>'
    return f'<form class="choose" action="/run/{view.entry.id}" method="get">{"".join(parts)}{go}</form>'


def slider(card: Card, view: View, say: Words) -> str:
    """Sensitivity, specificity, net benefit at a threshold that is moved by hand; the script fills it in."""
    told = card.extra.get("threshold")
    if not told:
        return ""
    names = [one["class"] for one in told["classes"]]
    choose = menu("class", say("gain.class"), [(str(i), name) for i, name in enumerate(names)], "0")
    named = ("together", "alone", "sensitivity", "specificity", "net_benefit", "treat_all", "sick", "well")
    words = {key: say(f"gain.{key}") for key in named}
    keep = judgement.keep_threshold(view, say) if told["two"] else ""
    return f"""<div class="threshold" id="threshold">
<h3>{escape(say("gain.threshold"))}</h3>
<div class="controls">{choose}<label class="wide">{escape(say("gain.move"))}
<input type="range" id="cut" min="1" max="99" step="1" value="50">
<output for="cut" id="cut-at"></output></label></div>
<table class="figures" id="cut-table" aria-live="polite"></table><p id="cut-said"></p>{keep}
{as_json("cut-data", {**told, "words": words, "language": say.language})}</div>"""


def links(view: View, say: Words) -> str:
    found = [
        (address("run", view.entry.id, view.client, "data", label=view.label), say("client.data")),
        (address("report", view.entry.id), say("client.report")),
        ("/", say("client.all")),
    ]
    return "".join(f'<li><a href="{escape(to)}">{escape(text)}</a></li>' for to, text in found)
