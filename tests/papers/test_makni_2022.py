"""makni-2022: settings, split and aggregates by hand, verdicts on made-up runs, and tiny runs."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import shutil
from collections import Counter
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from coterie.cli.main import main
from coterie.core import belief as tree
from coterie.core.errors import BadData, BadRun
from coterie.core.seeds import Key
from coterie.data.sources import SOURCES
from coterie.data.sources.mnist import Mnist
from coterie.kernels import PSGLD, SGD, SGLD, SWAG
from coterie.kernels.calibrate import Tallied
from coterie.kernels.posterior import Collected, collected
from coterie.methods import FLSWAG, BayesCentral, Central
from coterie.methods.one_shot.alone import states
from coterie.metrics.calibration import calibration
from coterie.models.base import count_parameters
from coterie.models.lenet import LeNet5Small
from coterie.models.linear import Logistic
from coterie.models.mlp import Mlp
from coterie.models.resnet import ResNet18
from coterie.papers import makni_2022 as m
from coterie.papers import makni_2022_aggregates as aggregates
from coterie.papers import makni_2022_cancer_report as cancers
from coterie.papers import makni_2022_figures as figures
from coterie.papers import makni_2022_published as published
from coterie.papers import makni_2022_report as report
from coterie.papers.base import Asked, run_jobs
from coterie.papers.places import place
from coterie.posteriors import covariance, mean, variances
from coterie.runs import features
from coterie.runs.features import Features
from coterie.runs.folder import read_record

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
        rows = [*report.ONE, "FL-SWAG, mean", *report.AVERAGES]
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
        assert published.accuracy("lenet/mnist", report.SERVER) == "–"
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


# --- aggregates


class Slope(nn.Module):
    """Logits 0 and w x: of x = 1 the probability of class 1 is σ(w). The unit is a buffer."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1))
        self.register_buffer("unit", torch.ones(1))

    def forward(self, x):
        return torch.cat([torch.zeros_like(x), x * self.w * self.unit], dim=1)


LOG3 = math.log(3)


def sent(*, columns=3):
    """Means ln 3 and 4 ln 3, variances 1 and ½; the last two deviations are 1, 1 and ½, ½."""
    found = {
        "w": torch.tensor([[LOG3], [4 * LOG3]]),
        "unit": torch.ones(2, 1),
        "variance/w": torch.tensor([[1.0], [0.5]]),
        "count": torch.full((2,), 30),
        "columns": torch.full((2,), columns),
    }
    for k in range(columns):  # newest first
        found[f"deviation/{k}/w"] = torch.tensor([[1.0], [0.5]] if k < 2 else [[100.0], [7.0]])
    return found


def both(**more):
    return [collected(tree.row(sent(**more), i)) for i in range(2)]


class TestProducts:
    def test_the_diagonal_one_by_hand(self):
        # precisions 1 and 2: (1 + 2 · 4) / 3
        found = aggregates.products(both())["FL-SWAG"]
        assert float(mean(found)["w"]) == pytest.approx(3 * LOG3)
        assert float(variances(found)["w"]) == pytest.approx(1 / 3)

    def test_low_rank_has_the_last_columns_alone(self):
        # ½ + (1 + 1) / 2 = 1.5 and ¼ + (¼ + ¼) / 2 = ½: precisions 2/3 and 2, (2/3 + 2 · 4) / (8/3)
        found = aggregates.products(both())
        assert list(found) == ["FL-SWAG", "low rank 2"]
        assert float(mean(found["low rank 2"])["w"]) == pytest.approx(3.25 * LOG3)
        assert float(variances(found["low rank 2"])["w"]) == pytest.approx(3 / 8)

    def test_twenty_columns_where_everybody_has_them(self):
        assert list(aggregates.products(both(columns=20))) == ["FL-SWAG", "low rank 2", "low rank 20"]
        # 18 columns of 100 and two of 1: ½ + (18 · 10⁴ + 2) / (2 · 19)
        found = aggregates.posterior_of(both(columns=20)[0], 20)
        assert float(variances(found)["w"]) == pytest.approx(0.5 + 180_002 / 38)
        fewer = [both(columns=20)[0], both(columns=19)[1]]
        assert list(aggregates.products(fewer)) == ["FL-SWAG", "low rank 2"]
        assert list(aggregates.products(both(columns=0))) == ["FL-SWAG"]

    def test_two_weights_move_together(self):
        # ½ diag(1, 1) + ½ (d dᵀ + d dᵀ) with d = (1, -1)
        zero, one = torch.zeros(2), torch.ones(2)
        d = torch.tensor([[1.0, -1.0]] * 2)
        found = aggregates.posterior_of(Collected({"w": zero}, {"w": one}, {"w": d}, {}, 5), 2)
        torch.testing.assert_close(covariance(found), torch.tensor([[1.5, -1.0], [-1.0, 1.5]]).double())

    def test_a_weight_that_never_moved_has_the_floor(self):
        still = Collected({"w": torch.ones(1)}, {"w": torch.zeros(1)}, {}, {}, 5)
        assert float(variances(aggregates.posterior_of(still, 0))["w"]) == pytest.approx(1e-6)

    @given(st.permutations(range(3)), st.lists(st.floats(0.01, 100), min_size=3, max_size=3))
    def test_in_any_order_and_sharper_than_each(self, order, spreads):
        some = [
            Collected({"w": torch.tensor([float(i)])}, {"w": torch.tensor([v])}, {}, {}, 5)
            for i, v in enumerate(spreads)
        ]
        one, other = (aggregates.products(f)["FL-SWAG"] for f in (some, [some[i] for i in order]))
        assert float(mean(one)["w"]) == pytest.approx(float(mean(other)["w"]), abs=1e-6)
        assert -1e-6 <= float(mean(one)["w"]) <= 2 + 1e-6
        assert float(variances(one)["w"]) <= min(spreads) * (1 + 1e-6)


