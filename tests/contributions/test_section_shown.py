"""What is added up over rounds, and how page, terminal and command show it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from coterie.cli.main import main
from coterie.features.contributions import shown as contributions
from coterie.features.contributions.record import Contributed, ranks, spearman
from coterie.nets.counting import nothing_passed
from coterie.report.page import render_page
from coterie.runs.record import Record, line
from coterie.show.html import blocks_to_html
from coterie.show.parts import Runs
from coterie.show.parts import Runs as Section

NAMES = ["a <b>", "b", "c"]
ROWS = (10, 20, 30)


def recorded(*rounds, names=NAMES, weights=None) -> Record:
    """A run whose rounds say these contributions (None for one that was not valued)."""
    n = len(names)
    about = {"task": "classification", "classes": ["0", "1"], "features": [], "notes": [], "parameters": 3}
    about |= {
        "coterie": "0",
        "versions": {},
        "commit": "x",
        "machine": {},
        "command": None,
        "belief_bytes": 12,
    }
    alike = {"test": 5, "labels": None, "cluster": None, "notes": []}
    about["clients"] = [
        {"name": m, "train": rows, "validation": rows // 10, **alike}
        for m, rows in zip(names, ROWS, strict=True)
    ]
    scores = {"own/test": {"accuracy": [0.5] * n, "loss": [1.0] * n}}
    passed = nothing_passed(n)
    said = [{} if c is None else {"contributions": c} for c in (None, *rounds)]
    return Record(
        "fedavg",
        {"data": "made", "method": "fedavg", "model": "logistic", "rounds": len(rounds), "seed": 0},
        about,
        [line(r, scores, [None] * n, passed, passed, extras) for r, extras in enumerate(said)],
        [
            {"round": r, "seconds": 1.0, "evaluate_seconds": 0.0, "parts": {"contributions: gtg": 0.25}}
            for r in range(len(rounds) + 1)
        ],
        dict.fromkeys(range(1, len(rounds) + 1), np.full((n, n), 1 / n) if weights is None else weights),
    )


def valued(value, **more):
    """A round of one server's sum, judged by everybody."""
    sizes = np.array(ROWS) // 10
    given = [sum(sizes[r] * value[r][j] for r in range(3) if r != j) for j in range(3)]
    game = {"receivers": [0, 1, 2], "senders": [0, 1, 2], "value": value, "given": {"value": given}, **more}
    mine = {"games": [game], "looks": 4, "sent": 2, "bytes": 100}
    return {"level": 0.9, "rows": "validation", "by": {"gtg": mine}, "unvalued": {}}


VALUE = [[3.0, 1.0, -1.0], [0.5, 2.0, 0.0], [0.25, -0.5, 4.0]]


def test_rounds_are_added_up():
    found = recorded(valued(VALUE), None, valued(VALUE)).contributions()
    gtg = found.estimates["gtg"]
    assert gtg.value == pytest.approx(2 * np.array(VALUE))
    assert gtg.given == pytest.approx([2 * (2 * 0.5 + 3 * 0.25) / 5, 2 * (1.0 - 1.5) / 4, 2 * -1 / 3])
    assert (gtg.rounds, gtg.looks, gtg.sent, gtg.bytes) == (2, 8, 4, 200)
    assert gtg.seconds == 4 * 0.25
    assert found.times.tolist() == [[3] * 3] * 3
    assert found.participation.tolist() == [3] * 3
    assert found.weight == pytest.approx(np.ones((3, 3)))


def test_each_for_itself_adds_up_as_a_server_would():
    """One game for each receiver, none of them joint: the same figures given to others."""
    round = valued(VALUE)
    games = [{"receivers": [r], "senders": [0, 1, 2], "value": [VALUE[r]]} for r in range(3)]
    apart = {**round, "by": {"gtg": {**round["by"]["gtg"], "games": games}}}
    one, two = (recorded(r).contributions().estimates["gtg"] for r in (round, apart))
    assert one.value == pytest.approx(two.value)
    assert one.given == pytest.approx(two.given)


def test_intervals_of_given_are_those_of_independent_receivers():
    games = [
        {
            "receivers": [r],
            "senders": [0, 1, 2],
            "value": [VALUE[r]],
            "variance": [[0.04] * 3],
            "freedom": [[9.0] * 3],
            "hidden": [[0.01] * 3],
        }
        for r in range(3)
    ]
    round = {**valued(VALUE), "by": {"gtg": {"games": games, "looks": 0, "sent": 0, "bytes": 0}}}
    gtg = recorded(round).contributions().estimates["gtg"]
    t = stats.t.ppf(1 - 0.1 / 12 / 2, 9)  # 9 pairs and 3 sums hold at once
    assert gtg.half == pytest.approx(np.full((3, 3), t * 0.2 + 0.01))
    variance, fourth = 0.04 * (2**2 + 3**2), 0.04**2 * (2**4 + 3**4) / 9
    wide = stats.t.ppf(1 - 0.1 / 12 / 2, int(variance**2 / fourth)) * math.sqrt(variance) + 0.01 * 5
    assert gtg.around[0] == pytest.approx(wide / 5)


