"""Rows by the names of their columns, probabilities by hand, and refusals that say all at once."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from four_columns import WAY, linear
from torch import nn

from coterie.core.errors import BadData, BadInput, Several
from coterie.data.tables.recipe_file import recipe_of

ROWS = "age,smokes,stage\n60,1,II\n40,0,I\n"
# logits of ill: 1 + 2 + 3 + 4/4 - 1 = 6, and -1 + 0 - 1 + 1 - 1 = -2
ILL = [1 / (1 + math.exp(-6)), 1 / (1 + math.exp(2))]


@pytest.fixture
def file(tmp_path):
    def write(text, name="patients.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.fixture
def troubles(file):
    """The lines that are said of a file."""

    def said(predictor, text):
        path = file(text)
        with pytest.raises(Several) as caught:
            predictor.proba(path)
        return [line.replace(str(path), "patients.csv") for line in caught.value.lines]

    return said


class TestSaid:
    def test_probabilities_by_hand(self, by_hand, file):
        p = by_hand().proba(file(ROWS))
        assert p[:, 1].tolist() == pytest.approx(ILL, rel=1e-6)
        assert p.sum(axis=1).tolist() == pytest.approx([1, 1])

    def test_classes_and_abstention(self, by_hand, file):
        assert by_hand().predict(file(ROWS)).tolist() == ["ill", "well"]
        unsure = by_hand(threshold=0.9)
        assert unsure.predict(file(ROWS)).tolist() == ["ill", ""]
        table = unsure.table(file(ROWS))
        assert list(table) == ["line", "class", "unsure", "p(well)", "p(ill)", "trust"]
        assert table["line"].tolist() == [2, 3]
        assert table["unsure"].tolist() == ["", "yes"]

    def test_a_threshold_that_is_reached_exactly(self, by_hand):
        """Both logits 0: one half each."""
        even = by_hand(model=linear([[0.0] * 5] * 2, [0.0, 0.0]))
        frame = pd.DataFrame({"age": [1.0], "smokes": [0], "stage": ["I"]})
        assert even.with_threshold(0.5).predict(frame).tolist() == ["well"]
        assert even.with_threshold(0.50001).predict(frame).tolist() == [""]

    def test_a_number(self, by_hand, file):
        number = by_hand(task="regression", classes=(), model=linear(WEIGHT, [7.0]))
        assert number.predict(file(ROWS)).tolist() == pytest.approx([8, 6])
        assert list(number.table(file(ROWS))) == ["line", "prediction", "trust"]

    def test_missing_values_are_filled_as_in_training(self, by_hand, file):
        """Age 48: -0.2; stage I: -1; 2 + 4/4 - 1."""
        p = by_hand().proba(file("age,smokes,stage\n,1,NA\n"))
        assert p[0, 1] == pytest.approx(1 / (1 + math.exp(-0.8)), rel=1e-6)


WEIGHT = [[1.0, 0.0, 0.0, 0.0, 0.0]]


class TestColumns:
    def test_order_case_blanks_and_a_mark_do_not_matter(self, by_hand, file):
        expected = by_hand().proba(file(ROWS))
        for text in (
            "stage,age,smokes\nII,60,1\nI,40,0\n",
            "\ufeffStage , AGE,smokes\n ii ,60.0, yes\nI,4e1,no\n",
            "smokes;stage;age\n1;2;60\n0;1;40\n".replace(";2;", ";II;").replace(";1;", ";I;"),
        ):
            assert np.array_equal(by_hand().proba(file(text)), expected)

    def test_frames_and_arrays_give_the_same(self, by_hand, file):
        expected = by_hand().proba(file(ROWS))
        frame = pd.DataFrame({"stage": ["II", "I"], "smokes": [True, False], "age": [60, 40]})
        assert np.array_equal(by_hand().proba(frame), expected)
        raw = np.array([[60, 1, 2, np.nan], [40, 0, 1, np.nan]])
        assert np.array_equal(by_hand().proba(raw), expected)
        assert np.array_equal(by_hand().proba(torch.from_numpy(raw)), expected)

    def test_strange_columns_are_named_and_left_out(self, by_hand, file):
        asked = by_hand().intake.asked(file("remark,age,smokes,stage,dose\nx,60,1,II,5\n"))
        assert [note.replace(str(file(ROWS)), "patients.csv") for note in asked.said] == [
            "columns of patients.csv that the model does not know, left out: remark",
            "columns that north had no values of in training, left out: dose",
        ]
        assert np.array_equal(by_hand().answered(asked.inputs)[0], by_hand().proba(file(ROWS))[0])

    def test_all_that_is_wrong_is_said_at_once(self, by_hand, troubles):
        assert troubles(by_hand(), "age,stage\nold,III\n40,I\n") == [
            "patients.csv: column 'smokes' is missing: add it",
            "patients.csv, line 2, column 'age': 'old' is not a number: correct it",
            "patients.csv, line 2, column 'stage': 'III' is not one of I, II: correct it",
        ]

    def test_a_broken_line_is_said_with_what_is_wrong_with_the_file(self, by_hand, troubles):
        assert troubles(by_hand(), "age,stage\n40\n") == [
            "patients.csv, line 2: 1 cells, but 2 columns: nothing for column 'stage'",
            "patients.csv: column 'smokes' is missing: add it",
        ]

    def test_gaps_that_the_model_cannot_fill(self, by_hand, troubles):
        said = troubles(by_hand(), "age,smokes,stage\n60,,I\n40,0,I\n50,?,II\n")
        remedy = "is missing: fill it in or leave the row out"
        assert said == [f"patients.csv, line {n}, column 'smokes' {remedy}" for n in (2, 4)]

    def test_many_gaps_are_counted(self, by_hand, troubles):
        said = troubles(by_hand(), "age,smokes,stage\n" + "60,,I\n" * 60)
        assert len(said) == 51
        assert said[-1] == "patients.csv: 10 more of this kind"

    def test_another_unit(self, by_hand, troubles, file):
        said = troubles(by_hand(), "age (months),smokes,stage\n720,1,II\n")
        assert said == [
            "patients.csv: column 'age (months)' is in months, the recipe reads 'age' in years: convert it"
        ]
        assert by_hand().proba(file("age (years),smokes,stage\n60,1,II\n"))[0, 1] == pytest.approx(ILL[0])

    def test_columns_as_they_are(self, by_hand, file):
        plain = by_hand(
            preparation=None, features=("a", "b"), shape=(2,), model=linear([[1.0, 0.0], [0.0, 1.0]])
        )
        assert plain.proba(file("b,a\n3,2\n"))[0, 1] == pytest.approx(1 / (1 + math.exp(0)))


class TestRecipes:
    def test_a_sites_own_names_units_and_words(self, by_hand, file):
        recipe = recipe_of(
            {
                "columns": {
                    "age": {"use": "number", "unit": "years", "at": {"north": {"unit": "months"}}},
                    "smokes": {"use": "flag", "values": ["no", "yes"], "at": {"north": {"name": "Raucher"}}},
                    "stage": {"use": "category", "values": ["I", "II"], "codes": [1, 2]},
                    "dose": {"use": "number"},
                    "patient": {"use": "leave-out"},
                }
            }
        )
        own = by_hand(recipe=recipe)
        asked = own.intake.asked(file("Raucher,patient,stage,age\nyes,17,II,720\nno,18,I,480\n"))
        assert asked.said == ()
        assert own.answered(asked.inputs)[:, 1].tolist() == pytest.approx(ILL, rel=1e-6)

    def test_advice_for_training_is_not_given(self, by_hand, troubles):
        """absent = true would be filled in for every row."""
        columns = {"age": {"use": "number"}, "smokes": {"use": "flag", "values": ["no", "yes"]}}
        columns |= {
            "stage": {"use": "category", "values": ["I", "II"], "codes": [1, 2]},
            "dose": {"use": "number"},
        }
        columns["age"]["at"] = {"north": {"name": "Alter"}}
        own = by_hand(recipe=recipe_of({"columns": columns}))
        assert troubles(own, "smokes,stage\nyes,I\n") == ["patients.csv: column 'Alter' is missing: add it"]

    def test_rows_of_other_sites_are_refused_and_blank_ones_are_the_client_s(self, by_hand, file):
        columns = {"age": {"use": "number"}, "smokes": {"use": "flag", "values": ["0", "1"]}}
        columns |= {
            "stage": {"use": "category", "values": ["I", "II"], "codes": [1, 2]},
            "dose": {"use": "number"},
        }
        recipe = recipe_of({"file": "all.csv", "site": "ward", "columns": columns})
        intake = by_hand(recipe=recipe).intake
        with pytest.raises(
            BadData, match=r"has rows of other sites \(south\), which the model of 'north' is not"
        ):
            intake.asked(file("ward,age,smokes,stage\nnorth,60,1,II\nsouth,40,0,I\n"))
        both = intake.asked(file("ward,age,smokes,stage\nnorth,60,1,II\n,60,1,II\n")).inputs
        assert (both[0] == both[1]).all()


class TestRefusals:
    def test_thresholds(self, by_hand, refused):
        with refused(BadInput, "threshold=1.5 must lie in [0, 1]: try 0.7, or 0 to always answer"):
            by_hand(threshold=1.5)
        with refused(BadInput, "threshold=0.7, but 'north' predicts a number: leave it out"):
            by_hand(threshold=0.7, task="regression", classes=())

    def test_pictures_and_inputs_without_names(self, by_hand, refused, file):
        pictures = by_hand(preparation=None, features=(), shape=(1, 2, 2), model=nn.Flatten())
        remedy = "which columns of a table cannot be matched to: predict from Python, "
        remedy += "coterie.load(FOLDER).proba(array)"
        with refused(BadData, f"the model of 'north' takes pictures of 1x2x2, {remedy}"):
            pictures.proba(file(ROWS))
        with refused(BadData, f"the model of 'north' takes 4 inputs that have no names, {remedy}"):
            replace(pictures, shape=(4,)).proba(file(ROWS))

    def test_arrays_of_another_shape(self, by_hand, refused):
        said = "an array of float64 [2, 3] for the model of 'north', which takes numbers [n, 4]: give those"
        with refused(BadData, said):
            by_hand().proba(np.zeros((2, 3)))

    def test_values_that_are_not_finite(self, by_hand, refused):
        with refused(Several, "array, row 1, column 'age' is infinite: correct it"):
            by_hand().proba(np.array([[np.inf, 1, 1, 0]]))
        pictures = by_hand(preparation=None, features=(), shape=(1, 1, 1))
        with refused(BadData, "an array with values that are not finite: fill or drop them"):
            pictures.proba(np.full((1, 1, 1, 1), np.nan))


def test_what_it_looks_like(by_hand):
    assert repr(by_hand()) == "Predictor('north': well, ill, from 4 columns)"
    assert WAY.features == ("age", "smokes", "stage=I", "stage=II", "dose")
