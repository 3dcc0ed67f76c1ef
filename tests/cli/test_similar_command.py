"""coterie similar: what it prints and writes, and what it refuses."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from coterie.runs.folder import read_record

QUICK = ("similar", "--data", "breast-cancer", "--clients", "3")


def rows_of(path: str) -> list[dict[str, str]]:
    with Path(path).open() as file:
        return list(csv.DictReader(file))


def test_one_requester(coterie):
    code, printed, said = coterie(*QUICK, "--requester", "client-1", "--figures", "svg", "--out", "here")
    assert code == 0, said
    assert "breast-cancer, split by iid" in printed
    assert "columns that differ most, in deviations" in printed
    assert "Nearest to client-1 is client-" in printed
    named = [line.split(": here/")[1] for line in printed.splitlines() if ": here/" in line]
    assert named == [
        *("pairs.csv", "columns.csv", "distances.svg", "map.svg", "tree.svg", "columns.svg", "report.html"),
    ]
    pairs = rows_of("here/pairs.csv")
    assert [row["other"] for row in pairs] == ["client-0", "client-2"]
    assert all(float(row["quantile distance"]) > 0 for row in pairs)
    columns = rows_of("here/columns.csv")
    assert len(columns) == 2 * 30
    record = read_record(Path("here"))
    assert [m["scores"] for m in record.metrics] == [None, None]  # no test row was looked at
    assert coterie("report", "here")[0] == 0


def test_with_noise_nothing_leaves_without_it(coterie):
    code, _, said = coterie(*QUICK, "--epsilon", "3", "--out", "here")
    assert code == 0, said
    assert "warning: noise drowns the quantile distance" in said
    assert "warning: epsilon=3 takes for given how rows become inputs" in said  # which own scales made
    assert "transfer loss" not in rows_of("here/pairs.csv")[0]
    told = read_record(Path("here")).privacy()
    assert [site["epsilon"] for site in told["sites"]] == [pytest.approx(3, abs=0.02)] * 3


def test_own_scales_are_warned_of_and_rank_goes_by_it(coterie):
    code, _, said = coterie(*QUICK, "--measures", "quantiles", "--out", "here")
    assert code == 0
    assert "each site scales its columns by its own mean and deviation" in said
    ranked = ("rank", *QUICK[1:], "--by", "similar", "--figures", "none", "--similar.best", "1", "--out", "r")
    code, printed, _ = coterie(*ranked)
    assert code == 0
    assert "by dissimilarity (lower is better)" in printed


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--measures", "quantile"], "unknown measure 'quantile': did you mean quantiles?"),
        (["--requester", "x"], "unknown requester 'x'"),
        (["--epsilon", "-1"], "epsilon=-1.0 must lie above 0"),
        (["--epsilon", "3", "--delta", "0.1"], "delta=0.1 is above 1/n"),
        (["--epsilon", "3", "--measures", "ndoye"], "epsilon=3 holds for sketches, and ndoye sends models"),
        (
            ["--measures", "quantiles", "--wrap", "private=3"],
            "quantiles gives no bound: set the method's epsilon",
        ),
        (
            ["--epsilon", "3", "--wrap", "private=2"],
            "no two sites could be compared (client-0: out of budget",
        ),
        (["--clients", "1"], "a ranking needs at least 2 clients; got 1"),
    ],
)
def test_refusals(refused, words, line):
    said = refused(*QUICK, *words)
    assert line in said
