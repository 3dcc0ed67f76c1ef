"""A card is a folder: who adds or removes one touches no other file."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace

import pytest

import coterie.page
from coterie.show import words

CARDS = Path(coterie.page.__file__).parent / "cards"
NAMES = {"with_whom": "with", "why": "why", "gain": "gain", "given": "given"}
FENCE = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXPLAINED = dict(FENCE.findall((Path(__file__).parents[2] / "docs" / "adding-a-card.md").read_text()))
"""The two files of the card that the docs explain."""


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A copy of the cards' folder, which the page finds in its place; all of the page is imported anew."""
    copy = tmp_path / "cards"
    shutil.copytree(CARDS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    rooms = Path(words.__file__).parent

    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != "coterie.page.cards":
            return None
        return importlib.util.spec_from_file_location(
            name, copy / "__init__.py", submodule_search_locations=[str(copy)]
        )

    monkeypatch.setattr(sys, "meta_path", [SimpleNamespace(find_spec=find_spec), *sys.meta_path])
    monkeypatch.setattr(words, "_files", lambda: [*rooms.glob("*.toml"), *copy.glob("*/words.toml")])
    monkeypatch.setattr(coterie, "page", coterie.page)  # so that those in use are there again afterwards
    for name in [name for name in sys.modules if name.startswith("coterie.page")]:
        monkeypatch.delitem(sys.modules, name)
    words.texts.cache_clear()
    yield copy
    words.texts.cache_clear()


def shown(runs: Path) -> dict[str, str]:
    """Every page that could need a card, of a client and of its study."""
    from coterie.page import differences, pages, render, view
    from coterie.page.library import library_of

    library = library_of([str(runs)])
    entry = next(e for e in library.all() if e.name == "study")
    north = view.view_of(library, entry, "north", "weight-erosion")
    frame = render.Frame(words.Words("en"), "/", {})
    return {
        "client": pages.client_page(north, frame),
        "news": pages.client_news(north, frame.say),
        "data": pages.client_data_page(library, north, frame),
        "letter": differences.letter(north, "west", frame.say),
        "clients": pages.clients_page(entry, library.study(entry), frame),
        "home": pages.home_page(library, frame),
    }


@pytest.mark.parametrize("folder", NAMES)
def test_without_its_folder_a_card_is_gone_and_all_else_is_there(folders, made, folder):
    shutil.rmtree(folders / folder)
    pages = shown(made)
    for name in NAMES.values():
        assert (f'id="card-{name}"' in pages["client"]) == (name != NAMES[folder])
        assert (f'id="card-{name}"' in pages["news"]) == (name != NAMES[folder])
    assert "To west, from north" in pages["letter"]
    with pytest.raises(KeyError):
        words.Words("en")(f"{NAMES[folder]}.title")


def test_a_folder_that_is_added_is_a_card_with_its_words_at_its_place(folders, made):
    """As the docs say, but between two others."""
    (folders / "rows").mkdir()
    for name, text in EXPLAINED.items():
        (folders / "rows" / name).write_text(text.replace('"rows", 50', '"rows", 15'))
    text = shown(made)["client"]
    assert ">Who has how many rows?</h2>" in text
    assert "You learn from 63 rows of your own; 0 others have more." in text
    assert 'id="figure-rows-bars"' in text
    order = [text.index(f'id="card-{name}"') for name in ("with", "rows", "why", "gain", "given")]
    assert order == sorted(order)


def test_no_other_file_names_a_card():
    sources = [*CARDS.parent.glob("*.py"), CARDS / "__init__.py", *CARDS.parents[1].glob("cli/*.py")]
    for source in sources:
        text = source.read_text()
        assert not any(f"cards.{name}" in text or f"cards import {name}" in text for name in NAMES), source
