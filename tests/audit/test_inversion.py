"""Inversion of what leaves a client: at worst and as in the run, with and without noise; rows as shown."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from audit_runs import DIGITS, PICTURES, PRIVATE
from PIL import Image

from coterie.data.preparation import Column, Part, Preparation
from coterie.features.audit import canaries, inversion
from coterie.features.audit.inversion import (
    columns,
    cosines,
    in_one_step,
    is_picture,
    option_of,
    pixels_of,
    png,
    side_by_side,
)
from coterie.kernels import SGD
from coterie.kernels.dp import DP


def case(found, name):
    return next(c for c in found["cases"] if c["case"] == name)


class TestCases:
    def test_a_table_in_its_units(self, subject_of, hospitals):
        """Logistic, SGD, batches of 32: one row is the row itself, in years and doses."""
        subject = subject_of(*hospitals, "--kernel", "sgd")
        found = inversion.attack(subject)
        assert (found["attack"], found["inputs"]) == ("linear", "columns")
        for name in ("gradient", "one row"):
            assert case(found, name)["cosine"] > 0.999
            assert case(found, name)["recovered"] == 4
        assert case(found, "one batch")["rows"] == 32
        assert case(found, "one batch")["cosine"] < 0.99
        assert case(found, "one visit")["steps"] == 2
        shown = case(found, "gradient")["shown"][0]["columns"]
        assert [c["column"] for c in shown] == ["age", "dose", "sex"]
        assert all(c["original"] == c["recovered"] for c in shown)
        assert shown[2]["original"] in ("f", "m")
        assert 10 < float(shown[0]["original"]) < 100

    @pytest.mark.usefixtures("coarsely")
    def test_noise_hides_a_row(self, subject_of):
        found = inversion.attack(subject_of(*PRIVATE, "--dp.sigma", "1"))
        assert case(found, "gradient")["cosine"] > 0.999
        assert case(found, "one row")["recovered"] == 0
        assert case(found, "one row")["cosine"] < case(found, "one row")["stranger"]
        assert case(found, "one visit")["recovered"] == 0
        assert found["noise"]

    def test_steps_of_adam_are_no_gradient(self, subject_of):
        words = (*DIGITS, "--clients", "4", "--rounds", "1", "--kernel", "adam")
        found = inversion.attack(subject_of(*words))
        assert case(found, "gradient")["recovered"] == 4
        assert case(found, "one row")["recovered"] == 0

    def test_behind_frozen_layers_it_is_not_rows_that_come_back(self, subject_of):
        subject = subject_of(*DIGITS, "--clients", "4", "--model", "mlp", "--features", "--rounds", "1")
        found = inversion.attack(subject)
        assert found["frozen_layers"]
        assert (found["attack"], found["inputs"]) == ("linear", "inputs")
        assert case(found, "gradient")["recovered"] == 4
        assert canaries.why_not(subject).startswith("canaries are rows, and here a server's frozen layers")

    @pytest.mark.slow
    def test_pictures(self, subject_of, monkeypatch):
        """Signed steps and polishing bring a digit back from a network of convolutions."""
        monkeypatch.setattr(inversion, "TRIED", 1)
        monkeypatch.setattr(inversion, "cases_of", lambda *a: real(*a)[:1])
        subject = subject_of(*PICTURES)
        found = inversion.attack(subject)
        (only,) = found["cases"]
        assert (found["attack"], found["inputs"]) == ("deep leakage", "pictures")
        assert only["psnr"] > 25
        assert only["labels_right"] == 1
        picture = Image.open(io.BytesIO(found["files"]["gradient-1.png"]))
        assert picture.size == (2 * 96 + 12, 96)


real = inversion.cases_of


class TestWork:
    def test_one_step(self):
        assert in_one_step(SGD(lr=0.5, epochs=3), 4) == SGD(lr=0.5, epochs=3, steps=1, batch=4)
        assert in_one_step(DP(SGD(lr=0.5)), 2) == DP(SGD(lr=0.5, steps=1, batch=2))
        work = DP(SGD(lr=0.5, batch=7))
        assert (option_of(work, "lr", 1.0), option_of(work, "batch", 1)) == (0.5, 7)


class TestRows:
    def test_cosines_by_hand(self):
        found = cosines(torch.tensor([[3.0, 4.0], [1.0, 0.0]]), torch.tensor([[6.0, 8.0], [0.0, 2.0]]))
        assert found.tolist() == [pytest.approx([1, 0.8]), pytest.approx([0.6, 0])]

    def test_columns_by_hand(self):
        """(72 - 50) / 10 = 2.2; a flag; the likelier of two values; a column that nobody reads."""
        made = Preparation(
            (
                Part(Column("age", unit="years", center=50, spread=10)),
                Part(Column("smokes", "flag")),
                Part(Column("sex", "category", ("f", "m"), (0.0, 1.0))),
                Part(Column("height"), instead=(0.0,)),
            )
        )
        found = columns(torch.tensor([2.2, 1, 0, 1, 0]), torch.tensor([1.2, 0.4, 0.7, 0.2, 9]), (), made)
        assert [tuple(c.values()) for c in found] == [
            ("age", "72 years", "62 years"),
            ("smokes", "1", "0.4"),
            ("sex", "m", "f"),
        ]

    def test_columns_without_units(self):
        x = torch.tensor([1.0, 0.25])
        assert columns(x, x, ("a", "b"), None)[1] == {"column": "b", "original": "0.25", "recovered": "0.25"}
        assert [c["column"] for c in columns(x, x, (), None)] == ["input 1", "input 2"]

    @pytest.mark.parametrize(
        ("shape", "whether"), [((1, 8, 8), True), ((3, 4, 4), True), ((7,), False), ((2, 4, 4), False)]
    )
    def test_is_picture(self, shape, whether):
        assert is_picture(shape) is whether

    @pytest.mark.parametrize("channels", [1, 3])
    def test_png_is_what_it_was(self, channels):
        grey = torch.linspace(-1, 1, channels * 12).reshape(channels, 3, 4)
        pixels = pixels_of(grey.numpy(), -1, 1)
        read = np.asarray(Image.open(io.BytesIO(png(pixels))))
        assert np.array_equal(read, pixels)
        assert (pixels.min(), pixels.max()) == (0, 255)
        both = Image.open(io.BytesIO(side_by_side(grey, grey * 0, -1, 1)))
        assert both.size == (2 * 96 + 12, 72)
