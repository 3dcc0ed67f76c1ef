"""Gains over which test rows there happened to be: bounds worked out by hand, and where they are shown."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from rich.console import Console

from coterie.metrics.bootstrap import Outcomes
from coterie.report import clients, outcome
from coterie.report.outcome import headline
from coterie.report.summary import print_table
from coterie.report.tables import summary_frame
from coterie.show import numbers, views
from coterie.show.words import Words

# client a: of 8 rows local has 2 right and fedavg 6, none of them the same; of b's 4 rows both have all
ALONE, TOGETHER = [1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
SIZES = [8, 4]


def tell(record, rows, digest="same", sizes=SIZES):
    record.about |= {"rows": digest}
    kept = Outcomes(np.array(sizes), np.array(rows, dtype=np.uint8))
    record.outcomes = lambda: kept
    return record


def compared(make_known, seeds=1, digests=("same", "same"), **about):
    """local and fedavg with the same outcomes in every seed, but for a little in the figures of b."""
    return [
        tell(make_known({"accuracy": figures}, label, seed, **about), rows, digests[seed])
        for label, figures, rows in (("local", [0.25, 1.0], ALONE), ("fedavg", [0.75, 1.0], TOGETHER))
        for seed in range(seeds)
    ]


# a lies between 1 - 8/7 and 1, at 0.5 in the mean, and b, whose rows say nothing of others, 0.4899 around 0:
# 0.25 - √((0.5 + 1/7)² + 0.4899²) / 2 = -0.1541 to 0.25 + √(0.5² + 0.4899²) / 2 = 0.6000; a's mean is drawn
MEAN = (pytest.approx(-0.1541, abs=3e-3), pytest.approx(0.6000, abs=3e-3))


def gain(records):
    by_label = views.groups(records)
    return views.gain_over_seeds(by_label["fedavg"], by_label["local"], "accuracy")


def test_bounds_are_those_of_rows_drawn_anew(make_known):
    records = compared(make_known)
    by_label = views.groups(records)
    a, b = views.gain_by_client(by_label["fedavg"], by_label["local"], "accuracy")
    # 7 of 8 rows, of which 6 say +1 and 2 say -1: the mean is 1 - 2 Binomial(7, 1/4) / 7, whose 2.5 and
    # 97.5 % points are 4 and 0 rows that say -1
    assert (a.mean, a.low, a.high) == (0.5, pytest.approx(1 - 8 / 7), 1.0)
    # four rows that both have right say nothing of others: Wilson's bound of 0 of 4 is 1.96² / (4 + 1.96²)
    assert (b.mean, b.low, b.high) == (0.0, pytest.approx(-0.4899, abs=1e-4), pytest.approx(0.4899, abs=1e-4))
    assert gain(records)[3:] == MEAN


def test_seeds_on_the_same_rows_are_averaged_first_and_other_rows_later(make_known):
    once, twice = compared(make_known), compared(make_known, 2)
    assert gain(twice)[3:] == gain(once)[3:]
    published = compared(make_known, 2, ("one", "two"), published_tests=True)
    # each seed has draws of its own; bounds of such few rows are nearly the same
    assert gain(published)[3:] == MEAN


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r[0].about.update(rows="other"),
        lambda r: setattr(r[0], "outcomes", lambda: None),
        lambda r: tell(r[0], [1, 0, *ALONE[8:]], sizes=[2, 4]),
        lambda r: tell(r[0], ALONE[8:], sizes=[0, 4]),
    ],
    ids=["other rows", "not kept", "fewer rows", "a client without"],
)
def test_what_cannot_be_paired_has_no_bounds(make_known, change):
    records = compared(make_known)
    change(records)
    assert math.isnan(gain(records).low)


def test_several_splits_have_none_for_rows_are_in_their_interval(make_known):
    records = compared(make_known, 2, ("one", "two"))
    assert math.isnan(gain(records).low)
    assert "In brackets" not in headline(records)


def test_a_gain_has_to_be_clear_over_rows_too(make_known):
    records = compared(make_known, 2)
    found = gain(records)
    assert math.isnan(found.half)  # two seeds that agree have no spread, which is no interval of width zero
    assert found.side == 0
    said = headline(records).replace(numbers.GAP, " ")
    around = outcome.bounds_of_gain(found, "accuracy")
    assert around.startswith(" [−15.")
    assert f"gains 25.0 points{around}, which these test rows cannot tell from none" in said
    assert said.endswith(Words("en")("outcome.brackets"))
    assert clients.client_sentences(records) == [
        "a: no clear gain: fedavg gains 50.0 points (the same in 2 seeds) [−14.3 to +100.0].",
        "b: no clear gain: fedavg makes no difference on these rows [−49.0 to +49.0].",
    ]
    assert clients.client_legend(records).endswith(Words("en")("outcome.brackets"))


def test_no_difference_on_these_rows_has_its_bounds(make_known):
    """Two methods that are right on the same rows may differ on others: nothing is said to change nothing."""
    records = [
        tell(make_known({"accuracy": [0.5, 1.0]}, label, seed), [1, 0] * 4 + [1] * 4)
        for label in ("local", "fedavg")
        for seed in range(2)
    ]
    said = headline(records).replace(numbers.GAP, " ")
    # of 8 rows 1.96² / (8 + 1.96²) = 0.3244, of 4 rows 0.4899: √(0.3244² + 0.4899²) / 2 = 0.2938
    assert "training together makes no difference on these rows [−29.4 to +29.4]" in said
    assert said.endswith(Words("en")("outcome.brackets"))
    assert "changes nothing" not in said


def test_bounds_are_in_tables_and_files(make_known):
    records = compared(make_known, 2)
    out = io.StringIO()
    print_table(records, Console(file=out, width=200))
    assert f"+25.0 ± —{outcome.bounds_of_gain(gain(records), 'accuracy')}" in out.getvalue()
    row = summary_frame(records).set_index("method").loc["fedavg"]
    assert (row["interval"], row["overlap"]) == ("training", 0)
    assert (row["gain_low"], row["gain_high"]) == MEAN


def test_one_seed_has_bounds_over_rows_and_no_verdict(make_known):
    records = compared(make_known)
    said = headline(records).replace(numbers.GAP, " ")
    around = outcome.bounds_of_gain(gain(records), "accuracy")
    assert f"25.0 points more{around} in a single run, which only more seeds can tell" in said
    assert summary_frame(records)["interval"].tolist() == ["none", "none"]
