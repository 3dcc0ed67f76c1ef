"""Each check on numbers worked out by hand, and on tables that have nothing to find."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_sites import drawn, site, spread_out, told

from coterie.data.preparation import Column
from coterie.data.quality import (
    constant,
    differs,
    duplicates,
    labels,
    missing,
    order,
    ranges,
    units,
)
from coterie.data.quality.check import number, percent, worst_first
from coterie.data.quality.checks import CHECKS, at_home, checked
from coterie.data.quality.ranges import shipped
from coterie.data.quality.site_rows import Sketch, spread_of
from coterie.data.tables.names import conversions_for

NAN = math.nan


# ranges


def test_values_outside_of_bounds_are_listed_with_their_rows():
    rows = site(temperature=([36.5, 98.6, 32.0, NAN, 42.0, 12.0], "°C"))
    never, rarely = ranges.check(rows, ranges.matches(rows, shipped()))
    assert (never.severity, never.rows, never.lines) == ("impossible", 2, (2, 6))
    assert never.share == pytest.approx(2 / 5)
    assert (never.value, never.bound) == ("12 to 98.6", "13 to 47 °C")
    assert (rarely.severity, rarely.lines, rarely.bound) == ("look", (3,), "33 to 42 °C")


def test_bounds_are_those_of_the_columns_own_unit():
    rows = site(temp=([98.6, 99.0, 36.5], "°F"))
    (found,) = ranges.check(rows, ranges.matches(rows, shipped()))
    assert (found.lines, found.bound) == ((3,), "55.4 to 116.6 °F")


@pytest.mark.parametrize(
    ("name", "unit", "values", "wanted"),
    [
        ("creatinine", "", [80, 95, 110], ("umol/l", True)),
        ("creatinine", "", [0.8, 1.1, 0.9], ("mg/dl", True)),
        ("crea (µmol/l)", "", [1.0], ("umol/l", False)),
        ("Body Weight", "lb", [1.0], ("lb", False)),
        ("height", "", [1.6, 1.7, 1.8], ("m", True)),
        ("height", "", [5000.0, 6000.0], ("cm", True)),  # plausible in no unit: the range's own
        ("ph", "", [7.4], ("", True)),
    ],
)
def test_the_unit_is_as_told_or_where_most_values_are_plausible(name, unit, values, wanted):
    found = ranges.match(Column(name, unit=unit), np.array(values), shipped())
    assert (found.unit, found.guessed) == wanted


@pytest.mark.parametrize(
    "column",
    [Column("shoe size"), Column("age", "category", ("a",), (0.0,)), Column("weight", unit="stone")],
)
def test_columns_without_bounds_have_none(column):
    assert ranges.match(column, np.array([1.0]), shipped()) is None


def test_every_range_that_comes_with_coterie_has_a_source_and_holds_together():
    for found in set(shipped().values()):
        assert found.possible[0] <= found.plausible[0] < found.plausible[1] <= found.possible[1], found.name
        assert found.source, found.name
        assert found.ours in ("possible", "plausible", "possible and plausible"), found.name


# units


def mixed(name, values):
    return units.check(site(**{name: values}), shipped())


@pytest.mark.parametrize(
    ("name", "factor", "offset", "centre", "scale", "there"),
    [
        ("glucose", 1 / 18.016, 0, 110, 0.2, "mmol/l"),
        ("cholesterol", 1 / 38.67, 0, 200, 0.2, "mmol/l"),
        ("creatinine", 88.42, 0, 1.0, 0.25, "umol/l"),
        ("height", 1 / 2.54, 0, 170, 0.05, "in"),
        ("haemoglobin", 10, 0, 13.5, 0.1, "g/l"),
        ("sbp", 1 / 7.500617, 0, 130, 0.13, "kpa"),
        ("temperature", 1.8, 32, 37, 0.015, "°F"),
        ("weight", 1 / 0.45359237, 0, 75, 0.09, "lb"),
    ],
)
@pytest.mark.parametrize("share", [0.05, 0.3])
def test_a_share_of_rows_in_another_unit_is_found_to_the_row(
    name, factor, offset, centre, scale, there, share
):
    values = drawn(1, scale=scale, centre=centre) if name != "creatinine" else drawn(1, scale=scale) / 100
    which = np.zeros(len(values), dtype=bool)
    which[:: int(1 / share)] = True
    spoilt = np.where(which, factor * values + offset, values)
    assert mixed(name, values) == []
    (found,) = mixed(name, spoilt)
    assert found.lines == tuple(np.flatnonzero(which) + 1)
    assert found.share == which.mean()
    assert f"look like {there} among" in found.says


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["weight", "glucose", "temperature", "creatinine", "age"]))
def test_long_tails_are_no_other_unit(seed, name):
    draws = np.random.default_rng(seed)
    tails = (np.exp(4.3 + 0.2 * draws.standard_t(5, 250)), np.exp(4 + 0.2 * draws.gamma(2, 1, 250)))
    assert [k for values in tails for k in conversions_for(name) if units.mixture(values, k)] == []


def test_halfway_between_two_units_there_must_be_few():
    # 10 values about the centre, 5 at a distance of 4: 3 of 5 halfway are a valley, 4 of 5 are not
    about = [0.0] * 10 + [4.0] * 5
    assert units.valley(np.array([*about, 2.0, 2.0, 2.0]), 4.0)
    assert not units.valley(np.array([*about, 2.0, 2.0, 2.0, 2.0]), 4.0)


KG = spread_out(70, 10)
POUNDS = tuple(round(q / 0.45359237, 4) for q in KG)


@pytest.mark.parametrize(
    ("sketches", "odd"),
    [
        ([told("a", KG), told("b", KG), told("c", POUNDS)], ["c"]),
        ([told("a", KG, unit="kg"), told("b", POUNDS, unit="kg")], ["b"]),
        ([told("a", KG), told("b", POUNDS)], ["a", "b"]),  # nobody knows which
        ([told("a", KG), told("b", spread_out(100, 10)), told("c", KG)], []),  # heavier, by another factor
        ([told("a", spread_out(98.6, 1), "temp", "°C")], ["a"]),  # by bounds alone
        ([told("a", spread_out(98.6, 1), "temp")], []),  # nobody said that it is °C
        (
            [told("a", spread_out(37, 0.5), "temp"), told("b", spread_out(98.6, 0.9), "temp")],
            ["b"],  # bounds are in °C
        ),
        ([told("a", KG)], []),
    ],
)
def test_a_whole_site_in_another_unit(sketches, odd):
    found = units.across(sketches, shipped())
    assert [f.site for f in found] == odd
    assert all(("may be the other" in f.says) == (len(odd) == 2) for f in found)


def test_a_whole_site_says_what_its_median_would_be():
    (found,) = units.across([told("a", KG), told("b", KG), told("c", POUNDS)], shipped())
    assert "look like lb, not kg: their median is 154.3, which would be 70 kg, against 70 at" in found.says


def test_a_share_of_rows_by_what_other_sites_have():
    """Weights of 0.2 on the log scale, one in five in pounds: within the site that could be a tail."""
    sites = [site(n, weight=drawn(i, 300, 0.2, 75)) for i, n in enumerate("abc")]
    odd = drawn(7, 300, 0.2, 75)
    odd[::5] = (odd[::5] / 0.45359237).round(1)
    assert units.check(site("d", weight=odd), shipped()) == []
    sketches = [Sketch.of(rows) for rows in (*sites, site("d", weight=odd))]
    (found,) = units.shares_across(sketches, shipped(), [])
    assert (found.site, found.column, found.lines) == ("d", "weight", ())
    assert found.share == pytest.approx(0.2, abs=0.03)
    assert "look like lb among kg" in found.says
    assert units.shares_across(sketches, shipped(), [("d", "weight")]) == []
    assert units.shares_across(sketches[:3], shipped(), []) == []


def test_quantiles_of_a_mixture_by_hand():
    # half of all values 10 higher: below them the quantile at 2p, above them that at 2p - 1
    values = units.filled(np.array(spread_out(0.0, 0.1)))
    (made,) = units.mixed(values, 10.0, [0.5])
    assert made[4] == pytest.approx(np.median(values), abs=0.01)
    assert made[14] == pytest.approx(10 + np.median(values), abs=0.01)
    assert units.distance(np.array([1.0, 2, 6]), np.array([0.0, 1, 2])) == pytest.approx(1.0)


# sites that differ


def test_robust_z_by_hand():
    # others alike, with a spread of 10: σ is 0.2 · 10 where there are very many values; 7 / 2 = 3.5
    others = [told(n, KG, known=10**9).columns[0] for n in "ab"]
    own = replace(others[0], quantiles=tuple(q + 8 for q in KG))
    assert spread_of(KG) == pytest.approx(10)
    assert differs.level(own, others) == pytest.approx(4.0, rel=1e-3)
    assert differs.spread(replace(own, quantiles=spread_out(70, 20)), others) == pytest.approx(
        math.log(2) / 0.15, rel=1e-3
    )
    # of 25 values the median's own error is 10 · 1.2533 / 5 = 2.507: 8 / √(4 + 6.28) there, less beyond
    assert differs.level(replace(own, known=25), others) == pytest.approx(2.4, abs=0.15)


def test_others_that_differ_among_themselves_are_a_measure():
    others = [
        told(n, spread_out(c, 10), known=10**9).columns[0] for n, c in (("a", 60), ("b", 70), ("c", 80))
    ]
    own = replace(others[0], quantiles=spread_out(100, 10))
    assert differs.level(own, others) == pytest.approx(30 / 14.826, rel=1e-3)


def test_a_site_in_another_unit_is_not_said_to_differ_as_well():
    sketches = [told("a", KG), told("b", KG), told("d", KG), told("c", POUNDS)]
    assert {f.site for f in differs.across(sketches)} == {"c"}
    assert differs.across(sketches, [("c", "weight")]) == []
    assert differs.across(sketches[:2]) == []  # one other is no measure


# rows that are there twice


def test_pairs_that_chance_would_give():
    # two values, two rows each: 2 of 6 pairs agree in a column, in two and the target 1/27 of the 6 pairs;
    # with another site 1/2 of the pairs agree in a column, in all three 1/8 of 16
    rows = site(a=[0, 0, 1, 1], b=[0, 1, 0, 1], y=[0, 1, 1, 0])
    assert duplicates.expected(rows, rows) == pytest.approx(6 / 27)
    assert duplicates.expected(rows, replace(rows, site="south")) == pytest.approx(16 / 8)
    assert duplicates.agreement(np.array([1.0, NAN]), np.array([NAN, NAN, 1.0, 2.0])) == pytest.approx(3 / 8)
    assert duplicates.remarkable(1, 0.0)
    assert not duplicates.remarkable(1, 0.1)  # 1 - e^-1
    assert duplicates.remarkable(1, 0.0009)
    assert not duplicates.remarkable(5000, 500)
    assert duplicates.remarkable(6000, 500)


def test_copies_within_a_site_and_between_sites():
    x, y = np.random.default_rng(0).normal(size=(2, 3, 40))
    north = site(a=x[0], b=x[1], c=[NAN, *x[2][1:]])
    twice = replace(north, raw=np.vstack([north.raw, north.raw[[0, 5]]]), y=np.append(north.y, [0, 1]))
    twice = replace(twice, lines=np.arange(1, 43))
    assert duplicates.check(north) == []
    (found,) = duplicates.check(twice)
    assert (found.rows, found.lines, found.severity) == (2, (41, 42), "likely")
    south = site("south", a=[*y[0], x[0][7]], b=[*y[1], x[1][7]], c=[*y[2], x[2][7]], y=[*[0] * 40, 1])
    (found,) = duplicates.across([north, south])
    assert (found.site, found.lines) == ("south", (41,))
    other_label = replace(south, y=1 - south.y)
    assert duplicates.across([north, other_label]) == []


def test_a_coarse_table_has_equal_rows_by_chance():
    draws = np.random.default_rng(0).integers(0, 3, (3, 200))
    assert duplicates.check(site(a=draws[0], b=draws[1], c=draws[2])) == []


# gaps, constants


def test_gaps_that_go_with_the_label():
    y = np.repeat([0, 1], 50)
    gaps = np.where(np.arange(100) % 50 < np.where(y, 25, 2), NAN, 1.0)  # 25 of 50 ill, 2 of 50 well
    alike = np.where(np.arange(100) % 10 == 0, NAN, np.arange(100.0))
    (found,) = missing.check(site(a=gaps, b=alike, y=y))
    assert (found.column, found.value, found.bound, found.rows) == ("a", "50 %", "4 %", 27)
    # Yates: χ² = n (|ad - bc| - n/2)² / (the four sums multiplied)
    chi = 100 * (abs(25 * 48 - 25 * 2) - 50) ** 2 / (50 * 50 * 27 * 73)
    assert missing.independence(np.isnan(gaps), y) == pytest.approx(math.erfc(math.sqrt(chi / 2)))


def test_columns_that_a_site_lacks_or_misses_more_than_others():
    known = np.arange(50.0)
    half = np.where(np.arange(50) % 2 == 0, NAN, known)
    sites = [site("a", c=known, d=known), site("b", c=known, d=known), site("c", c=known * NAN, d=half)]
    found = missing.across([Sketch.of(rows) for rows in sites])
    assert [(f.site, f.column, f.share) for f in found] == [("c", "c", 1.0), ("c", "d", 0.5)]
    assert "is not recorded here, and is at a, b" in found[0].says


def test_constant_columns_and_targets():
    rows = site(a=[3.0] * 12, b=range(12), y=[1] * 12)
    assert [(f.column, f.value) for f in constant.check(rows)] == [("a", "3"), ("", "ill")]
    assert constant.check(site(a=[3.0] * 9, y=[1] * 9)) == []  # too few to wonder


# columns out of step


def related(seed, name):
    draws = np.random.default_rng(seed)
    x = draws.normal(size=(4, 150))
    columns = {"a": x[0], "b": x[0] + 0.6 * x[1], "c": x[0] + 0.6 * x[2], "lonely": x[3]}
    return site(name, y=(x[0] + 0.5 * draws.normal(size=150) > 0).astype(int), **columns)


def test_a_shuffled_column_or_target_is_found_and_nothing_else():
    sites = [related(i, name) for i, name in enumerate("pqr")]
    assert order.across(sites) == []
    draws = np.random.default_rng(9)
    raw = sites[1].raw.copy()
    raw[:, 2] = draws.permutation(raw[:, 2])
    found = order.across([sites[0], replace(sites[1], raw=raw), sites[2]])
    assert [(f.site, f.column) for f in found] == [("q", "c")]
    found = order.across([sites[0], sites[1], replace(sites[2], y=draws.permutation(sites[2].y))])
    assert [(f.site, f.column) for f in found] == [("r", "")]
    lonely = sites[0].raw.copy()
    lonely[:, 3] = draws.permutation(lonely[:, 3])
    assert order.across([replace(sites[0], raw=lonely), *sites[1:]]) == []  # it keeps no company anywhere


def test_a_large_site_is_thinned_to_rows_of_its_own():
    large = site(a=np.arange(6000.0), y=np.arange(6000) % 2)
    fewer = order.thinned(large, 0)
    assert len(fewer) == order.MOST
    assert np.array_equal(fewer.raw[:, 0] + 1, fewer.lines)
    assert order.thinned(fewer, 0) is fewer


def test_rank_correlations_by_hand():
    # ranks 1 2 3 4 and 2 1 4 3: 1 - 6 Σd² / n (n² - 1) = 1 - 24 / 60
    ranked = order.ranks(site(a=[10, 20, 30, 40], b=[5, 1, 9, 7], y=[0, 0, 1, 1]))
    assert order.correlations(ranked, ranked)[0, 1] == pytest.approx(0.6)


# labels


def apart(n=60):
    draws = np.random.default_rng(3)
    y = np.arange(n) % 2
    return site(a=draws.normal(size=n) + 4 * y, b=draws.normal(size=n) - 4 * y, y=y)


def test_flipped_labels_of_classes_that_are_apart_are_listed():
    rows, which = apart(), [4, 17, 30]
    y = rows.y.copy()
    y[which] = 1 - y[which]
    found = labels.review(replace(rows, y=y, lines=rows.lines + 100)).suspects
    assert len(found) >= 2
    assert {s.line for s in found} <= {105, 118, 131}
    assert all({s.given, s.likely} == {"well", "ill"} for s in found)
    assert labels.review(rows).suspects == ()


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (site(a=range(30), y=[0] * 29 + [1]), "a class has 1 rows"),
        (site(a=range(30), y=[0] * 30), "all are the same"),
        (site(a=range(30), y=np.arange(30.0), task="regression", classes=()), "a regression"),
    ],
)
def test_labels_that_cannot_be_reviewed_are_said(rows, why):
    assert why in labels.review(rows).skipped


def test_without_cleanlab_all_else_works_and_one_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cleanlab", None)
    quality = checked([apart()], shipped())
    assert any("pip install 'coterie[quality]'" in note for note in quality.notes)
    assert quality.suspects == ()


# all together


def test_a_sketch_has_rounded_quantiles_of_enough_numbers_alone():
    rows = site(a=np.arange(100) / 3, few=[*range(19), *[NAN] * 81])
    a, few = Sketch.of(rows).columns
    assert (a.quantiles[9], a.quantiles[0]) == (16.5, 1.65)
    assert (few.known, few.missing, few.quantiles) == (19, 81, ())
    assert Sketch.of(rows, fewest=101).columns[0].quantiles == ()


def test_findings_come_worst_first_and_nothing_is_changed():
    rows = site(temperature=([*drawn(0, 50, 0.01, 37), 370.0], "°C"), b=[1.0] * 51)
    before = rows.raw.copy()
    quality = checked([rows], shipped(), ("ranges", "constant"))
    assert [f.severity for f in quality.findings] == ["impossible", "look"]
    assert np.array_equal(rows.raw, before)
    assert worst_first(quality.findings[::-1]) == list(quality.findings)
    assert any("no bounds are known for b" in note for note in quality.notes)


def test_infinite_values_are_said_and_taken_as_missing():
    home = at_home(site(a=[math.inf, *range(30)]), shipped(), tuple(CHECKS)[:5])
    assert home.sketch.columns[0].missing == 1
    assert "1 infinite values, taken as missing" in home.notes[0]


def test_words_for_numbers():
    assert [number(v) for v in (0.12345, 98.64, 12345.6, 1e9)] == ["0.1235", "98.64", "12346", "1e+09"]
    assert [percent(v) for v in (0, 0.0001, 0.0333, 0.9999, 1)] == [
        "0 %", "below 0.1 %", "3.33 %", "above 99.9 %", "100 %",
    ]  # fmt: skip
