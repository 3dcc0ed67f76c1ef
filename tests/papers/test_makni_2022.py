"""makni-2022: its published figures, cells, settings and split."""

from __future__ import annotations

import dataclasses
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from coterie.core.seeds import Key
from coterie.data.sources import SOURCES
from coterie.kernels import PSGLD, SGD, SGLD, SWAG
from coterie.methods import FLSWAG, BayesCentral, Central
from coterie.methods.one_shot.alone import states
from coterie.models.base import count_parameters
from coterie.models.lenet import LeNet5Small
from coterie.models.linear import Logistic
from coterie.models.mlp import Mlp
from coterie.models.resnet import ResNet18
from coterie.papers.makni_2022 import paper as m
from coterie.papers.makni_2022 import published
from coterie.papers.makni_2022 import results as said
from coterie.runs.features import Features

CELLS_WITH_FIGURES = (
    "logistic/mnist",
    "logistic/fashion-mnist",
    "lenet/mnist",
    "lenet/fashion-mnist",
    "resnet/cifar10",
)


class TestPublished:
    def test_as_printed(self):
        assert published.accuracy("logistic/mnist", "client 1") == "84.07"
        assert published.accuracy("resnet/cifar10", "client 4") == "69.6"
        assert published.accuracy("logistic/fashion-mnist", "FedAvg") == "83.0"
        assert published.accuracy("lenet/fashion-mnist", "FL-SWAG, mean") == "87.57"
        assert published.accuracy("logistic/fashion-mnist", "common") == "84"
        assert published.calibration("cifar10", "psgld") == ["77.67", "13.84", "3.55", "9.77"]
        assert published.calibration("fashion-mnist", "sgld") == ["87.15", "4.16", "1.90", "3.91"]

    @pytest.mark.parametrize(
        ("cell", "total"),
        list(zip(CELLS_WITH_FIGURES, (1441.75, 1306.01, 1468.89, 1303.49, 1052.38), strict=True)),
    )
    def test_columns_add_up_as_those_of_the_paper(self, cell, total):
        rows = [*said.ONE, "FL-SWAG, mean", *said.AVERAGES]
        rows += ["common"] if cell.startswith("logistic/") else []
        assert sum(float(published.accuracy(cell, row)) for row in rows) == pytest.approx(total)

    def test_so_does_the_calibration_table(self):
        found = [
            published.calibration(data, row)
            for data in ("mnist", "fashion-mnist", "cifar10")
            for row in ("FL-SWAG", "sgld", "psgld")
        ]
        totals = np.array(found, dtype=float).sum(axis=0)
        assert totals == pytest.approx([777.01, 45.81, 19.51, 42.2])

    def test_a_dash_where_the_paper_has_none(self):
        assert published.accuracy("logistic/mnist", "FL-SWAG") == "–"  # its accuracies are of the mean model
        assert published.accuracy("lenet/mnist", "common") == "–"
        assert published.accuracy("lenet/mnist", said.SERVER) == "–"
        assert published.accuracy("logistic/digits", "FedAvg") == "–"
        assert published.calibration("digits", "sgld") == ["–"] * 4


