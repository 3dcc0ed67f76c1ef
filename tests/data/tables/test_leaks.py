"""Columns that give the target away, in many clothes; and honest ones, which are not accused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from coterie.data.tables.inspect import inspect
from coterie.data.tables.leak_values import Goal, Score, ranks, scores
from coterie.data.tables.leaks import Leak, Target, alone, auc, filled_for_one_class, leak_of, places

ONE = ("yes", "no")


def found(x, target, whose=None, sites=("north",), category=False):
    """What is said of one column."""
    x = np.asarray(x, dtype=np.float64)
    whose = np.zeros(len(x), dtype=int) if whose is None else whose
    return leak_of("c", x, ~np.isnan(x), places(target, whose, sites, 1), category)


def labelled(rng, n, share):
    y = np.zeros(n, dtype=int)
    y[rng.permutation(n)[: round(share * n)]] = 1
    return y


# exact


def test_an_auc_of_ties_is_exact():
    """20 hits, of which one is 0 like 178 of the 180 others, whose two other values are the largest of all:
    19 hits are above 178 zeros, one ties with them: (19 x 178 + 178 / 2) / (20 x 180).
    """
    hits = np.concatenate([[0.0], np.arange(1, 20) / 1000])
    others = np.concatenate([np.zeros(178), [8.0, 9.0]])
    x, y = np.concatenate([hits, others]), np.repeat([1, 0], [20, 180])
    assert auc(x, y == 1) == pytest.approx((19 * 178 + 178 / 2) / 3600, abs=1e-12)
    assert auc(-x, y == 1) == pytest.approx(1 - auc(x, y == 1), abs=1e-12)
    assert ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [3.5, 1, 3.5, 2]


@pytest.mark.parametrize("small", [1e-9, 1e-3, 1.0, 1e9])  # no unit or scale matters
def test_a_column_that_is_zero_for_most_rows(small):
    rng = np.random.default_rng(0)
    y = labelled(rng, 1500, 0.1)
    x = np.where(y == 1, rng.exponential(small, 1500), 0.0)
    x[rng.choice(np.flatnonzero(y == 0), 10, replace=False)] = rng.exponential(small, 10)
    exact = roc_auc_score(y, x)
    assert exact > 0.99
    assert alone(x, y, 2) == pytest.approx(exact, abs=0.005)
    assert alone(-x, y, 2) == pytest.approx(exact, abs=0.005)
    leak = found(x, Target(y, ONE))
    assert (leak.measure, leak.rows) == ("AUC", 1500)
    assert leak.says == f"it predicts the target alone (AUC {leak.score:.3f} on 1\u202f500 rows)"


# clothes

N = 600


def middle(rng, y):
    """Between 0.4 and 0.5 for hits, and around it for others."""
    outside = rng.choice([0.0, 0.5], len(y)) + rng.uniform(0.0, 0.4, len(y))
    return np.where(y == 1, rng.uniform(0.401, 0.499, len(y)), outside)


CLOTHES = {
    "a range in the middle": lambda rng, y: (middle(rng, y), False),
    "codes in any order": lambda rng, y: (rng.choice([3, 8, 11, 30], N) + (y == 0) * 1, True),
    "codes that are read as numbers": lambda rng, y: (rng.choice([3, 8, 11, 30], N) + (y == 0) * 1, False),
    "a flag": lambda rng, y: (np.where(rng.random(N) < 0.004, 1 - y, y), False),
    "the other way round": lambda rng, y: (-y + rng.normal(scale=0.05, size=N), False),
    "far values": lambda rng, y: (np.exp(20 * y + rng.normal(size=N)), False),
    "integers from a short list": lambda rng, y: (np.where(y == 1, rng.integers(7, 9, N), 4), False),
}


@pytest.mark.parametrize("share", [0.5, 0.2, 0.03])
@pytest.mark.parametrize("clothes", CLOTHES)
def test_what_gives_the_class_away(clothes, share):
    rng = np.random.default_rng(1)
    y = labelled(rng, N, share)
    x, category = CLOTHES[clothes](rng, y)
    assert found(x, Target(y, ONE), category=category) is not None
    assert found(rng.permutation(x), Target(y, ONE), category=category) is None


def test_a_dozen_positives_are_enough():
    rng = np.random.default_rng(2)
    y = labelled(rng, 400, 0.03)
    x = np.where(y == 1, 1 + rng.random(400), 0.0)
    x[np.flatnonzero(y == 0)[:2]] = 1.5
    assert found(x, Target(y, ONE)).score > 0.99


def test_one_class_of_several_that_is_given_away():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 4, N)
    leak = found(np.where(y == 2, 5, 0) + rng.normal(size=N) * 0.3, Target(y, ("a", "b", "c", "d")))
    assert leak.says.startswith("it predicts that the target is c alone (AUC ")


@pytest.mark.parametrize(("share", "part"), [(0.5, 0.5), (0.03, 1.0), (0.03, 0.5)])
@pytest.mark.parametrize("said", ["filled in", "empty"])
def test_gaps_that_give_the_class_away(share, part, said):
    """All of the class's rows, or half of them, are filled in, or empty, and no others."""
    rng = np.random.default_rng(4)
    y = labelled(rng, 1000, share)
    which = (y == 1) & (rng.random(1000) < part)
    x = np.where(which if said == "filled in" else ~which, rng.normal(size=1000), np.nan)
    leak = found(x, Target(y, ("well", "ill")))
    assert leak.says == f"it is {said} only where the target is ill ({which.sum()} rows)"


