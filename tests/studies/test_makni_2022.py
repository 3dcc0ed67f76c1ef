"""makni-2022: its published figures, cells, settings and split."""

from __future__ import annotations

import dataclasses
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from coterie.core.belief import belief_of, stack
from coterie.core.roster import Member, Roster
from coterie.core.seeds import Key
from coterie.data.sources import SOURCES
from coterie.kernels import PSGLD, SGD, SGLD, SWAG
from coterie.methods import FLSWAG, BayesCentral, Central
from coterie.methods.one_shot.alone import states
from coterie.models.base import count_parameters
from coterie.models.lenet import LeNet5Small
from coterie.models.linear import Logistic
from coterie.models.resnet import ResNet18
from coterie.studies import makni_2022 as m
from coterie.studies.makni_2022 import claims as said
from coterie.studies.makni_2022 import published

TOTALS = {
    "logistic/mnist": 1441.75,
    "logistic/fashion-mnist": 1306.01,
    "lenet/mnist": 1468.89,
    "lenet/fashion-mnist": 1303.49,
    "resnet/cifar10": 1052.38,
}
DATA = ("mnist", "fashion-mnist", "cifar10")
MODELS = (Logistic(), Logistic(), LeNet5Small(), LeNet5Small(), ResNet18())


class TestPublished:
    @pytest.mark.parametrize("cell", TOTALS)
    def test_columns_add_up_as_those_of_the_paper(self, cell):
        rows = [*said.ONE, "FL-SWAG, mean", *said.AVERAGES]
        rows += ["common"] if cell.startswith("logistic/") else []
        assert sum(float(published.accuracy(cell, row)) for row in rows) == pytest.approx(TOTALS[cell])

    def test_so_does_the_calibration_table(self):
        every = [published.calibration(data, row) for data in DATA for row in ("FL-SWAG", *m.SAMPLERS)]
        totals = np.array(every, dtype=float).sum(axis=0)
        assert totals == pytest.approx([777.01, 45.81, 19.51, 42.2])

    def test_as_printed_and_a_dash_where_there_is_nothing(self):
        assert published.accuracy("logistic/mnist", "client 1") == "84.07"
        assert published.accuracy("resnet/cifar10", "client 4") == "69.6"
        assert published.accuracy("lenet/fashion-mnist", "FL-SWAG, mean") == "87.57"
        assert published.calibration("cifar10", "psgld") == ["77.67", "13.84", "3.55", "9.77"]
        assert published.accuracy("logistic/mnist", "FL-SWAG") == "–"  # its accuracies are of the mean model
        assert published.accuracy("lenet/mnist", "common") == "–"
        assert published.accuracy("logistic/digits", "FedAvg") == "–"
        assert published.calibration("digits", "sgld") == ["–"] * 4


def test_cells_by_scale():
    two = ("mnist", "fashion-mnist")
    pictures = (
        *(f"{kind}/{data}" for kind in ("logistic", "common", "lenet") for data in two),
        "resnet/cifar10",
        *(f"{kind}/{data}" for kind in ("sgld", "psgld") for data in (*two, "cifar10")),
    )
    tiny = (f"{kind}/digits" for kind in ("logistic", "common", "lenet", "sgld", "psgld"))
    assert m.PAPER.cells("full") == ("cancer/wisconsin", *pictures)
    assert m.PAPER.cells("small") == pictures
    assert m.PAPER.cells("tiny") == ("cancer/wisconsin", *tiny)
    usual, (note,) = m.PAPER.usual("full")
    assert usual == tuple(c for c in m.PAPER.cells("full") if not c.endswith("/cifar10"))
    assert "all but CIFAR-10" in note
    assert all(m.PAPER.usual(scale) == (m.PAPER.cells(scale), ()) for scale in ("small", "tiny"))
    assert {*published.ACCURACIES["FedAvg"]} == set(TOTALS) <= set(pictures)


@pytest.fixture
def of_many_rows(monkeypatch):
    """Data of which only the number of training rows is known, that of MNIST unless said otherwise."""

    def have(rows: int) -> None:
        monkeypatch.setattr(m, "loaded", lambda name, scale: SimpleNamespace(train=range(rows)))

    have(60_000)
    return have


