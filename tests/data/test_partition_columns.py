"""Splits by a table's column: bands, age-strict, age-some, silos."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.errors import BadInput, UnknownName
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.partition import AgeSome, AgeStrict, Bands, Silos
from coterie.data.partition.bands import find_bands
from coterie.data.sources.titanic import Titanic


def table(columns: dict[str, list[object]], test: dict[str, list[object]] | None = None) -> Dataset:
    def made(part: dict[str, list[object]]) -> Arrays:
        frame = pd.DataFrame(part)
        columns = {name: frame[name].to_numpy() for name in frame}
        return Arrays(np.zeros((len(frame), 1)), np.arange(len(frame)) % 2, columns)

    return Dataset("toy", "classification", made(columns), made(test) if test else None)


AGES = table({"age": [3, 20, 20.5, 21, 35, 36, 70, np.nan, np.nan, 20], "sex": list("mfmfmfmfmf")})


def test_an_edge_belongs_to_the_band_below_it() -> None:
    values = np.array([-5, 20, 20.5, 35, 35.1, np.nan])
    assert find_bands(values, np.array([20.0, 35.0])).tolist() == [0, 0, 1, 1, 2, 3]


def test_bands_by_hand() -> None:
    deal = Bands("age", (20, 35)).deal(AGES, AGES.train, None, Key(0))
    assert deal.owner.tolist() == [0, 0, 1, 1, 1, 2, 2, 3, 3, 0]
    assert deal.names == ("age up to 20", "age 20 to 35", "age over 35", "age unknown")
    assert deal.notes == ()


def test_unknown_values_can_be_nobodys() -> None:
    deal = Bands("age", (20, 35), unknown="drop").deal(AGES, AGES.train, 3, Key(0))
    assert deal.owner.tolist() == [0, 0, 1, 1, 1, 2, 2, -1, -1, 0]
    assert deal.notes == ("rows that no client gets: 2 of 10, as age is missing",)


def test_agents_share_a_band_at_random_and_equally() -> None:
    data = table({"age": list(range(100))})
    deals = [Bands("age", (79,), agents=(4, 1)).deal(data, data.train, None, Key(s)) for s in (0, 0, 1)]
    assert np.bincount(deals[0].owner).tolist() == [20] * 5
    assert set(deals[0].owner[:80]) == {0, 1, 2, 3}
    assert deals[0].names[0] == "age up to 79 #1"
    assert (deals[0].owner == deals[1].owner).all()
    assert (deals[0].owner != deals[2].owner).any()


def test_titanic_ages_have_the_papers_sizes() -> None:
    data = Titanic().load()
    strict = AgeStrict().deal(data, data.train, None, Key(0))
    assert strict.names == ("age 0-20", "age 21-35", "age 36+", "age unknown")
    assert np.bincount(strict.owner).tolist() == [248, 476, 322, 263]
    some = AgeSome().deal(data, data.train, 4, Key(0))
    assert some.names == ("age 0-35 #1", "age 0-35 #2", "age 36+", "age unknown")
    assert np.bincount(some.owner).tolist() == [362, 362, 322, 263]
    known = AgeStrict(unknown="drop").deal(data, data.train, None, Key(0))
    assert known.notes == ("rows that no client gets: 263 of 1309, as age is missing",)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.one_of(st.floats(-100, 100), st.none()), min_size=1, max_size=60),
    st.sampled_from(["own", "drop"]),
    st.integers(0, 2**32),
)
def test_bands_lose_nothing_but_what_they_say(ages: list[float | None], unknown: str, seed: int) -> None:
    # enough of each band that none is refused
    data = table({"age": [*ages, None, None, *([-50, 0, 50] * 6)]})
    deal = Bands("age", (-10, 10), agents=(2, 1, 3), unknown=unknown).deal(  # type: ignore[arg-type]
        data, data.train, None, Key(seed)
    )
    nobody = int((deal.owner < 0).sum())
    missing = sum(a is None for a in ages) + 2
    assert nobody == (missing if unknown == "drop" else 0)
    assert bool(deal.notes) == (nobody > 0)
    sizes = np.bincount(deal.owner[deal.owner >= 0], minlength=len(deal.names))
    assert sizes.sum() + nobody == len(data.train)
    assert sizes[:2].max() - sizes[:2].min() <= 1
    assert sizes[3:6].max() - sizes[3:6].min() <= 1


def test_test_rows_go_to_the_clients_of_the_training_rows() -> None:
    data = table({"age": [1, 2, 50, 60]}, test={"age": [5, np.nan, 3]})
    assert data.test is not None
    deal = Bands("age", (20,)).deal(data, data.test, None, Key(0))
    assert deal.owner.tolist() == [0, -1, 0]
    assert deal.notes == (
        "rows that no client gets: 1 of 3, as age is missing",
        "clients that get none of 3 rows: age over 20",
    )


def test_bands_refuse_what_cannot_be() -> None:
    with pytest.raises(BadInput, match="must increase"):
        Bands("age", (35, 20))
    with pytest.raises(BadInput, match="finite"):
        Bands("age", (float("nan"),))
    with pytest.raises(BadInput, match="must be 2 numbers of at least 1"):
        Bands("age", (20,), agents=(1,))
    with pytest.raises(BadInput, match="must be 2 numbers of at least 1"):
        Bands("age", (20,), agents=(1, 0))
    with pytest.raises(BadInput, match="must be 2 different names"):
        Bands("age", (20,), labels=("a", "a"))
    with pytest.raises(UnknownName, match="did you mean drop"):
        Bands("age", (20,), unknown="dropp")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="needs a column and its edges"):
        Bands().deal(AGES, AGES.train, None, Key(0))
    with pytest.raises(UnknownName, match="unknown column of toy 'aeg': did you mean age"):
        Bands("aeg", (20,)).deal(AGES, AGES.train, None, Key(0))
    with pytest.raises(BadInput, match=r"column 'sex' holds .* use silos"):
        Bands("sex", (20,)).deal(AGES, AGES.train, None, Key(0))
    with pytest.raises(BadInput, match=r"band age up to 1 has 0 training row\(s\) for 1 client\(s\)"):
        Bands("age", (1,)).deal(AGES, AGES.train, None, Key(0))
    with pytest.raises(BadInput, match=r"makes 4 client\(s\) here .* got clients=5: leave clients out"):
        Bands("age", (20, 35)).deal(AGES, AGES.train, 5, Key(0))
    once = table({"age": [1, 2, np.nan]})
    with pytest.raises(BadInput, match=r"band age unknown has 1 .* drop unknown values"):
        Bands("age").deal(once, once.train, None, Key(0))
    bare = Dataset("toy", "classification", Arrays(np.zeros((4, 1)), np.zeros(4, dtype=int)))
    with pytest.raises(BadInput, match="toy has no table: use iid or dirichlet"):
        Bands("age").deal(bare, bare.train, None, Key(0))


HOSPITALS = table(
    {"hospital": ["va"] * 12 + ["basel"] * 11 + ["oslo"] * 3 + [None] * 2, "ward": [2.0] * 14 + [10.0] * 14}
)


def test_silos_by_hand() -> None:
    deal = Silos(minimum=3).deal(HOSPITALS, HOSPITALS.train, None, Key(0))
    assert deal.names == ("basel", "oslo", "va")
    assert deal.owner.tolist() == [2] * 12 + [0] * 11 + [1] * 3 + [-1] * 2
    assert deal.notes == (
        "rows that no client gets: 2 of 28, as hospital is missing or not among the clients",
    )


def test_small_silos_can_be_left_out() -> None:
    deal = Silos(small="drop").deal(HOSPITALS, HOSPITALS.train, 2, Key(0))
    assert deal.names == ("basel", "va")
    assert deal.notes[0].startswith("rows that no client gets: 5 of 28")
    assert deal.notes[0].endswith("left out for fewer than 10 training rows: oslo (3)")


def test_numbers_are_silos_in_their_order() -> None:
    assert Silos("ward").deal(HOSPITALS, HOSPITALS.train, None, Key(0)).names == ("2", "10")


def test_test_rows_of_strange_silos_are_nobodys() -> None:
    data = table({"hospital": ["a"] * 10 + ["b"] * 10}, test={"hospital": ["b", "c"]})
    assert data.test is not None
    deal = Silos().deal(data, data.test, None, Key(0))
    assert deal.owner.tolist() == [1, -1]
    assert deal.notes[1] == "clients that get none of 2 rows: a"


def test_all_small_silos_are_named_at_once() -> None:
    data = table({"hospital": ["a"] * 10 + ["b"] * 3 + ["c"] * 5})
    line = (
        "split silos: hospital 'b' has 3 training rows, 'c' 5, at least 10 are needed: set small=drop to "
        "leave such silos out, or lower minimum to 3"
    )
    with pytest.raises(BadInput, match=f"^{line}$"):
        Silos().deal(data, data.train, None, Key(0))


def test_whoever_only_looks_at_rows_sees_small_silos_too() -> None:
    data = table({"hospital": ["a"] * 10 + ["b"]})
    deal = Silos().deal_all(data, data.train)
    assert deal.names == ("a", "b")
    assert deal.owner.tolist() == [0] * 10 + [1]
    assert deal.notes[0].startswith("fewer than 10 training rows: b (1); they are looked at here, but a run")


def test_silos_refuse_what_cannot_be() -> None:
    with pytest.raises(
        BadInput, match="hospital 'oslo' has 3 training rows, at least 10 are needed: set small=drop"
    ):
        Silos().deal(HOSPITALS, HOSPITALS.train, None, Key(0))
    with pytest.raises(BadInput, match="no value of hospital has 99 training rows; the largest has 12"):
        Silos(minimum=99, small="drop").deal(HOSPITALS, HOSPITALS.train, None, Key(0))
    with pytest.raises(BadInput, match=r"makes 3 client\(s\) here \(basel, oslo, va\); got clients=4"):
        Silos(minimum=2).deal(HOSPITALS, HOSPITALS.train, 4, Key(0))
    with pytest.raises(BadInput, match="needs a column of toy to go by: name one of age, sex"):
        Silos().deal(AGES, AGES.train, None, Key(0))
    with pytest.raises(UnknownName, match="did you mean ward"):
        Silos("wards").deal(HOSPITALS, HOSPITALS.train, None, Key(0))
    with pytest.raises(BadInput, match="minimum=1 must be at least 2"):
        Silos(minimum=1)
    with pytest.raises(UnknownName, match="did you mean drop"):
        Silos(small="dorp")  # type: ignore[arg-type]
    bare = Dataset("toy", "classification", Arrays(np.zeros((4, 1)), np.zeros(4, dtype=int)))
    with pytest.raises(BadInput, match="toy has no table"):
        Silos().deal(bare, bare.train, None, Key(0))