def test_gaps_that_nearly_give_the_class_away():
    """Of who lived 95 % have it, and none of who died: most filled rows are the usual class anyhow."""
    rng = np.random.default_rng(5)
    y = labelled(rng, 1000, 0.1)
    x = np.where((y == 0) & (rng.random(1000) < 0.95), rng.normal(size=1000), np.nan)
    leak = found(x, Target(y, ONE))
    assert leak.says.startswith("it tells the target by whether it is filled in (AUC 0.9")


def test_a_column_that_sites_lack_tells_sites_apart_and_is_no_leak():
    rng = np.random.default_rng(6)
    whose = np.repeat([0, 1], 300)
    y = (rng.random(600) < np.where(whose == 0, 0.02, 0.98)).astype(int)
    x = np.where(whose == 0, np.nan, rng.normal(size=600))
    assert found(x, Target(y, ONE), whose, ("north", "south")) is None


@pytest.mark.parametrize("site", [0, 2])
def test_a_leak_at_one_site_is_found_there(site):
    rng = np.random.default_rng(7)
    whose, y = rng.integers(0, 3, 900), rng.integers(0, 2, 900)
    x = rng.normal(size=900) + np.where(whose == site, 20 * y, 0)
    leak = found(x, Target(y, ONE), whose, ("north", "south", "west"))
    assert (leak.site, leak.rows) == (("north", "south", "west")[site], (whose == site).sum())
    assert leak.says.endswith(f"rows of {leak.site})")


COPIES = {
    "itself": lambda y: y,
    "on another scale": lambda y: -3 * y + 7,
    "bent": np.exp,
    "in ten steps": lambda y: np.round(y * 3),
    "ranks": ranks,
}


@pytest.mark.parametrize("copy", COPIES)
def test_copies_of_a_number(copy):
    rng = np.random.default_rng(8)
    y = rng.normal(size=N)
    leak = found(COPIES[copy](y), Target(numbers=y))
    assert leak.measure == "R²"
    assert found(y + rng.normal(scale=0.4, size=N), Target(numbers=y)) is None  # R² 0.86


def test_codes_that_stand_for_a_number():
    rng = np.random.default_rng(9)
    group = rng.integers(0, 12, N)
    y = np.random.default_rng(1).normal(size=12)[group] + rng.normal(scale=0.02, size=N)
    assert found(group, Target(numbers=y), category=True) is not None


def test_what_tells_the_event_or_the_time_of_it():
    rng = np.random.default_rng(10)
    times, seen = rng.exponential(100, N) + 1, rng.random(N) < 0.4
    target = Target.of("survival", np.where(seen, times, -times))
    assert found(seen + rng.normal(scale=0.05, size=N), target).thing == "the event"
    assert found(np.sqrt(times), target).measure == "R²"
    only = np.where(seen, times, rng.exponential(100, N))  # known afterwards of those who had it
    assert found(only, target) is not None
    assert found(rng.normal(size=N), target) is None


# honest


