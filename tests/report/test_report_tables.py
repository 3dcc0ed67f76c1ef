from __future__ import annotations

import io
import math
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from rich.measure import Measurement

from coterie.core.errors import BadRun
from coterie.metrics.summary import Interval
from coterie.report.outcome import headline
from coterie.report.summary import cells, print_table, render_table, summary_html
from coterie.report.tables import clients_frame, summary_frame, write_csv
from coterie.show import numbers, terminal

T = 12.7062047
WIDER = math.sqrt(5 / 3)  # √(1/2 + 1/3) over √(1/2): two splits, one test row for three others


def printed(records, width: int) -> str:
    out = io.StringIO()
    print_table(records, Console(file=out, width=width))
    return out.getvalue()


def in_one_line(records) -> str:
    """What is printed, without the breaks that a terminal makes."""
    return " ".join(printed(records, 200).split())


def test_summary_by_hand(two_seeds):
    frame = summary_frame(two_seeds).set_index("method")
    fedavg, local = frame.loc["fedavg"], frame.loc["local"]
    assert fedavg["accuracy"] == pytest.approx(0.825)
    assert fedavg["accuracy_half"] == pytest.approx(T * 0.025 * WIDER)
    assert (fedavg["interval"], fedavg["overlap"]) == ("splits", pytest.approx(1 / 3))
    assert math.isnan(fedavg["gain_low"])  # rows are in the interval over splits already
    # the worst client has 0.8 in the one seed and 0.7 in the other
    assert fedavg["worst_accuracy"] == pytest.approx(0.75)
    assert fedavg["worst_accuracy_half"] == pytest.approx(T * 0.05 * WIDER)
    assert fedavg["gain"] == pytest.approx(0.075)
    assert fedavg["loss"] == pytest.approx(0.475)
    assert math.isnan(local["gain"])
    # 2 rounds x 2 clients, one model sent and one received each time
    assert (fedavg["sent"], fedavg["received"], fedavg["models"], fedavg["bytes"]) == (4, 4, 8, 20800)
    assert (local["models"], local["bytes"]) == (0, 0)
    assert fedavg["seconds"] == pytest.approx(0.5)
    counts = ["seeds", "clients", "scored", "rounds", "finished"]
    assert fedavg[counts].tolist() == [2, 2, 2, 2, True]


def test_worst_client_of_an_error_is_the_largest(make_known):
    run = make_known({"rmse": [2.0, 3.0], "r2": [0.5, None]}, task="regression")
    row = summary_frame([run]).iloc[0]
    assert (row["rmse"], row["worst_rmse"], row["r2"]) == (2.5, 3.0, 0.5)
    assert math.isnan(row["rmse_half"])
    assert "gain" not in row


def test_terminal_table(two_seeds):
    text = printed(two_seeds, 120)
    assert "82.5 ± 41.0" in text
    assert "+7.5 ± 41.0" in text
    assert "0.475" in text
    assert "2 seeds" in text
    assert "worst" in text
    narrow = printed(two_seeds, 72)
    assert "82.5 ± 41.0" in narrow
    assert "0.475" not in narrow
    assert "Further columns need a wider" in " ".join(narrow.split())
    assert all(len(line) <= 72 for line in narrow.splitlines())
    assert "fedavg" in narrow


def test_a_table_is_as_wide_as_rich_says(two_seeds):
    wide = Console(width=1000)
    measured = Measurement.get(wide, wide.options, render_table(two_seeds))
    assert measured.maximum == terminal._width(*cells(two_seeds))
    assert "Further columns" not in printed(two_seeds, measured.maximum)
    assert "Further columns" in printed(two_seeds, measured.maximum - 1)


def test_one_seed_has_a_dash_for_its_interval(make_known):
    text = printed([make_known({"accuracy": [0.5, 0.7]}, "[red]odd[/red]")], 120)
    assert "60.0 ± —" in text
    assert "One seed, so there is no interval" in text
    assert "[red]odd[/red]" in text


def test_unfinished_runs_say_so(make_known):
    run = make_known({"accuracy": [0.5, 0.7]}, rounds=10, done=7, every=5)
    assert "stopped after round 7 of 10" in printed([run], 200)
    assert not summary_frame([run])["finished"].iloc[0]
    assert headline([run]).startswith("Some runs are unfinished. Over 2 clients")


