"""How far each row may be trusted: by the client's own training rows, and by what a body can have."""

from __future__ import annotations

import json
import math
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from four_columns import WAY, linear

import coterie
from coterie.core.errors import BadData, CoterieWarning, Several
from coterie.data.dataset import Arrays
from coterie.data.preparation import Column, preparation_from_dict
from coterie.data.tabular import TabularPrepare
from coterie.posteriors.store import Saved, pack
from coterie.use import Predictor, load, save

COLUMNS = (
    Column("age", unit="years"),
    Column("weight", unit="kg"),
    Column("temp", unit="°C"),
    Column("stage", "category", ("I", "II", "III"), (0.0, 1.0, 2.0)),
    Column("marker"),
)
# ages 30 to 80, weights 50 to 110, 36 to 40 °C, stages I and II, markers 2 to 5
TRAINING = np.column_stack(
    [
        np.linspace(30, 80, 41),
        np.linspace(50, 110, 41),
        np.linspace(36, 40, 41),
        np.arange(41) % 2,
        np.linspace(2, 5, 41),
    ]
)
USUAL = {"age": 50.0, "weight": 70.0, "temp": 37.0, "stage": "I", "marker": 3.0}


def ward(task="classification", missing="median", training=TRAINING, columns=COLUMNS) -> Predictor:
    (way,) = TabularPrepare(columns, missing, "site").fitted([Arrays(training, np.zeros(len(training)))])
    width = len(way.features)
    classes = ("well", "ill") if task == "classification" else ()
    weights = [[0.0] * width, [1.0] * width] if classes else [[1.0] * width]
    model = linear(weights, [0.0] * len(weights))
    return Predictor("north", task, classes, model, (width,), way.features, way)


def rows(*changes) -> pd.DataFrame:
    return pd.DataFrame([USUAL | change for change in changes])


def trust(predictor, *changes) -> list[str]:
    return predictor.table(rows(*changes))["trust"].tolist()


class TestLines:
    def test_each_kind(self):
        assert trust(
            ward(),
            {},
            {"weight": np.nan},
            {"marker": 9.0},
            {"age": 20.0},
            {"weight": 230.0},
            {"stage": "III"},
        ) == [
            "as in training",
            "weight missing, taken as 80",
            "marker 9 above training's 2 to 5",
            "age 20 years below training's 30 to 80",
            "weight 230 kg above training's 50 to 110, in lb it would be 104.3 kg; weight 230 kg rarely seen "
            "(2 to 220 kg)",
            "stage III in no training row",
        ]

    def test_large_and_far_numbers(self):
        counts = np.linspace(1.5e5, 4.5e5, 41)[:, None]
        platelets = ward(columns=(Column("platelets"),), training=counts)
        (said,) = platelets.table(pd.DataFrame({"platelets": [1234567]}))["trust"]
        assert said == "platelets 1234567 above training's 150000 to 450000"
        far = ward(columns=(Column("far"),), training=np.array([[-1.7e308], [0.0], [1.7e308]]))
        assert far.preparation.parts[0].training.quantiles[::2] == (-1.7e308, 0.0, 1.7e308)

    def test_the_ends_of_the_range_are_in_it(self):
        assert trust(ward(), {"age": 30.0, "weight": 110.0}) == ["as in training"]

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"weight": 7000.0}, "weight 7000 kg cannot be (0.2 to 640 kg)"),
            ({"weight": -5.0}, "weight -5 kg cannot be (0.2 to 640 kg)"),
            ({"age": 162.0}, "age 162 years cannot be (0 to 123 years)"),
            ({"temp": 98.6}, "temp 98.6 °C cannot be (13 to 47 °C, in °F it would be 37 °C)"),
            ({"stage": "IV"}, "stage 'IV' is not one of I, II, III"),
            ({"marker": "high"}, "marker 'high' is not a number"),
            (
                {"marker": 1e39},
                "the model of 'north' gives no finite number: look for a value that is far off",
            ),
        ],
    )
    def test_refused_rows_stay_in_place_without_an_answer(self, change, why):
        table = ward().table(rows({}, change, {"age": 70.0}))
        assert table["row"].tolist() == [1, 2, 3]
        assert table["trust"].tolist() == ["as in training", f"refused: {why}", "as in training"]
        assert table["class"].tolist()[1] == ""
        assert table["p(ill)"].isna().tolist() == [False, True, False]
        alone = ward().proba(rows({}, {"age": 70.0}))
        assert np.array_equal(table[["p(well)", "p(ill)"]].to_numpy()[[0, 2]], alone)

    def test_a_gap_that_nothing_fills(self):
        table = ward(missing="refuse").table(rows({}, {"age": np.nan}), explain=1)
        assert table["trust"].tolist() == ["as in training", "refused: age is missing"]
        assert table["pushed 1"].tolist()[1] == ""

    @pytest.mark.parametrize(("task", "called"), [("regression", "prediction"), ("survival", "risk")])
    def test_numbers_and_risks(self, task, called):
        table = ward(task).table(rows({}, {"weight": 7000.0}))
        assert table[called].isna().tolist() == [False, True]
        assert table["trust"].tolist()[1].startswith("refused: weight 7000 kg cannot be")

    @pytest.mark.parametrize("task", ["classification", "regression"])
    def test_all_rows_may_be_refused(self, task):
        table = ward(task).table(rows({"weight": 7000.0}, {"age": 162.0}), explain=1)
        assert table["trust"].str.startswith("refused: ").tolist() == [True, True]

    def test_unsure_is_not_refused(self):
        table = ward().with_threshold(0.999999).table(rows({}, {"weight": 7000.0}))
        assert table["unsure"].tolist() == ["yes", ""]

    def test_arrays_in_the_models_order(self):
        raw = np.array([[50, 70, 37, 0, 3.0], [162, 70, 37, 0, 3], [50, 70, 37, 7, 3], [50, 70, 37, 2, 8]])
        assert ward().table(raw)["trust"].tolist() == [
            "as in training",
            "refused: age 162 years cannot be (0 to 123 years)",
            "refused: stage is none of I, II, III",
            "stage III in no training row; marker 8 above training's 2 to 5",
        ]

    def test_inputs_without_names(self):
        pictures = Predictor("north", "classification", tuple("abcd"), torch.nn.Flatten(), (1, 2, 2))
        assert pictures.table(np.ones((1, 1, 2, 2)))["trust"].tolist() == ["training's range is not recorded"]


