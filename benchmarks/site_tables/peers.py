"""What a competent user of scikit-learn would do, with the same rows and columns.

Linear models: standardised, penalised by the squared norm, strength by cross-validation within the training
rows: RidgeCV, LogisticRegressionCV by log loss, Cox's regression of scikit-survival by the cross-validated
partial likelihood of Verweij and van Houwelingen (1993, Statistics in Medicine 12). Trees: gradient boosting,
their number by cross-validation. Each for every site by itself, for all rows together, and for all rows with
the site as inputs. Rows of one person are in one fold.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, RidgeCV
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .reading import Absent
from .scoring import cox_loss
from .splitting import Array, Part, Split, together

STRENGTHS = np.logspace(-3, 4, 15)
COX_STRENGTHS = np.logspace(-1, 3, 7)
FOLDS = 5
TREES = 100
MANY = 2000
"""Rows from which on trees are grown on histograms, which is quicker there and slower below."""
SURVIVAL = "scikit-survival==0.28.0"

Predict = Callable[[Array], Array]
"""Inputs to probabilities [row, class], numbers [row] or risks [row]."""


def folds(part: Part, task: str) -> list[tuple[Array, Array]]:
    """Up to five, with a row of each class, or an event, in each; fewer for small sites, none where not even
    two can be had.
    """
    labels = {"survival": part.event, "classification": part.y}.get(task)
    rarest = len(part)
    if task == "survival":
        rarest = int(part.event.sum())
    elif task == "classification":
        counts = np.unique(part.y, return_counts=True)[1]
        rarest = int(counts.min()) if len(counts) > 1 else 0
    k = min(FOLDS, rarest, len(part) if part.person is None else len(set(part.person)))
    if k < 2:
        return []
    kind = {
        (False, False): KFold(k, shuffle=True, random_state=0),
        (True, False): StratifiedKFold(k, shuffle=True, random_state=0),
        (False, True): GroupKFold(k),
        (True, True): StratifiedGroupKFold(k),
    }[labels is not None, part.person is not None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer censored rows than folds do no harm
        found = list(kind.split(part.x, labels, part.person))
    if task != "classification":
        return found
    return [(a, b) for a, b in found if len(set(part.y[a])) == len(set(part.y))]  # persons may hold a class


# one model


def trivial(task: str, part: Part, classes: int) -> Predict:
    """The mean, the rates of classes (each counts one row more), or the same risk for all."""
    if task == "regression":
        return lambda x: np.full(len(x), part.y.mean())
    if task == "survival":
        return lambda x: np.zeros(len(x))
    counts = np.bincount(part.y, minlength=classes) + 1.0
    return lambda x: np.tile(counts / counts.sum(), (len(x), 1))


def linear(task: str, part: Part, classes: int) -> Predict:
    inside = folds(part, task)
    if task == "regression":
        model = RidgeCV(STRENGTHS, cv=inside if part.person is not None and inside else None)
        return make_pipeline(StandardScaler(), model).fit(part.x, part.y).predict
    if task == "survival":
        return cox(part, inside)
    if len(set(part.y)) < 2:
        return trivial(task, part, classes)
    if not inside:  # a class has one row: nothing to choose by, so strongly penalised
        model = LogisticRegression(C=0.01, max_iter=1000)
    else:
        model = LogisticRegressionCV(
            Cs=1 / STRENGTHS[::-1],
            cv=inside,
            scoring="neg_log_loss",
            max_iter=1000,
            l1_ratios=(0,),
            use_legacy_attributes=False,
        )
    return with_all_classes(make_pipeline(StandardScaler(), model).fit(part.x, part.y), len(part), classes)


def with_all_classes(model: Any, rows: int, classes: int) -> Predict:
    """A class of which a site has no training row gets the chance of one row more, as in `trivial`."""

    def predict(x: Array) -> Array:
        chances = np.full((len(x), classes), 1 / (rows + classes))
        seen = model.predict_proba(x)
        chances[:, model.classes_] = seen * (1 - (classes - seen.shape[1]) / (rows + classes))
        return chances

    return predict


def cox(part: Part, inside: list[tuple[Array, Array]]) -> Predict:
    """Cox's regression; without folds, or without an event, the strongest penalty, and the same risk."""
    cox_model, _ = survival_models()
    if not part.event.any():
        return trivial("survival", part, 0)

    def fitted(rows: Part, strength: float) -> Any:
        model = cox_model(alpha=strength)
        return make_pipeline(StandardScaler(), model).fit(rows.x, outcome(rows))

    def likelihood(strength: float) -> float:
        total = 0.0
        for keep, _ in inside:
            kept = part.take(keep)
            try:
                risk = fitted(kept, strength).predict(part.x)
            except ValueError:  # not a single event is left, or weights run away
                return -np.inf
            total += likelihood_of(risk, part) - likelihood_of(risk[keep], kept)
        return total

    best = max(COX_STRENGTHS[::-1], key=likelihood) if inside else COX_STRENGTHS[-1]
    return fitted(part, best).predict