def test_runs_without_a_score(make_known):
    run = make_known({"accuracy": [0.5, 0.7]}, done=0)
    run.metrics.clear()
    assert "no test score yet" in headline([run])
    assert math.isnan(summary_frame([run])["accuracy"].iloc[0])
    assert render_table([run]).row_count == 1


def test_html_table_escapes_and_has_every_method(make_known):
    runs = [make_known({"accuracy": [0.5, 0.7]}, label) for label in ("<b>x</b>", "local")]
    made = summary_html(runs)
    assert "&lt;b&gt;x&lt;/b&gt;" in made
    assert "<b>" not in made
    assert made.count("<tr>") == 3
    HTMLParser().feed(made)


def test_csv_round_trip(two_seeds, tmp_path):
    paths = write_csv(tmp_path / "out", two_seeds)
    tables = ("history", "summary", "clients", "collaboration", "costs")
    assert [p.name for p in paths] == [f"{name}.csv" for name in tables]
    history, summary, clients, collaboration, _ = (pd.read_csv(p) for p in paths)
    assert list(history)[:2] == ["label", "seed"]
    one = history.query(
        "label == 'fedavg' and seed == 1 and round == 2 and split == 'test' and metric == 'accuracy'"
    )
    assert one.set_index("client")["value"].to_dict() == {"a": 0.7, "b": 1.0}
    # 3 rounds x 2 clients x (2 metrics + training loss), 4 runs
    assert len(history) == 72
    pd.testing.assert_frame_equal(summary, summary_frame(two_seeds), check_dtype=False)
    pd.testing.assert_frame_equal(clients, clients_frame(two_seeds), check_dtype=False)
    # 3 rounds x 2 clients, 4 runs
    assert len(collaboration) == 24
    assert collaboration.groupby("label")["bytes"].sum().to_dict() == {"fedavg": 41600, "local": 0}
    gains = clients.query("label == 'fedavg'")["gain"]
    assert gains.tolist() == pytest.approx([0.2, 0.0, 0.0, 0.1])
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "clients.csv",
        "collaboration.csv",
        "costs.csv",
        "history.csv",
        "summary.csv",
    ]


def test_matrices_in_long_form(two_seeds, tmp_path):
    matrix = np.array([[1.0, math.nan], [0.1, math.inf]])
    two_seeds[2].matrices = {"alpha": {1: np.full((2, 2), math.nan), 2: matrix}, "distance": {2: -matrix}}
    two_seeds[3].matrices = {"alpha": {1: matrix}}
    path = write_csv(tmp_path, two_seeds)[-1]
    assert path.read_text().splitlines() == [
        "label,seed,round,receiver,sender,name,value",
        "fedavg,0,2,a,a,alpha,1.0",
        "fedavg,0,2,b,a,alpha,0.1",
        "fedavg,0,2,b,b,alpha,inf",
        "fedavg,0,2,a,a,distance,-1.0",
        "fedavg,0,2,b,a,distance,-0.1",
        "fedavg,0,2,b,b,distance,-inf",
        "fedavg,1,1,a,a,alpha,1.0",
        "fedavg,1,1,b,a,alpha,0.1",
        "fedavg,1,1,b,b,alpha,inf",
    ]


def test_csv_keeps_odd_names_and_empty_values(make_known, tmp_path):
    names = ['a "quoted", name', "<b>x</b>"]
    paths = write_csv(tmp_path, [make_known({"accuracy": [0.5, None]}, names=names)])
    clients = pd.read_csv(paths[2])
    assert clients["client"].tolist() == names
    assert math.isnan(clients["accuracy"][1])


def test_a_place_that_cannot_be_written(two_seeds, tmp_path):
    (tmp_path / "file").write_text("here")
    with pytest.raises(BadRun, match="cannot write"):
        write_csv(tmp_path / "file", two_seeds)


def said_of(runs) -> str:
    return headline(runs).replace(numbers.GAP, " ")


DEALT = (
    " ± is the 95 % interval over 2 splits of the same rows, corrected for the rows they share: it covers "
    "which rows were trained and tested on, and how models were trained."
)


