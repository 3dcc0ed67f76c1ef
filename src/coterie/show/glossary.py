"""The field's terms in plain words: one catalogue for a page's glossary, its hovers and links, and the docs.

A term stands where it is shown: behind plain words, or as a link to its sentence. A page has the sentences of
the terms that occur on it. Metrics bring their own; the others are in glossary.toml.

python -m coterie.show.glossary     writes the table of docs/glossary.md again
"""

from __future__ import annotations

import functools
import html
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from coterie.metrics.table import METRICS
from coterie.show.words import LANGUAGES, known, say, translated


@dataclass(frozen=True)
class _Term:
    """`name` is the field's, `plain` what one might say instead, `said` a sentence; `also` are other ways in
    which it is written, each a whole word; `key` what a page links to, where the name is a translation.
    """

    name: str
    plain: str
    said: str
    also: tuple[str, ...] = ()
    key: str = ""

    @property
    def anchor(self) -> str:
        if self.key:
            return f"term-{self.key}"
        slugs = (re.sub(r"[^a-z0-9]+", "-", way.lower()).strip("-") for way in (self.name, *self.also))
        return "term-" + next(slug for slug in slugs if slug)

    @property
    def written(self) -> re.Pattern[str]:
        """Where it occurs in a text: as a whole word, capitals at its beginning or not."""
        ways = "|".join(re.escape(way) for way in sorted((self.name, *self.also), key=len, reverse=True))
        return re.compile(rf"(?<![\w-])(?:{ways})(?![\w-])", 0 if self.name.isupper() else re.IGNORECASE)


_KEPT = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
TERMS = (
    *(_Term(m.label, m.plain, m.explained, m.also) for m in METRICS.values() if m.explained),
    *(_Term(**{**term, "also": tuple(term.get("also", ()))}) for term in _KEPT["term"]),
)
"""In the order of the glossary."""
BY_NAME = {term.name: term for term in TERMS}
_NAMES = {m.label: m.words for m in METRICS.values()}


@functools.cache
def terms_in(language: str) -> tuple[_Term, ...]:
    """The same terms in a language; those without words in it, of somebody's own metric say, in English."""
    found = []
    for term in TERMS:
        key = term.anchor.removeprefix("term-")
        if (words := _KEPT.get(language, {}).get(key)) is None:
            found.append(term)
            continue
        name = words.get("name") or _NAMES.get(term.name, {}).get(language, term.name)
        found.append(_Term(name, words["plain"], words["said"], tuple(words.get("also", ())), key))
    return tuple(found)


def behind(name: str) -> str:
    """Plain words, and the field's term behind them: uncertainty (entropy). A name that is no term stays."""
    if name not in BY_NAME:
        return known("number_called", name)
    at = TERMS.index(BY_NAME[name])
    by_language = {language: terms_in(language)[at] for language in LANGUAGES}
    return translated({language: f"{term.plain} ({term.name})" for language, term in by_language.items()})


def linked(text: str) -> str:
    """A text as HTML, with a link at the first place of each term, and its sentence to hover over."""
    terms = terms_in(say.language)
    places = [(*place.span(), term) for term in terms if (place := term.written.search(text))]
    found: dict[int, tuple[int, _Term]] = {}
    for start, end, term in sorted(places, key=lambda p: p[0] - p[1]):  # the longest: log loss before loss
        if not any(a < end and start < b for a, (b, _) in found.items()):
            found[start] = (end, term)
    made, at = "", 0
    for start, (end, term) in sorted(found.items()):
        made += html.escape(text[at:start])
        title = html.escape(f"{term.plain}: {term.said}")
        made += f'<a class="term" href="#{term.anchor}" title="{title}">{html.escape(text[start:end])}</a>'
        at = end
    return made + html.escape(text[at:])


def linked_in(body: str) -> list[_Term]:
    """The terms that this HTML has links to."""
    return [term for term in terms_in(say.language) if f'href="#{term.anchor}"' in body]


def as_markdown() -> str:
    """The catalogue as a table, for the docs."""
    rows = [f"| {term.name} | {term.plain} | {term.said} |" for term in TERMS]
    return "\n".join(["| term | in plain words | what it is |", "| --- | --- | --- |", *rows])


def _write_again(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    start, rest = text.split("| term |", 1)
    page.write_text(start + as_markdown() + rest[rest.index("\n\n") :], encoding="utf-8")


if __name__ == "__main__":
    _write_again(Path("docs") / "glossary.md")
