"""Rooms stand on those below them, on no feature by name; docs/architecture.md shows the same order."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]
SOURCE = HOME / "src" / "coterie"
LAYERS = """
studies
cli
api, page
federation
features
use
report
show, watching
runs
sites
nets
methods, engines
kernels
posteriors
data
words
metrics, privacy, kits
storage, linear, models, rules
core
"""
"""From the highest to the lowest. Rooms beside each other do not import each other."""
ABOVE_FEATURES = {"federation", "api", "page", "studies"}
"""Who may name a feature. `cli` finds commands by looking."""
FEATURES_ON_FEATURES = {
    "advice": {"trials", "tuning"},
    "budgets": {"energy"},
    "judgement": {"ownership"},
    "recalibration": {"outcomes"},
    "similarity": {"ranking"},
    "tuning": {"trials"},
}
ELSEWHERE = {
    "coterie.show.words": "words",
    "coterie.federation.kits": "kits",  # folders with keys
    "coterie.federation.site.state_folders": "kits",  # a site's own files, which its people look into
    "coterie.federation.site.consent": "kits",
}
"""Packages that are a room of their own, though they lie in another."""
SHELL = ("command", "resume")  # how files of a feature begin that are part of `cli`


def name_of(path):
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules():
    return {name_of(path): path for path in sorted(SOURCE.rglob("*.py"))}


def feature_of(module):
    parts = module.split(".")
    return parts[2] if parts[:2] == ["coterie", "features"] and len(parts) > 2 else None


def room_of(module):
    """None for the package itself, and for what finds features by looking."""
    for package, room in ELSEWHERE.items():
        if f"{module}.".startswith(f"{package}."):
            return room
    parts = module.split(".")
    if module in ("coterie", "coterie.__main__", "coterie.features"):
        return None
    if feature_of(module) and len(parts) > 3 and parts[3].startswith(SHELL):
        return "cli"
    return parts[1]


@cache
def arrows():
    """(who imports, what) of all modules; those inside functions and for types alone too."""
    found = set()
    for module, path in modules().items():
        package = module if path.stem == "__init__" else module.rpartition(".")[0]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{module}: imports are absolute"
                whole = [f"{node.module}.{alias.name}" for alias in node.names]
                names = [name if name in modules() else node.module for name in whole]
            else:
                continue
            found |= {(module, name) for name in names if name.split(".")[0] == "coterie" and name != package}
    return found


def test_no_room_imports_one_above_it():
    height = {room: i for i, line in enumerate(LAYERS.split("\n")) for room in re.findall(r"\w+", line)}
    wrong = [
        (who, what)
        for who, what in arrows()
        if (a := room_of(who)) and (b := room_of(what)) and a != b and height[a] >= height[b]
    ]
    assert wrong == []


def test_below_features_nobody_knows_their_names():
    may = {*ABOVE_FEATURES, "features", "cli"}
    named = {(who, what) for who, what in arrows() if feature_of(what) and not feature_of(who)}
    assert not [pair for pair in named if room_of(pair[0]) not in may - {"cli"}]


def test_features_stand_on_few_others():
    found = {}
    for who, what in arrows():
        one, other = feature_of(who), feature_of(what)
        if one and other and one != other:
            found.setdefault(one, set()).add(other)
    assert found == FEATURES_ON_FEATURES


def test_features_do_not_stand_on_each_other_in_a_circle():
    def below(name, path=()):
        assert name not in path, f"a circle: {' on '.join((*path, name))}"
        for other in FEATURES_ON_FEATURES.get(name, ()):
            below(other, (*path, name))

    for name in FEATURES_ON_FEATURES:
        below(name)


def test_the_drawing_is_of_this_order():
    page = (HOME / "docs" / "architecture.md").read_text()
    drawn = re.search(r"^```\n(studies .*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    assert [line.split("  ")[0] for line in drawn.splitlines()] == LAYERS.split("\n")[1:-1]
    assert page.count("\n") <= 60, "the house is shown on one screen"


@pytest.mark.parametrize("room", sorted({room_of(module) for module in modules()} - {None}))
def test_each_room_has_a_place(room):
    assert re.search(rf"\b{room}\b", LAYERS)
