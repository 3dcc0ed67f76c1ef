"""From a dataset and a split to clients: every row has one place, and nothing looks at test rows."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.client import Client
from coterie.core.errors import BadData, BadInput, CoterieError
from coterie.core.seeds import Key
from coterie.data.build import deal_clients
from coterie.data.dataset import Arrays, Dataset
from coterie.data.partition import Bands, Clusters, Deal, Dirichlet, Iid, Interests, Shift, Silos

KEY = Key(0, ("data",))
FIRST_TEST_ROW = 10_000  # rows of a published test set are numbered from here


def pool_of(rows: int, first: int = 0, classes: int = 3) -> Arrays:
    """Rows that say in x who they are; the label follows from that, and so do the table's columns."""
    number = np.arange(first, first + rows)
    ward = np.array([f"w{n % 4}" for n in number], dtype=object)
    columns = {"number": number, "ward": ward, "age": number % 90.0}
    return Arrays(number[:, None].astype(np.float32), number % classes, columns)


def data_of(rows: int = 60, test: int = 0, classes: int = 3, **more) -> Dataset:
    return Dataset(
        name="numbered",
        task="classification",
        train=pool_of(rows, classes=classes),
        test=pool_of(test, FIRST_TEST_ROW, classes) if test else None,
        classes=tuple("abcdefghij"[:classes]),
        **more,
    )


@dataclass(frozen=True)
class Fixed:
    """A split that does as it is told; `test` are the owners of published test rows."""

    owner: tuple[int, ...]
    names: tuple[str, ...] = ("a", "b")
    test: tuple[int, ...] = ()
    more: dict = field(default_factory=dict)

    def deal(self, data, pool, clients, key) -> Deal:
        owner = self.owner if pool is data.train else self.test
        return Deal(np.array(owner), self.names, **self.more)


def numbers(client: Client) -> dict[str, list[int]]:
    """Which rows are where."""
    parts = {"train": client.train, "validation": client.validation, "test": client.test}
    return {name: part.x.flatten(1)[:, 0].int().tolist() for name, part in parts.items()}


def all_numbers(clients) -> list[int]:
    return [n for c in clients for part in numbers(c).values() for n in part]


def test_a_published_test_set_is_dealt_and_no_training_row_held_out():
    split = Fixed((0,) * 20 + (1,) * 40, test=(1, 0, 1, 0, 1, -1))
    a, b = deal_clients(data_of(60, test=6), split, None, KEY, test=0.9).clients
    assert numbers(a) == {"train": list(range(20)), "validation": [], "test": [10_001, 10_003]}
    assert numbers(b) == {"train": list(range(20, 60)), "validation": [], "test": [10_000, 10_002, 10_004]}


