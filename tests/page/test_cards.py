"""What the four cards say, against the record that they say it of."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from pages import SITES

from coterie.metrics import operating
from coterie.metrics.summary import Interval
from coterie.page import differences
from coterie.page.card import csv_of
from coterie.page.cards import CARDS, gain
from coterie.page.library import library_of
from coterie.page.view import view_of
from coterie.show import views
from coterie.show.blocks import Table
from coterie.show.words import LANGUAGES, Words

EN = Words("en")


@pytest.fixture(scope="module")
def shelf(made):
    return library_of([str(made)])


def look(shelf, name="study", client="north", label=""):
    entry = next(e for e in shelf.all() if e.name == name)
    found = view_of(shelf, entry, client, label)
    assert found is not None
    return found


def rows(card):
    """The table as its file has it."""
    return list(csv.DictReader(io.StringIO(csv_of(card.table))))


def test_with_whom_is_the_weights_of_the_last_round(shelf):
    view = look(shelf, label="weight-erosion")
    card = CARDS["with"](view, EN)
    me = view.record.clients.index("north")
    last = dict(zip(view.record.clients, view.record.weights[6][me].tolist(), strict=True))
    told = {row["partner"]: row for row in rows(card)}
    assert set(told) == set(SITES) - {"north"}
    for name in told:
        j = view.record.clients.index(name)
        assert float(told[name]["weight_now"]) == pytest.approx(last[name])
        means = [view.record.weights[r][me, j] for r in range(1, 7)]
        assert float(told[name]["weight_mean"]) == pytest.approx(np.mean(means))
        assert int(told[name]["rounds_counted"]) == sum(w > 0 for w in means)
        assert int(told[name]["training_rows"]) == 63
    best = max(told, key=lambda name: last[name])
    assert f"{best} ({round(100 * last[best])}\u00a0%)" in card.answer
    drawn = card.pictures[0].data["choices"][0]["data"]
    total = sum(np.array(line["y"]) for line in drawn)
    assert total == pytest.approx([100] * 6, abs=0.1)


def test_everybody_counts_by_rows_in_one_model_for_all(shelf):
    card = CARDS["with"](look(shelf, label="fedavg"), EN)
    assert card.answer.startswith("Your model learns with ")
    assert card.answer.count("25\u00a0%") == 4


def test_alone_is_alone(shelf):
    view = look(shelf, label="local")
    assert CARDS["with"](view, EN).answer == "Your model learns from your own rows alone."
    assert CARDS["gain"](view, EN).answer.startswith("This is training alone")
    assert CARDS["given"](view, EN).answer.startswith(("Nothing has left you", "6 single", "12 single"))


def test_why_tells_who_is_near_in_which_columns(shelf):
    """west weighs two deviations more, as the tables were written; sketches are those of another run."""
    card = CARDS["why"](look(shelf, label="weight-erosion"), EN)
    said = " ".join([card.answer, *card.lines])
    assert "those of west least" in said
    assert "west differs most in weight <i>" in said
    measures = {(row["partner"], row["measure"]) for row in rows(card)}
    assert {("west", "relative distance"), ("west", "alpha"), ("west", "quantiles")} <= measures


def test_a_ranking_gives_a_reason_for_each(shelf):
    card = CARDS["why"](look(shelf, "circles"), EN)
    told = {row["partner"]: row["reason"] for row in rows(card)}
    assert set(told) == set(SITES) - {"north"}
    assert all(told.values())
    assert card.answer.startswith(("The choice fell on south", "The choice fell on east <b>&"))


def test_the_gain_is_the_difference_to_training_alone_on_the_same_rows(shelf):
    view = look(shelf, label="weight-erosion")
    card = CARDS["gain"](view, EN)
    mine, alone = (views.final(r, "accuracy")[view.number] for r in (view.record, view.alone[0]))
    told = next(row for row in rows(card) if row["measure"] == "accuracy")
    assert [float(told[c]) for c in ("together", "alone")] == pytest.approx([mine, alone])
    assert float(told["difference"]) == pytest.approx(mine - alone)
    assert mine == alone
    assert card.answer == "Your accuracy is the same as with training alone."
    assert "on your 27 test rows" in " ".join(card.lines)
    assert any("may change by" in line for line in card.lines)  # no interval of width zero


@pytest.mark.parametrize(
    ("gained", "answer"),
    [  # (mean, half over seeds, seeds, low and high over rows)
        (Interval(0.05, 0.01, 3, -0.02, 0.12), "It cannot be told whether you gain"),
        (Interval(-0.05, 0.01, 3, -0.12, 0.02), "It cannot be told whether you gain"),
        (Interval(0.05, 0.06, 3, 0.02, 0.12), "It cannot be told whether you gain"),
        (Interval(0.05, 0.01, 3, 0.02, 0.12), "You gain 5.0 points"),
        (Interval(-0.05, 0.01, 3), "You lose 5.0 points"),
        (Interval(0.05, math.nan, 1, 0.02, 0.12), "In this single run you gain 5.0 points"),
        (Interval(-0.05, math.nan, 1, -0.12, -0.02), "In this single run you lose 5.0 points"),
        (Interval(0.05, math.nan, 1), "You gain 5.0 points of accuracy over training alone; how much of"),
        (Interval(0.0, 0.02, 3), "Your accuracy is the same"),
    ],
)
def test_a_gain_is_clear_where_the_report_calls_it_clear(shelf, gained, answer):
    view = look(shelf, label="fedavg")
    assert gain.answer(view, "accuracy", gained, EN).startswith(answer)


def test_rows_of_one_seed_prove_nothing_of_a_gain_in_several(shelf, monkeypatch):
    """Splits that all agree have no interval: the report tells no clear gain, and neither does the card."""
    view = look(shelf, label="fedavg")
    p, y = np.eye(2)[[0] * 20], np.zeros(20, dtype=int)
    for mean, known in ((0.5, False), (0.0, True)):
        found = [Interval(mean, math.nan, 3)] * len(view.names)
        monkeypatch.setattr(views, "gain_by_client", lambda *args, found=found: found)
        got, _ = gain.gain_over_alone(view, "accuracy", (p, y), (1 - p, y))
        assert math.isfinite(got.low) == known


def test_an_interval_over_training_alone_says_nothing_of_other_rows():
    said = " ".join(gain.interval_lines("accuracy", Interval(0.0, 0.02, 3), False, EN))
    assert "may change by −2" in said
    assert "over 3 repetitions" in said
    assert "rows" not in said
    both = " ".join(gain.interval_lines("accuracy", Interval(0.05, 0.01, 3, -0.02, 0.12), False, EN))
    assert "3 repetitions and which test rows" in both


def test_an_accuracy_is_told_beside_what_no_model_would_have(shelf):
    view = look(shelf, label="fedavg")
    train, _, test = view.record.about["clients"][view.number]["labels"]
    most = int(np.argmax(train))
    share = Words("en").percent(test[most] / sum(test), 1)
    name = view.record.about["classes"][most]
    line = f"Without any model, always saying “{name}”, it would be {share}."
    assert line in CARDS["gain"](view, EN).lines


def test_what_no_model_would_have_is_the_mean_over_seeds():
    """6 of 10, then 9 of 10 test rows; in the second split another class is the most frequent."""
    counts = ([[7, 3], [0, 0], [6, 4]], [[4, 6], [0, 0], [1, 9]])
    runs = [SimpleNamespace(about={"clients": [{"labels": of}], "classes": ["no", "yes"]}) for of in counts]
    said = gain.without_model(SimpleNamespace(runs=runs, record=runs[0], number=0), "accuracy", EN)
    assert said == [f"Without any model, always saying “no / yes”, it would be {EN.percent(0.75, 1)}."]
    runs[1].about["clients"][0]["labels"] = None  # not told in one of them
    assert gain.without_model(SimpleNamespace(runs=runs, record=runs[0], number=0), "accuracy", EN) == []


def test_models_that_are_right_on_the_same_rows_may_differ_on_others(shelf):
    """Wilson's bound of 0 of 27 rows: 1.96² / (27 + 1.96²) = 0.1246."""
    rows = look(shelf, label="fedavg").record.probabilities().of(0)
    assert gain.over_rows(rows, rows) == (pytest.approx(-0.1246, abs=1e-4), pytest.approx(0.1246, abs=1e-4))