MANY = 20_000


class TestDraws:
    @pytest.fixture(autouse=True)
    def many(self, monkeypatch):
        monkeypatch.setattr(aggregates, "SAMPLES", MANY)

    @pytest.mark.parametrize(
        ("preset", "factor", "spread"),
        [("text", 1, 1 / 3), ("as-run", 1, 1 / 9), ("text", 0.1, 1 / 30), ("text", 10, 10 / 3)],
    )
    def test_noise_of_the_product(self, preset, factor, spread):
        posterior = aggregates.products(both())["FL-SWAG"] * (1 / factor)
        w = aggregates.drawn(posterior, preset, Key(0))["w"].double()
        assert w.shape == (MANY, 1)
        assert float(w.mean()) == pytest.approx(3 * LOG3, abs=5 * math.sqrt(spread / MANY))
        assert float(w.var()) == pytest.approx(spread, rel=5 * math.sqrt(2 / MANY))

    @pytest.mark.parametrize(("preset", "wanted"), [("text", [1.5, -1.0]), ("as-run", [2.25, 0.0])])
    def test_the_program_draws_weights_apart(self, preset, wanted):
        d = torch.tensor([[1.0, -1.0]] * 2)
        found = Collected({"w": torch.zeros(2)}, {"w": torch.ones(2)}, {"w": d}, {}, 5)
        w = aggregates.drawn(aggregates.posterior_of(found, 2), preset, Key(0))["w"]
        assert torch.cov(w.T)[0].tolist() == pytest.approx(wanted, abs=0.15)


def by_hand(p: float) -> dict[str, float]:
    """Four times x = 1, of which three are of class 1, predicted with probability p > ½."""
    return {
        "accuracy": 0.75,
        "ece": abs(0.75 - p),
        "brier": 0.75 * 2 * (1 - p) ** 2 + 0.25 * 2 * p**2,
        "nll": -0.75 * math.log(p) - 0.25 * math.log(1 - p),
    }


def odds(power: float) -> float:
    return 3**power / (1 + 3**power)


def averaged(centre: float, spread: float) -> tuple[float, float]:
    """Mean and standard deviation of σ(w), w ~ N(centre, spread)."""
    z = np.linspace(-9, 9, 100_001)
    weights = np.exp(-z * z / 2)
    p = 1 / (1 + np.exp(-centre - math.sqrt(spread) * z))
    found = np.average(p, weights=weights)
    return float(found), float(np.sqrt(np.average((p - found) ** 2, weights=weights)))


FEW = 100


