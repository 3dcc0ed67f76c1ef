"""Flower Datasets' partitioners: the adapter with a stand-in for them, and some of the real ones."""

from __future__ import annotations

import sys
import warnings
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from coterie.core.errors import BadInput, UnknownName
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.partition import Flower
from coterie.data.partition.flower import owners_of, parsed


def toy(test=0) -> Dataset:
    def made(n):
        return Arrays(np.zeros((n, 1)), np.arange(n) % 4, {"ward": np.arange(n) % 2})

    return Dataset("toy", "classification", made(80), made(test) if test else None)


class EveryOtherPartitioner:
    """Partition k has the rows of every so many; with `drop`, it leaves some out."""

    def __init__(self, num_partitions: int, partition_by: str, seed: int, drop: int = 0):
        self.num_partitions, self.partition_by, self.drop = num_partitions, partition_by, drop
        if drop == 1:
            warnings.warn("a row\nis left out", stacklevel=2)
        if drop > 2:
            raise ValueError("drop is\ntoo large")

    def load_partition(self, k):
        assert self.partition_by == "label"
        assert list(self.dataset) == ["ward", "row", "label"]
        return {"row": self.dataset["row"][self.drop + k :: self.num_partitions]}


@pytest.fixture
def stand_in(monkeypatch):
    flower, partitioners, datasets = (ModuleType(n) for n in ("flwr_datasets", "partitioner", "datasets"))
    partitioners.EveryOtherPartitioner = EveryOtherPartitioner
    flower.partitioner = partitioners
    datasets.Dataset = SimpleNamespace(from_dict=dict)
    for name, module in (
        ("flwr_datasets", flower),
        ("flwr_datasets.partitioner", partitioners),
        ("datasets", datasets),
    ):
        monkeypatch.setitem(sys.modules, name, module)


def test_client_k_gets_partition_k(stand_in):
    deal = Flower("EveryOtherPartitioner").deal(data := toy(), data.train, 4, Key(0))
    assert deal.owner.tolist() == [0, 1, 2, 3] * 20
    assert deal.names == ("client-0", "client-1", "client-2", "client-3")


def test_rows_that_nobody_gets_are_said(stand_in):
    deal = Flower("EveryOtherPartitioner", ("drop=2",)).deal(data := toy(), data.train, 4, Key(0))
    assert deal.owner[:4].tolist() == [-1, -1, 0, 1]
    assert deal.notes == ("rows that no client gets: 2 of 80, as Flower dealt them",)


def test_what_flower_warns_of_is_a_note(stand_in):
    deal = Flower("EveryOtherPartitioner", ("drop=1",)).deal(data := toy(), data.train, 4, Key(0))
    assert deal.notes[0] == "Flower warns: a row is left out"


def test_published_test_rows_go_with_the_training_rows_of_their_class(stand_in):
    data = toy(test=40)  # with four partitions, each has one class
    deal = Flower("EveryOtherPartitioner").deal(data, data.test, 4, Key(0))
    assert deal.owner.tolist() == data.test.y.tolist()


def test_what_it_refuses_is_one_line(stand_in, refused):
    told = "split flower: EveryOtherPartitioner refuses: drop is too large: change options or clients"
    with refused(BadInput, told):
        Flower("EveryOtherPartitioner", ("drop=3",)).deal(data := toy(), data.train, 4, Key(0))
    with pytest.raises(UnknownName, match="EveryOtherPartitioner"):
        Flower("system").deal(data := toy(), data.train, 4, Key(0))


def test_without_flower_it_says_what_to_install(monkeypatch, refused):
    monkeypatch.setitem(sys.modules, "flwr_datasets", None)
    with refused(BadInput, "split flower needs Flower Datasets: pip install 'coterie[flower]'"):
        Flower().deal(data := toy(), data.train, 4, Key(0))


def test_no_row_has_two_owners():
    assert owners_of([[0, 2], [3]], 5).tolist() == [0, -1, 0, 1, -1]
    with pytest.raises(BadInput, match="a row of partition 1 is in it twice or in another one too"):
        owners_of([[0, 2], [2]], 3)


def test_options(refused):
    entries = ("alpha=0.3", "shuffle=false", "partition_by=ward", "distribution_array=[1, 2]")
    assert parsed(entries) == {
        "alpha": 0.3,
        "shuffle": False,
        "partition_by": "ward",
        "distribution_array": [1, 2],
    }
    with refused(BadInput, "split flower: option 'alpha' needs the form name=value: try alpha=0.3"):
        Flower(options=("alpha",))


@pytest.mark.parametrize(
    ("name", "options", "clients", "classes"),
    [
        ("IidPartitioner", (), 5, 4),
        ("PathologicalPartitioner", ("num_classes_per_partition=2",), 4, 2),
        ("DirichletPartitioner", ("alpha=0.5",), 4, 4),
        ("NaturalIdPartitioner", ("partition_by=ward",), 2, 2),
    ],
)
def test_real_ones(name, options, clients, classes):
    pytest.importorskip("flwr_datasets")
    data = toy()
    deals = [Flower(name, options).deal(data, data.train, clients, Key(s)) for s in (0, 0)]
    assert (deals[0].owner == deals[1].owner).all()
    assert len(deals[0].names) == clients
    assert set(deals[0].owner) == set(range(clients))
    assert max(len(np.unique(data.train.y[deals[0].owner == k])) for k in range(clients)) <= classes
