"""Mistakes and oddities of methods without a server, from the shell: refused before round 1, or said."""

import json

import pytest

CLUSTERS = ("--data", "digits", "--split", "clusters", "--model", "logistic")
FOUR = ("run", *CLUSTERS, "--clients", "4", "--rounds", "3")
OTHERS = "must lie between 1 and 3, the other clients: lower it or add clients"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "random", "--random.selected", "4"], f"selected=4 {OTHERS}"),
        (["--method", "pens", "--pens.sampled", "20"], f"sampled=20 {OTHERS}"),
        (
            ["--method", "greedy", "--greedy.selected", "3", "--greedy.sampled", "2"],
            "selected=3 must lie between 1 and 2, those sampled: lower it or raise --greedy.sampled",
        ),
        (
            ["--method", "pens", "--pens.patience", "5"],
            "client 'client-0' has no validation samples, which patience=5 needs: "
            "hold some out (--validation 0.2), or set --pens.patience 0",
        ),
        (
            ["--method", "random-weighted"],
            "client 'client-0' has no validation samples, which random-weighted needs: "
            "hold some out (--validation 0.2), or set --random-weighted.own train",
        ),
        (
            ["--split", "iid", "--method", "oracle"],
            "client 'client-0' has no cluster, which oracle needs: use a split that makes clusters",
        ),
        (
            ["--method", "pens", "--pens.order", "trained", "--pens.rounds-step1", "1"],
            "rounds_step1=1 leaves no round to pick in, as order=trained trains first: set at least 2",
        ),
        (["--method", "random", "--clients", "1", "--split", "iid"], "peers need at least 2 clients; got 1"),
    ],
)
def test_refused_in_one_line(refused, words, said):
    assert said in refused(*FOUR, *words)


def test_a_comparison_is_refused_before_its_first_run(refused):
    words = ("--methods", "local", "pens:patience=5", "--seeds", "1", "--rounds", "2", "--clients", "4")
    assert "which patience=5 needs" in refused("compare", *CLUSTERS, *words)


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (
            ["--method", "oracle", "--clients", "3"],
            "alone in a cluster, and so training alone: client-2",
        ),
        (
            ["--method", "d-psgd", "--d-psgd.graph", "erdos-renyi", "--d-psgd.edge-chance", "0"],
            "the erdos-renyi graph is in 4 pieces, each of which learns for itself",
        ),
        (
            ["--method", "pens", "--pens.rounds-step1", "20"],
            "rounds=3 leave none for step 2 of pens: rounds_step1=20",
        ),
        (["--method", "pens"], "pens asks 3 of 3 others, and step 1 takes 1 of 3 rounds"),
    ],
)
def test_allowed_and_said(coterie, tmp_path, words, note):
    code, _, said = coterie(*FOUR, *words, "--out", "here")
    assert code == 0
    assert f"· {note}" in said
    assert note in json.loads((tmp_path / "here" / "run.json").read_text())["notes"]