@pytest.fixture(scope="module")
def score(client_of, net_of):
    """Scores by preset, of clients of 4 and 2 rows; the second one's test set, another, must not matter."""
    x = torch.ones(4, 1)
    first = client_of(x, [1, 1, 1, 0], name="a")
    second = client_of(x[:2], [1, 0], name="b", test=(x, [0, 0, 0, 0]))
    net = net_of(Slope(), [first, second])

    @cache
    def score(preset, seed=0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(aggregates, "SAMPLES", FEW)
            return aggregates.score(net, sent(), net.sizes, preset, Key(seed))

    return score


class TestScores:
    @pytest.mark.parametrize(
        ("row", "p"),
        [
            ("client 1", 0.75),
            ("client 2", 81 / 82),
            ("FL-SWAG, mean", 27 / 28),
            ("low rank 2, mean", odds(3.25)),
            ("FedAvg", odds(2.5)),
            ("wFedAvg", 0.9),  # (2 + 4) / 3 = 2 ln 3
            ("BayAvg", (3 / 4 + 81 / 82) / 2),
            ("wBayAvg", (2 * 3 / 4 + 81 / 82) / 3),
        ],
    )
    @pytest.mark.parametrize("preset", ["text", "as-run"])
    def test_against_probabilities(self, score, preset, row, p):
        assert score(preset).figures[row] == pytest.approx(by_hand(p), abs=1e-6)

    @pytest.mark.parametrize(
        ("preset", "row", "centre", "spread"),
        [
            ("text", "FL-SWAG", 3, 1 / 3),
            ("as-run", "FL-SWAG", 3, 1 / 9),
            ("text", "low rank 2", 3.25, 3 / 8),
            ("as-run", "low rank 2", 3.25, 9 / 64),
            ("text", "FL-SWAG, T = 0.1", 3, 1 / 30),
            ("text", "FL-SWAG, T = 1000", 3, 1000 / 3),
            ("text", "low rank 2, T = 10", 3.25, 30 / 8),
        ],
    )
    def test_draws_averaged(self, score, preset, row, centre, spread):
        p, deviation = averaged(centre * LOG3, spread)
        found = score(preset).figures[row]
        # of four alike rows of which three are of class 1: confidence less accuracy
        sure = 0.75 + found["ece"] if p > 0.75 else 0.75 - found["ece"]
        assert sure == pytest.approx(p, abs=5 * deviation / math.sqrt(FEW))
        assert found == pytest.approx(by_hand(sure))

    def test_temperatures_are_of_the_text_alone(self, score):
        same = ["client 1", "client 2", "FL-SWAG, mean", "FL-SWAG", "low rank 2, mean", "low rank 2"]
        averages = ["FedAvg", "wFedAvg", "BayAvg", "wBayAvg"]
        hot = [
            f"{row}, T = {T}" for T in ("0.1", "10", "1000", "100000") for row in ("FL-SWAG", "low rank 2")
        ]
        assert list(score("text").figures) == [*same, *hot, *averages]
        assert list(score("as-run").figures) == [*same, *averages]

    def test_one_key_one_result_and_a_tally_for_the_figure(self, score):
        first, again, other = score("as-run"), score.__wrapped__("as-run"), score("as-run", 1)
        assert first.figures == again.figures
        assert first.figures["FL-SWAG"] != other.figures["FL-SWAG"]
        assert list(first.tallies) == ["FL-SWAG"]
        by_confidence = figures.unpacked(first.tallies["FL-SWAG"]).confidence
        assert (by_confidence.samples.sum(), by_confidence.right.sum()) == (4, 3)
        ece = float((by_confidence.right - by_confidence.total).abs().sum()) / 4
        assert ece == pytest.approx(first.figures["FL-SWAG"]["ece"], abs=1e-6)


# --- the page

ORIGIN = {"commit": "c0ffee", "versions": {"coterie": "0"}}


def scored(accuracy, ece=0.05, brier=0.3, nll=0.4):
    return {"accuracy": accuracy, "ece": ece, "brier": brier, "nll": nll}


def exchange(**more):
    """Clients of 80, 81, ..., 89 %, and everything made of them at 85 %, but for what is said."""
    rows = {f"client {i + 1}": scored(0.8 + i / 100) for i in range(10)}
    rows |= {row: scored(0.85) for row in ("FL-SWAG, mean", "FL-SWAG", "low rank 2", *report.AVERAGES)}
    return rows | {"FL-SWAG, T = 10": scored(0.85), report.SERVER: {"accuracy": 0.85}} | more


def results(cells, cancer=None):
    """Figures by cell and seed as if they had been computed."""
    found = {
        cell: {
            s: report.Found(rows, {}, np.ones((10, 10), dtype=int), ORIGIN) for s, rows in enumerate(seeds)
        }
        for cell, seeds in cells.items()
    }
    return report.Results(found, cancer or {})


def claim(text):
    (found,) = [c for c in (*report.CLAIMS, *report.QUESTIONS) if c.text.startswith(text)]
    return found


def fl_swag(accuracy):
    return exchange(**{"FL-SWAG, mean": scored(accuracy)})


class TestClaims:
    @pytest.mark.parametrize(
        ("text", "cell", "good", "bad"),
        [
            ("logistic regression: FL-SWAG is above most", "logistic/mnist", fl_swag(0.855), fl_swag(0.835)),
            ("logistic regression: FL-SWAG is near", "logistic/mnist", fl_swag(0.84), fl_swag(0.82)),
            ("logistic regression: FL-SWAG is near", "logistic/mnist", fl_swag(0.86), fl_swag(0.88)),
            ("logistic regression: FedAvg is above", "logistic/mnist", fl_swag(0.84), fl_swag(0.86)),
            (
                "logistic regression: averages by size",
                "logistic/fashion-mnist",
                exchange(wFedAvg=scored(0.86)),
                exchange(wFedAvg=scored(0.84)),
            ),
            ("after the server's training FL-SWAG is near", "lenet/mnist", fl_swag(0.84), fl_swag(0.82)),
            ("after the server's training FL-SWAG is above", "resnet/cifar10", fl_swag(0.9), fl_swag(0.88)),
            ("FL-SWAG is above what the server had", "lenet/digits", fl_swag(0.86), fl_swag(0.84)),
            (
                "low rank (2) helps",
                "lenet/mnist",
                exchange(**{"low rank 2": scored(0.85, nll=0.3)}),
                exchange(**{"low rank 2": scored(0.85, nll=0.5)}),
            ),
            (
                "a temperature of 10 helps",
                "logistic/mnist",
                exchange(**{"FL-SWAG, T = 10": scored(0.85, nll=0.3)}),
                exchange(**{"FL-SWAG, T = 10": scored(0.85, nll=0.5)}),
            ),
        ],
    )
    def test_holds_fails_or_is_undecided(self, text, cell, good, bad):
        check = claim(text).check
        assert check(results({cell: [good] * 3})).word == "holds"
        assert check(results({cell: [bad] * 3})).word == "fails"
        assert check(results({cell: [good]})).word == "undecided"
        assert check(results({})) == ("undecided", "not run")

    def test_numbers_are_points_and_their_interval(self):
        # 1, 2 and 3 points; Student's 4.303 with two degrees, times 1 / √3
        found = claim("logistic regression: FedAvg is above").check(
            results({"logistic/mnist": [fl_swag(a) for a in (0.84, 0.83, 0.82)]})
        )
        assert found == ("undecided", "MNIST +2.00 ± 2.48")

    def test_one_data_set_is_enough_to_fail(self):
        found = claim("after the server's training FL-SWAG is above").check(
            results({"lenet/mnist": [fl_swag(0.9)] * 2, "lenet/fashion-mnist": [fl_swag(0.88)] * 2})
        )
        assert found == ("fails", "lenet MNIST +1.00 ± 0.00; lenet FashionMNIST -1.00 ± 0.00")

    def test_kinds_on_the_same_data_are_told_apart(self):
        better = exchange(**{"low rank 2": scored(0.85, nll=0.3)})
        worse = exchange(**{"low rank 2": scored(0.85, nll=0.5)})
        found = claim("low rank (2) helps").check(
            results({"logistic/mnist": [worse] * 2, "lenet/mnist": [better] * 2})
        )
        assert found == ("fails", "logistic MNIST -1.00 ± 0.00; lenet MNIST +1.00 ± 0.00")

    def test_calibration_against_both_samplers_seed_by_seed(self):
        check = claim("FL-SWAG's ECE is below").check

        def cells(sgld, psgld):
            ours = [exchange(**{"FL-SWAG": scored(0.85, ece=e)}) for e in (0.01, 0.02, 0.03)]
            theirs = {"sgld": sgld, "psgld": psgld}
            others = {
                f"{kind}/mnist": [{kind: scored(0.8, ece=e)} for e in values]
                for kind, values in theirs.items()
            }
            return results({"lenet/mnist": ours, **others})

        assert check(cells([0.02, 0.03, 0.04], [0.03, 0.04, 0.05])) == (
            "holds",
            "lenet MNIST SGLD +1.00 ± 0.00; pSGLD +2.00 ± 0.00",
        )
        assert check(cells([0.02, 0.03, 0.04], [0.0, 0.01, 0.02])).word == "fails"
        # a seed that the sampler has not run says nothing
        assert check(cells([0.02, 0.03], [0.03, 0.04])).word == "holds"
        assert check(cells([], [0.03, 0.04])).word == "undecided"


def line_of(table, *first):
    (found,) = [line for line in table.splitlines() if line.startswith("| " + " | ".join(first) + " |")]
    return found


class TestTables:
    def test_accuracies_beside_the_papers(self):
        found = results(
            {
                "logistic/mnist": [fl_swag(0.84), fl_swag(0.86)],
                "logistic/digits": [exchange()],
                "common/mnist": [{"common": scored(0.925)}],
            }
        )
        table = report.accuracy_table(found, "logistic")
        lines = table.splitlines()
        assert lines[0] == "| model | MNIST, paper | ours | digits, paper | ours |"
        assert len(lines) == 2 + 10 + 2 + 4 + 1
        assert line_of(table, "client 3") == "| client 3 | 87.75 | 82.00 ± 0.00 | – | 82.00 |"
        # ±1 around 85 with two seeds: 12.706 · √2 / √2
        mine = line_of(table, "FL-SWAG, its mean model")
        assert mine == "| FL-SWAG, its mean model | 90.96 | 85.00 ± 12.71 | – | 85.00 |"
        assert line_of(table, "FL-SWAG, 30 draws averaged").split(" | ")[1] == "–"
        assert line_of(table, "all data in one place") == "| all data in one place | 92 | 92.50 | – | – |"

    def test_networks_have_the_server_instead(self):
        table = report.accuracy_table(results({"resnet/cifar10": [exchange()]}), "resnet")
        assert line_of(table, "the server alone") == "| the server alone | – | 85.00 |"
        assert line_of(table, "wBayAvg") == "| wBayAvg | 70.45 | 85.00 |"
        assert "all data" not in table

    def test_every_row_and_column_of_the_paper_is_asked_for(self):
        printed = {line[:16].strip() for line in published.ACCURACIES.strip().splitlines()}
        for kind in ("logistic", "lenet", "resnet"):
            cells = [c for c in CELLS_WITH_FIGURES if c.startswith(f"{kind}/")]
            table = report.accuracy_table(results({c: [exchange()] for c in cells}), kind)
            for row in printed - ({"common"} if kind != "logistic" else set()):
                for cell in cells:
                    assert published.accuracy(cell, row) in line_of(table, report.named(row))

    def test_calibration_beside_the_papers(self):
        ours = exchange(**{"FL-SWAG": scored(0.97, ece=0.0123, brier=0.05, nll=0.09)})
        found = results(
            {"lenet/mnist": [ours], "psgld/mnist": [{"psgld": scored(0.9)}], "resnet/cifar10": [ours]}
        )
        table = report.calibration_table(found)
        assert line_of(table, "MNIST", "FL-SWAG, 30 draws") == (
            "| MNIST | FL-SWAG, 30 draws | 97.41 | 97.00 | 0.77 | 1.23 | 0.41 | 0.50 | 0.86 | 0.90 |"
        )
        sgld = line_of(table, "MNIST", "SGLD")
        assert sgld == "| MNIST | SGLD | 97.61 | – | 1.22 | – | 0.38 | – | 0.89 | – |"
        assert " 90.00 | 1.97 | 5.00 | 0.45 | 3.00 | 1.58 | 4.00 |" in line_of(table, "MNIST", "pSGLD")
        assert " 13.84 | – |" in line_of(table, "CIFAR-10", "pSGLD")
        assert len(table.splitlines()) == 2 + 6

    def test_the_open_question(self):
        rows = exchange(**{"low rank 2, mean": scored(0.5), "FL-SWAG, T = 10": scored(0.8, 0.1, 0.2, 0.3)})
        table = report.question_table(results({"lenet/mnist": [rows]}), "lenet")
        shown = [line.split(" | ")[1] for line in table.splitlines()[2:]]
        assert shown == ["FL-SWAG, mean", "FL-SWAG", "low rank 2", "wFedAvg", "wBayAvg", "FL-SWAG, T = 10"]
        hot = line_of(table, "MNIST", "FL-SWAG, T = 10")
        assert hot == "| MNIST | FL-SWAG, T = 10 | 80.00 | 10.00 | 2.00 | 3.00 |"

    def test_rows_for_a_spreadsheet(self):
        found = results(
            {"logistic/mnist": [{"FedAvg": scored(0.9)}, {"FedAvg": scored(0.8)}]}, {3: tumours()}
        )
        lines = report.rows({"as-run": found}, "full")
        again = "coterie reproduce makni-2022 --cells logistic/mnist --preset as-run --scale full --seeds 2"
        assert lines[1] == {
            "preset": "as-run",
            "scale": "full",
            "cell": "logistic/mnist",
            "seed": 1,
            "commit": "c0ffee",
            "command": again,
            "model": "FedAvg",
            "accuracy": 0.8,
            "ece": 0.05,
            "brier": 0.3,
            "nll": 0.4,
        }
        assert len(lines) == 2 + len(cancers.ROWS)
        assert {(r["cell"], r["seed"], r["value"]) for r in lines[2:]} == {("cancer/wisconsin", 3, 0.5)}
        assert [r["model"] for r in lines[2:]] == list(cancers.ROWS)


def tumours():
    """A result of section 6 in which every number is ½."""
    found: dict = {"origin": ORIGIN}
    for path in cancers.ROWS.values():
        inner = found
        for step in path[:-1]:
            inner = inner.setdefault(step, {})
        inner[path[-1]] = 0.5
    return found


def page(**presets):
    asked = Asked(("text",), "full", (), 1, Path("nowhere"))
    return report.page(m.PAPER, asked, {name.replace("_", "-"): found for name, found in presets.items()})


class TestPage:
    @pytest.mark.parametrize(
        ("cell", "titles"),
        [
            ("logistic/mnist", ["### Section 7.1: logistic", "### Low rank and temperature: logistic"]),
            (
                "lenet/fashion-mnist",
                ["### Section 8.3: LeNet", "### Calibration", "### Low rank and temperature: LeNet"],
            ),
            (
                "resnet/cifar10",
                ["### Section 8.3: ResNet-18", "### Calibration", "### Low rank and temperature: ResNet-18"],
            ),
            ("sgld/mnist", []),
            ("common/mnist", []),
        ],
    )
    def test_cells_that_are_missing_are_missed_by_nobody(self, cell, titles):
        kind = cell.partition("/")[0]
        rows = exchange() if kind in m.EXCHANGES else {kind: scored(0.9)}
        text = page(text=results({cell: [rows]}))
        found = [line for line in text.splitlines() if line.startswith("### ")]
        assert len(found) == len(titles)
        assert all(line.startswith(title) for line, title in zip(found, titles, strict=True))
        assert "nan" not in text
        named = "resnet" if kind == "resnet" else cell  # its only one
        assert f"coterie reproduce makni-2022 --cells {named} --preset text --scale full --seeds 1" in text
        assert "- commit: c0ffee" in text
        assert "## Section 6" not in text

    def test_section_6_alone(self):
        text = page(text=results({}, {0: tumours()}))
        assert "## Section 6: SWAG beside HMC" in text
        assert "--cells cancer --preset text --scale full --seeds 1" in text
        assert "Of section 6:" in text
        assert text.count("**undecided** (not run)") == len(report.CLAIMS) + len(report.QUESTIONS)

    def test_both_presets_side_by_side(self):
        text = page(
            text=results({"logistic/mnist": [fl_swag(0.84)] * 2}),
            as_run=results({"logistic/mnist": [fl_swag(0.86)] * 2}),
        )
        assert "| claim | where | text | as-run |" in text
        (line,) = [x for x in text.splitlines() if x.startswith("| logistic regression: FedAvg is above")]
        assert line.endswith("| **holds** (MNIST +1.00 ± 0.00) | **fails** (MNIST -1.00 ± 0.00) |")
        assert text.count("### Low rank and temperature") == 1

    def test_the_question_is_not_asked_as_run(self):
        text = page(as_run=results({"logistic/mnist": [exchange()]}))
        assert text.endswith("Not run.\n")
        assert "### Low rank" not in text

    def test_nothing_finished_nothing_written(self, tmp_path, refused):
        asked = Asked(("text",), "tiny", ("logistic/digits",), 1, tmp_path)
        with refused(BadRun, f"{tmp_path} has no finished runs of makni-2022: run some cells first"):
            m.PAPER.write(asked)
        assert list(tmp_path.iterdir()) == []


def flat(p, right):
    """Tallies of samples with confidences p > ½ in two classes, of which some are right."""
    p = torch.tensor(p, dtype=torch.float64)
    logits, y = torch.stack([1 - p, p], dim=1).log(), torch.tensor(right, dtype=torch.int64)
    numbers = Tallied().measure("classification", logits, torch.zeros(len(p)), y)
    return [numbers[str(i)] for i in range(len(numbers))], calibration(logits, y)


class TestFigures:
    @given(st.lists(st.tuples(st.floats(0.51, 0.999), st.booleans()), min_size=1, max_size=30))
    def test_unpacking_undoes_the_flattening(self, samples):
        p, right = zip(*samples, strict=True)
        numbers, wanted = flat(p, right)
        found = figures.unpacked(numbers)
        for a, b in zip(found, wanted, strict=True):
            for part, whole in zip(a, b, strict=True):
                torch.testing.assert_close(part.double(), whole, rtol=1e-6, atol=1e-5)

    def test_nothing_is_drawn_of_nothing(self):
        counts = np.ones((10, 10), dtype=int)
        assert figures.draw("text", {}, report.NAMES) == {}
        assert figures.draw("text", {"common/mnist": ({}, counts)}, report.NAMES) == {}
        assert figures.draw("text", {"lenet/mnist": ({}, counts)}, report.NAMES) == {}

    def test_names(self):
        counts, (tallies, _) = np.ones((10, 10), dtype=int), flat([0.8] * 12, [1] * 12)
        seen = {
            "logistic/mnist": ({"FL-SWAG": tallies}, counts),
            "lenet/fashion-mnist": ({"FL-SWAG": tallies}, counts),
            "sgld/fashion-mnist": ({"sgld": tallies}, counts),
            "psgld/cifar10": ({"psgld": tallies}, counts),
        }
        drawn = figures.draw("as-run", seen, report.NAMES)
        assert set(drawn) == {
            "split-labels-mnist-as-run",
            "split-sizes-mnist-as-run",
            "calibration-fashion-mnist-as-run",
            "calibration-cifar10-as-run",
        }
        lines = drawn["calibration-fashion-mnist-as-run"].axes[0].get_lines()
        assert [x.get_label() for x in lines][:2] == ["FL-SWAG", "SGLD"]

    def test_accuracy_less_confidence_where_there_are_ten_samples(self):
        # 12 at .75 with 9 right, 12 at .88 with 6 right, and 5 at .62, too few
        tallies, _ = flat([0.75] * 12 + [0.88] * 12 + [0.62] * 5, [1] * 9 + [0] * 3 + [1, 0] * 6 + [1] * 5)
        left, right = figures.calibration("MNIST", {"FL-SWAG": tallies}).axes
        x, y = left.get_lines()[0].get_data()
        np.testing.assert_allclose([x, y], [[0.75, 0.88], [0, -0.38]], atol=1e-6)
        x, y = right.get_lines()[0].get_data()
        above = dict(zip(np.round(x, 2), y, strict=True))
        # all 29: 20 right; from .65 on 24 of them, 15 right; from .8 on 12; above .88 nobody
        assert above[0.0] == pytest.approx((20 - 9 - 10.56 - 3.1) / 29, abs=1e-6)
        assert above[0.65] == pytest.approx((15 - 9 - 10.56) / 24, abs=1e-6)
        assert above[0.85] == pytest.approx(-0.38, abs=1e-6)
        assert max(above) == 0.85


# --- whole tiny runs

CELLS = ("logistic/digits", "common/digits", "lenet/digits", "psgld/digits")


def words(out, cells=CELLS):
    end = ["--seeds", "1", "--preset", "both", "--out", str(out)]
    return ["reproduce", "makni-2022", "--scale", "tiny", "--cells", ",".join(cells), *end]


def shrink(patch):
    """Clients train 1 and 2 epochs, the server 10, samplers 4, and five draws are averaged."""
    given = dataclasses.replace(m.SETTINGS["tiny"], epochs=(1, 2), server=10, chain=4)
    patch.setitem(m.SETTINGS, "tiny", given)
    patch.setattr(aggregates, "SAMPLES", 5)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("makni")


@pytest.fixture(scope="module")
def whole(home):
    """All cells under both presets, from the shell; what the server made is kept beside them."""
    (home / "data").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        patch.setenv("COTERIE_DATA", str(home / "data"))
        assert main(words(home / "out")) == 0
    return home / "out"


class Stop(Exception):
    pass


def quietly(share, said):
    pass


class TestTinyRuns:
    @pytest.fixture(autouse=True)
    def small(self, whole, home, monkeypatch):
        shrink(monkeypatch)
        monkeypatch.setenv("COTERIE_DATA", str(home / "data"))

    def jobs(self, out, cells=CELLS, presets=("text", "as-run")):
        return m.PAPER.jobs(Asked(presets, "tiny", cells, 1, out))

    def path(self, out, cell, preset="text"):
        return place(out, preset, "tiny", cell, 0)

    def figures(self, out, cell, preset="text"):
        return json.loads((self.path(out, cell, preset) / m.SCORES).read_text())["figures"]

    def test_tables_and_figures_are_written(self, whole):
        assert {p.name for p in (whole / "figures").iterdir()} == {
            f"{name}-digits-{preset}.svg"
            for name in ("split-labels", "split-sizes", "calibration")
            for preset in ("text", "as-run")
        }
        text = (whole / "results.md").read_text()
        assert str(whole) not in text
        for preset in ("text", "as-run"):
            mine = text.split(f"\n## {preset}\n")[1].split("\n## ")[0]
            logistic, lenet = mine.split("### Section 8.3: LeNet")
            accuracy = 100 * self.figures(whole, "logistic/digits", preset)["FedAvg"]["accuracy"]
            assert line_of(logistic, "FedAvg") == f"| FedAvg | – | {accuracy:.2f} |"
            record = read_record(self.path(whole, "common/digits", preset))
            everybody = record.final("accuracy")
            assert len(set(everybody)) == 1
            line = line_of(logistic, "all data in one place")
            assert line == f"| all data in one place | – | {100 * everybody[0]:.2f} |"
            psgld = read_record(self.path(whole, "psgld/digits", preset))
            values = [f * psgld.final(name)[0] for name, f in report.FACTORS.items()]
            line = line_of(lenet, "digits", "pSGLD")
            assert line == "| digits | pSGLD | " + " | ".join(f"– | {v:.2f}" for v in values) + " |"

    def test_a_line_of_the_spreadsheet_is_a_model(self, whole):
        with (whole / "results.csv").open() as file:
            rows = list(csv.DictReader(file))
        (mine,) = [
            r for r in rows if (r["preset"], r["cell"], r["model"]) == ("as-run", "lenet/digits", "wBayAvg")
        ]
        figures = self.figures(whole, "lenet/digits", "as-run")
        assert {name: float(mine[name]) for name in report.FACTORS} == figures["wBayAvg"]
        scored = [
            self.figures(whole, f"{k}/digits", p) for k in ("logistic", "lenet") for p in ("text", "as-run")
        ]
        # beside what is scored: the server alone, all data in one place and psgld, under both presets
        assert len(rows) == sum(map(len, scored)) + 2 * 3

    def test_the_mean_of_low_rank_is_what_the_run_itself_ends_with(self, whole):
        # two collected epochs give two columns, all of which the method uses
        for cell in ("logistic/digits", "lenet/digits"):
            record = read_record(self.path(whole, cell))
            scored = self.figures(whole, cell)["low rank 2, mean"]
            for metric in report.FACTORS:
                assert scored[metric] == pytest.approx(record.final(metric, "point/test")[0], rel=1e-6)

    def test_the_server_has_a_fifth_of_the_rows_or_all(self, whole):
        def rows(preset):
            about = read_record(self.path(whole, "lenet/digits", preset)).about
            return sum(sum(c["labels"][0]) for c in about["clients"]), about["notes"]

        assert rows("as-run")[0] == 1297
        assert "the server trained on all 1297 training rows" in rows("as-run")[1][0]
        kept, notes = rows("text")
        fifths = [round(len(c.train) / 5) for c in m.clients_of("digits", "tiny", 0)]
        assert kept == 1297 - sum(fifths)
        assert any(f"{sum(fifths)} of the clients' 1297 training rows set aside" in n for n in notes)

    def test_the_servers_accuracy_is_found(self, whole):
        found = report.read_cell(self.path(whole, "lenet/digits"), "lenet/digits")
        (note,) = [n for n in found.origin["notes"] if "the server's model alone" in n]
        told = float(note.split(" has ")[1].split(" %")[0])
        assert found.figures[report.SERVER] == {"accuracy": pytest.approx(told / 100)}
        assert found.counts.shape == (10, 10)

    def test_tallies_of_a_sampler_are_of_the_one_test_set(self, whole):
        found = report.read_cell(self.path(whole, "psgld/digits"), "psgld/digits")
        tally = figures.unpacked(found.tallies["psgld"]).confidence
        assert float(tally.samples.sum()) == 500
        assert float(tally.right.sum()) / 500 == pytest.approx(found.figures["psgld"]["accuracy"])

    def test_a_second_call_runs_nothing(self, whole, capsys):
        before = (whole / "results.csv").read_bytes()
        assert all(job.finished for job in self.jobs(whole))
        assert main([*words(whole), "--figures", "none"]) == 0
        assert "all of it was finished before" in capsys.readouterr().err
        assert (whole / "results.csv").read_bytes() == before

    @pytest.mark.parametrize("preset", ["text", "as-run"])
    @pytest.mark.parametrize("cell", ["logistic/digits", "lenet/digits"])
    def test_scores_are_made_again_without_training(self, whole, tmp_path, monkeypatch, cell, preset):
        def trained(*args):
            raise AssertionError("it trained")

        out = tmp_path / "out"
        shutil.copytree(self.path(whole, cell, preset), self.path(out, cell, preset))
        kept = self.path(out, cell, preset) / m.SCORES
        before = kept.read_bytes()
        kept.unlink()
        monkeypatch.setattr(FLSWAG, "round", trained)
        monkeypatch.setattr(features, "pretrained", trained)
        jobs = self.jobs(out, (cell,), (preset,))
        assert [job.finished for job in jobs] == [False]
        assert run_jobs(jobs, quietly) == 1
        assert kept.read_bytes() == before

    @pytest.mark.parametrize(("cell", "preset"), [("logistic/digits", "text"), ("lenet/digits", "as-run")])
    def test_a_kill_between_rounds_loses_nothing(self, whole, tmp_path, monkeypatch, cell, preset):
        (tmp_path / "data").mkdir()
        monkeypatch.setenv(
            "COTERIE_DATA", str(tmp_path / "data")
        )  # so that the server trains, the first time

        def stop(share, said):
            if "round 2" in said:
                raise Stop

        asked = Asked((preset,), "tiny", (cell,), 1, tmp_path)
        with pytest.raises(Stop):
            run_jobs(m.PAPER.jobs(asked), stop)
        assert read_record(self.path(tmp_path, cell, preset)).done == 2
        assert report.read(asked, m.PAPER) == {}  # what is unfinished is left out
        heard = []
        run_jobs(
            m.PAPER.jobs(asked), lambda share, said: heard.append(said.removeprefix(f"{preset} {cell} "))
        )
        assert heard == ["seed 0 round 2", "seed 0 round 3", "seed 0 scoring", "seed 0"]
        for name in ("metrics.jsonl", m.SCORES):
            mine, theirs = (self.path(out, cell, preset) / name for out in (tmp_path, whole))
            assert mine.read_bytes() == theirs.read_bytes()

    def test_scores_that_are_missing_leave_a_run_out(self, whole, tmp_path):
        for cell in ("logistic/digits", "common/digits"):
            shutil.copytree(self.path(whole, cell), self.path(tmp_path, cell))
        (self.path(tmp_path, "logistic/digits") / m.SCORES).unlink()
        found = report.read(Asked(("text",), "tiny", CELLS, 1, tmp_path), m.PAPER)
        assert {preset: list(r.cells) for preset, r in found.items()} == {"text": ["common/digits"]}


def test_without_pictures_it_says_what_runs(monkeypatch, refused, tmp_path):
    def absent(self):
        raise BadData("no mnist here: fetch it")

    monkeypatch.setattr(Mnist, "fetch", absent)
    asked = Asked(("text",), "full", ("logistic/mnist",), 1, tmp_path)
    with refused(BadData, "no mnist here: fetch it; or see it run with --scale tiny"):
        m.PAPER.jobs(asked)
