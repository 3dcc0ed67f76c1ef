"""Clusters of clients whose pictures are turned, and the turns themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.errors import BadInput, UnknownName
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.partition import TURNS, Clusters, turn
from coterie.data.partition.clusters import blocks

ONE = np.array([[[[1, 2], [3, 4]]]], dtype=np.uint8)


def pictures(rows: int = 60, test: int = 30, shape: tuple[int, ...] = (1, 4, 4)) -> Dataset:
    def made(n: int) -> Arrays:
        return Arrays(np.zeros((n, *shape), dtype=np.uint8), np.arange(n) % 3)

    return Dataset("toy", "classification", made(rows), made(test), classes=("a", "b", "c"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("identity", [[1, 2], [3, 4]]),
        ("rotate-90", [[2, 4], [1, 3]]),
        ("rotate-180", [[4, 3], [2, 1]]),
        ("rotate-270", [[3, 1], [4, 2]]),
        ("flip-horizontal", [[2, 1], [4, 3]]),
        ("flip-vertical", [[3, 4], [1, 2]]),
        ("invert", [[254, 253], [252, 251]]),
    ],
)
def test_turns_by_hand(name: str, expected: list[list[int]]) -> None:
    turned = turn(name, ONE)
    assert turned[0, 0].tolist() == expected
    assert turned.dtype == np.uint8
    assert turned.flags["C_CONTIGUOUS"]
    assert ONE[0, 0].tolist() == [[1, 2], [3, 4]]


def test_turns_refuse_what_they_cannot_turn() -> None:
    with pytest.raises(UnknownName, match="did you mean rotate-180"):
        turn("rotate180", ONE)
    with pytest.raises(BadInput, match=r"needs pictures .* got shape \[3, 9\]"):
        turn("flip-vertical", np.zeros((3, 9)))
    with pytest.raises(BadInput, match="square pictures; got 2x3: use rotate-180"):
        turn("rotate-90", np.zeros((1, 1, 2, 3)))
    with pytest.raises(BadInput, match="got float64 from 0 to 16: scale them"):
        turn("invert", np.array([[[[0.0, 16.0]]]]))
    with pytest.raises(BadInput, match="got int64"):
        turn("invert", np.zeros((1, 1, 2, 2), dtype=np.int64))


def test_two_clusters_of_the_thesis() -> None:
    data = pictures()
    deal = Clusters().deal(data, data.train, 6, Key(0))
    assert deal.clusters == (0, 0, 0, 1, 1, 1)
    assert deal.turns == ("identity",) * 3 + ("rotate-180",) * 3
    assert np.bincount(deal.owner).tolist() == [10] * 6
    assert not deal.one_class
    assert len(Clusters().deal(data, data.train, None, Key(0)).names) == 10


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 7), st.integers(7, 30), st.integers(0, 2**32))
def test_any_number_of_clusters(m: int, clients: int, seed: int) -> None:
    data = pictures()
    deal = Clusters(clusters=m, turns=tuple(TURNS)).deal(data, data.train, clients, Key(seed))
    assert deal.clusters is not None
    sizes = np.bincount(deal.clusters, minlength=m)
    assert sizes.max() - sizes.min() <= 1
    assert list(deal.clusters) == sorted(deal.clusters)
    rows = np.bincount(deal.owner, minlength=clients)
    assert rows.sum() == 60
    assert rows.max() - rows.min() <= 1
    test = Clusters(clusters=m, turns=tuple(TURNS)).deal(data, data.pools[1], clients, Key(seed))
    assert (test.clusters, test.turns, test.names) == (deal.clusters, deal.turns, deal.names)
    again = Clusters(clusters=m, turns=tuple(TURNS)).deal(data, data.train, clients, Key(seed))
    assert (again.owner == deal.owner).all()


def test_unequal_clusters_and_another_seed() -> None:
    assert blocks(8, (3, 1)) == (0,) * 6 + (1,) * 2
    data = pictures()
    owners = [Clusters(shares=(3, 1)).deal(data, data.train, 8, Key(s)).owner for s in (0, 1)]
    assert (owners[0] != owners[1]).any()


def test_clusters_refuse_what_cannot_be() -> None:
    with pytest.raises(
        BadInput, match=r"3 clusters need 1 to 2, one for each turn given \(identity, rotate-180\)"
    ):
        Clusters(clusters=3)
    with pytest.raises(BadInput, match="0 clusters need 1 to 2"):
        Clusters(clusters=0)
    with pytest.raises(UnknownName, match="unknown turn 'rotate': did you mean rotate-"):
        Clusters(turns=("identity", "rotate"))
    with pytest.raises(BadInput, match="repeat one"):
        Clusters(turns=("identity", "identity"))
    with pytest.raises(BadInput, match="must be 2 numbers above 0"):
        Clusters(shares=(1, 0))
    with pytest.raises(BadInput, match="must be 2 numbers above 0"):
        Clusters(shares=(1, 1, 1))
    data = pictures()
    with pytest.raises(BadInput, match="4 clients leave cluster 1 of 2 empty"):
        Clusters(shares=(99, 1)).deal(data, data.train, 4, Key(0))
    with pytest.raises(BadInput, match=r"toy has inputs of shape \[9\]: use picture data"):
        Clusters().deal(pictures(shape=(9,)), pictures(shape=(9,)).train, 4, Key(0))
    flat = pictures(shape=(1, 4, 6))
    with pytest.raises(BadInput, match="square"):
        Clusters(turns=("identity", "rotate-90")).deal(flat, flat.train, 4, Key(0))
