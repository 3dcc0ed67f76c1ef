"""What stands beside means over clients where some of them rest on small_samples."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from coterie.report import clients
from coterie.report.page import render_page
from coterie.report.summary import print_table
from coterie.show.parts import Runs as Section

FEW = "18 test rows, on which an accuracy of 80 % is known to ±18 points"


@pytest.fixture
def sized(make_known):
    """A run whose clients have so many test rows each, and equally many training rows."""

    def make(*test, names="abcdef"):
        record = make_known({"accuracy": [0.5] * len(test)}, names=list(names[: len(test)]))
        clients = [
            {**client, "train": 90, "test": n, "labels": None}
            for client, n in zip(record.about["clients"], test, strict=True)
        ]
        return replace(record, about={**record.about, "clients": clients})

    return make


def on_screen(record) -> str:
    console = Console(file=io.StringIO(), width=100)
    print_table([record], console)
    return " ".join(console.file.getvalue().split())


def test_one_line_below_the_table_and_marks_on_the_page(sized):
    record = sized(50, 18, 40)
    said = f"1 client of 3 rests on little, and counts as much as any other in the mean: b ({FEW})."
    assert clients.small_samples_line([record]) == said
    assert said in on_screen(record)
    page = render_page([Section("", [record])])
    assert said in page
    assert '<th scope="row">b †</th>' in page
    assert '<th scope="row">a</th>' in page
    # below the clients' table, and with the data
    assert page.count(f"† b: {FEW}; counts as much as any other in the mean.") == 2


def test_many_are_counted(sized):
    record = sized(18, 18, 18, 18, 18)
    assert clients.small_samples_line([record]).startswith(
        "5 clients of 5 rest on little, and count as much as any other"
    )
    assert clients.small_samples_line([record]).endswith(f"in the mean: a, b, c and 2 more ({FEW}).")
    assert clients.small_samples_line([sized(5, 6, 7, 8, 9, 40)]).endswith("±30 points), and 2 more.")
    assert clients.small_samples_notes([record]) == [
        f"† a, b, c, d, e: {FEW}; each counts as much as any other in the mean."
    ]


def test_nothing_is_said_where_nothing_is_small_or_there_is_no_mean(sized):
    assert clients.small_samples_line([sized(50, 60)]) == ""
    assert "†" not in render_page([Section("", [sized(50, 60)])])
    assert clients.small_samples_line([sized(18)]) == ""


def test_what_any_seed_deals_counts(sized):
    other = sized(50, 18)
    other = replace(other, config=other.config | {"seed": 1})
    assert list(clients.commented([sized(50, 50), other])) == ["b"]


def test_names_are_escaped(sized):
    page = render_page([Section("", [sized(18, 50, names=["<b>x</b>", "y"])])])
    assert "† &lt;b&gt;x&lt;/b&gt;: 18 test rows" in page
    assert "<b>x</b>" not in page