class TestBounds:
    def test_a_unit_that_nobody_told_is_that_of_training_and_not_of_the_new_rows(self):
        """7000 would be plausible in g; training's weights are in kg."""
        named = ward(columns=(*COLUMNS[:1], Column("weight"), *COLUMNS[2:]))
        assert trust(named, {"weight": 7000.0})[0] == "refused: weight 7000 cannot be (0.2 to 640 kg)"

    def test_training_in_another_unit(self):
        metres = ward(columns=(Column("height"),), training=np.linspace(1.5, 1.9, 41)[:, None])
        assert metres.table(pd.DataFrame({"height": [1.7, 1.2, 170]}))["trust"].tolist() == [
            "as in training",
            "height 1.2 below training's 1.5 to 1.9",
            "refused: height 170 cannot be (0.2 to 2.73 m, in cm it would be 1.7 m)",
        ]

    def test_a_column_that_is_something_else_by_the_same_name(self):
        """The weights of cars, and an age that was standardised before."""
        cars = TRAINING * np.array([0, 20, 1, 1, 1]) + np.array([-0.5, 0, 0, 0, 0])
        cars[:, 0] += np.linspace(-1, 1, 41)
        other = ward(training=cars, columns=(Column("age"), Column("weight"), *COLUMNS[2:]))
        assert trust(other, {"age": -1.0, "weight": 1400.0}) == ["as in training"]

    def test_a_few_strange_values_in_training_do_not_undo_the_bounds(self):
        """A weight of 7000 kg was there before: that is no reason to believe the next."""
        strange = np.vstack([TRAINING, TRAINING[:1] + np.array([0, 6950, 0, 0, 0])])
        assert trust(ward(training=strange), {"weight": 6000.0}) == [
            "refused: weight 6000 kg cannot be (0.2 to 640 kg)"
        ]
        ages = np.linspace(-0.2, 1, 41)[:, None]  # standardised, of the elder half
        elder = ward(columns=(Column("age"),), training=ages)
        assert elder.table(pd.DataFrame({"age": [-0.1]}))["trust"].tolist() == ["as in training"]

    @pytest.mark.parametrize("name", ["Alter (Jahre)", "âge (ans)", "AGE [years]", "Patient age"])
    def test_a_column_by_its_name_in_other_languages(self, name):
        aged = ward(columns=(Column(name),), training=np.linspace(20, 80, 41)[:, None])
        (said,) = aged.table(pd.DataFrame({name: [162]}))["trust"]
        assert said.startswith("refused: ")
        assert said.endswith(" cannot be (0 to 123 years)")

    def test_bounds_of_ones_own(self, tmp_path):
        (tmp_path / "mine.toml").write_text("[marker]\npossible = [0, 6]\n")
        own = ward().with_ranges(tmp_path / "mine.toml")
        assert trust(own, {"marker": 7.0}) == ["refused: marker 7 cannot be (0 to 6)"]

    def test_a_model_without_a_record_claims_nothing_of_training(self):
        old = ward()
        old = preparation_from_dict(
            {**(told := old.preparation.to_dict()), "columns": [bare(c) for c in told["columns"]]}
        )
        predictor = Predictor(
            "north", "classification", ("well", "ill"), ward().model, (7,), old.features, old
        )
        assert trust(predictor, {"marker": 900.0}, {"weight": 7000.0}, {"age": np.nan}) == [
            "training's range is not recorded",
            "refused: weight 7000 kg cannot be (0.2 to 640 kg, in g it would be 7 kg)",
            "age missing, taken as 55; training's range is not recorded",
        ]


