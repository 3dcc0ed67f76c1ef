"""One block, said in several languages, in a page, on a screen, in a paper and in a file."""

from __future__ import annotations

import json
import re

from coterie.show import html
from coterie.show.blocks import Cell, Code, Control, Facts, More, Note, Plot, Points, Section, Sentence, Table
from coterie.show.words import counted, said, sentences, speaking

FOUND = counted("data.found", 2)
BLOCKS = [
    Sentence(sentences(FOUND, said("data.english")), lead="<Lyon>"),
    Note("mind & see"),
    Points(["one", Sentence("two", lead="b"), More("three", [Sentence("four")])]),
    Table(["name", "seed"], [[Cell("<a>", ink="#000000", share=0.25), "1"]]),
    Code(["coterie run"]),
    Facts([("commit", "abc")]),
    Section("Part", [Sentence("inside")], key="s0-part"),
    Section("Below", [Sentence("deeper")]),
]


def test_each_kind_of_block_is_shown_and_escaped():
    made = str(html.blocks_to_html(BLOCKS))
    assert "<b>&lt;Lyon&gt;</b> 2 findings. What was found" in made
    assert '<p class="warning">mind &amp; see</p>' in made
    assert "<li><details><summary>three</summary><p>four</p>" in re.sub(r"\s*\n\s*", "", made)
    assert 'fill="#000000"' in made
    assert '<rect x="75.0" width="25.0" height="5"/>' in made
    assert "&lt;a&gt;" in made
    assert '<section id="s0-part"><h2>Part</h2>' in made
    assert "<h3>Below</h3>" in made
    assert "<Lyon>" not in made


def test_the_same_blocks_speak_another_language():
    with speaking("de"):
        made = str(html.blocks_to_html(BLOCKS))
    assert "2 Befunde. Die Befunde stehen hier" in made
    assert "<b>&lt;Lyon&gt;</b>" in made


def test_a_plot_has_its_data_beside_it_and_no_tag_ends_them():
    plot = Plot(
        "s0-x",
        {"kind": "matrix", "name": "</script>"},
        "what it shows",
        "matrix",
        [Control("run", "Method", choices=["a"])],
    )
    made = str(html.blocks_to_html([plot]))
    assert '<select class="run"><option value="0">a</option>' in made
    (data,) = re.findall(r'<script type="application/json" id="s0-x-plot">(.*?)</script>', made)
    assert json.loads(data)["name"] == "</script>"
    served = str(html.blocks_to_html([plot], served=True))
    assert 'role="img" aria-label="what it shows"' in served
    assert 'id="data-s0-x"' in served


def test_a_document_is_whole():
    made = html.document("T", [Sentence("head")], [Sentence("A seed is thrown.")])
    assert made.startswith("<!doctype html>")
    assert '<dt id="term-seed">seed</dt>' in made
    assert "Plotly" not in made
