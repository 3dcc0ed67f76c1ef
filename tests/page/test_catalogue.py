"""Texts in three languages: each is there, with the same blanks, and numbers are written as people do."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

import coterie.page
from coterie.core.observer import WORDS
from coterie.features.ranking.ranking import REASONS
from coterie.page.live import reason_away
from coterie.show.words import LANGUAGES, Words, language_of, texts

PAGE = Path(coterie.page.__file__).parent
SOURCES = [p.read_text() for kind in ("py", "html") for p in PAGE.rglob(f"*.{kind}")]


def blanks(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def test_every_text_is_there_in_every_language_with_the_same_blanks():
    for key, by_language in texts().items():
        assert list(by_language) == list(LANGUAGES), key
        assert len({frozenset(blanks(text)) for text in by_language.values()}) == 1, key
        assert all(text.strip() for text in by_language.values()), key


def test_every_text_that_is_asked_for_is_there():
    asked = {
        found for text in SOURCES for found in re.findall(r"say(?:\.of)?\(\s*\"([a-z0-9_.\-]+)\"(?! ~)", text)
    }
    assert len(asked) > 100
    assert asked <= texts().keys()
    begun = {found for text in SOURCES for found in re.findall(r"say\(\"([a-z_.]+)\" ~", text)}
    assert all(any(key.startswith(name) for key in texts()) for name in begun)
    counted = {found for text in SOURCES for found in re.findall(r"say\.count\(\s*\"([a-z0-9_.]+)\"", text)}
    assert {f"{key}.{form}" for key in counted for form in ("one", "many")} <= texts().keys()


@pytest.mark.parametrize(("part", "names"), [("event", WORDS), ("reason", REASONS)])
def test_whatever_may_happen_or_be_a_reason_has_words(part, names):
    assert {f"{part}.{name}" for name in names} <= texts().keys()


def test_what_fills_a_blank_is_not_read_as_a_text():
    assert Words("en")("live.away", name="{why}", why="{name}") == "{why} is away: {name}"


@pytest.mark.parametrize(
    ("language", "number", "percent", "size", "scaled"),
    [
        ("en", "1,234", "34.1\u00a0%", "12.3 MB", "0.35 to 4.4\u00a0mWh"),
        ("fr", "1\u202f234", "34,1\u00a0%", "12,3 MB", "0,35 à 4,4\u00a0mWh"),
        ("de", "1.234", "34,1\u00a0%", "12,3 MB", "0,35 bis 4,4\u00a0mWh"),
    ],
)
def test_numbers_are_written_as_the_language_does(language, number, percent, size, scaled):
    say = Words(language)
    assert say.whole(1234) == number
    assert say.percent(0.3412, 1) == percent
    assert say.size(12_345_678) == size
    assert say.scaled(0.00035, 0.0044, "Wh") == scaled
    assert say.number(float("nan")) == "–"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("fr-CH, fr;q=0.9, en;q=0.8", "fr"),
        ("es, de;q=0.5", "de"),
        ("es", "en"),
        ("", "en"),
        (";q=x,de", "de"),
    ],
)
def test_a_browser_is_answered_in_a_language_that_it_asks_for(wanted, found):
    assert language_of(wanted) == found


@pytest.mark.parametrize(
    ("why", "english", "german"),
    [
        ("b has not answered in time", "no answer in time", "keine Antwort"),
        (
            "b has not answered in time: it is busy: a visit of anna since 61 s",
            "busy for anna for 61 s",
            "seit 61 s für anna beschäftigt",
        ),
        (
            "b is connected but has not answered for 31 s: ask there whether its process hangs",
            "connected, but without an answer",
            "verbunden, aber ohne Antwort",
        ),
        ("its disk is full", "its disk is full", "its disk is full"),
    ],
)
def test_why_a_site_is_away_in_the_reader_s_language(why, english, german):
    assert english in reason_away(why, Words("en"))
    assert german in reason_away(why, Words("de"))
