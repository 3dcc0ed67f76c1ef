"""Coterie as an estimator of scikit-learn."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import coterie
from coterie import CoterieClassifier, CoterieRegressor
from coterie.core.client import Client, Samples
from coterie.metrics.calibration import probabilities
from coterie.use import load, save

SITES = ("lakeview", "north", "south")  # of the rows in conftest.py


@parametrize_with_checks([CoterieClassifier(rounds=5), CoterieRegressor(rounds=10)])
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def fitted(rows):
    X, y, site = rows
    return CoterieClassifier(rounds=12).fit(X, y, groups=site)


def test_each_row_is_predicted_by_the_model_of_its_site(rows, fitted):
    X, y, site = rows
    assert fitted.sites_.tolist() == list(SITES) == list(fitted.models_)
    assert fitted.classes_.tolist() == ["ill", "well"]
    p = fitted.predict_proba(X, groups=site)
    assert p.dtype == np.float64
    assert np.allclose(p.sum(axis=1), 1)
    scaled = torch.tensor((X - X.mean(axis=0)) / X.std(axis=0), dtype=torch.float32)
    for name in SITES:
        with torch.no_grad():
            mine = probabilities(fitted.models_[name](scaled[site == name])).numpy()
        assert np.allclose(p[site == name], mine, atol=1e-6)
    assert np.array_equal(fitted.predict(X, groups=site), fitted.classes_[p.argmax(axis=1)])
    right = fitted.predict(X, groups=site) == y
    assert fitted.score(X, y, groups=site) == right.mean() > 0.8
    assert fitted.score(X, y, groups=site, sample_weight=np.arange(180)) == pytest.approx(
        np.average(right, weights=np.arange(180))
    )


def test_what_is_said_of_a_row_does_not_depend_on_the_others(rows, fitted):
    X, _, site = rows
    p = fitted.predict_proba(X, groups=site)
    order = np.random.default_rng(1).permutation(180)
    assert np.array_equal(fitted.predict_proba(X[order], groups=site[order]), p[order])
    assert np.array_equal(fitted.predict_proba(X[7:8], groups=site[7:8]), p[7:8])


@pytest.mark.parametrize("method", ["finetune", "local", "weight-erosion"])
def test_it_trains_as_train_does(rows, method):
    X, y, site = rows
    x = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    options = {"lr": 0.2, "batch": 16}
    made = CoterieClassifier(method, rounds=7, options=options, random_state=3).fit(X, y, groups=site)
    clients = [
        Client(
            s,
            data := Samples(torch.tensor(x[site == s]), torch.tensor((y == "well")[site == s] * 1)),
            data,
            data,
        )
        for s in SITES
    ]
    result = coterie.train("logistic", clients, method, rounds=7, seed=3, **options)
    for name in SITES:
        for mine, theirs in zip(
            made.models_[name].parameters(), result.models[name].parameters(), strict=True
        ):
            assert torch.allclose(mine, theirs, atol=1e-5)


def test_no_row_is_held_out_and_no_score_is_invented(rows, fitted, tmp_path):
    record = fitted.result_.record
    assert [(c["train"], c["validation"], c["test"]) for c in record.about["clients"]] == [(60, 0, 0)] * 3
    assert [m["scores"] for m in record.metrics] == [None] * 13
    history = fitted.result_.history
    assert set(history["split"]) == {"train"}
    assert fitted.result_.weights.shape == (12, 3, 3)
    assert fitted.result_.calibration.empty
    assert len(fitted.result_.summary()) == 1
    assert fitted.result_.report(tmp_path / "report.html").exists()


def test_validation_rows_are_set_aside_for_methods_that_choose_by_them(rows):
    X, y, site = rows
    made = CoterieClassifier("pens", rounds=6, validation=0.25).fit(X, y, groups=site)
    assert [(c["train"], c["validation"]) for c in made.result_.record.about["clients"]] == [(45, 15)] * 3


def test_a_single_site_trains_alone(rows):
    X, y, _ = rows
    made = CoterieClassifier("finetune", rounds=8, options={"tune": 3, "lr": 0.2}).fit(X, y)
    assert made.result_.record.config["method"] == "local"
    assert made.result_.record.config["sgd"]["lr"] == 0.2
    assert made.sites_.tolist() == ["all"] == list(made.models_)
    named = CoterieClassifier("pens", rounds=8, options={"lr": 0.2}).fit(X, y, groups=["only"] * 180)
    assert named.sites_.tolist() == ["only"]
    assert np.array_equal(named.predict_proba(X), named.predict_proba(X, groups=["only"] * 180))


def test_fit_is_silent_and_the_same_each_time(rows, capfd):
    X, y, site = rows
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, two, other = (
            CoterieClassifier(rounds=6, random_state=seed)
            .fit(X, y, groups=site)
            .predict_proba(X, groups=site)
            for seed in (1, 1, 2)
        )
        drawn = [
            CoterieClassifier(rounds=6, random_state=np.random.RandomState(5)).fit(X, y, groups=site)
            for _ in range(2)
        ]
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)
    assert np.array_equal(*(d.predict_proba(X, groups=site) for d in drawn))
    assert capfd.readouterr() == ("", "")


class TestUnseenSites:
    def test_are_refused_with_a_remedy(self, rows, fitted):
        X, _, site = rows
        remedy = (
            "have no model: fit made one for lakeview, north, south; give one of these in groups, or "
            "unseen='shared' to predict with what all sites share"
        )
        with pytest.raises(ValueError, match=f"^rows of site 'west' {remedy}$"):
            fitted.predict(X, groups=["west", *site[1:]])
        with pytest.raises(coterie.CoterieError, match="^rows without a site .*" + remedy[-20:]):
            fitted.predict(X)

    def test_may_use_what_all_share(self, rows, fitted):
        X, _, site = rows
        open_minded = clone(fitted).set_params(unseen="shared").fit(*rows[:2], groups=site)
        p = open_minded.predict_proba(X)
        scaled = torch.tensor((X - X.mean(axis=0)) / X.std(axis=0), dtype=torch.float32)
        with torch.no_grad():
            assert np.allclose(p, probabilities(open_minded.result_.shared(scaled)).numpy(), atol=1e-6)
        mixed = open_minded.predict_proba(X, groups=np.where(site == "north", "west", site))
        assert np.array_equal(mixed[site == "north"], p[site == "north"])
        own = fitted.predict_proba(X, groups=site)
        assert np.array_equal(mixed[site != "north"], own[site != "north"])

    def test_without_a_shared_model_all_sites_predict_together(self, rows):
        X, y, site = rows
        few = np.concatenate([np.flatnonzero(site != "north"), np.flatnonzero(site == "north")[:30]])
        made = CoterieClassifier("local", rounds=5, unseen="shared").fit(X[few], y[few], groups=site[few])
        assert made.result_.shared is None
        each = [made.predict_proba(X, groups=[name] * 180) for name in SITES]
        assert np.allclose(made.predict_proba(X), np.average(each, axis=0, weights=[60, 30, 60]), atol=1e-12)
        target = X[:, 0] + (site == "north")
        number = CoterieRegressor("local", rounds=5, unseen="shared").fit(
            X[few], target[few], groups=site[few]
        )
        each = [number.predict(X, groups=[name] * 180) for name in SITES]
        assert np.allclose(number.predict(X), np.average(each, axis=0, weights=[60, 30, 60]))

    def test_are_prepared_by_the_rows_of_all(self):
        X = np.array([[0.0], [2.0], [10.0], [np.nan], [12.0], [14.0]])
        made = CoterieRegressor("fedavg", scale="site", missing="median", unseen="shared", rounds=1)
        made.fit(X, np.arange(6), groups=list("aabbbb"))
        p = made.predict([[np.nan], [10.0], [7.6]], groups=["new"] * 3)
        assert p[0] == p[1]  # the median of 0, 2, 10, 12, 14
        inputs = torch.tensor([[0.0], [(10 - 7.6) / np.nanstd(X)]], dtype=torch.float32)  # 0: their mean
        at_mean, at_ten = made.result_.shared(inputs).flatten().tolist()
        assert p[1:].tolist() == pytest.approx([at_ten, at_mean], rel=1e-5)


class TestGroups:
    def test_numbers_are_the_same_sites_as_floats(self, rows):
        X, y, _ = rows
        number = np.arange(180) % 3
        made = CoterieClassifier(rounds=6).fit(X, y, groups=number)
        assert (made.sites_.tolist(), list(made.models_)) == ([0, 1, 2], ["0", "1", "2"])
        p = made.predict_proba(X, groups=number)
        assert np.array_equal(made.predict_proba(X, groups=pd.Series(number.astype(float))), p)

    @pytest.mark.parametrize(
        ("groups", "line"),
        [
            (["a"], r"groups have shape \(1,\), X has 4 rows: give one site for each row"),
            (["a", "b", None, "a"], "groups have no site in row 3: name one for each row"),
            ([0.0, 1.0, 1.0, np.nan], "groups have no site in row 4: name one for each row"),
            (
                np.array([1, "1", 2, 2], dtype=object),
                "groups hold 1 as a text and as a number: use one of them",
            ),
        ],
    )
    def test_odd_ones_are_refused(self, groups, line):
        with pytest.raises(ValueError, match=f"^{line}$"):
            CoterieClassifier().fit(np.eye(4), [0, 1, 0, 1], groups=groups)


class TestLabels:
    @pytest.mark.parametrize(
        "labels", [[0.0, 1.0], [False, True], [7, 3], ["b", "a"], [-1, 1], ["x", "y", "z"]], ids=str
    )
    def test_come_back_as_they_were(self, labels):
        X = np.repeat(np.eye(3)[: len(labels)], 20, axis=0)
        y = np.repeat(labels, 20)
        made = CoterieClassifier(rounds=15, options={"lr": 1.0}).fit(X, y)
        assert made.classes_.dtype == y.dtype
        assert made.predict(X).tolist() == y.tolist()
        assert made.result_.record.about["classes"] == [str(c) for c in sorted(set(y.tolist()))]

    def test_a_site_may_lack_a_class(self, rows):
        X, y, site = rows
        keep = (site != "south") | (y == "ill")
        made = CoterieClassifier(rounds=6).fit(X[keep], y[keep], groups=site[keep])
        assert made.predict_proba(X, groups=site).shape == (180, 2)
        assert "client 'south' trains on one class only (ill)" in made.result_.notes

    def test_one_class_and_gaps_are_refused(self):
        line = r"^y holds one class \(1\), at least 2 are needed: add rows of another$"
        with pytest.raises(ValueError, match=line):
            CoterieClassifier().fit(np.eye(3), [1, 1, 1])
        with pytest.raises(ValueError, match=r"^y contains NaN or None in row 2: drop it$"):
            CoterieClassifier().fit(np.eye(3), np.array(["a", None, "b"], dtype=object))


@pytest.fixture(scope="module")
def frame(rows):
    X, y, _ = rows
    made = pd.DataFrame(X, columns=["age", "weight", "pressure", "sugar"])
    return made.assign(ward=np.where(y == "ill", "deep", "day"), smokes=np.arange(180) % 2 == 0)


class TestFrames:
    def test_texts_and_flags_become_inputs(self, rows, frame):
        _, y, site = rows
        made = CoterieClassifier(rounds=6).fit(frame, y, groups=site)
        assert made.n_features_in_ == 6
        assert made.feature_names_in_.tolist() == list(frame.columns)
        features = ["age", "weight", "pressure", "sugar", "ward=day", "ward=deep", "smokes"]
        assert made.result_.record.about["features"] == features
        assert made.score(frame, y, groups=site) > 0.95

    def test_columns_are_checked_by_name(self, rows, frame):
        _, y, site = rows
        made = CoterieClassifier(rounds=6).fit(frame, y, groups=site)
        with pytest.raises(ValueError, match="must be in the same order"):
            made.predict(frame[frame.columns[::-1]], groups=site)
        with pytest.raises(ValueError, match="Feature names seen at fit time, yet now missing"):
            made.predict(frame.drop(columns="age"), groups=site)
        with pytest.raises(
            ValueError, match=r"^column 'ward' holds 'attic' in row 1, but may hold day, deep: "
        ):
            made.predict(frame.assign(ward="attic"), groups=site)
        line = "^fit had texts in columns ward: give a DataFrame with such columns$"
        with (
            pytest.warns(UserWarning, match="does not have valid feature names"),
            pytest.raises(ValueError, match=line),
        ):
            made.predict(np.zeros((180, 6)), groups=site)

    def test_categories_that_are_listed_may_come_later(self, rows, frame):
        _, y, site = rows
        listed = frame.assign(ward=pd.Categorical(frame["ward"], ["day", "deep", "attic"]))
        made = CoterieClassifier(rounds=6).fit(listed, y, groups=site)
        assert made.predict(frame.assign(ward="attic"), groups=site).shape == (180,)

    def test_names_of_patients_are_no_category(self, rows, frame):
        _, y, site = rows
        line = (
            r"^more than 50 different texts, which is no category, in column 'patient' \(180\): leave it out "
            "of X$"
        )
        with pytest.raises(ValueError, match=line):
            CoterieClassifier().fit(frame.assign(patient=[f"p{i}" for i in range(180)]), y, groups=site)

    def test_a_frame_without_rows_is_refused(self, rows, frame):
        _, y, site = rows
        made = CoterieClassifier(rounds=6).fit(frame, y, groups=site)
        with pytest.raises(ValueError, match="0 sample"):
            made.predict(frame[:0], groups=[])


class TestPredictor:
    def test_says_the_same_bits_by_names_from_files_and_from_an_exported_folder(self, rows, frame, tmp_path):
        _, y, site = rows
        made = CoterieClassifier(rounds=6).fit(frame, y, groups=site)
        north, mine = frame[site == "north"], made.predict_proba(frame, groups=site)[site == "north"]
        predictor = made.predictor("north")
        assert np.array_equal(predictor.proba(north[north.columns[::-1]]), mine)
        north.to_csv(tmp_path / "north.csv", index=False)
        assert np.array_equal(predictor.proba(tmp_path / "north.csv"), mine)
        save(predictor, tmp_path / "model")
        assert np.array_equal(load(tmp_path / "model").proba(north), mine)
        assert predictor.predict(north).tolist() == made.predict(frame, groups=site)[site == "north"].tolist()

    def test_of_a_site_that_has_none(self, rows, fitted):
        X, y, site = rows
        with pytest.raises(ValueError, match=r"^rows of site 'west' have no model"):
            fitted.predictor("west")
        alone = CoterieClassifier("local", rounds=3, unseen="shared").fit(X, y, groups=site)
        assert np.array_equal(alone.predictor("west").proba(X), alone.predict_proba(X))


class TestMissingValues:
    def test_are_refused_with_their_row_unless_filled(self, rows):
        X, y, site = rows
        gaps = X.copy()
        gaps[[4, 7], 2] = np.nan
        line = (
            r"^column 'x2' of X has 2 missing or NaN value\(s\), first in row 5: fill them or drop their "
            "rows, or use missing='median'$"
        )
        with pytest.raises(ValueError, match=line):
            CoterieClassifier().fit(gaps, y, groups=site)
        made = CoterieClassifier(missing="median", rounds=6).fit(gaps, y, groups=site)
        p = made.predict_proba(gaps, groups=site)
        filled = gaps.copy()
        for row in (4, 7):
            filled[row, 2] = np.nanmedian(gaps[site == site[row], 2])
        assert np.array_equal(made.predict_proba(filled, groups=site), p)

    def test_in_new_rows_are_refused_by_their_number_among_them(self, rows, fitted):
        X, _, site = rows
        gaps = X.copy()
        gaps[8, 1] = np.nan
        with pytest.raises(ValueError, match=r"^column 'x1' of X has 1 .* first in row 9: "):
            fitted.predict(gaps, groups=site)

    @pytest.mark.parametrize("absent", ["mask", "flag", "common"])
    def test_a_site_may_lack_a_column(self, rows, absent):
        X, y, site = rows
        X = np.where((site == "south")[:, None] & (np.arange(4) == 2), np.nan, X)
        made = CoterieClassifier(absent=absent, rounds=6, unseen="shared").fit(X, y, groups=site)
        inputs = {"mask": 4, "flag": 5, "common": 3}[absent]
        assert made.models_["south"].head.in_features == inputs
        p = made.predict_proba(X, groups=site)
        assert np.isfinite(p).all()
        assert np.isfinite(made.predict_proba(X[site == "north"])).all()
        with pytest.raises(ValueError, match=r"^column 'x2' of X has 60 missing"):
            CoterieClassifier(absent="refuse").fit(X, y, groups=site)


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "line"),
        [
            ({"missing": "drop"}, "unknown rule for missing values 'drop': known are median, refuse"),
            ({"unseen": "mean"}, "unknown rule for unseen sites 'mean': known are refuse, shared"),
            ({"scale": "sight"}, "unknown scale 'sight': did you mean site?"),
            ({"method": "finetun"}, "unknown method 'finetun': did you mean finetune?"),
            (
                {"model": "linear"},
                "model linear has 1 output, a number; got outputs=2: use logistic for classes",
            ),
            ({"rounds": 0}, "rounds=0 must be at least 1: try 30"),
            ({"validation": 1.5}, "validation=1.5 must lie in [0, 1): try 0.2, or 0 for none"),
            ({"options": 3}, "options=3 must be a dictionary: try {'lr': 0.05}"),
            ({"options": {"lr": -1}}, "lr=-1.0 must be above 0 and finite: try 0.1"),
        ],
        ids=str,
    )
    def test_odd_ones_are_refused_in_one_line(self, rows, options, line):
        X, y, site = rows
        with pytest.raises(ValueError) as error:  # noqa: PT011
            CoterieClassifier(**options).fit(X, y, groups=site)
        assert str(error.value) == line
        assert isinstance(error.value, coterie.CoterieError)

    def test_a_module_of_ones_own_is_taken_and_left_as_it_was(self, rows):
        X, y, site = rows
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).double()
        before = [p.clone() for p in module.parameters()]
        made = CoterieClassifier(model=module, rounds=6, kernel="adam", options={"lr": 0.01})
        clone(made).fit(X, y, groups=site)
        made.fit(X, y, groups=site)
        assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))
        assert made.predict_proba(X, groups=site).shape == (180, 2)

    def test_a_module_with_too_many_outputs_is_refused(self, rows):
        X, y, site = rows
        with pytest.raises(
            ValueError, match=r"^the model gives 3 outputs for 2 classes: change its last layer$"
        ):
            CoterieClassifier(model=torch.nn.Linear(4, 3), rounds=6).fit(X, y, groups=site)

    def test_a_clone_is_not_fitted(self, fitted):
        assert clone(fitted).get_params() == fitted.get_params()
        with pytest.raises(NotFittedError):
            clone(fitted).predict(np.zeros((1, 4)))


def test_a_fitted_one_can_be_handed_to_another_process(rows, fitted):
    X, _, site = rows
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(X, groups=site), fitted.predict_proba(X, groups=site))
    pd.testing.assert_frame_equal(again.result_.history, fitted.result_.history)
    assert list(again.result_.record.models()) == list(SITES)


class TestSearch:
    def test_asks_for_sites_by_itself_where_scikit_learn_hands_them_on(self, rows):
        X, y, site = rows
        with sklearn.config_context(enable_metadata_routing=True):
            folds = list(StratifiedKFold(2).split(X, site))
            search = GridSearchCV(CoterieClassifier(rounds=4), {"method": ["local", "fedavg"]}, cv=folds)
            search.fit(X, y, groups=site)
            assert list(search.best_estimator_.models_) == list(SITES)
            scorer = GridSearchCV(
                CoterieClassifier("local", rounds=1), {}, cv=folds, scoring="roc_auc", error_score="raise"
            )
            with pytest.raises(ValueError, match="scorers and calibration hand on X alone: name its column"):
                scorer.fit(X, y, groups=site)

    def test_over_methods_with_sites_routed(self, rows):
        X, y, site = rows
        with sklearn.config_context(enable_metadata_routing=True):
            model = CoterieClassifier(rounds=8).set_fit_request(groups=True).set_score_request(groups=True)
            folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, site))
            search = GridSearchCV(
                model, {"method": ["local", "fedavg"], "options": [{"lr": 0.1}, {"lr": 0.5}]}, cv=folds
            )
            search.fit(X, y, groups=site)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert search.best_params_["method"] == "local"  # north goes its own way
        assert search.best_estimator_.sites_.tolist() == list(SITES)

    def test_on_sites_that_are_left_out(self, rows):
        X, y, site = rows
        with sklearn.config_context(enable_metadata_routing=True):
            model = CoterieClassifier(rounds=8, unseen="shared")
            model.set_fit_request(groups=True).set_score_request(groups=True)
            scores = cross_val_score(model, X, y, params={"groups": site}, cv=GroupKFold(3))
        assert len(scores) == 3
        assert np.isfinite(scores).all()


def test_regression(rows):
    X, _, site = rows
    y = X[:, 0] * 3 + X[:, 2] / 50 + (site == "north") * 5
    made = CoterieRegressor(rounds=40).fit(X, y, groups=site)
    assert made.predict(X, groups=site).shape == (180,)
    assert made.score(X, y, groups=site) > 0.99
    with pytest.raises(ValueError, match="Input y contains NaN"):
        made.fit(X, np.where(np.arange(180) == 3, np.nan, y), groups=site)
