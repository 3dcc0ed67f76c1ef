"""Files and names that pages, docstrings and comments speak of are there."""

import importlib
import re
from functools import reduce
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "benchmarks" / "README.md"]
PROGRAMS = sorted(
    file for folder in ("src", "benchmarks", "examples") for file in (ROOT / folder).rglob("*.py")
)
FILES = [
    f"/{file.relative_to(ROOT)}"
    for folder in ("src", "tests", "benchmarks", "examples", "docs", "deploy")
    for file in (ROOT / folder).rglob("*")
    if "__pycache__" not in file.parts
]
HERE = r"(?<![\w/.-])(?:src|tests|docs|benchmarks|examples|deploy)/(?:[\w.-]+/)*[\w-]+(?:\.\w+)?(?![\w*])"
"""A path from the root on."""
PYTHON = r"(?<![\w/.{}-])(?:\w+/)*\w+\.py\b"
"""A Python file, by the end of its path, as src/coterie/runs/loop.py is named runs/loop.py."""
NAME = r"\bcoterie(?:\.[A-Za-z_]\w*)+"
SIGNS = (".py", "coterie.", "src/", "tests/", "docs/", "benchmarks/", "examples/", "deploy/")
"""A line without any of them names nothing."""
OTHERS = {
    *("cyclic.py", "fed_opt.py", "scaffold.py", "fedbase.py", "fed_benchmark.py", "fl_devices.py", "apfl.py"),
    *("pfedgraph_cosine.py", "userpFedMe.py", "userperavg.py", "serverbase.py", "federation.py", "utils.py"),
    *(
        "train_cluster.py",
        "train_cluster_mnist.py",
        "my_methods.py",
        "own_metric.py",
        "halfway.py",
        "stepping.py",
    ),
    *("losses.py", "threaded.py", "wrapper.py", "hook.py", "shown.py", "__init__.py", "plain_x.py"),
    *("words.toml", "coterie.nets.threaded", "coterie.fish", "coterie.__main__"),
}
"""Files of other programs, and of examples and trial changes on a page."""


def is_file(name: str) -> bool:
    return any(file.endswith(f"/{name}") for file in FILES)


def is_name(name: str) -> bool:
    """Of a module, or of what one has."""
    module, rest = name, list[str]()
    while True:
        try:
            found = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _, last = module.rpartition(".")
            rest.insert(0, last)
    try:
        reduce(getattr, rest, found)
    except AttributeError:
        return False
    return True


def lost(text: str) -> set[str]:
    text = "\n".join(line for line in text.splitlines() if any(part in line for part in SIGNS))
    files = set(re.findall(HERE, text)) | set(re.findall(PYTHON, text))
    gone = {name for name in files if not is_file(name)}
    gone |= {name for name in set(re.findall(NAME, text)) - OTHERS if not is_name(name)}
    return {name for name in gone if name.rpartition("/")[2] not in OTHERS}


@pytest.mark.parametrize("files", [PAGES, PROGRAMS], ids=["pages", "programs"])
def test_what_is_named_is_there(files):
    assert {f"{file.relative_to(ROOT)}: {name}" for file in files for name in lost(file.read_text())} == set()


def test_what_is_gone_is_found():
    text = "see runs/loop.py, `runs/gone.py`, tests/gone, coterie.train, coterie.api.gone and coterie.gone.f"
    assert lost(text) == {"runs/gone.py", "tests/gone", "coterie.api.gone", "coterie.gone.f"}
