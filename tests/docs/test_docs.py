"""The pages under docs/ are true: their Python runs, their shell commands are accepted."""

import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from coterie.cli.main import main
from coterie.core.method import METHODS
from coterie.metrics.layers import LAYER_METRICS
from coterie.runs.settings import from_table

DOCS = Path(__file__).parents[2] / "docs"
README = Path(__file__).parents[2] / "README.md"
FENCE = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, kind: str) -> list[tuple[str, str]]:
    """(file, text) of each fenced block of that kind."""
    return [(file, text) for found, file, text in FENCE.findall(page.read_text()) if found == kind]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path))
    before = {registry: dict(registry._known) for registry in (METHODS, LAYER_METRICS)}
    yield tmp_path
    for registry, known in before.items():
        registry._known.clear()
        registry._known.update(known)
    for own in ("halfway", "own_metric"):
        sys.modules.pop(own, None)


EXPLAINED = sorted((DOCS / "methods").glob("*.md"))


@pytest.mark.parametrize(
    "page",
    [
        *(DOCS / f"{p}.md" for p in ("tutorial", "adding-a-method", "tuning", "measures", "last-layer")),
        DOCS / "scikit-learn.md",
        DOCS / "own-parts.md",
        DOCS / "advice.md",
        DOCS / "budgets.md",
        DOCS / "energy.md",
        DOCS / "studies.md",
        DOCS / "contributions.md",
        DOCS / "quality.md",
        DOCS / "use.md",
        DOCS / "robust.md",
        DOCS / "similarity.md",
        *EXPLAINED,
        README,
    ],
    ids=lambda p: p.name,
)
def test_python_on_the_page_runs(page, here):
    scope: dict = {}
    ran = 0
    for file, text in blocks(page, "python"):
        if file:
            (here / file).write_text(text)
        else:
            exec(compile(text, page.name, "exec"), scope)
            ran += 1
    assert ran, f"{page.name} has no Python to run"


def test_method_of_the_page_runs_from_the_shell(here, capsys):
    page = DOCS / "adding-a-method.md"
    files = {f: t for f, t in blocks(page, "python") if f}
    assert list(files) == ["halfway.py", "stepping.py"]
    (here / "halfway.py").write_text(files["halfway.py"])
    ((_, shell),) = blocks(page, "sh")
    words = shlex.split(shell)[1:]
    assert main([*words[: words.index("--seeds")], "--seeds", "1", "--rounds", "2", "--out", "out"]) == 0
    assert "halfway" in capsys.readouterr().out
    assert main(["resume", "out"]) == 0


def test_toml_of_the_tutorial_is_accepted():
    ((_, text),) = blocks(DOCS / "tutorial.md", "toml")
    settings = from_table(tomllib.loads(text), "tutorial").resolved()
    assert settings.options["sgd"]["schedule"] == "cosine"