def test_where_rows_are_not_known_one_by_one_a_gain_has_the_interval_of_two_accuracies(shelf):
    """As while a run of a federation goes on."""
    view = look(shelf, label="fedavg")
    bare = [
        [replace(r, more={**r.more, "outcomes": lambda: None}) for r in runs]
        for runs in (view.runs, view.alone)
    ]
    view = replace(view, runs=bare[0], alone=bare[1])
    found, wide = gain.gain_over_alone(view, "accuracy", None, None)
    right = [round(27 * views.final(runs[0], "accuracy")[view.number]) for runs in bare]
    low, high = operating.difference(*(operating.share(k, 27) for k in right))
    assert wide
    assert (found.low, found.high) == (low, high)
    assert found.mean == pytest.approx((right[0] - right[1]) / 27)
    assert low < found.mean < high


def test_sensitivity_and_specificity_are_counted_by_hand(shelf):
    """Of 27 rows, at 0.30: who is ill and called so, who is well and not called so."""
    view = look(shelf, label="fedavg")
    p, y = view.record.probabilities().of(view.number)
    told = CARDS["gain"](view, EN).extra["threshold"]["classes"][0]
    assert (told["class"], told["positive"], told["negative"]) == ("yes", int(y.sum()), int((1 - y).sum()))
    called = p[:, 1] >= np.float32(0.30)
    assert told["together"]["sensitivity"][0][30] == pytest.approx(called[y == 1].mean(), abs=1e-4)
    assert told["together"]["specificity"][0][30] == pytest.approx((~called)[y == 0].mean(), abs=1e-4)
    own, everybody = told["together"]["net_benefit"]
    odds, ill = 0.3 / 0.7, y.mean()
    assert own[30] == pytest.approx((called & (y == 1)).mean() - (called & (y == 0)).mean() * odds, abs=1e-4)
    assert everybody[30] == pytest.approx(ill - (1 - ill) * odds, abs=1e-4)
    assert set(told) >= {"together", "alone"}