class TestCells:
    def test_by_scale(self):
        two = ("mnist", "fashion-mnist")
        pictures = (
            *(f"{kind}/{data}" for kind in ("logistic", "common", "lenet") for data in two),
            "resnet/cifar10",
            *(f"{kind}/{data}" for kind in ("sgld", "psgld") for data in (*two, "cifar10")),
        )
        assert m.PAPER.cells("full") == ("cancer/wisconsin", *pictures)
        assert m.PAPER.cells("small") == pictures
        assert m.PAPER.cells("tiny") == (
            "cancer/wisconsin",
            *(f"{kind}/digits" for kind in ("logistic", "common", "lenet", "sgld", "psgld")),
        )

    def test_the_usual_ones_leave_out_the_resnet(self):
        cells, (note,) = m.PAPER.usual("full")
        assert set(m.PAPER.cells("full")) - set(cells) == {"resnet/cifar10", "sgld/cifar10", "psgld/cifar10"}
        assert "all but CIFAR-10" in note
        for scale in ("small", "tiny"):
            assert m.PAPER.usual(scale) == (m.PAPER.cells(scale), ())

    def test_every_published_column_is_a_cell(self):
        assert set(published.COLUMNS) == set(CELLS_WITH_FIGURES) <= set(m.PAPER.cells("full"))


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

    @pytest.mark.parametrize(
        ("kind", "preset", "source", "freeze"),
        [
            ("lenet", "text", "aside", True),
            ("lenet", "as-run", "clients", False),
            ("resnet", "text", "aside", True),
            ("resnet", "as-run", "clients", True),
        ],
    )
    def test_the_server(self, kind, preset, source, freeze):
        wanted = Features(source=source, aside=0.2, freeze=freeze, epochs=20, lr=0.1, lr_end=0.005, batch=64)
        assert m.server(kind, preset, "full") == wanted

    @pytest.mark.parametrize("preset", ["text", "as-run"])
    @pytest.mark.parametrize(
        ("cell", "plain", "collecting"),
        [
            ("logistic/mnist", 10, 20),
            ("logistic/fashion-mnist", 10, 20),
            ("lenet/mnist", 10, 20),
            ("lenet/fashion-mnist", 1, 5),
            ("resnet/cifar10", 10, 20),
        ],
    )
    def test_epochs_before_collecting_and_of_it(self, preset, cell, plain, collecting):
        kind, _, data = cell.partition("/")
        if preset == "text":  # what the program did on one data set alone
            plain, collecting = 10, 20
        work = m.work_of(kind, data, preset, "full")
        assert isinstance(work.method, FLSWAG)
        assert work.method.local == m.swag(preset, "full")
        assert (work.method.plain(work.rounds), work.rounds) == (plain, plain + collecting)
        # one state an epoch, and in the text the one before
        found = states(work.method.work, 1000, collecting, Key(0))
        assert found == (collecting + (preset == "text"), collecting)

    def test_models(self):
        made = {cell: m.work_of(*cell.split("/"), "text", "full") for cell in CELLS_WITH_FIGURES}
        assert [w.model for w in made.values()] == [
            Logistic(),
            Logistic(),
            LeNet5Small(),
            LeNet5Small(),
            ResNet18(),
        ]
        assert [w.features is None for w in made.values()] == [True, True, False, False, False]
        assert m.work_of("resnet", "cifar10", "text", "small").model == ResNet18(width=8)
        assert m.work_of("lenet", "digits", "text", "tiny").model == Mlp(hidden=(16,))
        # 6 · 26, 16 · 151 and 257 · 10: what the program calls LeNet5
        assert count_parameters(LeNet5Small().build((1, 28, 28), 10, 0)) == 156 + 2416 + 2570

    def test_all_data_in_one_place(self):
        work = m.work_of("common", "fashion-mnist", "as-run", "full")
        assert work == m.Work(Logistic(), Central(SGD(lr=0.01, batch=64)), 30)

    def test_samplers_of_the_text_are_two(self, of_many_rows):
        # 938 batches an epoch; of 10 epochs the second half has 4690 steps, a thirtieth of which are 156
        assert m.sampler("sgld", "mnist", "text", "full") == SGLD(lr=0.1, batch=64, every=156, rank=30)
        wanted = PSGLD(batch=64, every=156, rank=30)
        assert m.sampler("psgld", "fashion-mnist", "text", "full") == wanted

    def test_those_of_the_program_are_one_without_noise_on_fashion_mnist(self, of_many_rows):
        for kind in m.SAMPLERS:
            noisy = PSGLD(batch=64, decay=0.95, eps=1e-2, every=156, rank=30, temperature=1)
            assert m.sampler(kind, "mnist", "as-run", "full") == noisy
            silent = dataclasses.replace(noisy, temperature=0)
            assert m.sampler(kind, "fashion-mnist", "as-run", "full") == silent

    @pytest.mark.parametrize("rows", [60_000, 50_000, 6000, 1297, 321])
    def test_thirty_states_or_more_of_the_second_half(self, of_many_rows, rows):
        of_many_rows(rows)
        work = m.work_of("sgld", "mnist", "text", "full")
        assert isinstance(work.method, BayesCentral)
        assert (work.rounds, work.method.plain(work.rounds), work.features) == (10, 5, None)
        count, columns = states(work.method.work, rows, 5, Key(0))
        assert count >= columns == work.method.samples == 30

    @pytest.mark.parametrize(("scale", "rows"), [("full", 50_000), ("small", 6000)])
    @pytest.mark.parametrize(("preset", "share"), [("text", 0.8), ("as-run", 1.0)])
    def test_so_it_is_on_cifar_with_the_rows_that_the_server_leaves(
        self, of_many_rows, scale, rows, preset, share
    ):
        of_many_rows(rows)
        work = m.work_of("sgld", "cifar10", preset, scale)
        assert work.features == m.server("resnet", preset, scale)
        for off in (-5, 0, 5):  # clients' shares are rounded
            count, columns = states(work.method.work, round(share * rows) + off, 5, Key(0))
            assert count >= columns == 30

    @pytest.mark.parametrize("scale", ["full", "small", "tiny"])
    @pytest.mark.parametrize("preset", ["text", "as-run"])
    def test_every_cell_can_work(self, of_many_rows, scale, preset):
        for cell in m.PAPER.cells(scale):
            kind, _, data = cell.partition("/")
            if kind != "cancer":
                work = m.work_of(kind, data, preset, scale)
                work.method.check([f"client {i}" for i in range(m.CLIENTS)], work.rounds)