def test_headline_by_hand(two_seeds):
    assert said_of(two_seeds) == (
        "Over 2 clients and 2 seeds, fedavg reaches an accuracy of 82.5 % (±41.0), local (each client by "
        "itself) 75.0 % (±82.0): training together gains 7.5 points (±41.0), which 2 seeds cannot tell from "
        "none; in their means over seeds, 2 of 2 clients gain, none loses." + DEALT
    )


def test_headline_names_who_loses_and_the_yardstick(make_known):
    runs = [
        make_known({"accuracy": [value + 0.01 * seed for value in values]}, label, seed)
        for seed in (0, 1)
        for label, values in (("local", (0.6, 0.8)), ("fedavg", (0.8, 0.77)), ("central", (0.9, 0.9)))
    ]
    assert said_of(runs) == (
        "Over 2 clients and 2 seeds, fedavg reaches an accuracy of 79.0 % (±8.2), local (each client by "
        "itself) 70.5 % (±8.2): training together gains 8.5 points in each of 2 seeds, which without any "
        "spread cannot be told from none; in their means over seeds, 1 of 2 clients gain, 1 loses: b "
        "with −3.0 points. All data in one place (central) would reach 90.5 %." + DEALT
    )


def test_headline_when_together_is_worse(make_known):
    runs = [
        make_known({"rmse": [value + 0.1 * seed for value in values]}, label, seed, task="regression")
        for seed in (0, 1)
        for label, values in (("local", (1.0, 2.0)), ("fedavg", (1.5, 2.5)))
    ]
    assert said_of(runs) == (
        "Over 2 clients and 2 seeds, fedavg reaches an RMSE of 2.050 (±0.820), local (each client by itself) "
        "1.550 (±0.820): training together makes the error 0.500 larger in each of 2 seeds, which without "
        "any spread cannot be told from none; in their means over seeds, 0 of 2 clients gain, "
        "2 lose, the largest loss is a with an error 0.500 larger." + DEALT
    )


@pytest.mark.parametrize(
    ("task", "alone", "together", "apart"),
    [
        ("classification", 0.6, 0.7, "10.0 points more"),
        ("classification", 0.7, 0.6, "10.0 points less"),
        ("classification", 0.7, 0.7, "no difference"),
        ("regression", 1.5, 1.0, "an error 0.500 smaller"),
        ("regression", 1.0, 1.5, "an error 0.500 larger"),
    ],
)
def test_one_seed_makes_no_verdict(make_known, task, alone, together, apart):
    metric = "accuracy" if task == "classification" else "rmse"
    runs = [
        make_known({metric: [value, value]}, label, task=task)
        for label, value in (("local", alone), ("fedavg", together))
    ]
    said = headline(runs)
    assert said.endswith(f": {apart} in a single run, which only more seeds can tell from chance.")
    assert not any(word in said for word in ("gain", "lose", "±", "training together"))
    assert "and a difference may be chance" in in_one_line(runs)


def test_one_seed_in_common_makes_no_verdict(two_seeds):
    said = headline(two_seeds[1:])
    assert "in the one seed they share, which only more seeds can tell from chance." in said
    assert "gain" not in said
    assert said.endswith(DEALT)  # of fedavg's two seeds, whose ± is there


def test_headline_says_of_how_many_methods_the_best_was_chosen(make_known, two_seeds):
    assert "the best of" not in headline(two_seeds)
    more = [make_known({"accuracy": [0.9, 0.9 + 0.05 * seed]}, "finetune", seed) for seed in (0, 1)]
    pooled = [make_known({"accuracy": [0.99, 0.99]}, "central", seed) for seed in (0, 1)]
    chosen = "finetune (the best of 2 by these very test rows, so it looks better than it is) reaches"
    assert chosen in headline([*two_seeds, *more, *pooled])


SAME = "over 2 seeds on the same rows: it covers how models were trained, not other test rows"
PUBLISHED = "over 2 seeds that share test rows: it covers how rows were dealt and models trained, not other"
ANEW = "over 2 splits of the same rows, corrected for the rows they share: it covers which rows were trained"


