"""The first command a newcomer types."""

import re
from dataclasses import replace

from coterie.cli import demo


def test_demo_compares_methods_on_two_real_data_sets(coterie, tmp_path, monkeypatch):
    short = {name: replace(settings, rounds=6) for name, settings in demo.STUDIES.items()}
    monkeypatch.setattr(demo, "STUDIES", short)
    code, printed, said = coterie("demo", "--seeds", "1")
    assert code == 0, said
    assert "rounds" in said, "no progress bar"
    for method in ("local", "fedavg", "finetune", "central"):
        assert len(re.findall(rf"^{method} +\d", printed, re.MULTILINE)) == 2, printed
    page = (tmp_path / "runs" / "demo" / "report.html").read_text()
    assert "report: runs/demo/report.html" in printed
    for part in ("titanic, split by age-strict", "digits, split by shift", "Who listens to whom", "Cost"):
        assert part in page