def survival_models() -> tuple[Any, Any]:
    """Cox's regression and boosted trees of scikit-survival, which Coterie does not need otherwise."""
    try:
        from sksurv.ensemble import GradientBoostingSurvivalAnalysis
        from sksurv.linear_model import CoxPHSurvivalAnalysis
    except ImportError as error:
        remedy = f"pip install --no-deps --target FOLDER {SURVIVAL}, then --packages FOLDER"
        raise Absent(f"survivals need scikit-survival ({error}): {remedy}") from None
    return CoxPHSurvivalAnalysis, GradientBoostingSurvivalAnalysis


def likelihood_of(risk: Array, part: Part) -> float:
    return -cox_loss(risk, part) * len(part)


def outcome(part: Part) -> Array:
    """As scikit-survival wants it."""
    pairs = zip(part.event, part.y, strict=True)
    return np.array(list(pairs), dtype=[("event", bool), ("time", float)])


def trees(task: str, part: Part, classes: int) -> Predict:
    """Boosted trees, as many as do best on held-out folds; of a survival with many rows, whose gradients cost
    the square of them, at most half as many with twice the rate, chosen by one fold.
    """
    outcomes = part.y if part.event is None else part.event
    if task != "regression" and (len(set(outcomes)) < 2 if part.event is None else not outcomes.any()):
        return trivial(task, part, classes)
    goal = outcome if task == "survival" else lambda rows: rows.y
    slow = task == "survival" and len(part) >= MANY
    most, losses = TREES // 2 if slow else TREES, []
    for keep, out in folds(part, task)[: 1 if slow else None]:
        model = grown(task, len(part), most, 10 / most).fit(part.x[keep], goal(part.take(keep)))
        held = part.take(out)
        losses.append([loss_of(task, predicted, held, model) for predicted in stages(task, model, held.x)])
    many = int(np.nanmean(losses, axis=0).argmin()) + 1 if losses else 10
    model = grown(task, len(part), many, 10 / most).fit(part.x, goal(part))
    return model.predict if task != "classification" else with_all_classes(model, len(part), classes)


def grown(task: str, rows: int, many: int, rate: float) -> Any:
    """Trees of few leaves, slowly."""
    if task == "survival":
        _, boosting = survival_models()
        return boosting(
            learning_rate=rate, n_estimators=many, max_depth=2, min_samples_leaf=5, random_state=0
        )
    if rows >= MANY:
        kind = HistGradientBoostingClassifier if task == "classification" else HistGradientBoostingRegressor
        return kind(learning_rate=rate, max_iter=many, max_leaf_nodes=8, early_stopping=False)
    kind = GradientBoostingClassifier if task == "classification" else GradientBoostingRegressor
    return kind(
        learning_rate=rate, n_estimators=many, max_depth=2, min_samples_leaf=5, subsample=0.8, random_state=0
    )


def stages(task: str, model: Any, x: Array) -> Iterator[Array]:
    return model.staged_predict_proba(x) if task == "classification" else model.staged_predict(x)


def loss_of(task: str, predicted: Array, held: Part, model: Any) -> float:
    if task == "regression":
        return float(np.mean((predicted - held.y) ** 2))
    if task == "survival":
        return -likelihood_of(predicted, held)
    own = predicted[np.arange(len(held)), np.searchsorted(model.classes_, held.y)]
    return float(-np.log(np.maximum(own, 1e-12)).mean())


# a model for each site


MODELS = {"trivial": trivial, "linear": linear, "trees": trees}
WAYS = ("alone", "pooled", "pooled+site")
CONTENDERS = ("trivial alone", *(f"{model} {way}" for model in ("linear", "trees") for way in WAYS))


def predictions(contender: str, split: Split) -> list[Array]:
    """Of each site's test rows."""
    name, _, way = contender.partition(" ")
    model, classes = MODELS[name], len(split.classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="sksurv")  # weights that run away
        if way == "alone":
            return [model(split.task, site.train, classes)(site.test.x) for site in split.sites]
        train, tests = together(split, with_site=way == "pooled+site")
        predict = model(split.task, train, classes)
        return [predict(test.x) for test in tests]