@pytest.mark.parametrize(
    ("config", "about", "said"),
    [
        ({}, {}, ANEW),
        ({"deal": ""}, {}, ANEW),
        ({"deal": 0}, {}, SAME),
        ({"deal": 7}, {}, SAME),
        ({"given": "abc"}, {}, SAME),  # a run of an earlier version
        ({"given": "abc"}, {"rows": ("a", "a")}, SAME),
        ({"given": "abc"}, {"rows": ("a", "b")}, ANEW),  # clients of the same sizes, but others
        ({}, {"rows": ("a", "a")}, SAME),
        ({}, {"rows": ("a", "b"), "published_tests": (True, True)}, PUBLISHED),
        ({"deal": 0}, {"rows": ("a", "b"), "published_tests": (True, True)}, SAME),
    ],
)
def test_headline_says_what_the_interval_covers(two_seeds, config, about, said):
    for run in two_seeds:
        run.config = {**run.config, **config}
        run.about |= {key: values[run.config["seed"]] for key, values in about.items()}
    kinds = {SAME: "training", PUBLISHED: "dealing", ANEW: "splits"}
    for text in (headline(two_seeds), in_one_line(two_seeds)):
        assert [s for s in kinds if s in text] == [said]
    assert set(summary_frame(two_seeds)["interval"]) == {kinds[said]}
    assert said == ANEW or "What other test rows would say of a gain is not known" in in_one_line(two_seeds)


def test_clients_that_differ_from_seed_to_seed_are_not_the_same(two_seeds):
    for run in two_seeds:
        run.config = {**run.config, "given": "abc"}
    two_seeds[1].about["clients"][0]["train"] += 1
    assert ANEW in headline(two_seeds)


class TestOneRequester:
    """Only b asked: a has no figure, whatever b's model does there."""

    @pytest.fixture
    def runs(self, make_known):
        finals = {"local": (0.4, 0.6), "fedavg": (0.9, 0.7), "erosion": (None, 0.8), "central": (0.5, 0.9)}
        return [
            make_known({"accuracy": [None if v is None else v + 0.05 * seed for v in values]}, label, seed)
            for label, values in finals.items()
            for seed in (0, 1)
        ]

    def test_headline_is_of_who_asked_alone(self, runs):
        assert said_of(runs) == (
            "For b, the only one of 2 clients with a figure from every method, over 2 seeds, erosion (the "
            "best of 2 by these very test rows, so it looks better than it is) reaches an accuracy of 82.5 % "
            "(±38.9), local (each client by itself) 62.5 % (±38.9): training together gains 20.0 points in "
            "each of 2 seeds, which without any spread cannot be told from none. "
            "All data in one place (central) would reach 92.5 %." + DEALT
        )

    def test_summary_goes_by_who_has_a_figure(self, runs):
        frame = summary_frame(runs).set_index("method")
        erosion = frame.loc["erosion"]
        assert (erosion["clients"], erosion["scored"]) == (2, 1)
        assert erosion["accuracy"] == erosion["worst_accuracy"] == pytest.approx(0.825)
        assert erosion["gain"] == pytest.approx(0.2)  # over local for b
        assert frame.loc["fedavg", "gain"] == pytest.approx(0.3)  # over both
        gains = clients_frame(runs).query("label == 'erosion'")["gain"].to_numpy()
        assert gains == pytest.approx([math.nan, 0.2, math.nan, 0.2], nan_ok=True)

    def test_the_table_says_whose_figures_they_are(self, runs):
        assert "erosion: figures of b alone, the others of 2 clients have none." in in_one_line(runs)
        assert "alone, the others" not in in_one_line(runs[:4])

    def test_by_itself(self, runs):
        alone = said_of(runs[4:5])
        assert alone.startswith(
            "For b, the only one of 2 clients with a figure, erosion reaches an accuracy of"
        )
        assert "worst-off" not in alone

    def test_two_requesters_have_nothing_in_common(self, runs, make_known):
        other = [make_known({"accuracy": [0.5, None]}, "other", seed) for seed in (0, 1)]
        assert headline([*runs, *other]) == (
            "local, fedavg, erosion, central, other have no client with figures from all in common: none is "
            "called the best."
        )


