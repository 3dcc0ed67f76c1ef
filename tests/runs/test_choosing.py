"""From figures to choices and words: trials are planted, so that what ought to be said is known by hand."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from coterie.core.roster import Member, Roster
from coterie.features.advice.answers import advice_in, advice_of
from coterie.features.advice.judge import Judge
from coterie.features.advice.report import render_advice
from coterie.features.advice.sentences import cells, legend, sentences
from coterie.features.trials.bench import OUTER, Bench, Place, Trial, without_one_class
from coterie.features.trials.gains import interval_of_shares, interval_over_folds
from coterie.features.trials.measure import balanced_always_the_same, measure_of
from coterie.methods.advised import ALONE, Advised
from coterie.metrics.own import NOTHING
from coterie.runs.settings import Settings
from coterie.sites.setup import Setup

WAYS = ("fedavg", "finetune", "pens")
FOLDS, INNER = 5, 3
ABOUT = {"notes": [], "clients": [{"name": "north"}], "coterie": "1"}


def roster(counts=(50, 50), task="classification", classes=("well", "ill"), labels=True, test=0) -> Roster:
    known = (tuple(counts), (0,) * len(counts), (0,) * len(counts)) if labels else None
    member = Member("north", sum(counts), 0, test, known)
    return Roster((member,), task, (3,), 2, classes=classes)


def bench_of(where: Roster, measure="accuracy", inner=INNER, sure=1.0) -> Bench:
    method = Advised(candidates=WAYS, measure=measure, folds=FOLDS, sure=sure)
    setup = Setup((), where, None, {}, ())
    found = Bench(method, setup, Settings(seed=0, rounds=3, data="x"), None, None, NOTHING, inner)
    member = where.members[0]
    parts = [np.array(member.labels[0]) // FOLDS] * FOLDS if member.labels else []
    found.__dict__["able"] = (method.ways, [])
    found.__dict__["outer"] = [
        Setup((), roster_of_fold(where, part), None, {}, ()) for part in parts or [None] * FOLDS
    ]
    return found


def roster_of_fold(where: Roster, part) -> Roster:
    member = where.members[0]
    held = None if part is None else part.tolist()
    labels = held and (tuple((np.array(member.labels[0]) - part).tolist()), (0, 0), tuple(held))
    return Roster((Member(member.name, 1, 0, 1, labels),), where.task, where.shape, 2, classes=where.classes)


def trials_of(bench, outer, inner=None) -> dict[Place, Trial]:
    """Figures {way: [fold]}; those of inner folds are the same for all of an outer one, {way: [outer fold]},
    with a little between them so that they have a spread.
    """
    made, metric = {}, bench.metric
    for spec in bench.ways:
        for fold in range(FOLDS):
            value = outer[spec][fold] if spec in outer else outer[ALONE][fold]
            made[Place(fold, OUTER, spec)] = Trial({metric: [value]}, [[1.0]])
            for i in range(bench.inner):
                near = (inner or outer).get(spec, (inner or outer)[ALONE])[fold]
                made[Place(fold, i, spec)] = Trial({metric: [near + (0.001 * i if spec != ALONE else 0)]})
    return made


def told(bench, trials):
    advice = advice_of(bench, trials, ABOUT)
    (lines,) = sentences(advice).values()
    (answer,) = advice.answers
    return answer, " ".join(lines[1:]), advice


RARE = (26, 1)


def test_the_measure_sees_a_rare_outcome_and_says_why():
    where = roster(RARE)
    found = measure_of("auto", where, [0])
    assert found.name == "nll"
    assert (
        "26 of the 27 training rows of north are well: accuracy would be 96 % by always saying" in found.why
    )
    given = measure_of("accuracy", where, [0])
    assert given.name == "accuracy"
    assert "can hardly tell" in given.why


@pytest.mark.parametrize(
    ("where", "asked", "name"),
    [
        (roster((60, 40)), "auto", "accuracy"),
        (roster((79, 21)), "auto", "accuracy"),
        (roster((80, 20)), "auto", "nll"),
        (roster((5, 90, 5), classes=("a", "b", "c")), "auto", "nll"),
        (roster((30, 40, 30), classes=("a", "b", "c")), "auto", "accuracy"),
        (roster(RARE, labels=False), "auto", "accuracy"),  # nobody knows how rare it is
        (roster(RARE, task="survival"), "auto", "concordance"),
        (roster((0,), task="regression", labels=False), "auto", "rmse"),
        (roster(RARE), "auc", "auc"),
        (roster(RARE), "balanced_accuracy", "balanced_accuracy"),
    ],
)
def test_which_measure(where, asked, name):
    assert measure_of(asked, where, [0]).name == name


def test_one_blind_client_among_those_who_ask_is_enough_and_others_do_not_count():
    members = tuple(Member(n, sum(c), 0, 0, (c,) * 3) for n, c in (("a", (50, 50)), ("b", (29, 1))))
    where = Roster(members, "classification", (3,), 2, classes=("well", "ill"))
    assert measure_of("auto", where, [0, 1]).name == "nll"
    assert measure_of("auto", where, [0]).name == "accuracy"


def test_no_interval_of_width_zero_and_no_quite_where_all_parts_say_the_same():
    """The case that this is for: 27 rows, one ill, every way right on the same rows."""
    bench = bench_of(roster((26, 1)), inner=3)
    flat = {spec: [1.0, 1.0, 1.0, 1.0, 0.83] for spec in bench.ways}
    answer, said, advice = told(bench, trials_of(bench, flat))
    assert answer.alone
    assert "+0.0 to +0.0" not in said
    assert "±" not in said
    for gain in answer.gains.values():
        low, high = gain.bounds
        assert low < -0.1 < 0.1 < high
    assert "How sure: hardly" in said
    assert "quite" not in said
    assert "these rows cannot tell (27 training rows, 1 of them ill" in said
    assert "always saying well 96.3 %" in said
    assert "no better than none" not in said.split("alone you have")[0]
    assert "+0.0 to +0.0" not in str(cells(advice))
    assert "+0.0 to +0.0" not in render_advice(advice)


def test_folds_that_agree_have_no_interval_where_the_measure_is_no_share():
    bench = bench_of(roster(RARE), measure="auto")
    assert bench.metric == "nll"
    answer, said, _ = told(bench, trials_of(bench, {spec: [0.2] * FOLDS for spec in bench.ways}))
    assert all(map(math.isnan, answer.gains["fedavg"].bounds))
    assert "no interval: all parts say the same" in said
    assert "Measure: 26 of the 27 training rows" in said
    assert "always saying the shares of the classes 0.158" in said  # -(26 ln 26/27 + ln 1/27) / 27
    assert "How sure: hardly" in said


def test_nobody_is_sent_to_others_on_a_promise_that_holds_zero():
    """It looks better on all folds, but inner folds chose what did worse on half of them."""
    bench = bench_of(roster((50, 50)))
    outer = {ALONE: [0.5] * FOLDS, "fedavg": [0.6, 0.62, 0.61, 0.62, 0.6], "pens": [0.4, 0.4, 0.5, 0.6, 0.5]}
    inner = {ALONE: [0.5] * FOLDS, "fedavg": [0.5] * FOLDS, "pens": [0.8] * FOLDS}
    trials = trials_of(bench, outer, inner)
    choice = Judge(bench, trials, 0).choice()
    assert (choice.way, choice.best, choice.inside) == (ALONE, "fedavg", ("pens",) * FOLDS)
    assert choice.promise.mean == pytest.approx(-0.02)
    answer, said, _ = told(bench, trials)
    assert said.startswith(
        "Stay alone, or ask again with more rows: with fedavg, accuracy rises by 11.0 points"
    )
    assert "neither training nor choosing saw the gain of such a choice cannot be told from none" in said
    assert "How sure: hardly" in said  # to stay alone came out in none of the folds
    assert answer.best == "fedavg"


def test_joining_is_advised_where_the_promise_is_clear():
    bench = bench_of(roster((50, 50)))
    outer = {ALONE: [0.55, 0.6, 0.5, 0.6, 0.55], "fedavg": [0.9, 0.85, 0.9, 0.95, 0.9]}
    answer, said, advice = told(bench, trials_of(bench, outer))
    assert answer.choice == "fedavg"
    # 90 and 56 of 100 right, and 100 rows to come: as of 45 and 28 of 50, for which Wilson has 0.7864 to
    # 0.9565 and 0.4231 to 0.6884, so the difference of 0.34 is less by √(0.1136² + 0.1284²) = 0.1714 and more
    # by √(0.0565² + 0.1369²) = 0.1481
    assert answer.expected.bounds == (pytest.approx(0.1686, abs=1e-4), pytest.approx(0.4881, abs=1e-4))
    assert (
        "How sure: quite. Chosen without each part in turn, the advice was to join others 5 of 5 times"
        in said
    )
    assert (
        advice_in(json.loads(json.dumps(advice.table()))).answers[0].expected.bounds == answer.expected.bounds
    )


def test_to_join_is_not_quite_sure_where_the_way_did_not_come_out_again():
    bench = bench_of(roster((50, 50)))
    outer = {ALONE: [0.5] * FOLDS, "fedavg": [0.9, 0.9, 0.95, 0.9, 0.9], "pens": [0.85, 0.9, 0.9, 0.85, 0.9]}
    inner = {ALONE: [0.5] * FOLDS, "fedavg": [0.6] * FOLDS, "pens": [0.8] * FOLDS}
    answer, said, _ = told(bench, trials_of(bench, outer, inner))
    assert (answer.choice, answer.repeats) == ("fedavg", {"pens": 5})
    assert "How sure: somewhat: that others help came out again, but not in which way." in said


def test_others_that_are_worse_read_differently_from_rows_that_cannot_tell():
    bench = bench_of(roster((200, 200)))
    worse = {ALONE: [0.9, 0.92, 0.9, 0.91, 0.9], **{way: [0.6, 0.62, 0.6, 0.61, 0.6] for way in WAYS}}
    _, said, _ = told(bench, trials_of(bench, worse))
    assert said.startswith("Stay alone: others would make it worse; with the best of 3 other ways")
    assert "How sure: quite." in said
    even = {ALONE: [0.9, 0.92, 0.9, 0.91, 0.9], **{way: [0.9, 0.9, 0.92, 0.9, 0.89] for way in WAYS}}
    _, said, _ = told(bench, trials_of(bench, even, worse))
    assert said.startswith("Stay alone for now: these rows cannot tell (400 training rows, 200 of them ill)")
    assert "How sure: somewhat: these rows do not show that others are worse" in said


def test_nobody_is_sent_to_others_for_a_model_that_is_no_better_than_none():
    """Overfitted alone, others lose less: but always saying the shares would lose least, ln 2 = 0.693."""
    bench = bench_of(roster((50, 50)), measure="nll")
    outer = {ALONE: [1.9, 2.0, 2.1, 2.0, 2.0], "fedavg": [0.8, 0.81, 0.79, 0.8, 0.8]}
    answer, said, _ = told(bench, trials_of(bench, outer))
    assert answer.expected.bounds[0] > 0
    assert (answer.choice, answer.best) == (ALONE, "fedavg")
    assert "0.800 is no better than always saying the shares of the classes 0.693" in said
    assert "your own model is no better than none" in said


@pytest.mark.parametrize(
    ("fedavg", "way"),
    [([0.75, 0.7, 0.75, 0.7, 0.7], ALONE), ([0.85, 0.8, 0.8, 0.85, 0.8], "fedavg")],
)
def test_without_inner_folds_a_gain_must_be_clear_as_the_best_of_all_ways(fedavg, way):
    """Of 72 and 58 of 100 right, 95 % leave out 0 for one way (z = 1.96), and do not for three (2.394)."""
    bench = bench_of(roster((50, 50)), inner=0)
    outer = {ALONE: [0.55, 0.6, 0.55, 0.6, 0.6], "fedavg": fedavg}
    trials = trials_of(bench, outer)
    choice = Judge(bench, trials, 0).choice()
    assert (choice.way, choice.best, choice.promise) == (way, "fedavg", None)
    single = interval_of_shares(np.array(fedavg), np.array(outer[ALONE]), FOLDS, 100)
    assert choice.gains["fedavg"].bounds[0] < single.bounds[0] > 0
    _, said, advice = told(bench, trials)
    assert ("the best of 3 ways may look that good by chance" in said) == (way == ALONE)
    assert "if its interval leaves out 0" in legend(advice)
    assert "How sure" not in said


def test_twelve_rows_are_hardly_sure_of_anything():
    bench = bench_of(roster((6, 6)))
    outer = {ALONE: [0.0] * FOLDS, "fedavg": [1.0] * FOLDS}
    answer, said, _ = told(bench, trials_of(bench, outer, {ALONE: [0.0] * FOLDS, "fedavg": [0.9] * FOLDS}))
    assert answer.choice == "fedavg"  # none of 12 right alone, all of them with others: that is clear
    assert "How sure: hardly: there are few rows to go by" in said


def test_intervals_of_shares_by_hand():
    """Both right on 8 of 10 rows: Wilson of 8 of 10 is 0.4902 to 0.9433, so ± √(0.3098² + 0.1433²)."""
    same = interval_of_shares(np.array([0.8, 0.8]), np.array([0.8, 0.8]), 2, 10)
    assert same.bounds == (pytest.approx(-0.3413, abs=1e-4), pytest.approx(0.3413, abs=1e-4))
    # of four folds two had the same model twice: half of the rows, half of the difference
    half = interval_of_shares(np.array([0.9, 0.9]), np.array([0.7, 0.7]), 4, 20)
    whole = interval_of_shares(np.array([0.9, 0.9]), np.array([0.7, 0.7]), 2, 10)
    assert half.mean == pytest.approx(0.1)
    assert half.bounds == tuple(pytest.approx(end / 2) for end in whole.bounds)
    assert all(map(math.isnan, interval_of_shares(np.array([]), np.array([]), 5, 10).bounds))
    assert math.isnan(interval_of_shares(np.array([]), np.array([]), 0, 10).mean)


def test_an_interval_over_equal_folds_is_none():
    assert math.isnan(interval_over_folds(np.array([0.1, 0.1, 0.1])).half)


def test_a_sensitivity_stands_beside_that_of_calling_ill_by_chance():
    """At the usual specificity, 0.9, one in ten: a way that reaches 8 % is no better than none."""
    bench = bench_of(roster(), "sensitivity", inner=0)
    answer, said, _ = told(bench, trials_of(bench, {ALONE: [0.08] * FOLDS}))
    assert answer.no_model == pytest.approx(1 - bench.method.specificity) == pytest.approx(0.1)
    assert "without any model 10.0 %: your own model is no better than none" in said


@pytest.mark.parametrize(("counts", "unsure"), [((91, 9), True), ((90, 10), False), ((14, 13), True)])
def test_without_inner_folds_few_events_are_hardly_sure_too(counts, unsure):
    bench = bench_of(roster(counts), "auc", inner=0)
    figures = {ALONE: [0.6, 0.7, 0.65, 0.62, 0.7]}
    _, said, _ = told(bench, trials_of(bench, figures))
    assert ("How sure: hardly: there are few rows to go by (" in said) == unsure


def test_a_part_of_one_class_has_no_balanced_accuracy():
    """A constant model has all of such a part: 1, 0.5 and 0.5 would make 66.7 % of knowing nothing."""
    labels = [{"labels": [[8, 2], [0, 0], test]} for test in ([4, 0], [3, 1], [3, 1])]
    scores = {"balanced_accuracy": [1.0, 0.5, 0.5], "accuracy": [1.0, 0.75, 0.75]}
    found = without_one_class(scores, labels)
    assert found == {"balanced_accuracy": [None, 0.5, 0.5], "accuracy": [1.0, 0.75, 0.75]}
    hidden = without_one_class({**scores, "auc": [None, 0.5, 0.5]}, [{}] * 3)  # labels are not told
    assert hidden["balanced_accuracy"] == [None, 0.5, 0.5]
    assert without_one_class({"rmse": [1.0]}, [{}]) == {"rmse": [1.0]}


def test_always_the_same_class_by_the_classes_of_each_part():
    """Class 0 is the commonest: of parts with 3, 2 and 1 classes 1/3 and 1/2; of one without it, nothing."""

    def fold(test):
        labels = ((9, 5, 3), (0, 0, 0), test)
        return Roster((Member("north", 17, 0, sum(test), labels),), "classification", (3,), 3)

    parts = [fold(test) for test in ((2, 1, 1), (3, 1, 0), (4, 0, 0), (0, 2, 2))]
    assert balanced_always_the_same(parts, 0) == pytest.approx((1 / 3 + 1 / 2 + 0) / 3)
    assert math.isnan(balanced_always_the_same(parts[2:3], 0))


def test_quite_does_not_stand_beside_a_starred_interval_that_holds_zero():
    """72 and 58 of 100: 95 % leave out 0 for the promise, and do not for one of three ways (2.394). So many
    rows are to come that they add nothing to the promise's width.
    """
    bench = bench_of(roster((50, 50), test=10_000))
    outer = {ALONE: [0.55, 0.6, 0.55, 0.6, 0.6], "fedavg": [0.75, 0.7, 0.75, 0.7, 0.7]}
    answer, said, _ = told(bench, trials_of(bench, outer))
    assert (answer.choice, answer.repeats) == ("fedavg", {"fedavg": FOLDS})
    assert answer.gains["fedavg"].bounds[0] < 0 < answer.expected.bounds[0]
    assert "How sure: somewhat: the gain may be none." in said
