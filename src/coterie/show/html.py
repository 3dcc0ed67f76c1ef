"""Blocks as HTML, by the templates in `templates/`: the same in a report and on a page that is served.

Whatever comes from people, names above all, is escaped there and nowhere else. Texts of the catalogue are
said in the language that is spoken (`show.words.speaking`).
"""

from __future__ import annotations

import base64
import functools
import html
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import coterie
from coterie.show import glossary
from coterie.show.blocks import Block, Cell, Table
from coterie.show.words import say

PLOTLY = "plotly-cartesian.min.js"  # of the npm package plotly.js-cartesian-dist-min 4.1.1, as published
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""The browser is told to load nothing from elsewhere, whatever a name or a library might ask for."""


@functools.cache
def environment() -> Environment:
    """Templates of all rooms: the page adds its own (`page/render.py`)."""
    made = Environment(
        loader=PackageLoader("coterie.show"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "t": _said,
        "terms": lambda text: Markup(glossary.linked(say.again(text))),  # links to what they mean
        "data": _as_json,
        "base64": lambda data: base64.b64encode(data).decode(),
    }
    made.globals |= {"show": blocks_to_html, "say": say, "resource": _resource, "kind_of": _kind_of}
    return made


def _kind_of(block: Block) -> str:
    """By which macro of `templates/blocks.html` it is rendered: plot of a Plot."""
    return type(block).__name__.lower()


def _how() -> Any:
    """The macros of `templates/blocks.html`, one for each kind of block."""
    return environment().get_template("blocks.html").module


def blocks_to_html(blocks: Sequence[Block], served: bool = False, terms: bool = True) -> Markup:
    """Blocks one after the other. `served`: on a page, which has no glossary, and whose figures are drawn
    when they are seen.
    """
    return Markup("").join(getattr(_how(), _kind_of(b))(b, served, terms and not served) for b in blocks)


def document(
    title: str, head: Sequence[Block], main: Sequence[Block], version: str = "", policy: str = POLICY
) -> str:
    """A file that opens anywhere, offline: styles, scripts and data are all inside."""
    header, body = blocks_to_html(head), blocks_to_html(main)
    return (
        environment()
        .get_template("document.html")
        .render(
            title=title,
            header=header,
            body=body,
            glossary=glossary_of(header + body),
            plotly=PLOTLY if "data-plot" in body else "",
            policy=Markup(policy),
            version=version or coterie.__version__,
        )
    )


def glossary_of(body: Markup) -> Markup:
    """The field's words that are linked in this HTML, and what they mean."""
    return Markup(_how().glossary(glossary.linked_in(body)))


def _said(text: str | Cell) -> Markup:
    """In the language that is spoken, escaped."""
    return Markup(html.escape(say.again(text.text if isinstance(text, Cell) else text)))


def _as_json(value: Any) -> Markup:
    """Data for the page's scripts; a browser does not run it."""
    text = json.dumps(_again(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def _again(value: Any) -> Any:
    """What a plot says, in the language that is spoken. Nearly all of it are numbers."""
    if value is None or isinstance(value, float | int):
        return value
    if isinstance(value, str):
        return value if type(value) is str else say.again(value)
    if isinstance(value, list | tuple):
        return [_again(v) for v in value]
    return {key: _again(v) for key, v in value.items()} if isinstance(value, Mapping) else value


def _resource(name: str) -> Markup:
    """A file of ours that goes into a document as it is."""
    return Markup(files("coterie.show").joinpath("static", name).read_text(encoding="utf-8"))


def table_html(table: Table) -> str:
    """A table by itself, without a box around it and without links."""
    return str(_how().table(table, served=False, terms=False, bare=True))
