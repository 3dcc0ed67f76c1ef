"""From shares to whole rows: rounding, topping up, dealing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.core.errors import BadInput
from coterie.data.dataset import Arrays, Dataset, label_counts
from coterie.data.partition.counts import (
    class_total,
    columns_to_shares,
    deal_rows,
    deal_table,
    how_many,
    round_column,
    round_shares,
    top_up,
)


def dataset(labels: list[int], task: str = "classification") -> Dataset:
    return Dataset("toy", task, Arrays(np.zeros((len(labels), 1)), np.array(labels)))  # type: ignore[arg-type]


def test_largest_remainders_by_hand() -> None:
    # quotas 4.7, 2.9, 2.4: floors 4, 2, 2 and the two rows left to .9 and .7
    assert round_column(10, np.array([0.47, 0.29, 0.24]), np.zeros(3)).tolist() == [5, 3, 2]


def test_what_earlier_classes_owe_decides_ties() -> None:
    # two classes of one row each for two equal clients: one row each, not both to the first
    assert round_shares(np.array([1, 1]), np.full((2, 2), 0.5)).tolist() == [[1, 0], [0, 1]]


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 6))
def test_every_cell_is_within_one_of_its_quota_and_nothing_is_lost(
    seed: int, clients: int, classes: int
) -> None:
    rng = np.random.default_rng(seed)
    supply = rng.integers(0, 200, classes)
    shares = rng.dirichlet(np.full(clients, 0.5), classes).T
    counts = round_shares(supply, shares)
    assert (counts.sum(axis=0) == supply).all()
    assert (np.abs(counts - supply * shares) < 1).all()


@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 5))
def test_a_table_of_counts_is_kept_by_its_own_shares(seed: int, clients: int, classes: int) -> None:
    table = np.random.default_rng(seed).integers(0, 50, (clients, classes))
    assert (round_shares(table.sum(axis=0), columns_to_shares(table)) == table).all()


def test_topping_up_takes_the_wanted_class_from_the_largest() -> None:
    counts = np.array([[0, 0], [5, 1], [9, 0]])
    wants = np.array([[0.1, 0.9], [0.5, 0.1], [0.4, 0.0]])
    lifted, given_to = top_up(counts, wants, 2)
    # the one row of class 1 first, then one of class 0 from the client with nine
    assert lifted.tolist() == [[1, 1], [5, 0], [8, 0]]
    assert given_to == (0,)


def test_topping_up_stops_when_nobody_has_rows_to_spare() -> None:
    lifted, given_to = top_up(np.array([[0], [1]]), np.ones((2, 1)), 1)
    assert lifted.tolist() == [[0], [1]]
    assert given_to == ()


def test_a_client_that_wants_nothing_stays_empty_and_is_named() -> None:
    pool = Arrays(np.zeros((3, 1)), np.array([0, 0, 1]))
    owner, notes = deal_table(pool, np.array([[2, 0], [0, 0]]), np.array([[1.0, 0.0], [0.0, 0.0]]), 1, None)
    assert owner.tolist() == [0, 0, -1]
    assert notes == (
        "clients that get none of 3 rows: client-1",
        "rows that no client gets: 1 of 3, as no client's share covers them",
    )


def test_dealing_in_file_order_and_shuffled() -> None:
    y = np.array([1, 0, 0, 1, 0, 0])
    counts = np.array([[1, 1], [2, 1]])
    assert deal_rows(y, counts, None).tolist() == [0, 0, 1, 1, 1, -1]
    shuffled = deal_rows(y, counts, np.random.default_rng(0))
    assert label_counts(y, shuffled, 2, 2).tolist() == counts.tolist()


def test_counts_of_clients_and_classes_are_checked() -> None:
    data = dataset([0, 1] * 10)
    assert how_many("iid", data, None, 2) == 10
    assert how_many("iid", data, 3, 2) == 3
    assert class_total("iid", data) == 2
    with pytest.raises(BadInput, match="clients=0 must be at least 1"):
        how_many("iid", data, 0, 2)
    with pytest.raises(BadInput, match=r"11 clients need 22 .* toy has 20: ask for at most 10 client"):
        how_many("iid", data, 11, 2)
    with pytest.raises(BadInput, match=r"ask for at most 4 client\(s\) or for minimum=4"):
        how_many("dirichlet", data, 5, 5)
    with pytest.raises(BadInput, match="use a larger dataset"):
        how_many("iid", dataset([0]), None, 2)
    with pytest.raises(BadInput, match="toy is a regression: use iid, bands or silos"):
        class_total("shift", dataset([0, 1], "regression"))
