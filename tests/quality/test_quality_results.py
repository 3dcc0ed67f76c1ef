"""docs/results/quality.md says what its CSV says, and the benchmark puts in what it says it does."""

from __future__ import annotations

import csv
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("quality_benchmark", ROOT / "benchmarks" / "quality.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_the_page_is_made_of_its_csv(bench):
    with (RESULTS / "quality.csv").open() as file:
        lines = list(csv.DictReader(file))
    whole = ("found", "rows", "said", "listed", "right", "draw")
    lines = [{k: int(v or 0) if k in whole else v for k, v in line.items()} for line in lines]
    page = (RESULTS / "quality.md").read_text()
    for row in (*bench.found_table(lines), *bench.clean_table(lines)):
        assert row in page
    assert {line["draw"] for line in lines} == set(range(50))
    assert lines[0]["commit"] in page


@pytest.mark.parametrize(
    ("trouble", "size"), [("unit of a whole site", 1.0), ("rows copied", False), ("missing values", "all")]
)
def test_a_draw(bench, trouble, size):
    first, again = (bench.one("hospitals", trouble, size, 6000) for _ in range(2))
    assert first == again
    assert (first["found"], first["site"] in bench.PLACES) == (1, True)