@pytest.mark.parametrize(("hits", "others"), [(12, 40), (20, 20), (30, 300), (100, 100), (12, 400)])
def test_honest_columns_are_not_accused(hits, others):
    """Of 200 tables with a column whose AUC is 0.9 in truth, a few at most, however small."""
    rng = np.random.default_rng(11)
    y = np.repeat([1, 0], [hits, others])
    places_of = places(Target(y, ONE), np.zeros(len(y), dtype=int), ["north"], 1)
    all_rows = np.ones(len(y), dtype=bool)
    drawn = (norm.ppf(0.9) * 2**0.5 * y + rng.normal(size=len(y)) for _ in range(200))
    assert sum(leak_of("c", x, all_rows, places_of) is not None for x in drawn) <= 6


def test_many_small_sites_do_not_make_an_honest_column_a_leak():
    rng = np.random.default_rng(12)
    whose, y = np.repeat(np.arange(40), 50), rng.integers(0, 2, 2000)
    x = norm.ppf(0.95) * 2**0.5 * y + rng.normal(size=2000)
    assert found(x, Target(y, ONE), whose, [f"s{i}" for i in range(40)]) is None


def test_rows_of_one_patient_do_not_tell_each_other():
    rng = np.random.default_rng(13)
    x, y = np.repeat(rng.normal(size=100), 6), np.repeat(rng.integers(0, 2, 100), 6)
    assert alone(x, y, 2) < 0.7


def test_too_few_rows_say_nothing():
    y = np.arange(30) % 2
    assert np.isnan(alone(y * 1.0, y, 2))
    assert found(y * 1.0, Target(y, ONE)) is None
    assert filled_for_one_class(np.arange(30) < 3, np.ones(30, dtype=int)) is None
    assert Score("AUC", 1.0, "", 40, 1).luck(0.9) == 1


def test_luck_is_that_of_drawn_columns():
    """With 20 rows of each class an AUC of 1 is reached by 0.9 at about one of a thousand, from 20,000 draws
    of scipy's ranks; with 50 it is not.
    """
    assert Score("AUC", 1.0, "", 40, 20).luck(0.9) == pytest.approx(0.0012, abs=0.001)
    assert Score("AUC", 1.0, "", 100, 50).luck(0.9) == 0
    assert Score("AUC", 0.98, "", 40, 20).luck(0.9) == pytest.approx(0.024, abs=0.015)
    assert Score("R²", 0.9, "", 100).luck(0.9) == pytest.approx(0.5)


def test_many_rows_are_thinned_and_rare_ones_kept():
    y = np.zeros(50_000, dtype=int)
    y[::1000] = 1
    goal = Goal.of_classes(y, ONE)
    assert goal.y.sum() == 50
    assert len(goal.rows) <= 5000
    assert len(Goal.of_numbers(y * 1.0).rows) == 5000
    (score,) = scores(y * 1.0, goal)
    assert (score.value, score.hits) == (1, 50)


@pytest.mark.parametrize(
    ("score", "said"), [(1.0, "AUC 1 "), (0.9996, "AUC above 0.999"), (0.98765, "AUC 0.988")]
)
def test_a_score_is_not_rounded_to_all(score, said):
    assert said in Leak("c", "predicts the target alone", "the target", "AUC", score, 50).says


# through the door


def test_inspect_proposes_to_leave_them_out(tmp_path):
    rng = np.random.default_rng(14)
    n = 900
    site, y = rng.choice(["north", "south", "west"], n), rng.random(n) < 0.15
    frame = pd.DataFrame({"site": site, "age": rng.normal(60, 10, n).round(1)})
    frame["ward_code"] = np.where(y, rng.exponential(0.01, n).round(5) + 1e-5, 0.0)
    frame["ph"] = np.where(site == "south", 7 + 0.4 * y, 7.2) + rng.normal(scale=0.05, size=n).round(4)
    frame["crp"] = (1.8 * y + rng.normal(size=n)).round(3)
    frame["ill"] = np.where(y, "yes", "no")
    frame.to_csv(tmp_path / "t.csv", index=False)
    seen = inspect([tmp_path / "t.csv"], "ill", site="site")
    kinds = {s.rule.name: s.kind for s in seen.columns}
    assert (kinds["ward_code"], kinds["ph"]) == ("likely leak", "likely leak")
    assert (kinds["crp"], kinds["age"]) == ("number", "number")
    asked = " ".join(seen.asks)
    assert "rows of south). If it is known" in asked


