"""A run that goes on while it is shown: what a page says is of one moment, and made once for many."""

from __future__ import annotations

import asyncio
import http.client
import threading
from urllib.parse import urlsplit

import pytest
from pages import TOKEN, Growing, entry, served

from coterie.page.card import csv_of
from coterie.page.cards import CARDS
from coterie.page.library import library_of
from coterie.page.live import LOOK, MANY, SELDOM, Watched, Watchers
from coterie.page.view import view_of
from coterie.show.words import Words


@pytest.fixture
def growing(runs):
    run = Growing(runs / "study" / "weight-erosion" / "seed-0", runs / "live", 2)
    yield run
    run.end()


def opened(growing):
    """Its library and its entry."""
    library = library_of([str(growing.folder.parent)])
    return library, next(e for e in library.all() if e.name == "live")


def test_a_view_is_of_the_rounds_that_were_there_when_it_was_made(growing):
    library, live = opened(growing)
    view = view_of(library, live, "north")
    said = [CARDS[key](view, Words("en")).table for key in ("with", "given")]
    growing.more()
    assert (list(view.record.weights), list(view.record.passed), view.record.done) == ([1, 2], [1, 2], 2)
    assert [CARDS[key](view, Words("en")).table for key in ("with", "given")] == said
    library.study(live)
    assert (list(view.record.weights), list(view.record.passed), view.record.done) == ([1, 2, 3],) * 2 + (3,)


def test_what_was_looked_at_a_moment_ago_is_not_looked_at_again(growing):
    library, live = opened(growing)
    before = library.study(live).version
    growing.more()
    assert library.study(live, age=60.0).version == before
    assert library.study(live).version == before + 1


def test_studies_that_look_at_each_other_have_one_lock(growing):
    """With one each, two pages could wait for each other for ever."""
    library, live = opened(growing)
    other = next(e for e in library.all() if e.name == "circles")
    assert library.study(live).lock is library.study(other).lock


@pytest.mark.parametrize(("pages", "seconds"), [(0, LOOK), (MANY, 2 * LOOK), (1000, SELDOM)])
def test_many_pages_are_told_news_less_often(growing, pages, seconds):
    _, live = opened(growing)
    watchers = Watchers()
    watchers.watched[live.id] = Watched(listeners=pages, news=asyncio.Condition())
    assert watchers.pace(live.id) == pytest.approx(seconds)


def test_pages_that_are_opened_at_once_count_what_passed_once(growing, runs):
    with served(library_of([str(runs)])) as address:
        where, texts = urlsplit(address), list[str]()

        def read() -> None:
            line = http.client.HTTPConnection(where.hostname, where.port, timeout=30)
            path = f"/run/{entry(runs, 'live')}/north/card/given.csv"
            line.request("GET", path, headers={"Cookie": f"coterie-{where.port}={TOKEN}"})
            texts.append(line.getresponse().read().decode())

        threads = [threading.Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    library, live = opened(growing)
    expected = CARDS["given"](view_of(library, live, "north"), Words("en"))
    assert texts == [csv_of(expected.table)] * 8
