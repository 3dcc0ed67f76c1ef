"""A report knows no feature: each brings its parts, and one that is not there is missed by nobody."""

from __future__ import annotations

import pytest

from coterie import features
from coterie.report.page import OWN, render_page
from coterie.show import parts
from coterie.show.parts import Runs as Section
from coterie.show.words import LANGUAGES, speaking, texts

SHOWN = [name for name in features.names() if features._loaded(name, "shown") is not None]


@pytest.fixture
def runs(make_known):
    return [make_known({"accuracy": [0.5, 0.7]}, label) for label in ("local", "fedavg")]


@pytest.fixture
def without(monkeypatch):
    """As if a feature's folder were not there."""

    def take(name):
        left = tuple(one for one in features.names() if one != name)
        monkeypatch.setattr(features, "names", lambda: left)
        features.brought.cache_clear()

    yield take
    monkeypatch.undo()
    features.brought.cache_clear()


@pytest.mark.parametrize("name", SHOWN)
def test_a_report_is_whole_without_any_one_feature(name, runs, without):
    without(name)
    page = render_page([Section("made", runs)])
    assert 'id="s0-summary"' in page
    assert 'id="s0-repeat"' in page


def test_parts_stand_in_their_order_and_have_headings():
    every = parts.brought("report", OWN)
    assert [p.order for p in every] == sorted(p.order for p in every)
    assert all(p.title in texts() for p in every if p.title)
    assert all(p.title for p in every if not p.within)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_report_speaks_the_language_that_is_asked_for(language, runs):
    said = {"en": "Round by round", "fr": "Tour par tour", "de": "Runde für Runde"}
    with speaking(language):
        page = render_page([Section("made", runs)])
    assert f'<html lang="{language}">' in page
    assert [text in page for text in said.values()] == [key == language for key in said]
    assert ("Over 2 clients" in page) == (language == "en")
    assert ("60.0\u00a0%" in page) == (language == "en")
    assert ("60,0\u00a0%" in page) == (language != "en")
