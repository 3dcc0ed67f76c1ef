"""The first command a newcomer types."""

import csv
import re
import shlex
from dataclasses import replace

import pytest

from coterie.studies.demo import command as demo


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(demo, "STUDIES", {n: replace(s, rounds=6) for n, s in demo.STUDIES.items()})


def test_demo_shows_what_the_product_is_for_and_a_prediction_that_anyone_can_repeat(coterie, tmp_path, short):
    code, printed, said = coterie("demo", "--seeds", "2")
    assert code == 0, said
    assert "rounds" in said, "no progress bar"
    for method in ("local", "fedavg", "finetune", "weight-erosion", "pens", "ndoye", "central"):
        assert len(re.findall(rf"^{method} +\d\d\.\d ± ", printed, re.MULTILINE)) >= 2, printed
    assert printed.count("Whom each client listens to") == 2
    assert re.search(r"^client-0 +client-[12] 0\.\d\d +client-[12] 0\.\d\d", printed, re.MULTILINE)
    in_one_line = " ".join(printed.split())
    for client in ("age 0-20", "age 21-35", "age 36+", "age unknown", *(f"client-{i}" for i in range(6))):
        verdict = "(no clear gain|training together seems to pay|stay alone): "
        told = rf"{re.escape(client)}: {verdict}[^.]*?\(the best of [56]\) "
        assert re.search(told, in_one_line), client
    assert in_one_line.count("by these very test rows, so it looks better than it is") == 4
    page = (tmp_path / "runs" / "demo" / "report.html").read_text()
    assert "report: runs/demo/report.html" in printed
    for part in ("titanic, split by age-strict", "digits, split by clusters", "Who listens to whom", "Cost"):
        assert part in page
    assert "<li>age 36+: " in page
    told = re.search(
        r"^died (0\.\d\d), survived (0\.\d\d); in truth: (died|survived)\.", printed, re.MULTILINE
    )
    assert told, printed
    (line,) = [line for line in printed.splitlines() if line.startswith("predict: coterie ")]
    code, again, said = coterie(*shlex.split(line.removeprefix("predict: coterie ")))
    assert code == 0, said
    (row,) = csv.DictReader(again.splitlines())
    assert [f"{float(row[f'p({name})']):.2f}" for name in ("died", "survived")] == [told[1], told[2]]


@pytest.mark.slow
def test_the_demo_fits_a_narrow_terminal(coterie, short):
    _, printed, _ = coterie("demo", "--seeds", "1")
    lines = [line for line in printed.splitlines() if not line.startswith("predict: ")]
    assert max(map(len, lines)) <= 80