def rows_of(samples) -> Counter:
    return Counter((x.numpy().tobytes(), int(y)) for x, y in zip(samples.x, samples.y.tolist(), strict=True))


class TestSplit:
    def test_everybody_has_one_test_set_and_no_validation(self):
        clients = m.clients_of("digits", "tiny", 0)
        assert len(clients) == 10
        assert all(c.test is clients[0].test and not len(c.validation) for c in clients)
        whole = SOURCES.make("digits").load().train
        assert clients[0].test.y.tolist() == whole.y[-500:].tolist()

    def test_every_row_is_dealt_once(self):
        data = m.loaded("digits", "tiny")
        assert (len(data.train), len(data.test)) == (1297, 500)
        dealt = sum((rows_of(c.train) for c in m.clients_of("digits", "tiny", 0)), Counter())
        assert dealt == rows_of(m.prepared(data, data.train))

    @pytest.mark.parametrize("seed", [0, 1])
    def test_sizes_and_favourites_are_those_of_algorithm_4(self, seed):
        sizes = np.sort(1 - Key(seed).at("data", "clients").numpy().random(10))
        interest = np.where(np.eye(10) > 0, 1, 0.25)
        shares = sizes[:, None] * interest
        shares /= shares.sum(axis=0)
        total = np.bincount(m.loaded("digits", "tiny").train.y, minlength=10)
        counts = np.array(
            [np.bincount(c.train.y, minlength=10) for c in m.clients_of("digits", "tiny", seed)]
        )
        spread = np.sqrt(total * shares * (1 - shares))
        assert (np.abs(counts - total * shares) <= 5 * spread + 1).all()
        wanted = (total * shares).sum(axis=1)
        assert (np.diff(wanted) > 0).all()  # so sizes rise, but for chance
        assert counts[:5].sum() < counts[5:].sum()
        assert (counts[-3:].argmax(axis=1) == [7, 8, 9]).all()

    def test_a_seed_is_a_deal(self):
        first, again, other = (m.clients_of("digits", "tiny", seed) for seed in (0, 0, 1))
        assert [len(c.train) for c in first] == [len(c.train) for c in again]
        assert [len(c.train) for c in first] != [len(c.train) for c in other]
