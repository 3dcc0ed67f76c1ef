"""A survival from the shell: tables with times and events, run, compare, predict, export; what is refused."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

MEANS = "the higher the risk, the earlier the event is to be expected"


@pytest.fixture
def tables(tmp_path):
    """Two sites whose older patients with larger tumours die earlier, and a recipe."""
    rng = np.random.default_rng(1)
    for site, n in (("north", 60), ("south", 50)):
        with (tmp_path / f"{site}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["age", "size", "days", "died"])
            for _ in range(n):
                age, size = rng.integers(35, 85), rng.integers(5, 50)
                event, watched = rng.exponential(1500 * np.exp(-(age - 60) / 12)), rng.uniform(200, 4000)
                seen = "yes" if event <= watched else "no"
                table.writerow([age, size, max(1, round(min(event, watched))), seen])
    columns = (
        '[columns.age]\nuse = "number"\n[columns.size]\nuse = "number"\n[columns.days]\nuse = "number"\n'
    )
    columns += '[columns.died]\nuse = "flag"\nvalues = ["no", "yes"]\n'
    head = 'target = "days"\nevent = "died"\n[sites]\nnorth = "north.csv"\nsouth = "south.csv"\n'
    (tmp_path / "r.toml").write_text(head + columns)
    return tmp_path


USUAL = ("--recipe", "r.toml", "--model", "linear", "--rounds", "3")


def test_from_tables_to_risks(coterie, tables):
    code, out, err = coterie("run", *USUAL, "--method", "finetune", "--finetune.tune", "1", "--out", "run")
    assert (code, "concordance" in out) == (0, True), err
    scores = [json.loads(line) for line in (tables / "run" / "metrics.jsonl").read_text().splitlines()][-1]
    found = scores["scores"]["own/test"]["concordance"]
    assert all(0.5 < c <= 1 for c in found)
    assert "a concordance of" in (tables / "run" / "report.html").read_text()
    code, out, err = coterie("predict", "run", "north.csv", "--client", "north", "--explain", "1")
    assert code == 0
    assert MEANS in err
    lines = out.splitlines()
    assert lines[0] == "line,risk,pushed 1,trust"
    assert len(lines) == 61
    ages, risks = zip(
        *((r["age"], s.split(",")[1]) for r, s in zip(rows(tables / "north.csv"), lines[1:], strict=True)),
        strict=True,
    )
    assert np.corrcoef(np.array(ages, float), np.array(risks, float))[0, 1] > 0.5  # the old are at risk
    (tables / "new.csv").write_text("age,size\n50,20\n162,20\n50,200\n")
    code, out, err = coterie("predict", "run", "new.csv", "--client", "north", "--out", "y.csv")
    assert (code, out.splitlines()[0].split(" ")[-2:]) == (0, ["1", "skipped"])
    assert "line 3 is skipped: age 162 cannot be (0 to 123 years)" in err
    assert [r["trust"].split(" ")[0] for r in rows(tables / "y.csv")] == ["as", "refused:", "size"]
    assert coterie("export", "run", "--client", "south", "--out", "model")[0] == 0
    card = (tables / "model" / "card.md").read_text()
    assert f"Predicts a risk, by a linear of 3 parameters. {MEANS.capitalize()}" in card
    assert "| event seen |" in card
    assert "Probabilities" not in card
    code, again, _ = coterie("predict", "model", "south.csv")
    assert (code, again) == (0, coterie("predict", "run", "south.csv", "--client", "south")[1])


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_comparison_counts_events_and_says_higher_or_lower(coterie, tables):
    code, out, _ = coterie("compare", *USUAL, "--methods", "local", "fedavg", "--seeds", "2", "--out", "c")
    assert (code, "concordance" in out) == (0, True)
    page = (tables / "c" / "report.html").read_text()
    assert "no event seen" in page
    assert "risk, the logarithm of the hazard" in page
    assert "error" not in page.split("</h2>")[0].split("<body")[-1]
    code, out, _ = coterie("data", "show", "table", "--table.recipe", "r.toml", "--model", "linear")
    assert code == 0
    assert "event seen" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", *USUAL, "--kernel", "dp(sgd)"), "dp cannot train a survival: its loss compares rows"),
        (
            ("run", *USUAL, "--method", "random-weighted"),
            "which a survival does not have: use random or greedy",
        ),
        (("run", *USUAL, "--split", "dirichlet"), "split dirichlet goes by class, but r is a survival"),
        (("run", *USUAL, "--wrap", "private=8"), 'newton gives no bound: take --kernel "bounded(sgd)"'),
        (
            ("run", *USUAL, "--method", "pens", "--kernel", "bounded(sgd)", "--wrap", "private=1000000"),
            "no noise hides one: send them in the clear, or none, with a method that asks for none",
        ),
        (
            ("run", *USUAL, "--wrap", "liars:kind=backdoor"),
            "a backdoor calls up a class, and a survival has none",
        ),
        (
            ("run", "--recipe", "r.toml", "--model", "logistic"),
            "model logistic needs at least 2 classes; got outputs=1: use linear",
        ),
        (("run", *USUAL, "--table.event", "died"), "--table.event beside a recipe, which has that already"),
    ],
)
def test_what_makes_no_sense_for_a_survival_is_refused(tables, refused, words, said):
    assert said in refused(*words)


def test_a_threshold_is_for_classes(coterie, tables, refused):
    assert coterie("run", *USUAL, "--method", "local", "--out", "run")[0] == 0
    said = refused("predict", "run", "north.csv", "--client", "north", "--threshold", "0.5")
    assert said == "coterie: threshold=0.5, but 'north' predicts a risk: leave it out"