# values that stand for empty


def test_a_number_that_is_known_in_some_rows_and_zero_in_others():
    """40 % of rows hold the target on another scale, all others 0; also where classes are predicted."""
    rng = np.random.default_rng(15)
    y, some = rng.normal(10, 3, N), rng.random(N) < 0.4
    leak = found(np.where(some, 900 * y, 0), Target(numbers=y))
    assert (leak.measure, leak.rows) == ("R²", some.sum())
    assert leak.says.startswith("it predicts the target alone where it is other than 0 (R² 1 on ")
    label = rng.integers(0, 2, N)
    leak = found(np.where(some, 5 * label + rng.normal(size=N), -1), Target(label, ONE))
    assert leak.says.startswith("it predicts the target alone where it is other than -1 (AUC ")
    assert found(np.where(some, y + rng.normal(size=N), 0), Target(numbers=y)) is None  # R² 0.9


@pytest.mark.parametrize("shape", ["flag", "category", "number"])
@pytest.mark.parametrize(("share", "classes"), [(0.5, 2), (0.08, 2), (0.3, 3)])
def test_a_value_of_one_class_alone(shape, share, classes):
    rng = np.random.default_rng(16)
    y = np.where(labelled(rng, N, share), classes - 1, rng.integers(0, classes - 1, N))
    some = (y == classes - 1) & (rng.random(N) < 0.6)
    values = {"flag": 1, "category": rng.integers(1, 4, N), "number": rng.uniform(100, 900, N)}[shape]
    names = ("well", "mild", "ill")[-classes:] if classes == 3 else ("well", "ill")
    leak = found(np.where(some, values, 0), Target(y, names), category=shape == "category")
    assert leak.says == f"it is other than 0 only where the target is ill ({some.sum()} rows)"
    one_site = np.repeat([0, 1], N // 2)
    mixed = np.where(one_site == 0, some, rng.random(N) < 0.2)
    at_home = found(np.where(mixed, values, 0), Target(y, names), one_site, ("north", "south"))
    assert (at_home.site, at_home.rows) == ("north", some[one_site == 0].sum())


def test_one_word_of_several_is_of_one_class_alone_and_is_called_by_its_text():
    rng = np.random.default_rng(17)
    y = rng.integers(0, 2, N)
    x = np.where((y == 1) & (rng.random(N) < 0.3), 2.0, rng.integers(0, 2, N))
    where = places(Target(y, ONE), np.zeros(N, dtype=int), ["north"], 1)
    words = ("none", "aspirin", "heparin")
    leak = leak_of("med", x, np.ones(N, dtype=bool), where, True, lambda v: words[int(v)])
    assert leak.says == f"it is heparin only where the target is no ({(x == 2).sum()} rows)"


@pytest.mark.parametrize(("rows", "usual"), [(9, 0.05), (9, 0.5), (20, 0.5), (15, 0.3)])
def test_an_honest_sign_of_a_handful_of_rows_is_not_accused(rows, usual):
    y = labelled(np.random.default_rng(18), N, usual)
    x = np.zeros(N)
    x[np.flatnonzero(y == 1)[:rows]] = 1
    assert found(x, Target(y, ONE)) is None


def test_strong_and_honest_signs_are_rarely_accused():
    """Ten times as common among the ill as among the well, in 30 tables each."""
    rng, accused = np.random.default_rng(19), 0
    for share, among_ill in [(0.5, 0.3), (0.1, 0.3), (0.3, 0.06)] * 30:
        y = labelled(rng, N, share)
        x = (rng.random(N) < np.where(y == 1, among_ill, among_ill / 10)) * 1.0
        accused += found(x, Target(y, ONE)) is not None
    assert accused <= 2


# cuts of a number

CUTS = {
    "low": lambda y: (y < -0.8, False),
    "halves": lambda y: (y > np.median(y), True),
    "steps": lambda y: (np.digitize(y, [-1, 0, 1]), False),
    "codes in any order": lambda y: (np.array([2, 0, 3, 1, 4])[np.digitize(y, [-1, -0.3, 0.4, 1])], True),
    "a range in the middle": lambda y: (np.abs(y) < 0.5, False),
    "a few mistakes": lambda y: (y + np.random.default_rng(1).normal(scale=0.01, size=len(y)) < 0, False),
    "empty above": lambda y: (np.where(y < -0.8, 1.0, np.nan), False),
    "halves of some rows": lambda y: (np.where(np.sin(99 * y) < 0, 0, 1 + (y > 0)), True),
    "a number below, and zero above": lambda y: (np.where(y < -0.8, ranks(np.sin(99 * y)), 0), False),
}


@pytest.mark.parametrize("cut", CUTS)
def test_cuts_of_the_target(cut):
    rng = np.random.default_rng(20)
    y = rng.normal(size=N)
    x, category = CUTS[cut](y)
    leak = found(x, Target(numbers=y), category=category)
    assert "range" in leak.how
    assert found(rng.permutation(x), Target(numbers=y), category=category) is None
    few = rng.permutation(N)[:45]
    noisy, _ = CUTS[cut](y + rng.normal(scale=0.4, size=N))  # R² 0.86
    for rows in (few, np.arange(N)):
        assert found(noisy[rows], Target(numbers=y[rows]), category=category) is None


def test_a_sign_of_a_few_rows_or_an_honest_order_is_no_cut():
    rng = np.random.default_rng(21)
    y = np.sort(rng.normal(size=N))
    assert found(np.arange(N) < 9, Target(numbers=y)) is None
    steps = np.digitize(y + rng.normal(scale=0.3, size=N), np.arange(-2, 2.1, 0.5))  # R² 0.9
    assert found(steps, Target(numbers=y)) is None


def test_a_common_step_in_the_middle_is_not_taken_for_empty():
    """Without it the others are far apart, honestly."""
    rng = np.random.default_rng(25)
    y = rng.normal(size=N)
    steps = np.digitize(y + rng.normal(scale=0.4, size=N), [-1, 1])
    for category in (True, False):
        assert found(steps, Target(numbers=y), category=category) is None
    ill = (y + rng.normal(scale=0.4, size=N) > 0).astype(int)
    assert found(steps, Target(ill, ONE)) is None


def test_a_cut_of_the_time_of_an_event():
    rng = np.random.default_rng(22)
    times, seen = rng.exponential(100, N) + 1, rng.random(N) < 0.6
    target = Target.of("survival", np.where(seen, times, -times))
    early = np.where(seen, times < 30, rng.random(N) < 0.3)  # of who is not seen to have it, anything
    assert found(early, target).how == "has values that are ranges of the target"
    late = np.where(seen, rng.random(N) < 0.3, times < 30)
    assert found(late, target) is None


# copies with mistakes


@pytest.mark.parametrize("share", [0.5, 0.15])
def test_a_copy_with_a_few_mistakes(share):
    rng = np.random.default_rng(23)
    y = labelled(rng, 1500, share)
    copy = np.where(rng.random(1500) < 0.03, 1 - y, y)
    for category in (True, False):
        assert 0.95 < found(copy, Target(y, ONE), category=category).score < 0.98
    good = np.where(rng.random(1500) < 0.1, 1 - y, y)
    assert found(good, Target(y, ONE)) is None
    strong = norm.ppf(0.965) * 2**0.5 * y + rng.normal(size=1500)  # as good, with many values
    assert found(strong, Target(y, ONE)) is None


# persons who repeat


def test_luck_is_counted_by_persons():
    """Of 60 persons with ten rows each, ages tell who is ill; a copy of the outcome is found all the same."""
    rng = np.random.default_rng(24)
    person = np.repeat(np.arange(60), 10)
    y = rng.integers(0, 2, 60)
    age = (np.where(y == 1, 66, 50) + rng.normal(scale=7, size=60)).round()[person]
    target, all_rows = Target(y[person], ONE), np.ones(600, dtype=bool)
    where = places(target, person * 0, ["north"], 1, person)
    assert len(where.everywhere.rows) == 60
    assert leak_of("age", age, all_rows, where) is None
    assert leak_of("copy", y[person] * 1.0, all_rows, where).rows == 60
    turns = places(Target(np.arange(600) % 2, ONE), person * 0, ["north"], 1, person)
    assert len(turns.everywhere.rows) == 120  # who is of both classes has a row of each