@pytest.mark.parametrize(("test", "sizes"), [(0, (12, 12, 6)), (12, (15, 15, 6))])
def test_validation_comes_out_of_the_training_rows(test, sizes):
    split = Fixed((0,) * 30 + (1,) * 30, test=(0, 1) * (test // 2))
    made = deal_clients(data_of(60, test), split, None, KEY, test=0.2, validation=0.5).clients
    assert [(len(c.train), len(c.validation), len(c.test)) for c in made] == [sizes, sizes]
    assert len(set(all_numbers(made))) == 60 + test
    for c in made:
        assert max(numbers(c)["train"] + numbers(c)["validation"]) < FIRST_TEST_ROW


def test_the_key_decides_which_rows_are_held_out():
    def held(key):
        return numbers(deal_clients(data_of(60), Fixed((0,) * 60, ("a",)), None, key).clients[0])["test"]

    assert held(KEY) == held(KEY)
    assert held(KEY) != held(Key(1, ("data",)))


class Spy:
    """A `Prepare` that subtracts the mean of the training rows, and remembers what it was shown."""

    def __init__(self) -> None:
        self.shown: list[list[list[int]]] = []

    def __call__(self, train: Arrays, *others: Arrays):
        self.shown.append([p.x[:, 0].astype(int).tolist() for p in (train, *others)])
        mean = train.x.mean()
        made = [Arrays(p.x - mean, p.y, p.columns) for p in (train, *others)]
        return made, (f"mean {mean:g} of {len(train)}",)


@pytest.mark.parametrize("test", [0, 20])
def test_preparing_fits_on_the_clients_own_training_rows(test):
    spy, split = Spy(), Fixed((0, 1) * 30, test=(0, 1) * (test // 2))
    plain = deal_clients(data_of(60, test), split, None, KEY, validation=0.2).clients
    made = deal_clients(data_of(60, test, prepare=spy), split, None, KEY, validation=0.2).clients
    assert len(spy.shown) == 2
    for c, before, shown in zip(made, plain, spy.shown, strict=True):
        rows = numbers(before)
        assert shown == [rows["train"], rows["validation"], rows["test"]]
        mean = np.float32(np.mean(rows["train"]))
        assert c.notes == (f"mean {mean:g} of {len(before.train)}",)
        for part in ("train", "validation", "test"):
            assert torch.allclose(getattr(c, part).x[:, 0], torch.tensor(rows[part]) - mean, atol=1e-3)


def test_what_cannot_be_prepared_names_the_client(refused):
    def prepare(train, *others):
        if 1 in train.x:
            raise BadData("column 'age' holds 7, but may hold 0, 1: correct it")
        return [train, *others], ()

    with refused(BadData, "client 'b': column 'age' holds 7, but may hold 0, 1: correct it"):
        deal_clients(data_of(60, test=4, prepare=prepare), Fixed((0, 1) * 30, test=(0, 0, 1, 1)), None, KEY)


def test_rows_that_preparing_leaves_out():
    def evens(train, *others):
        return [p.take(np.flatnonzero(p.x[:, 0] % 2 == 0)) for p in (train, *others)], ("odd rows left out",)

    (a,) = deal_clients(data_of(60, prepare=evens), Fixed((0,) * 60, ("a",)), None, KEY).clients
    assert sorted(all_numbers([a])) == list(range(0, 60, 2))
    assert torch.equal(a.train.y, a.train.x[:, 0].long() % 3)


def pictures(rows: int, first: int = 0) -> Arrays:
    """Pictures of 2 x 2 pixels, all different, between 0 and 1."""
    x = (first + np.arange(rows * 4, dtype=np.float32).reshape(rows, 1, 2, 2)) / 4000
    return Arrays(x, np.arange(rows) % 2)


def test_each_clients_pictures_are_turned_in_training_and_in_test():
    data = Dataset("pictures", "classification", pictures(40), pictures(20, 2000), classes=("x", "y"))
    split = Clusters(turns=("identity", "rotate-180"))
    dealt = deal_clients(data, split, 4, KEY, validation=0.2)
    assert [c.cluster for c in dealt.clients] == [0, 0, 1, 1]
    trained, tested = {tuple(p.ravel()) for p in data.train.x}, {tuple(p.ravel()) for p in data.test.x}
    seen = []
    for c in dealt.clients:
        for part, known in ((c.train, trained), (c.validation, trained), (c.test, tested)):
            upright = part.x.flip(2, 3) if c.cluster else part.x
            found = [tuple(p.ravel()) for p in upright.numpy()]
            assert known.issuperset(found)
            seen += found
    assert len(seen) == len(set(seen)) == 60


def test_pictures_are_turned_before_they_are_prepared():
    shown = []

    def prepare(train, *others):
        shown.append(train.x)
        return [train, *others], ()

    data = Dataset("pictures", "classification", pictures(40), classes=("x", "y"), prepare=prepare)
    split = Fixed((0, 0, 1, 1) * 10, more={"turns": ("identity", "invert")})
    a, b = deal_clients(data, split, None, KEY).clients
    assert torch.equal(b.train.x, torch.from_numpy(shown[1]))
    assert set(a.train.x.flatten().tolist()).isdisjoint(b.train.x.flatten().tolist())
    assert float(b.train.x.min()) > 1 - 160 / 4000


def test_notes_in_order_from_the_source_to_the_clients():
    split = Fixed((0,) * 29 + (1,) * 29 + (-1, -1), test=(0, 1, 1, -1), more={"notes": ("dealt as told",)})
    dealt = deal_clients(data_of(60, notes=("a made-up source",)), split, None, KEY, test=0.2)
    published = deal_clients(data_of(60, test=4), split, None, KEY)
    assert published.notes[-1] == "published test rows dealt to clients: 3 of 4, the other 1 left out"
    assert dealt.notes == (
        "a made-up source",
        "dealt as told",
        "rows dealt to clients: 58 of 60, the other 2 left out",
        "each client holds out 0.2 of its rows for testing",
    )


def test_a_client_with_one_class_is_said_where_it_is_allowed():
    data = data_of(40, classes=2)
    split = Fixed(tuple(data.train.y.tolist()))
    said = (
        "client 'a' trains on one class only (a)",
        "client 'b' trains on one class only (b)",
    )
    assert deal_clients(data, split, None, KEY, one_class=True).notes[-2:] == said
    meant = replace(split, more={"one_class": True})
    assert deal_clients(data, meant, None, KEY).notes[-2:] == said


def nothing(train, *others):
    return [p.take(np.arange(0)) for p in (train, *others)], ()


@pytest.mark.parametrize(
    ("data", "owner", "asked", "said"),
    [
        ({"prepare": nothing}, (0, 1) * 30, {}, "client 'a' has 0 training and 0 test samples; both need"),
        ({"test": 2}, (0,) * 60, {}, "client 'b' has 0 training and 1 test samples; both need"),
        ({"test": 1}, (0, 1) * 30, {}, "client 'b' has 30 training and 0 test samples; both need"),
        ({}, (0,) * 60, {}, "client 'b' has 0 sample(s), but training and testing need at least 2"),
        ({}, (1,) + (0,) * 59, {}, "client 'b' has 1 sample(s), but"),
        ({}, (1, 1) + (0,) * 58, {"validation": 0.2}, "client 'b' has 1 sample(s), but"),
        ({"classes": 2}, (0, 1) * 30, {}, "client 'a' trains on one class only (a), at least 2 are needed"),
        ({}, (0, 1) * 30, {"validation": 1.0}, "validation=1.0 must lie in [0, 1): try 0.2, or 0 for none"),
        ({}, (0, 1) * 30, {"validation": -0.1}, "validation=-0.1 must lie in [0, 1)"),
        ({}, (0, 1) * 30, {"test": 0.0}, "client 'a': held-out fraction 0.0 must lie between 0 and 1"),
        ({}, (0, 1) * 30, {"test": 1.0}, "client 'a': held-out fraction 1.0 must lie between 0 and 1"),
    ],
)
def test_what_cannot_be_dealt_names_the_client_or_the_option(data, owner, asked, said):
    split = Fixed(owner, test=(0, 1)[: data.get("test", 0)])
    with pytest.raises(CoterieError, match=re.escape(said)) as refusal:
        deal_clients(data_of(60, **data), split, None, KEY, **asked)
    assert "\n" not in str(refusal.value)


def with_hole(part: str, value: float) -> Dataset:
    """A hole in one row of that part of client a."""
    data, split = data_of(60, features=("number",)), Fixed((0,) * 60, ("a",))
    row = numbers(deal_clients(data, split, None, KEY, validation=0.3).clients[0])[part][2]
    x = data.train.x.copy()
    x[row] = value
    return replace(data, train=replace(data.train, x=x))


@pytest.mark.parametrize(("part", "value"), [("train", np.nan), ("validation", np.inf), ("test", np.nan)])
def test_a_hole_in_any_part_is_refused(part, value):
    named = {"train": "training"}.get(part, part)
    with pytest.raises(BadInput, match=f"client 'a': column number is not finite in {named} row 2: fill or"):
        deal_clients(with_hole(part, value), Fixed((0,) * 60, ("a",)), None, KEY, validation=0.3)


SPLITS = st.one_of(
    st.just(Iid()),
    st.builds(Dirichlet, alpha=st.sampled_from([0.01, 0.3, 10.0]), minimum=st.integers(4, 10)),
    st.builds(Shift, distribution=st.sampled_from("ABCDEFG")),
    st.builds(Interests, p=st.sampled_from([0.05, 0.5, 1.0]), minimum=st.integers(4, 10)),
    st.builds(Silos, column=st.just("ward")),
    st.builds(Bands, column=st.just("age"), edges=st.sampled_from([(), (30.0,), (20.0, 60.0)])),
)


@given(
    split=SPLITS,
    rows=st.integers(120, 300),
    test=st.sampled_from([0, 0, 90, 150]),
    classes=st.integers(2, 10),
    clients=st.integers(1, 6),
    validation=st.sampled_from([0.0, 0.2]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=40)
def test_nothing_is_lost_and_nothing_dealt_twice(split, rows, test, classes, clients, validation, seed):
    data = data_of(rows, test, classes)
    asked = None if isinstance(split, Silos | Bands) else clients
    key = Key(seed, ("data",))
    dealt = deal_clients(data, split, asked, key, test=0.3, validation=validation, one_class=True)
    found = all_numbers(dealt.clients)
    assert len(found) == len(set(found))
    counts = [list(map(int, re.findall(r"\d+", n))) for n in dealt.notes if "rows dealt to clients: " in n]
    given, lost = sum(c[0] for c in counts), sum(c[2] for c in counts if len(c) > 1)
    assert len(found) == given
    assert given + lost == rows + test
    assert set(found) <= {*range(rows), *range(FIRST_TEST_ROW, FIRST_TEST_ROW + test)}
    for c in dealt.clients:
        for part in (c.train, c.validation, c.test):
            assert torch.equal(part.y, part.x[:, 0].long() % classes)
        mine = numbers(c)
        published = [n >= FIRST_TEST_ROW for n in mine["test"]]
        assert all(published) if test else not any(published)
        assert max(mine["train"] + mine["validation"]) < FIRST_TEST_ROW
        assert bool(mine["validation"]) == bool(validation)


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_one_patient_are_never_trained_and_tested_on(seed):
    """60 rows of 15 patients at one client; the rows of the other do not say who they are about."""
    patient = np.array([f"p{n % 15}" if n < 60 else None for n in range(90)], dtype=object)
    data = data_of(90, together=("patient",))
    told = replace(data.train, columns={**data.train.columns, "patient": patient})
    dealt = deal_clients(
        replace(data, train=told), Fixed((0,) * 60 + (1,) * 30), None, Key(seed), validation=0.2
    )
    who = [{patient[n] for n in rows} for rows in numbers(dealt.clients[0]).values()]
    assert [len(w) for w in who] == [9, 2, 4]  # 30 % of 15 for testing, a fifth of the rest to validate
    assert not who[0] & who[1]
    assert not (who[0] | who[1]) & who[2]
    assert len(numbers(dealt.clients[1])["test"]) == 9
    apart = "rows of one patient are all for training or all for testing: 15 by patient in 60 rows"
    assert [c.notes for c in dealt.clients] == [(apart,), ()]


def test_one_patient_alone_cannot_be_held_out():
    data = data_of(20, together=("patient",))
    told = replace(data.train, columns={"patient": np.array(["p"] * 20, dtype=object)})
    with pytest.raises(BadInput, match="client 'a': all 20 rows are about one"):
        deal_clients(replace(data, train=told), Fixed((0,) * 20, ("a",)), None, KEY)
