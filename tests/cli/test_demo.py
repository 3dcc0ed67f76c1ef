"""The first command a newcomer types."""

import re


def test_demo_compares_methods_on_two_real_data_sets(coterie, tmp_path):
    code, printed, said = coterie("demo", "--seeds", "1")
    assert code == 0, said
    assert "rounds" in said, "no progress bar"
    for method in ("local", "fedavg", "finetune", "central"):
        assert len(re.findall(rf"^{method} +\d", printed, re.MULTILINE)) == 2, printed
    page = (tmp_path / "runs" / "demo" / "report.html").read_text()
    assert f"report: {'runs/demo/report.html'}" in printed
    for part in ("titanic, split by age-strict", "digits, split by shift", "Who listens to whom", "Cost"):
        assert part in page
    assert coterie("demo", "--seeds", "1", "--out", "again")[0] == 0
    first = tmp_path / "runs" / "demo" / "digits" / "fedavg" / "seed-0" / "metrics.jsonl"
    again = tmp_path / "again" / "digits" / "fedavg" / "seed-0" / "metrics.jsonl"
    assert first.read_bytes() == again.read_bytes()