def bare(column: dict) -> dict:
    """As earlier versions wrote it."""
    return {k: v for k, v in column.items() if k != "training"}


def many(change, n=12) -> list[dict]:
    """Rows that vary as training's did."""
    places = np.linspace(0.1, 0.9, n)
    made = [USUAL | {"weight": 50 + 60 * place, "marker": 2 + 3 * place} for place in places]
    return [row | change(row) for row in made]


class TestColumns:
    def signs(self, change):
        asked = ward().intake.asked(rows(*many(change)))
        return [sign.says for sign in asked.trust.signs], asked.trust.texts()

    def test_rows_like_training_say_nothing(self):
        assert self.signs(lambda row: {}) == ([], ["as in training"] * 12)

    def test_pounds_for_kilograms_are_asked_about_and_not_converted(self):
        (says,), texts = self.signs(lambda row: {"weight": row["weight"] / 0.45359237})
        assert says.startswith("weight has a median of 17")
        assert ", 2.2 times as much: in lb? That would be " in says
        assert all("weight in lb, by the whole column?" in text for text in texts)

    def test_another_unit_of_which_every_value_can_be_within_the_range(self):
        """A wide range hides each value, not the whole column."""
        wide = np.vstack([TRAINING, TRAINING[:1] * np.array([1, 6, 1, 1, 1])])
        made = ward(training=wide).intake.asked(rows(*many(lambda r: {"weight": r["weight"] * 2.2046})))
        assert "in lb?" in made.trust.signs[0].says
        assert all("in lb" in text and "above" not in text for text in made.trust.texts())

    def test_a_shift_that_no_unit_explains(self):
        (says,), texts = self.signs(lambda row: {"marker": row["marker"] * 100})
        said = "marker has a median of 350, training's is 3.5, 100 times as much: another unit, or other "
        assert says == said + "patients?"
        assert all("marker apart from training as a whole column" in text for text in texts)

    def test_an_empty_column(self):
        (says,), texts = self.signs(lambda row: {"weight": np.nan})
        assert says == "weight has no value in any of 12 rows: taken as 80"
        assert texts == ["weight missing, taken as 80"] * 12

    def test_far_more_gaps_than_in_training(self):
        (says,), _ = self.signs(lambda row: {"weight": np.nan if row["weight"] < 86 else row["weight"]})
        assert says.startswith("weight is missing in ")
        assert says.endswith(" of 12 rows, in training in 0 %: taken as 80")

    def test_all_in_fahrenheit_cannot_be_and_the_unit_is_asked(self):
        with pytest.raises(Several, match=r"temp has a median of 98\.6, training's is 38.* in °F"):
            ward().proba(rows(*many(lambda row: {"temp": 98.6})))

    @pytest.mark.parametrize(
        ("name", "unit", "level", "factor", "asked"),
        [
            ("glucose", "", 110, 1 / 18.016, "in mmol/l?"),
            ("Körpergröße", "cm", 170, 1 / 2.54, "in inches?"),
            ("spo2", "%", 95, 0.01, "in fractions?"),
            ("Anteil", "%", 55, 0.01, "in fractions?"),
        ],
    )
    def test_other_names_and_units(self, name, unit, level, factor, asked):
        training = level * np.linspace(0.9, 1.05, 41)[:, None]
        model = ward(columns=(Column(name, unit=unit),), training=training)
        found = model.intake.asked(pd.DataFrame({name: training[::5, 0] * factor}))
        assert asked in found.trust.signs[0].says


