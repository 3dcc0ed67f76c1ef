"""Sites of an estimator of scikit-learn: in a column of X, or none at all."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import VotingClassifier
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import coterie
from coterie import CoterieClassifier
from coterie.methods.baselines.local import Local


@pytest.fixture(scope="module")
def table(rows):
    X, y, site = rows
    return pd.DataFrame(X, columns=list("abcd")).assign(hospital=site), y


class TestOneSite:
    """With one site every method is the same: whoever compares methods has to know."""

    def test_a_search_without_sites_says_that_it_compares_nothing(self, rows):
        X, y, site = rows
        search = GridSearchCV(
            CoterieClassifier(rounds=6), {"method": ["fedavg", "finetune"]}, cv=GroupKFold(3)
        )
        said = (
            r"^groups are not given, so that all rows are one site, which trains alone, whatever the method "
            r"\(fedavg\): give groups, or name the column of X that has them, sites='hospital'"
        )
        with pytest.warns(coterie.CoterieWarning, match=said):
            search.fit(X, y, groups=site)

    def test_a_fold_of_one_site_says_so_too(self, rows):
        X, y, _ = rows
        with pytest.warns(coterie.CoterieWarning, match="^there is one site, which trains alone"):
            CoterieClassifier("fedavg", rounds=2).fit(X, y, groups=["a"] * 180)

    def test_training_alone_is_nothing_to_warn_of(self, rows):
        X, y, _ = rows
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            CoterieClassifier("local", rounds=2).fit(X, y)
            CoterieClassifier(Local(), rounds=2).fit(X, y)

    def test_predicting_several_sites_without_naming_them(self, rows):
        X, y, site = rows
        made = CoterieClassifier("fedavg", rounds=2, unseen="shared").fit(X, y, groups=site)
        with pytest.warns(
            coterie.CoterieWarning, match="predicted with what all sites share, by no site's own"
        ):
            made.predict(X)


class TestSitesInX:
    """A column of X says whose each row is, and goes wherever scikit-learn takes X."""

    def test_are_those_that_groups_would_name(self, rows, table):
        X, y, site = rows
        by_groups = CoterieClassifier(rounds=7).fit(X, y, groups=site)
        p = by_groups.predict_proba(X, groups=site)
        frame, _ = table
        number = np.unique(site, return_inverse=True)[1]
        mixed = np.insert(X.astype(object), 2, site, axis=1)
        for sites, inputs in (("hospital", frame), (4, frame), (-1, np.c_[X, number]), (2, mixed)):
            made = CoterieClassifier(rounds=7, sites=sites).fit(inputs, y)
            assert np.array_equal(made.predict_proba(inputs), p)
            assert made.score(inputs, y) == by_groups.score(X, y, groups=site)
            assert made.n_features_in_ == 5
            assert len(made.columns_) == 4
        assert CoterieClassifier(rounds=1, method="local", sites=4).fit(
            np.c_[X, number], y
        ).sites_.tolist() == [0, 1, 2]

    @pytest.mark.parametrize("routed", [False, True])
    def test_searches_scorers_and_calibration_just_work(self, table, routed):
        X, y = table
        model = CoterieClassifier("local", rounds=3, sites="hospital")
        with sklearn.config_context(enable_metadata_routing=routed), warnings.catch_warnings():
            warnings.simplefilter("error")
            search = GridSearchCV(model, {"method": ["local", "fedavg"]}, cv=2, scoring="roc_auc").fit(X, y)
            one, other = search.cv_results_["mean_test_score"]
            assert one != other
            assert search.best_score_ > 0.7
            assert cross_val_predict(model, X, y, cv=2, method="predict_proba").shape == (180, 2)
            calibrated = CalibratedClassifierCV(model, cv=2).fit(X, y)
            assert np.allclose(calibrated.predict_proba(X).sum(axis=1), 1)
            both = VotingClassifier([("a", model), ("b", clone(model))], voting="soft").fit(X, y)
            assert np.allclose(both.predict_proba(X), clone(model).fit(X, y).predict_proba(X))
            pipe = make_pipeline(FunctionTransformer(), model).fit(X, y)
            assert pipe.score(X, y) > 0.6

    def test_that_are_left_out_by_folds_need_a_rule(self, table):
        X, y = table
        model = CoterieClassifier("fedavg", rounds=2, sites="hospital")
        line = (
            r"^rows of site '(lakeview|north|south)' have no model: fit made one for .*; split within sites "
            r"\(shuffle=True\), or unseen='shared' to predict with what all sites share$"
        )
        folds = {"cv": GroupKFold(3), "groups": X["hospital"]}
        with pytest.raises(ValueError, match=line):
            cross_val_predict(model, X, y, **folds)
        said = cross_val_predict(model.set_params(unseen="shared"), X, y, **folds)
        assert set(said) == {"ill", "well"}

    @pytest.mark.parametrize(
        ("sites", "frame", "line"),
        [
            ("ward", True, "X has no column 'ward' that says whose a row is; its columns are a, hospital"),
            (7, True, "sites=7 is no column of X, which has 2: count them from 0"),
            ("hospital", False, "sites='hospital' names a column, but X is an array: give a DataFrame, .*"),
            (7, False, "sites=7 is no column of X, which has 2: count them from 0"),
            (["hospital"], True, r"sites=\['hospital'\] must name a column of X, or be its number: try .*"),
            (True, True, "sites=True must name a column of X, or be its number: try 'hospital'"),
        ],
    )  # fmt: skip
    def test_odd_ones_are_refused(self, sites, frame, line):
        X = pd.DataFrame({"a": [1.0, 2, 3, 4], "hospital": [1, 1, 2, 2]})
        with pytest.raises(ValueError, match=f"^{line}$"):
            CoterieClassifier(sites=sites).fit(X if frame else X.to_numpy(), [0, 1, 0, 1])

    def test_groups_beside_them_must_say_the_same(self, table):
        X, y = table
        model = CoterieClassifier("local", rounds=1, sites="hospital").fit(X, y, groups=X["hospital"])
        with pytest.raises(ValueError, match=r"^groups and column 'hospital' of X differ: give one of them$"):
            model.predict(X, groups=["north"] * 180)

    def test_a_row_without_a_site_is_refused(self, table):
        X, y = table
        with pytest.raises(ValueError, match=r"^groups have no site in row 3: name one for each row$"):
            CoterieClassifier(sites="hospital").fit(X.assign(hospital=X["hospital"].where(X.index != 2)), y)


def test_a_column_of_numbers_is_no_column_of_sites():
    """A feature by mistake, or a column that was moved: every row would be a site of its own."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.tile([0, 1], 20)
    with pytest.warns(coterie.CoterieWarning, match="40 sites for 40 rows, so that most have one row: name"):
        CoterieClassifier("local", rounds=1, sites=1).fit(X, y)
