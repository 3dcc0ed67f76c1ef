"""Splits by kinds of skew: quantity, quantiles, concept, appearance, missingness, temporal."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.errors import BadData, BadInput, UnknownName
from coterie.core.seeds import Key
from coterie.data.build import deal_clients
from coterie.data.dataset import Arrays, Dataset, hold_out_last
from coterie.data.partition import SPLITS, Appearance, Concept, Missingness, Quantiles, Quantity, Temporal
from coterie.data.partition.clusters import moved_on
from coterie.data.partition.dirichlet import at_least
from coterie.data.partition.temporal import in_turn, periods_of, time_of
from coterie.data.preparation import Column
from coterie.data.tabular import TabularPrepare
from coterie.federation.data.site_data import SiteData

COLUMNS = (Column("age"), Column("dose"), Column("sex", "flag"))


def table(rows=120, missing="median", test=0, **more) -> Dataset:
    """Three columns, the last of 0 and 1; rows in the order of age; days as texts, one of them unknown."""

    def made(rows, seed):
        rng = np.random.default_rng(seed)
        x = np.stack([np.arange(rows), rng.normal(5, 2, rows), rng.integers(0, 2, rows)], axis=1).astype(
            float
        )
        days = [f"2024-{1 + i % 12:02d}-{1 + i // 12 % 28:02d}" for i in range(rows)]
        columns = {"age": x[:, 0], "sex": x[:, 2], "day": np.array([None, *days[1:]], dtype=object)}
        return Arrays(x, np.arange(rows) % 3, columns)

    prepare = TabularPrepare(COLUMNS, missing, "site", "mask")
    return Dataset(
        "toy", "classification", made(rows, 0), made(test, 1) if test else None, prepare=prepare, **more
    )


def dealt(split, data, clients, seed=0, pool=None):
    return split.deal(data, data.train if pool is None else pool, clients, Key(seed))


class TestQuantity:
    def test_a_power_law_by_hand(self):
        # 1, 1/2, 1/3 of 110 rows are 60, 30, 20; classes stay in the proportions of all rows
        data = table(110)
        owner = dealt(Quantity(1.0, "power"), data, 3).owner
        assert np.bincount(owner).tolist() == [60, 30, 20]
        counts = [np.bincount(data.train.y[owner == k], minlength=3) for k in range(3)]
        assert all(np.ptp(row) <= 1 for row in counts)

    def test_no_power_is_no_skew(self):
        assert np.bincount(dealt(Quantity(0.0, "power"), table(120), 4).owner).tolist() == [30] * 4

    def test_who_would_have_too_few_is_given_some(self):
        shares, raised = at_least(np.array([0.9, 0.08, 0.02]), 0.1)
        assert shares.tolist() == pytest.approx([0.8, 0.1, 0.1])
        assert raised == 2
        deal = dealt(Quantity(1e-3, minimum=10), table(120), 5)
        assert deal.notes == ("clients that were given more rows than drawn, to have 10: 4 of 5",)

    @settings(max_examples=20)
    @given(st.floats(0.01, 50), st.integers(1, 8), st.integers(0, 100))
    def test_every_row_has_an_owner_and_every_client_rows(self, alpha, clients, seed):
        owner = dealt(Quantity(alpha), table(130), clients, seed).owner
        assert owner.min() == 0
        assert np.bincount(owner, minlength=clients).min() >= 8  # 10, but for rounding in each of 3 classes

    def test_numbers_to_predict_are_dealt_too(self):
        data = table(60)
        data = Dataset("toy", "regression", Arrays(data.train.x, data.train.x[:, 1]))
        assert np.bincount(dealt(Quantity(1.0, "power"), data, 2).owner).tolist() == [40, 20]


class TestQuantiles:
    def test_thirds_by_hand(self):
        deal = dealt(Quantiles("age"), table(9), 3)
        assert deal.owner.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
        assert deal.names == ("age up to 2", "age 2 to 5", "age over 5")

    def test_rows_without_a_value_are_a_client_of_their_own_or_nobodys(self):
        data = table(12)
        data.train.columns["age"][[0, 6]] = np.nan
        assert dealt(Quantiles("age"), data, 3).owner[[0, 6]].tolist() == [2, 2]
        deal = dealt(Quantiles("age", "drop"), data, 2)
        assert deal.owner[[0, 6]].tolist() == [-1, -1]
        assert deal.notes == ("rows that no client gets: 2 of 12, as age is missing",)


class TestConcept:
    def test_labels_move_on_by_cluster(self):
        assert moved_on(np.array([0, 1, 2, 3]), np.array([1, 1, 2, 2]), 3).tolist() == [1, 2, 1, 3]

    def test_the_second_half_of_the_clients_has_other_labels(self):
        data = table(120, test=40)
        for pool in data.pools:
            deal = dealt(Concept(), data, 4, pool=pool)
            assert deal.clusters == (0, 0, 1, 1)
            assert (deal.rows.y == (pool.y + (deal.owner >= 2)) % 3).all()
            assert deal.rows.x is pool.x
            told = f"{len(pool) // 2} of {len(pool)} rows"
            assert deal.notes == (f"labels moved on by their cluster's number, among 3 classes: {told}",)

    def test_clients_get_their_labels_for_training_and_testing(self):
        data = table(120, test=60)
        made = deal_clients(data, Concept(), 2, Key(0))
        plain = deal_clients(data, SPLITS.make("iid"), 2, Key(0))
        for part in ("train", "test"):
            one, other = (getattr(d.clients[1], part).y for d in (made, plain))
            assert one.tolist() == [(y + 1) % 3 for y in other.tolist()]
        assert [c.cluster for c in made.clients] == [0, 1]


class TestAppearance:
    def test_each_class_of_a_cluster_is_elsewhere_by_the_same_offset(self):
        data = table(120, test=40)
        moves = []
        for pool in data.pools:
            deal = dealt(Appearance(strength=2.0), data, 4, pool=pool)
            apart = deal.rows.x - pool.x
            assert not apart[deal.owner < 2].any()
            assert not apart[:, 2].any()  # a flag stays what it is
            found = [apart[(deal.owner >= 2) & (pool.y == c)] for c in range(3)]
            assert all(np.allclose(rows, rows[0]) and rows[0, :2].all() for rows in found)
            moves.append([rows[0] for rows in found])
        assert np.allclose(*moves)  # test rows as training rows

    def test_offsets_are_in_deviations_of_their_column(self):
        drawn = Appearance(3, 2.0).offsets(500, np.array([1.0, 10.0]), np.random.default_rng(0))
        assert not drawn[0].any()
        assert drawn[1:].std(axis=(0, 1)) == pytest.approx([2, 20], rel=0.1)

    def test_gaps_stay_gaps(self):
        data = table(60)
        data.train.x[::5, 1] = np.nan
        deal = dealt(Appearance(), data, 2)
        assert (np.isnan(deal.rows.x) == np.isnan(data.train.x)).all()


class TestMissingness:
    def test_each_client_loses_values_at_its_own_rates(self):
        data = table(6000)
        deal = dealt(Missingness(0.6), data, 3)
        rates = Missingness(0.6).rates(3, 3, Key(0).at("clients").numpy())
        lost = np.array([np.isnan(deal.rows.x[deal.owner == k]).mean(axis=0) for k in range(3)])
        assert lost == pytest.approx(rates, abs=0.04)
        assert deal.notes == (
            f"values made missing, at rates of each client's own: {np.isnan(deal.rows.x).sum()} of 18000",
        )

    def test_whole_columns_of_some(self):
        deal = dealt(Missingness(0.0, whole=0.5, columns=("dose",)), table(60), 4)
        lost = np.array([np.isnan(deal.rows.x[deal.owner == k]).mean(axis=0) for k in range(4)])
        assert not lost[:, [0, 2]].any()
        assert set(lost[:, 1]) == {0.0, 1.0}

    def test_the_data_s_own_rule_decides_and_says_so(self):
        made = deal_clients(table(), Missingness(0.3, columns=("dose",)), 2, Key(0))
        assert any("missing values filled" in note for c in made.clients for note in c.notes)
        with pytest.raises(BadData, match="missing or NaN value"):
            deal_clients(table(missing="refuse"), Missingness(0.3), 2, Key(0))


class TestTemporal:
    def test_periods_by_hand(self):
        # times 0 0 1 | 2 3 | 4 5 5: about as many rows each, no time in two, two times at least
        assert periods_of(np.array([0, 0, 1, 2, 3, 4, 5, 5]), 3).tolist() == [0, 0, 0, 1, 1, 2, 2, 2]
        assert periods_of(np.array([0] * 90 + [1, 2, 3]), 2).tolist() == [0] * 91 + [1] * 2

    def test_all_times_for_everybody(self):
        owner = in_turn(np.arange(12), 3, Key(0))
        assert all(sorted(owner[i : i + 3]) == [0, 1, 2] for i in range(0, 12, 3))

    def test_the_last_rows_are_held_out_whole_times_and_whole_patients(self):
        alone = np.arange(6)
        assert [r.tolist() for r in hold_out_last(np.array([5, 1, 2, 3, 4, 0]), alone, 0.3, "a")] == [
            [1, 2, 3, 5],
            [0, 4],
        ]
        assert [r.tolist() for r in hold_out_last(np.array([0, 1, 1, 1, 2, 2]), alone, 0.5, "a")] == [
            [0, 1, 2, 3],
            [4, 5],
        ]
        # the first row is about the same patient as the last
        assert hold_out_last(np.arange(6), np.array([0, 1, 2, 3, 4, 0]), 0.3, "a")[1].tolist() == [0, 5]

    @pytest.mark.parametrize("periods", [True, False])
    @pytest.mark.parametrize("column", ["", "age", "day"])
    def test_no_row_of_the_future_is_trained_on(self, periods, column):
        data = table(120)
        split = Temporal(column, periods)
        deal = dealt(split, data, 3)
        made = deal_clients(data, split, 3, Key(0), validation=0.25)
        left_out = column == "day"  # whose first row has no day
        assert int((deal.owner < 0).sum()) == left_out
        for k in range(3):
            rows = np.flatnonzero(deal.owner == k)
            assert len(rows) > 30
            parts = [getattr(made.clients[k], part) for part in ("train", "validation", "test")]
            assert sum(map(len, parts)) == len(rows)
            # the first column is scaled by a rising rule: the rows themselves, in order
            when = dict(zip(np.argsort(np.argsort(data.train.x[rows, 0])), deal.order[rows], strict=True))
            place = np.argsort(np.argsort(np.concatenate([p.x[:, 0].numpy() for p in parts])))
            times = np.split(np.array([when[p] for p in place]), np.cumsum([len(p) for p in parts])[:-1])
            assert times[0].max() < times[1].min()
            assert times[1].max() < times[2].min()
        assert made.notes[-1] == "each client holds out the last 0.3 of its rows for testing"

    def test_times(self):
        assert time_of("1970-01-02", "day") == 86400
        assert np.isnan(time_of(None, "day"))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Quantity(-1.0), "split quantity: alpha=-1.0 must lie between 1e-08 and 1e+06: try 0.5"),
        (
            lambda: Quantity(minimum=1),
            "split quantity: minimum=1 must be at least 2, one row to train and one to test: try 10",
        ),
        (lambda: Concept(1), "split concept: clusters=1 must be at least 2: try 2"),
        (lambda: Concept(classes=1), "split concept: classes=1 must be 0, for all, or at least 2: try 0"),
        (
            lambda: dealt(Concept(4), table(), 4),
            "split concept: clusters=4 must be at most 3, the classes that move: lower it",
        ),
        (
            lambda: dealt(Concept(classes=4), table(), 4),
            "split concept: classes=4 must be at most 3, all that there are: try 0",
        ),
        (lambda: Appearance(1), "split appearance: clusters=1 must be at least 2: try 2"),
        (
            lambda: Appearance(strength=0.0),
            "split appearance: strength=0.0 must be above 0 and finite: try 1",
        ),
        (lambda: Missingness(1.0), "split missingness: most=1.0 must lie in [0, 1): try 0.3"),
        (
            lambda: Missingness(0.0),
            "split missingness: most=0 and whole=0 leave nothing out: set one, or take iid",
        ),
        (
            lambda: dealt(Quantiles(), table(), 3),
            "split quantiles needs a column of numbers to go by: for instance column=age",
        ),
        (
            lambda: dealt(Quantiles("sex"), table(), 3),
            "split quantiles: sex has too few different values for 3 parts: ask for fewer clients or choose "
            "another column",
        ),
        (
            lambda: dealt(Temporal("sex"), table(), 3),
            "split temporal: sex has 2 different value(s), too few for 3 clients that are tested after they "
            "are trained: ask for fewer clients or go by another column",
        ),
        (
            lambda: dealt(Temporal(), table(test=10), 3),
            "split temporal holds out each client's last rows, but toy has a published test set: use other "
            "data or another split",
        ),
        (
            lambda: time_of("soon", "day"),
            "split temporal: day holds 'soon', neither a number nor a date like 2024-01-31: go by another "
            "column, or write dates so",
        ),
        (
            lambda: dealt(Missingness(), Dataset("toy", "classification", table().train), 3),
            "split missingness takes values out of a table, but toy has no rule for missing ones: use a "
            "table of files, heart-disease or tcga-brca",
        ),
    ],
)
def test_what_is_refused(refused, make, told):
    with refused(BadInput, told):
        make()


@pytest.mark.parametrize(
    "make", [lambda: Quantity(law="zipf"), lambda: dealt(Missingness(columns=("name",)), table(), 2)]
)
def test_names_that_are_not_known(make):
    with pytest.raises(UnknownName):
        make()


def test_pictures_are_refused_where_columns_are_changed():
    data = Dataset("digits", "classification", Arrays(np.zeros((20, 1, 8, 8)), np.arange(20) % 2))
    with pytest.raises(
        BadInput, match=r"has inputs of shape \[1, 8, 8\]: use a table, or the split clusters"
    ):
        dealt(Appearance(), data, 2)


@pytest.mark.parametrize(
    "split", [Concept(), Appearance(), Missingness(0.3), Temporal("age"), Quantity()], ids=lambda s: s.name
)
def test_a_site_that_deals_by_itself_has_the_rows_of_one_machine(split):
    data, key = table(120), Key(0).at("data")
    alone = SiteData.dealt(SimpleNamespace(load=lambda: data), split, 3, 0, "client-1")
    deal = split.deal(data, data.train, 3, key)
    mine = deal.owner == 1
    rows = data.train if deal.rows is None else deal.rows
    np.testing.assert_array_equal(alone.data.train.x, rows.x[mine])
    np.testing.assert_array_equal(alone.data.train.y, rows.y[mine])
    assert (alone.data.order is None) == (deal.order is None)
    if deal.order is not None:
        np.testing.assert_array_equal(alone.data.order, deal.order[mine])
    assert alone.cluster == (deal.clusters[1] if deal.clusters else None)
