"""From cards and texts to HTML. Whatever comes from people, names above all, is escaped here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote, urlencode

import coterie
from coterie.page.cards.base import Card, Picture, Table
from coterie.page.catalogue import LANGUAGES, Words
from coterie.page.view import View

PLOTLY_STYLE = "plotly.js-style-global"  # where plotly puts its rules if it is there; else it would make one


@dataclass(frozen=True)
class Frame:
    """Where a reader is: for links and menus. `path` has no query."""

    say: Words
    path: str
    query: Mapping[str, str]
    title: str = ""
    site: str = ""

    def link(self, **changed: str) -> str:
        query = {k: v for k, v in {**self.query, **changed}.items() if v and k not in ("done", "trouble")}
        return escape(f"{self.path}?{urlencode(query)}" if query else self.path)


def address(*parts: str, **query: str) -> str:
    """A path of names, whatever letters they have."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    some = {k: v for k, v in query.items() if v}
    return f"{path}?{urlencode(some)}" if some else path


def document(frame: Frame, main: str, head: str = "", live: str = "") -> str:
    """A whole page; `live` is where its news come from."""
    say = frame.say
    languages = "".join(
        f'<a href="{frame.link(lang=key)}" lang="{key}" hreflang="{key}"'
        f"{' aria-current=true' if key == say.language else ''}>{name}</a>"
        for key, name in LANGUAGES.items()
    )
    title = f"{frame.title} – Coterie" if frame.title else "Coterie"
    where = f'<span class="site">{escape(frame.site)}</span>' if frame.site else ""
    news = f' data-news="{escape(live)}" data-lost="{escape(say("live.lost"))}"' if live else ""
    return f"""<!doctype html>
<html lang="{say.language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/static/style.css">
<link rel="stylesheet" href="/static/page.css">
<link rel="stylesheet" href="/static/plotly.css" id="{PLOTLY_STYLE}">
<script src="/static/figures.js" defer></script>
<script src="/static/page.js" defer></script>
</head>
<body{news}>
<a class="skip" href="#main">{escape(say("shell.skip"))}</a>
<header class="top">
<nav aria-label="{escape(say("shell.navigation"))}"><a class="brand" href="/">Coterie</a>{where}</nav>
<nav class="languages" aria-label="{escape(say("shell.language"))}">{languages}</nav>
</header>
{head}
<main id="main" tabindex="-1">{main}</main>
<p class="hidden" role="status" id="heard"></p>
<footer>Coterie {escape(coterie.__version__)} · {escape(say("shell.local"))}</footer>
</body>
</html>
"""


def card_section(card: Card, view: View, say: Words, extra: str = "") -> str:
    """One of the four questions. What changes while a run goes on has an id, by which the page replaces it
    without touching the rest.
    """
    key = card.key
    lines = "".join(f"<li>{escape(line)}</li>" for line in card.lines)
    how = "".join(f"<p>{escape(line)}</p>" for line in card.how)
    files = {"label": view.label if len(view.study.groups()) > 1 else ""}
    csv = address("run", view.entry.id, view.client, "card", f"{key}.csv", **files)
    pictures = "".join(picture(p, say) for p in card.pictures)
    return f"""<section class="card" id="card-{key}" aria-labelledby="title-{key}">
<h2 id="title-{key}">{escape(say(f"{key}.title"))}</h2>
<p class="answer" id="answer-{key}" data-live>{escape(card.answer)}</p>
<ul class="said" id="said-{key}" data-live>{lines}</ul>
{extra}
<div class="pictures" id="pictures-{key}">{pictures}</div>
<details id="table-{key}"><summary>{escape(say("card.table"))}</summary>
<div id="rows-{key}" data-live>{grid(card.table, say(f"{key}.title")) if card.table else ""}</div>
<p><a class="file" href="{escape(csv)}" download>{escape(say("card.csv"))}</a></p></details>
<details id="how-{key}"><summary>{escape(say("card.how"))}</summary>
<div id="method-{key}" data-live>{how}</div></details>
</section>"""


def grid(table: Table, caption: str, kind: str = "figures") -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.header)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in table.rows
    )
    return (
        f'<div class="box" tabindex="0" role="region" aria-label="{escape(caption)}"><table class="{kind}">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def picture(shown: Picture, say: Words) -> str:
    """A figure that is drawn when it is seen; its sentence is there for all."""
    choices = shown.plot.get("choices", ())
    menu = ""
    if len(choices) > 1:
        options = "".join(f'<option value="{i}">{escape(c["name"])}</option>' for i, c in enumerate(choices))
        menu = f'<label>{escape(say("card.show"))} <select class="choice">{options}</select></label>'
    save = f'<button type="button" class="png" data-name="{shown.key}">{escape(say("card.png"))}</button>'
    return (
        f'<figure data-plot="data-{shown.key}" id="figure-{shown.key}"><div class="controls">{menu}</div>'
        f'<div class="box"><div class="canvas" role="img" aria-label="{escape(shown.said)}"></div></div>'
        f"<figcaption>{escape(shown.said)} {save}</figcaption></figure>"
        f"{as_json(f'data-{shown.key}', shown.plot)}"
    )


def as_json(id: str, value: Any) -> str:
    """Data for the page's scripts; a browser does not run it."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    harmless = text.replace("<", "\\u003c")
    return f'<script type="application/json" id="{id}">{harmless}</script>'


def menu(name: str, label: str, options: Sequence[tuple[str, str]], chosen: str) -> str:
    made = "".join(
        f'<option value="{escape(value)}"{" selected" * (value == chosen)}>{escape(text)}</option>'
        for value, text in options
    )
    return f'<label>{escape(label)} <select name="{name}">{made}</select></label>'


def note(text: str, kind: str = "warning") -> str:
    return f'<p class="{kind}" role="status">{escape(text)}</p>' if text else ""