class TestSettings:
    def test_presets_differ_in_the_order_of_rows_and_in_the_first_state(self):
        text = SWAG(lr=0.01, batch=64, shuffle=True, per="epoch", rank=20, origin=True)
        assert m.swag("text", "full") == text
        assert m.swag("as-run", "full") == dataclasses.replace(text, shuffle=False, origin=False)
        assert (text.momentum, text.weight_decay, text.every, text.epochs) == (0, 0, 1, 1)

    @pytest.mark.parametrize(("preset", "source"), [("text", "aside"), ("as-run", "clients")])
    def test_the_server(self, preset, source):
        wanted = {"source": source, "aside": 0.2, "freeze": True, "epochs": 20}
        assert m.server("resnet", preset, "full") == wanted
        assert m.server("lenet", preset, "full") == wanted | {"freeze": preset == "text"}

    @pytest.mark.parametrize("preset", ["text", "as-run"])
    @pytest.mark.parametrize(("cell", "model"), [*zip(TOTALS, MODELS, strict=True)])
    def test_clients_train_plainly_and_then_collect(self, preset, cell, model):
        kind, _, data = cell.partition("/")
        # what the program did on one data set alone
        plain, collecting = (1, 5) if (cell, preset) == ("lenet/fashion-mnist", "as-run") else (10, 20)
        work = m.work_of(kind, data, preset, "full")
        assert isinstance(work.method, FLSWAG)
        assert (work.method.floor, work.method.below, work.method.weigh) == (1e-6, "raise", "precision")
        assert work.method.local == m.swag(preset, "full")
        assert (work.method.plain(work.rounds), work.rounds) == (plain, plain + collecting)
        assert (work.model, work.features is None) == (model, kind == "logistic")
        # one state an epoch, and in the text the one before
        found = states(work.method.work, 1000, collecting, Key(0))
        assert found == (collecting + (preset == "text"), collecting)

    def test_models(self):
        assert m.work_of("resnet", "cifar10", "text", "small").model == ResNet18(width=8)
        # 6 · 26, 16 · 151 and 257 · 10: what the program calls LeNet5
        assert count_parameters(LeNet5Small().build((1, 28, 28), 10, 0)) == 156 + 2416 + 2570
        work = m.work_of("common", "fashion-mnist", "as-run", "full")
        assert work == m.Work(Logistic(), Central(SGD(lr=0.01, batch=64)), 30)

    def test_samplers_are_two_or_one_without_noise_on_fashion_mnist(self, of_many_rows):
        # 938 batches an epoch; of 10 epochs the second half has 4690 steps, a thirtieth of which are 156
        assert m.sampler("sgld", "mnist", "text", "full") == SGLD(lr=0.1, batch=64, every=156, rank=30)
        wanted = PSGLD(batch=64, every=156, rank=30)
        assert m.sampler("psgld", "fashion-mnist", "text", "full") == wanted
        noisy = dataclasses.replace(wanted, decay=0.95, eps=1e-2, temperature=1)
        for kind in m.SAMPLERS:
            assert m.sampler(kind, "mnist", "as-run", "full") == noisy
            silent = dataclasses.replace(noisy, temperature=0)
            assert m.sampler(kind, "fashion-mnist", "as-run", "full") == silent

    @pytest.mark.parametrize(
        ("data", "scale", "preset", "rows", "share"),
        [
            *(("mnist", "full", "text", rows, 1.0) for rows in (60_000, 6000, 1297, 321)),
            ("cifar10", "full", "text", 50_000, 0.8),
            ("cifar10", "full", "as-run", 50_000, 1.0),
            ("cifar10", "small", "text", 6000, 0.8),
        ],
    )
    def test_thirty_states_of_the_second_half_with_the_rows_that_the_server_leaves(
        self, of_many_rows, data, scale, preset, rows, share
    ):
        of_many_rows(rows)
        work = m.work_of("sgld", data, preset, scale)
        assert isinstance(work.method, BayesCentral)
        assert (work.rounds, work.method.plain(work.rounds)) == (10, 5)
        assert work.features == (m.server("resnet", preset, scale) if data == "cifar10" else None)
        for off in (-5, 0, 5) if share < 1 else (0,):  # clients' shares are rounded
            count, columns = states(work.method.work, round(share * rows) + off, 5, Key(0))
            assert count >= columns == work.method.samples == 30

    @pytest.mark.parametrize("scale", ["full", "small", "tiny"])
    @pytest.mark.parametrize("preset", ["text", "as-run"])
    def test_every_cell_can_work(self, of_many_rows, scale, preset):
        start = stack([belief_of(torch.nn.Linear(2, 10))])
        clients = tuple(Member(f"client {i}", 6000, 0, 9) for i in range(m.CLIENTS))
        for cell in m.PAPER.cells(scale):
            kind, _, data = cell.partition("/")
            if kind != "cancer":
                work = m.work_of(kind, data, preset, scale)
                roster = Roster(clients, "classification", (2,), 10)
                assert not work.method.check(roster, start, Key(0, rounds=work.rounds))


def rows_of(samples) -> Counter:
    return Counter((x.numpy().tobytes(), int(y)) for x, y in zip(samples.x, samples.y.tolist(), strict=True))


class TestSplit:
    def test_every_row_is_dealt_once_and_all_have_one_test_set(self):
        data, clients = m.loaded("digits", "tiny"), m.clients_of("digits", "tiny", 0)
        assert (len(data.train), len(data.test), len(clients)) == (1297, 500, 10)
        dealt = sum((rows_of(c.train) for c in clients), Counter())
        assert dealt == rows_of(m.prepared(data, data.train))
        assert all(c.test is clients[0].test and not len(c.validation) for c in clients)
        assert clients[0].test.y.tolist() == SOURCES.make("digits").load().train.y[-500:].tolist()

    @pytest.mark.parametrize("seed", [0, 1])
    def test_sizes_and_favourites_are_those_of_algorithm_4(self, seed):
        sizes = np.sort(1 - Key(seed).at("data", "clients").numpy().random(10))
        shares = sizes[:, None] * np.where(np.eye(10) > 0, 1, 0.25)
        shares /= shares.sum(axis=0)
        total = np.bincount(m.loaded("digits", "tiny").train.y, minlength=10)
        clients = m.clients_of("digits", "tiny", seed)
        counts = np.array([np.bincount(c.train.y, minlength=10) for c in clients])
        spread = np.sqrt(total * shares * (1 - shares))
        assert (np.abs(counts - total * shares) <= 5 * spread + 1).all()
        assert (np.diff((total * shares).sum(axis=1)) > 0).all()  # so sizes rise, but for chance
        assert counts[:5].sum() < counts[5:].sum()
        assert (counts[-3:].argmax(axis=1) == [7, 8, 9]).all()