def test_headline_of_a_single_run(make_known):
    said = headline([make_known({"accuracy": [0.5, 0.7]})]).replace(numbers.GAP, " ")
    assert said.startswith(
        "Over 2 clients, fedavg reaches an accuracy of 60.0 %; the worst-off client, a, has 50.0 %."
    )
    assert "local" in said
    alone = headline([make_known({"accuracy": [0.5, 0.7]}, "local")])
    assert "gains" not in alone


def test_headline_without_a_common_seed(two_seeds):
    assert "they share no seed" in headline([two_seeds[0], two_seeds[3]])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000"),
        (0.2314, "0.231"),
        (1.2346, "1.235"),
        (12.346, "12.35"),
        (123456.7, "123\u202f457"),
        (-0.05, "−0.0500"),
        (math.nan, "—"),
        (math.inf, "∞"),
    ],
)
def test_numbers(value, text):
    assert numbers.number(value) == text


def test_units():
    assert numbers.size(999) == "999\u00a0B"
    assert numbers.size(2_600_000) == "2.6\u00a0MB"
    assert numbers.duration(90) == "90.0\u00a0s"
    assert numbers.duration(600) == "10.0\u00a0min"
    assert numbers.spread(Interval(0.931, 0.004, 3), "accuracy") == "93.1 ± 0.4"
    assert numbers.spread(Interval(0.931, 0.0004, 3), "accuracy") == "93.1 ± <0.1"
    assert numbers.spread(Interval(2.05, 0.0001, 3), "rmse") == "2.050 ± <0.001"
    assert numbers.spread(Interval(0.931, math.nan, 3), "accuracy") == "93.1 ± —"
    assert numbers.spread(Interval(12.5, 0.25, 3), "rmse") == "12.50 ± 0.25"
    assert numbers.several(1, "seed") == "1 seed"


LONG = "weight-erosion:p_d=0.1,sgd.lr=0.25"
NINE = ("local", "fedavg", "finetune", "pens", "ndoye", "influence", "central", "fedavg:weighted=false", LONG)


@pytest.fixture
def nine(make_known, evenly):
    figures = {"accuracy": [0.5, 0.7], "ece": [0.1, 0.2], "nll": [0.5, 0.6]}
    return [evenly(make_known(figures, label, seed)) for label in NINE for seed in (0, 1)]


def heading(text: str) -> str:
    """The lines above the rule, in one."""
    return " ".join(text.split("─")[0].split())


@pytest.mark.parametrize(
    ("width", "kept"),
    [
        (150, ["accuracy", "worst", "gain", "ECE", "NLL", "models", "traffic", "training"]),
        (99, ["accuracy", "worst", "gain", "models", "traffic", "training"]),
        (80, ["accuracy", "worst", "gain", "models"]),
        (72, ["accuracy", "worst", "gain"]),
        (60, ["accuracy", "gain"]),
    ],
)
def test_nine_methods_fit_and_no_name_or_number_is_broken(nine, width, kept):
    text = printed(nine, width)
    assert max(map(len, text.splitlines())) <= width
    for name in NINE:
        assert re.search(rf"^{re.escape(name)} +60\.0 ± — ", text, re.MULTILINE), name
    every = ["accuracy", "worst", "gain", "ECE", "NLL", "models", "traffic", "training"]
    assert [title for title in every if title in heading(text)] == kept
    assert ("Further columns need a wider terminal" in " ".join(text.split())) == (kept != every)
    assert ("Worst client:" in " ".join(text.split())) == ("worst" in kept)
    assert ("Models:" in " ".join(text.split())) == ("models" in kept)


def test_where_columns_are_few_already_a_name_goes_on_between_its_options(nine):
    lines = printed(nine, 50).splitlines()
    assert max(map(len, lines)) <= 50
    first = next(i for i, line in enumerate(lines) if line.startswith("weight-erosion"))
    assert [line.split("  ")[0] for line in lines[first : first + 2]] == [
        "weight-erosion:p_d=0.1,",
        "sgd.lr=0.25",
    ]
    assert terminal.in_pieces("a:b=1,c=2", 4) == ["a:", "b=1,", "c=2"]
    assert terminal.in_pieces("north east", 100) == ["north east"]
