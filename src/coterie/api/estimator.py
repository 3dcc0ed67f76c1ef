"""Coterie as estimators of scikit-learn: fit on the rows of all sites, predict with each site's own model.

    CoterieClassifier().fit(X, y, groups=site).predict_proba(X_new, groups=site_new)
    CoterieClassifier(sites="hospital").fit(X, y).predict_proba(X_new)

`groups` says which site each row belongs to; or a column of X does (`sites`), which goes where X goes:
through searches, scorers and calibration. All rows given to `fit` are trained on (but those that `validation`
sets aside): who splits rows for testing is the caller, and so `result_` has no scores on test rows. Rows
become inputs by the same preparation as everywhere else (`data/tabular.py`), which each model keeps.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import assert_all_finite, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from coterie.api.checks import split_settings
from coterie.api.estimator_rows import (
    ONE,
    Together,
    check_sites,
    client_of,
    dealt,
    finite,
    for_others,
    one_column,
    refuse_gaps,
    refuse_many_texts,
    same_sites,
    seed_of,
    sites_apart,
    sites_in,
)
from coterie.api.result import Result, result_of
from coterie.api.train import alone, asked_for, warn_of_leaks
from coterie.core.checks import check_choice
from coterie.core.client import Client
from coterie.core.errors import BadData, BadInput, CoterieError, CoterieWarning
from coterie.core.kernel import Trainer
from coterie.core.method import Method
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, hold_out
from coterie.data.frames import columns_of, raw_of
from coterie.data.intake import Array
from coterie.data.preparation import Preparation, numbers
from coterie.data.tabular import Absent, Scale, TabularPrepare
from coterie.engines.threads import narrow
from coterie.methods.baselines.local import Local
from coterie.runs.builder import Builder, Handed
from coterie.runs.loop import run_in
from coterie.use import Predictor

Unseen = Literal["refuse", "shared"]
Gaps = Literal["refuse", "median"]
WITHOUT_SITE = (
    "rows without a site (groups is not given; scorers and calibration hand on X alone: name its column of "
    "sites, sites='hospital')"
)


class Unfit(CoterieError, ValueError):
    """What an estimator cannot take: scikit-learn expects a ValueError."""


@contextlib.contextmanager
def _as_value_errors() -> Iterator[None]:
    try:
        yield
    except (BadInput, BadData) as error:
        raise Unfit(str(error)) from None


class Estimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What classifier and regressor share.

    Where scikit-learn hands metadata on, `groups` is asked for by itself.

    Fitted: sites_ (the values of groups), models_ (modules for prepared inputs, by the site's name), result_
    (the run: history, who listened to whom, notes), n_features_in_, feature_names_in_.
    """

    __metadata_request__fit: ClassVar = {"groups": True}
    __metadata_request__predict: ClassVar = {"groups": True}
    __metadata_request__score: ClassVar = {"groups": True}

    def __init__(
        self,
        method: str | Method = "finetune",
        model: str | nn.Module | None = None,
        *,
        rounds: int = 30,
        kernel: str | Trainer | None = None,
        options: Mapping[str, Any] | None = None,
        scale: Scale = "shared",
        missing: Gaps = "refuse",
        absent: Absent = "mask",
        validation: float = 0.0,
        unseen: Unseen = "refuse",
        sites: str | int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        """What can be chosen.

        method         a name, or a method of your own; a single site trains alone, whatever it is
        model          the name of a model, or a torch module that takes the prepared inputs; None is logistic
                       for classes, linear for numbers
        rounds         of training
        kernel         the local work: sgd, adam, ... or an object
        options        of the method and the local work: {"lr": 0.05, "epochs": 2, "tune": 3}
        scale          numbers are standardised with the mean and deviation of all sites (shared), of each
                       site, or taken as they are (constants)
        missing        NaN in a column that a site has: refused, or filled with the site's training median
                       (texts: its most frequent one)
        absent         a column of which a site knows no value at all: its inputs are 0 there (mask); they are
                       the others' mean, and an input of its own says so (flag); it is left out for all
                       (common); or it is refused
        validation     share of each site's rows that are not trained on, for methods that choose by them
        unseen         rows of a site that was not in `fit`, or of no site: refused, or predicted by the model
                       that all sites share; with a method that has none, by the mean of all sites'
                       predictions, each counting by its rows. Such rows are prepared by scale and medians of
                       all sites together
        sites          the column of X that says whose each row is, by its name or number; it is no input.
                       None: `groups` say it
        random_state   the seed; None draws one
        """
        self.method = method
        self.model = model
        self.rounds = rounds
        self.kernel = kernel
        self.options = options
        self.scale = scale
        self.missing = missing
        self.absent = absent
        self.validation = validation
        self.unseen = unseen
        self.sites = sites
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "median"
        return tags

    def _fit(self, X: Any, y: Any, groups: Any) -> Self:
        """`fit`, with targets as the subclass reads them."""
        with _as_value_errors(), narrow():
            check_choice("rule for missing values", self.missing, get_args(Gaps))
            check_choice("rule for unseen sites", self.unseen, get_args(Unseen))
            check_sites(self.sites)
            if self.options is not None and not isinstance(self.options, Mapping):
                raise BadInput(f"options={self.options!r} must be a dictionary: try {{'lr': 0.05}}")
            if not 0 <= self.validation < 1:
                raise BadInput(f"validation={self.validation} must lie in [0, 1): try 0.2, or 0 for none")
            raw, groups = self._raw(X, groups, reset=True)
            targets, classes = self._targets(y)
            check_consistent_length(raw, targets)
            sites, rows = dealt(groups, len(raw))
            self._warn_of_one_site(sites, groups)
            names, seed = [str(s) for s in sites], seed_of(self.random_state)
            parts = [self._held(Arrays(raw, targets), r, n, seed) for r, n in zip(rows, names, strict=True)]
            way = TabularPrepare(self.columns_, self.missing, self.scale, self.absent)
            trains = [train for train, _ in parts]
            ways = way.fitted(trains, names)
            for mine, own in zip(ways, rows, strict=True):
                refuse_gaps(mine, raw[own], own)
            clients = [client_of(n, w, *p, classes) for n, w, p in zip(names, ways, parts, strict=True)]
            self.result_ = self._trained(clients, seed)
            self.sites_, self.models_ = np.array(sites), dict(self.result_.models)
            self._names = dict(zip(sites, names, strict=True))
            self._own = self._predictors(len(classes))
            sizes = {n: len(t) for n, t in zip(names, trains, strict=True)}
            self._shared = self._for_all(for_others(way, trains, ways[0]), sizes)
        return self

    def _predictors(self, classes: int) -> dict[str, Predictor]:
        """Of each site that has a model, by name."""
        own = {name: self.result_.predictor(name) for name in self.models_}
        outputs = len(next(iter(own.values())).classes)
        if outputs != classes:
            raise BadInput(f"the model gives {outputs} outputs for {classes} classes: change its last layer")
        return own

    def _for_all(self, way: Preparation, sizes: Mapping[str, int]) -> Predictor:
        """What sites without a model are predicted with."""
        one = replace(next(iter(self._own.values())), client=ONE, preparation=way, facts={})
        if self.result_.shared is not None:
            return replace(one, model=self.result_.shared)
        together = Together(self.models_, sizes, bool(one.classes))
        return replace(one, model=together, made={"name": Together.__name__, "options": {}})

    def predictor(self, site: Any) -> Predictor:
        """The model of a site in use: by names of columns, on files and frames, to explain and to export."""
        check_is_fitted(self)
        with _as_value_errors():
            return self._of_site(site)

    def _warn_of_one_site(self, sites: Sequence[Any], groups: Any) -> None:
        """A search over methods would compare nothing, and every score in it would look like a result."""
        if len(sites) > 1 or self.method == "local" or isinstance(self.method, Local):
            return
        not_given = "groups are not given, so that all rows are one site"
        what = not_given if groups is None else "there is one site"
        way = "give groups, or name the column of X that has them, sites='hospital', which searches pass on"
        name = self.method if isinstance(self.method, str) else type(self.method).__name__
        warnings.warn(
            f"{what}, which trains alone, whatever the method ({name}): {way}; or say method='local'",
            CoterieWarning,
            stacklevel=4,
        )

    def _raw(self, X: Any, groups: Any, reset: bool) -> tuple[Array, Any]:
        """[row, column] numbers, NaN where unknown, and whose each row is; names and number of columns are
        those of `fit`.
        """
        if self.sites is not None:
            validate_data(self, X, reset=reset, skip_check_array=True)
            X, column = sites_apart(X, self.sites)
            if groups is not None:
                same_sites(groups, column, self.sites)
            groups = column
        if isinstance(X, pd.DataFrame):
            if self.sites is None:
                validate_data(self, X, reset=reset, skip_check_array=True)
            if reset:
                self.columns_ = columns_of(X)
                refuse_many_texts(self.columns_)
            return finite(raw_of(X, self.columns_)), groups
        if self.sites is None:
            raw: Array = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
        else:
            raw = finite(X)
        if reset:
            self.columns_ = numbers([f"x{i}" for i in range(raw.shape[1])])
        texts = [c.name for c in self.columns_ if not c.of.ranked]
        if texts:
            raise BadData(f"fit had texts in columns {', '.join(texts)}: give a DataFrame with such columns")
        return raw, groups

    def _held(self, data: Arrays, rows: Array, name: str, seed: int) -> tuple[Arrays, Arrays]:
        if not self.validation:
            return data.take(rows), data.take(rows[:0])
        key = Key(seed, ("client", name)).at("validation")
        keep, out = hold_out(data.y[rows], self.validation, key.numpy(), f"site {name!r}")
        return data.take(rows[keep]), data.take(rows[out])

    def _trained(self, clients: Sequence[Client], seed: int) -> Result:
        kernel, method, options, targets = self.kernel, self.method, dict(self.options or {}), "auto"
        model: Any = self._usual if self.model is None else self.model
        handed = Handed(model, clients, tested=False)
        if len(clients) == 1:  # nobody to learn with
            method, targets = alone(handed, kernel, method, options)
            kernel, options = None, {}
        given = {"rounds": self.rounds, "seed": seed, "one_class": "allow", "targets": targets}
        settings, _ = split_settings(given, "fit")
        settings, way = asked_for(handed, settings, method, kernel, options)
        prepare = partial(Builder(handed).prepare, settings, method=way)
        result = run_in(None, prepare, settings.method, lambda record: None, result_of)
        warn_of_leaks(result)
        result.record.settle()
        return result

    def _answers(self, X: Any, groups: Any) -> Array:
        """[row, class] probabilities by each row's own model; [row, 1] numbers."""
        check_is_fitted(self)
        with _as_value_errors(), narrow():
            raw, groups = self._raw(X, groups, reset=False)
            models = self._models_of(groups, len(raw))
            numbers = {id(m): i for i, m in enumerate(models)}
            made, whose = [], np.array([numbers[id(m)] for m in models])
            for i in numbers.values():
                model, rows = models[i], np.flatnonzero(whose == i)
                assert model.preparation is not None
                refuse_gaps(model.preparation, raw[rows], rows)
                made.append((rows, model.answered(model.preparation.inputs(raw[rows]))))
        answers = np.empty((len(raw), made[0][1].shape[1]))
        for rows, some in made:
            answers[rows] = some
        return answers

    def _models_of(self, groups: Any, rows: int) -> list[Predictor]:
        """Each row's own."""
        if groups is None and len(self._own) == 1:
            return [*self._own.values()] * rows
        if groups is None:
            shared = self._for_unseen(WITHOUT_SITE)
            warnings.warn(
                "groups are not given, so that all rows are predicted with what all sites share, by no "
                "site's own model: give groups, or name their column of X, sites='hospital'",
                CoterieWarning,
                stacklevel=5,
            )
            return [shared] * rows
        return [self._of_site(site) for site in sites_in(groups, rows)]

    def _of_site(self, site: Any) -> Predictor:
        own = self._own.get(self._names.get(site, ""))
        return self._for_unseen(f"rows of site {site!r}") if own is None else own

    def _for_unseen(self, what: str) -> Predictor:
        if self.unseen == "refuse":
            known = ", ".join(self._own)
            within = "split within sites (shuffle=True)"
            way = "give one of these in groups" if self.sites is None else within
            raise BadData(
                f"{what} have no model: fit made one for {known}; {way}, or unseen='shared' to predict with "
                "what all sites share"
            )
        return self._shared


class CoterieClassifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """A classifier for each site, learned together.

    classes_ are the labels, whatever they are: texts, integers, 0.0 and 1.0. A site may lack some of them.
    """

    __metadata_request__predict_proba: ClassVar = {"groups": True}
    _usual = "logistic"

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """X [row, column] an array or a DataFrame, y [row] labels, groups [row] sites; None is one site."""
        return self._fit(X, y, groups)

    def _targets(self, y: Any) -> tuple[Array, tuple[str, ...]]:
        labels = one_column(self, y)
        if pd.isna(labels).any():
            raise BadData(f"y contains NaN or None in row {np.flatnonzero(pd.isna(labels))[0] + 1}: drop it")
        check_classification_targets(labels)
        self.classes_, targets = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise BadData(
                f"y holds one class ({self.classes_[0]}), at least 2 are needed: add rows of another"
            )
        return targets.astype(np.int64), tuple(str(c) for c in self.classes_)

    def predict_proba(self, X: Any, groups: Any = None) -> Array:
        """[row, class] in the order of `classes_`."""
        return self._answers(X, groups)

    def predict(self, X: Any, groups: Any = None) -> Array:
        """[row] the most likely class."""
        likely = self.predict_proba(X, groups).argmax(axis=1)
        return np.asarray(self.classes_[likely])

    def score(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> float:
        """Share of rows whose class is predicted."""
        return float(accuracy_score(y, self.predict(X, groups), sample_weight=sample_weight))


class CoterieRegressor(RegressorMixin, Estimator):  # type: ignore[misc]
    """A regression for each site, learned together."""

    _usual = "linear"

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """X [row, column] an array or a DataFrame, y [row] numbers, groups [row] sites; None is one site."""
        return self._fit(X, y, groups)

    def _targets(self, y: Any) -> tuple[Array, tuple[str, ...]]:
        targets = one_column(self, y)
        assert_all_finite(targets, input_name="y")
        return targets.astype(np.float64), ()

    def predict(self, X: Any, groups: Any = None) -> Array:
        """[row]"""
        return self._answers(X, groups)[:, 0]

    def score(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> float:
        """R² over all rows."""
        return float(r2_score(y, self.predict(X, groups), sample_weight=sample_weight))