def test_the_decision_curve_has_both_models_and_both_who_need_none(shelf):
    card = CARDS["gain"](look(shelf, label="fedavg"), EN)
    (picture,) = [p for p in card.pictures if p.key == "gain-decision"]
    lines = {line["name"]: line for line in picture.data["choices"][0]["data"]}
    assert list(lines) == ["treating all", "treating none", "together", "alone"]
    told = card.extra["threshold"]["classes"][0]
    assert lines["together"]["y"] == told["together"]["net_benefit"][0][1:-1]
    assert set(lines["treating none"]["y"]) == {0}


def test_what_was_given_away_is_what_passed(shelf):
    view = look(shelf, label="weight-erosion")
    card = CARDS["given"](view, EN)
    frame = view.record.given_away()
    mine = frame[(frame.sender == "north") | (frame.receiver == "north")]
    told = {(row["from"], row["to"]): int(row["models"]) for row in rows(card)}
    assert told == {(r.sender, r.receiver): r.models for r in mine.itertuples()}
    left = int(mine[mine.sender == "north"].models.sum())
    assert card.answer.startswith(f"{left} models trained on your rows left you")
    said = " ".join(card.lines)
    for part in ("No row left you", "no epsilon", "CPU seconds", "CO2e", "distances"):
        assert part in said


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_card_speaks_every_language(shelf, language):
    say = Words(language)
    for name, label in (("study", "weight-erosion"), ("study", "fedavg"), ("circles", ""), ("alike", "")):
        for client in SITES:
            for card in (make(look(shelf, name, client, label), say) for make in CARDS.values()):
                assert card.answer
                assert all(row[0] for row in (card.table.rows if card.table else ()))


def test_cells_that_a_spreadsheet_would_run_are_texts(shelf):
    raw = [["=1+1", 2.5], ["@x", None], ["plain", -3]]
    table = Table(["a"], [], columns=["name", "value"], raw=raw)
    assert csv_of(table) == "name,value\n'=1+1,2.5\n'@x,\nplain,-3\n"


def test_a_letter_names_columns_and_weights_that_differ(shelf):
    """west is ill for another reason in its pulse, and weighs more."""
    view = look(shelf, label="weight-erosion")
    found = differences.feedback(view, "west")
    assert found.alone
    assert found.columns[0].name == "weight <i>"
    assert found.columns[0].first > 1.5 > 2 * found.columns[0].second
    assert found.weights[0].name == "pulse"
    assert found.weights[0].first < 0 < found.weights[0].second
    text = differences.letter(view, "west", EN)
    for part in ("To west, from north", "weight <i>:", "pulse:", "is about a single patient"):
        assert part in text
    assert all(len(line) <= 90 for line in text.splitlines())


def test_a_letter_after_a_ranking_says_the_reason_to_whom_it_is_about(shelf):
    text = differences.letter(look(shelf, "circles"), "west", EN)
    assert "The reason: " in text
    assert "your rows differ" in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_tells_the_outcome_alone_is_said_before_any_figure(shelf, language):
    """Where it is of all rows, or of one's own; of another site's nothing."""
    view = look(shelf)
    leak = {"column": "ward", "tells": "the target", "measure": "AUC", "score": 0.996, "rows": 1200}
    found = [{**leak, "column": name, "site": name} for name in ("", "north", "south")]
    record = replace(view.record, about={**view.record.about, "leaks": found})
    said = CARDS["gain"](replace(view, runs=[record, *view.runs[1:]]), Words(language)).lines
    told = {"en": ("0.996", "1,200"), "fr": ("0,996", "1\u202f200"), "de": ("0,996", "1.200")}[language]
    assert all(part in said[0] for part in told)
    assert "north" in said[1]
    assert not any("south" in line and "AUC" in line for line in said)
    before = CARDS["gain"](view, Words(language)).lines
    assert said[2:] == before
    by_values = {**found[0], "column": "icu", "measure": "", "score": 1.0}
    record = replace(view.record, about={**view.record.about, "leaks": [by_values]})
    (line, *_) = CARDS["gain"](replace(view, runs=[record, *view.runs[1:]]), Words(language)).lines
    assert "icu" in line
    assert told[1] in line
    assert "AUC" not in line
    assert " 1 " not in line
