"""A browser's tab, and studies to look at, made once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import served, tab, write_tables

from coterie.cli.main import main
from coterie.page.library import library_of


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """Runs, made once: a comparison, a ranking, what sketches say, and a check of the data."""
    folder = tmp_path_factory.mktemp("page")
    recipe, runs = write_tables(folder), folder / "runs"
    small = ["--recipe", str(recipe), "--seed", "0"]
    methods = ["--methods", "local", "weight-erosion", "fedavg", "--rounds", "6", "--sgd.lr", "0.3"]
    for words in (
        ["compare", *small, *methods, "--seeds", "1", "--jobs", "1", "--out", str(runs / "study")],
        ["run", *small, "--method", "ndoye", "--rounds", "4", "--ndoye.bar", "none", "--ndoye.best", "2",
         "--out", str(runs / "circles")],
        ["similar", *small, "--out", str(runs / "alike")],
        ["check", *small[:2], "--out", str(runs / "looked")],
    ):  # fmt: skip
        assert main(words) == 0
    return runs


@pytest.fixture
def runs(made, tmp_path) -> Path:
    """The same, of one's own: what is decided in one test does not count in the next."""
    return Path(shutil.copytree(made, tmp_path / "runs"))


@pytest.fixture
def site(runs) -> Iterator[str]:
    with served(library_of([str(runs)])) as address:
        yield address


@pytest.fixture
def page(browser, request):
    """A tab in which nothing may go wrong: no error in the console, no request to anybody else. It is closed
    before its server is.
    """
    if "site" in request.fixturenames:
        request.getfixturevalue("site")
    with tab(browser) as found:
        yield found
