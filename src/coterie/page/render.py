"""Pages from the templates in `templates/`, which escape whatever comes from people, names above all."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, PrefixLoader
from markupsafe import Markup

import coterie
from coterie.show.html import environment
from coterie.show.words import LANGUAGES, Words, speaking


@dataclass(frozen=True)
class Frame:
    """Where a reader is, for links and menus. `path` has no query; `live` is where news come from."""

    say: Words
    path: str
    query: Mapping[str, str]
    title: str = ""
    site: str = ""
    live: str = ""

    def link(self, **changed: str) -> str:
        query = {k: v for k, v in {**self.query, **changed}.items() if v and k not in ("done", "trouble")}
        return f"{self.path}?{urlencode(query)}" if query else self.path


def address(*parts: str, **query: str) -> str:
    """A path of names, whatever letters they have."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    some = {k: v for k, v in query.items() if v}
    return f"{path}?{urlencode(some)}" if some else path


@functools.cache
def _environment() -> Environment:
    """That of blocks, with the page's templates; a card's own are called cards/gain/threshold.html."""
    of_cards = PrefixLoader({"cards": FileSystemLoader(Path(__file__).parent / "cards")})
    made = environment().overlay(loader=ChoiceLoader([PackageLoader("coterie.page"), of_cards]))
    made.globals = made.globals | {"LANGUAGES": LANGUAGES, "version": coterie.__version__, "address": address}
    return made


def render_part(template: str, say: Words, **values: Any) -> Markup:
    """A part of a page, in a language."""
    with speaking(say.language):
        return Markup(_environment().get_template(template).render(**values))


def render_page(template: str, frame: Frame, **values: Any) -> str:
    """A whole page."""
    return str(render_part(template, frame.say, frame=frame, **values))
