"""The field's terms in plain words, where they stand and in one list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markupsafe import Markup

from coterie.report.page import render_page
from coterie.show.glossary import TERMS, as_markdown, behind, linked, terms_in
from coterie.show.html import glossary_of
from coterie.show.parts import Runs as Section
from coterie.show.words import say, speaking

DOCS = Path(__file__).parents[2] / "docs"
ANY = [pytest.param(term, id=term.name) for term in TERMS]


@pytest.mark.parametrize("term", ANY)
def test_a_term_is_found_as_a_whole_word_and_told_in_sentences(term):
    for way in (term.name, *term.also):
        assert f'href="#{term.anchor}"' in linked(f"Its {way}, %")
        assert f'href="#{term.anchor}"' not in linked(f"its x{way}x")
    assert term.said.endswith(".")
    assert term.plain[0].islower()


def test_anchors_differ_and_are_plain():
    anchors = [term.anchor for term in TERMS]
    assert len(set(anchors)) == len(TERMS)
    assert all(re.fullmatch(r"term-[a-z0-9-]+", a) for a in anchors)


def test_the_first_place_of_each_is_a_link_and_all_else_is_escaped():
    text = linked("<ECE> & ECE, balanced accuracy")
    assert re.sub(r"<a [^>]*>|</a>", "", text) == "&lt;ECE&gt; &amp; ECE, balanced accuracy"
    assert re.findall(r'href="#([^"]*)"', text) == ["term-ece", "term-balanced-accuracy"]
    assert 'title="gap between sure and right: Expected calibration error' in text


def test_plain_words_come_first():
    assert behind("τ") == "how sure it must be to answer (τ)"
    assert behind("entropy") == "uncertainty (entropy)"
    assert behind("of my own") == "of my own"


def test_a_page_has_the_words_that_it_uses_and_no_others(make_known):
    page = render_page([Section("", [make_known({"accuracy": [0.5, 0.7], "loss": [1.0, 2.0]})])])
    links, targets = (
        set(re.findall(r'href="#(term-[^"]*)"', page)),
        re.findall(r'<dt id="(term-[^"]*)"', page),
    )
    assert links == set(targets)
    assert "term-seed" in links
    assert "term-shapley-value" not in links
    assert len(targets) == len(set(targets))
    assert glossary_of(Markup("<p>nothing</p>")) == ""


@pytest.mark.parametrize("language", ["fr", "de"])
def test_every_term_is_told_in_the_reader_s_language(language):
    """Each in other words, under the same link; a page in that language links and explains by these."""
    there = terms_in(language)
    assert [term.anchor for term in there] == [term.anchor for term in TERMS]
    for term, english in zip(there, TERMS, strict=True):
        assert term.plain != english.plain
        assert term.said != english.said
        assert term.said.endswith(".")
        with speaking(language):
            assert f'href="#{term.anchor}"' in linked(f"{term.name}, %")
            assert say.again(behind(english.name)) == f"{term.plain} ({term.name})"
    assert terms_in("en") == TERMS


def test_the_docs_have_the_same_words():
    assert as_markdown() in (DOCS / "glossary.md").read_text()