def test_ranks_share_places():
    assert ranks(np.array([3.0, 1.0, 3.0])).tolist() == [2.5, 1.0, 2.5]
    one, two = np.array([1.0, 2, 2, 5, np.nan]), np.array([2.0, 1, 3, 4, 9])
    assert spearman(one, two) == pytest.approx(stats.spearmanr(one[:4], two[:4]).statistic)
    assert math.isnan(spearman(one, np.ones(5)))


def test_agreement_is_of_others_alone():
    round = valued(VALUE)
    other = [[9.0, 1.5, -1.0], [0.5, 9.0, 0.0], [0.25, -0.5, 9.0]]
    round["by"]["leave-one-out"] = valued(other)["by"]["gtg"]
    found = {(a.one, a.other): a for a in recorded(round).contributions().agreement()}
    both = found["gtg", "leave-one-out"]
    assert both.difference == pytest.approx(0.5)  # what they gave themselves differs by more
    assert both.pairs == pytest.approx(1)
    assert math.isnan(found["weight", "gtg"].difference)


def test_page_and_terminal_say_who_gave_most_to_whom():
    record = recorded(valued(VALUE))
    told = record.contributions()
    assert contributions.sentence(told) == (
        "a <b> gave most to the others (by gtg: 0.350); the largest single gift is from b to a <b> (1.00)."
    )
    assert contributions.pairs(told)[1][0] == ["a <b>", "b 1.00", "c −1.00", "3.00"]
    runs = Runs("", [record])
    made = blocks_to_html(contributions.contributions_part(runs))
    assert "a &lt;b&gt; gave most" in made
    assert "<b>" not in made
    assert "What they took" in made
    table, *_ = contributions.on_screen(runs)
    assert [[str(c) for c in row] for row in table.rows] == [
        ["fedavg", "gtg", "a <b>", "0.350", "b to a <b>", "1.00"]
    ]
    assert "s0-contributions" in render_page([Section("x", [record])])


def test_a_run_that_was_not_valued_shows_what_is_free():
    record = recorded(None, None)
    told = record.contributions()
    assert not told.asked
    assert "by weight: 1.33" in contributions.sentence(told)
    assert contributions.cells(told)[1][0] == ["a <b>", "2", "1.33"]
    made = blocks_to_html(contributions.contributions_part(Runs("", [record])))
    assert "--wrap contributions" in made
    assert contributions.on_screen(Runs("", [record])) == []


def test_nothing_is_shown_where_nobody_listens():
    record = recorded(None, weights=np.eye(3))
    assert contributions.contributions_part(Runs("", [record])) == []
    asked = {"level": 0.9, "rows": "train", "by": {}, "unvalued": {"no replies were summed up": 1}}
    made = blocks_to_html(contributions.contributions_part(Runs("", [recorded(asked, weights=np.eye(3))])))
    assert "Not valued: no replies were summed up (1 time)" in made


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished run."""
    path = tmp_path_factory.mktemp("runs") / "here"
    wrap = "contributions:by=first-order+gtg,permutations=16"
    words = ["run", "--data", "digits", "--clients", "3", "--rounds", "2", "--wrap", wrap, "--out", str(path)]
    assert main(words) == 0
    return path


def test_the_command_tells_all(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["contributions", str(folder)]) == 0
    printed = capsys.readouterr().out
    for text in ("gave most", "requester", "of pairs", "looks at", "first-order and gtg", "orders"):
        assert text in printed
    assert main(["contributions", str(folder), "--requester", "client-1"]) == 0
    assert "gave to client-1" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Missing from coterie contributions"),
        (["nowhere"], "nowhere holds no run and no comparison: check the path"),
        (["{}", "--requester", "client-9"], "unknown requester 'client-9': did you mean client-"),
    ],
)
def test_a_mistake_gets_one_line(folder, capsys, words, said):
    assert main(["contributions", *(w.format(folder) for w in words)]) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    assert printed.out == ""


def weighed(weight) -> Contributed:
    """Two rounds of three clients by weights [receiver, sender], which nobody valued."""
    weight = np.array(weight)
    times = np.full((3, 3), 2.0)
    return Contributed(["a", "b", "c"], 2, times, times.sum(axis=0), weight, {}, 0.95, {}, True)


def test_of_equals_nobody_gave_most():
    even = weighed(np.full((3, 3), 2 / 3))  # as scaffold has it: each counts a third in two rounds
    assert (
        contributions.sentence(even) == "Several gave the others the same, and nobody more (by weight: 1.33)."
    )
    assert contributions.pairs(even)[1] == [[name, "—", "—", "0.667"] for name in "abc"]
    assert contributions.most(even) == ["weight", "—", "—", "—", "—"]
    # by rows, as fedavg has it: b counts most, and as much to a as to c
    by_rows = weighed([[0.4, 1.0, 0.6]] * 3)
    assert contributions.sentence(by_rows) == "b gave most to the others (by weight: 2.00)."
    assert contributions.most(by_rows) == ["weight", "b", "2.00", "—", "—"]
    assert contributions.pairs(by_rows)[1][0] == ["a", "b 1.00", "c 0.60", "0.40"]
