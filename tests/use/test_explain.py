"""Pushes by hand: linear terms against the usual value, and what a probability loses without a column."""

from __future__ import annotations

import math

import pandas as pd
import pytest
import torch
from four_columns import linear
from torch import nn

from coterie.core.errors import BadInput
from coterie.data.preparation import Column, Part
from coterie.use.explain import linear_of, usual_of

ROW = pd.DataFrame({"age": [70.0], "smokes": [1], "stage": ["II"]})


def pushed(predictor, frame=ROW, most=9):
    return {p.column: (p.value, p.push) for p in predictor.explain(frame, most)[0]}


class TestLinear:
    def test_two_classes_by_hand(self, by_hand):
        """Against age 50, not smoking, stage I: 2 deviations, 2 · 1, 3 - (-1); dose is always the same."""
        found = pushed(by_hand())
        assert list(found) == ["stage", "age", "smokes"]
        assert found["stage"] == ("II", pytest.approx(4))
        assert found["age"] == ("70", pytest.approx(2))
        assert found["smokes"] == ("1", pytest.approx(2))

    def test_they_add_up_to_the_log_odds(self, by_hand):
        p = by_hand().proba(ROW)[0]
        usual = pd.DataFrame({"age": [50.0], "smokes": [0], "stage": ["I"]})
        q = by_hand().proba(usual)[0]
        total = math.log(p[1] / p[0]) - math.log(q[1] / q[0])
        assert sum(push for _, push in pushed(by_hand()).values()) == pytest.approx(total, rel=1e-5)

    def test_towards_what_is_said(self, by_hand):
        """Well is said: what speaks for ill pushes away from it."""
        frame = pd.DataFrame({"age": [0.0], "smokes": [1], "stage": ["I"]})
        assert by_hand().predict(frame).tolist() == ["well"]
        found = pushed(by_hand(), frame)
        assert found["age"][1] == pytest.approx(5)
        assert found["smokes"][1] == pytest.approx(-2)
        assert "stage" not in found

    def test_against_the_mean_of_the_others(self, by_hand):
        """Of three classes: 6 - (0 + 3) / 2 for each deviation."""
        weights = [[0.0] * 5, [3.0, 0.0, 0.0, 0.0, 0.0], [6.0, 0.0, 0.0, 0.0, 0.0]]
        three = by_hand(classes=("a", "b", "c"), model=linear(weights, [0.0] * 3))
        assert pushed(three)["age"][1] == pytest.approx(2 * 4.5)

    def test_a_number(self, by_hand):
        number = by_hand(task="regression", classes=(), model=linear([[3.0, 0.0, 0.0, 0.0, 0.0]], [1.0]))
        assert pushed(number) == {"age": ("70", pytest.approx(6))}

    def test_what_stands_in_for_a_missing_value_is_said(self, by_hand):
        frame = pd.DataFrame({"age": [None], "smokes": [1], "stage": ["II"]})
        assert pushed(by_hand(), frame)["age"][0] == "missing, taken as 48"


class Bend(nn.Module):
    """Logits 0 and age · smokes."""

    def forward(self, x):
        return torch.stack([torch.zeros(len(x)), x[:, 0] * x[:, 1]], dim=1)


def test_any_other_model_by_hand(by_hand):
    """p(ill) = σ(2): one half if age is usual, and one half if smoking is."""
    found = pushed(by_hand(model=Bend()))
    half = 1 / (1 + math.exp(-2)) - 0.5
    assert found == {"age": ("70", pytest.approx(half)), "smokes": ("1", pytest.approx(half))}


def test_at_most_so_many_and_as_a_table(by_hand):
    table = by_hand().table(ROW, explain=2)
    assert table["pushed 1"].tolist() == ["stage=II (+4)"]
    assert table["pushed 2"].tolist() == ["age=70 (+2)"]
    assert "pushed 3" not in table


def test_refusals(by_hand, refused):
    with refused(BadInput, "explain=0 must be at least 1: try 3"):
        by_hand().explain(ROW, 0)
    unnamed = by_hand(preparation=None, features=())
    with refused(BadInput, "the inputs of 'north' have no names, so none can be named: leave explain out"):
        unnamed.explain(torch.zeros(1, 5))


@pytest.mark.parametrize(
    ("part", "usual"),
    [
        (Part(Column("a", center=3.0, spread=2.0)), [0.0]),
        (Part(Column("a", center=3.0, spread=2.0), fill=9.0), [0.0]),
        (Part(Column("a"), fill=9.0), [9.0]),
        (Part(Column("a")), [0.0]),
        (Part(Column("a", "flag"), fill=1.0), [1.0]),
        (Part(Column("a", "category", ("x", "y"), (0.0, 1.0))), [0.5, 0.5]),
        (Part(Column("a", "category", ("x", "y"), (0.0, 1.0)), fill=1.0, told=True), [0.0, 1.0, 0.0]),
        (Part(Column("a"), instead=(0.5,), told=True), [0.5, 1.0]),
        (Part(Column("a"), unused=True), []),
    ],
)
def test_what_is_usual(part, usual):
    assert usual_of(part).tolist() == usual


def test_which_models_are_linear():
    assert linear_of(nn.Linear(2, 2)) is not None
    assert linear_of(linear()) is not None
    assert linear_of(nn.Sequential(nn.Linear(2, 2), nn.ReLU())) is None
    assert linear_of(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))) is None
    assert linear_of(Bend()) is None