class TestDoors:
    def test_arrays_of_answers_are_all_or_nothing_unless_asked_otherwise(self):
        some = rows({}, {"weight": 7000.0}, {"age": "old"}, {"marker": 9.0})
        for ask in (ward().proba, ward().predict, ward().explain, ward().inputs):
            with pytest.raises(Several) as caught:
                ask(some)
            assert caught.value.lines == (
                "table, row 2, column 'weight': weight 7000 kg cannot be (0.2 to 640 kg): correct it, or "
                "leave the row out",
                "table, row 3, column 'age': 'old' is not a number: correct it",
            )
        with pytest.raises(BadData):
            ward().table(some, strict=True)
        with pytest.warns(
            CoterieWarning, match="of 4 rows: 2 refused, 1 with values outside training's range"
        ):
            p = ward().proba(some, strict=False)
        assert np.isnan(p).any(axis=1).tolist() == [False, True, True, False]
        with pytest.warns(CoterieWarning):
            assert ward().predict(some, strict=False)[1] == ""
        with pytest.warns(CoterieWarning):
            assert [len(pushed) > 0 for pushed in ward().explain(some, strict=False)] == [
                True,
                False,
                False,
                True,
            ]

    def test_rows_as_in_training_give_no_warning(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ward().proba(rows({}, {"age": 70.0}))

    def test_the_exported_folder_says_the_same(self, tmp_path):
        own, some = ward(), rows({}, {"weight": 7000.0}, {"age": 20.0, "marker": np.nan}, {"stage": "III"})
        made = {"name": "logistic", "options": {}}
        own = Predictor(**{**vars_of(own), "made": made})
        path = save(own, tmp_path / "model")
        pd.testing.assert_frame_equal(load(path).table(some), own.table(some))
        card = (path / "card.md").read_text()
        assert "| age | number | years | taken as 55 | 30 to 80 |" in card
        assert "| stage | I, II, III |  | taken as I | I, II |" in card

    def test_a_folder_of_an_earlier_version(self, tmp_path):
        own = Predictor(**{**vars_of(ward()), "made": {"name": "logistic", "options": {}}})
        path = save(own, tmp_path / "model")
        bundle = json.loads((path / "bundle.json").read_text())
        bundle["preparation"]["columns"] = [bare(c) for c in bundle["preparation"]["columns"]]
        (path / "bundle.json").write_text(json.dumps(bundle))
        found = load(path)
        assert trust(found, {"marker": 900.0}) == ["training's range is not recorded"]
        assert np.array_equal(found.proba(rows({})), own.proba(rows({})))

    def test_a_damaged_range_is_refused(self):
        told = ward().preparation.to_dict()
        told["columns"][0]["training"]["quantiles"] = [math.nan, 1, 2, 3, 4]
        with pytest.raises(ValueError, match="range of training rows"):
            preparation_from_dict(told)

    def test_what_is_sent_to_others_has_no_range(self):
        """The lowest and highest values are single rows'."""
        way = ward().preparation
        _, header = pack(Saved("north", 41, gaussian(), {}, {}, way.features, ("a", "b"), way))
        assert "training" not in json.dumps(header)
        assert way.to_dict()["columns"][0]["training"]["quantiles"][0] == 30

    def test_clients_of_python_whose_columns_are_taken_as_they_are(self):
        draw = np.random.default_rng(0)
        x, y = draw.uniform(0, 1, (60, 2)), draw.integers(0, 2, 60)
        made = [coterie.Client.from_arrays(x, y, name=n, features=["dose", "rate"]) for n in ("a", "b")]
        found = coterie.train("logistic", made, "fedavg", rounds=1).predictor("a")
        first, second = found.table(pd.DataFrame({"rate": [0.5, 7.0], "dose": [0.5, 0.5]}))["trust"]
        assert first == "as in training"
        assert second.startswith("rate 7 above training's 0.0")

    def test_of_its_own_rows_alone(self):
        draw = np.random.default_rng(1)
        frames = {
            name: pd.DataFrame({"dose": draw.uniform(low, low + 1, 40), "ill": ["no", "yes"] * 20})
            for name, low in (("north", 1), ("south", 5))
        }
        made = coterie.clients_from(frames, target="ill")
        result = coterie.train("logistic", made, "fedavg", rounds=1)
        new = pd.DataFrame({"dose": [1.5, 5.5]})
        assert ["above" in t for t in result.predictor("north").table(new)["trust"]] == [False, True]
        assert ["below" in t for t in result.predictor("south").table(new)["trust"]] == [True, False]


def vars_of(predictor: Predictor) -> dict:
    return {name: getattr(predictor, name) for name in predictor.__dataclass_fields__}


def gaussian():
    from coterie.posteriors.gaussian import isotropic

    return isotropic({"head.weight": torch.zeros(2, 7), "head.bias": torch.zeros(2)}, 1.0)


def test_the_columns_of_the_table_by_hand_have_no_record(by_hand):
    assert all(part.training is None for part in WAY.parts)
    frame = pd.DataFrame({"age": [60.0], "smokes": [1], "stage": ["II"]})
    assert by_hand().table(frame)["trust"].tolist() == ["training's range is not recorded"]
