"""Probabilities that mean what they say: a slope and intercepts over a model's outputs, fitted afterwards.

    p'(c|x) = softmax_c(b z_c(x) + a_c)                z the model's outputs; b = 1, a = 0 leaves them

    slope                 b alone: temperature scaling (Guo et al., 2017)
    slope and intercept   b and a: for two classes logistic recalibration (Cox, 1958; Platt, 1999)

The fit minimises the negative log-likelihood of rows that the model was not trained on, plus
1/2 ((b - 1)² + Σ_c a_c²): a pull towards leaving the model as it is, as weak as a row or two, which keeps b
finite where these rows are all told apart. b must be above 0: the order of rows stays, and with it the AUC.

Is it any better? What is fitted is tried on folds that the fit had not seen. It is used only if it makes
their log loss smaller, the mean by more than its standard error: of a model that is calibrated already, and
of too few rows to tell, nothing is changed. Two parameters ask for some forty rows that are not of the
commonest class (twenty for each: Harrell, "Regression Modeling Strategies", 2015, section 4.4); with fewer
nothing is fitted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
import torch

from coterie.linear.newton import log_softmax, losses, slope_and_levels
from coterie.metrics.calibration import brier, ece, logits_of, normalised_nll

ENOUGH = 40  # rows that are not of the commonest class
OF_CLASS = 20  # rows of each class, for intercepts
LEAST = 1e-12  # probability of which a logarithm is taken
BOTH, SLOPE = "slope and intercept", "slope"
FOLDS = 5
BY_VALIDATION, BY_FOLDS = "validation rows", f"{FOLDS} folds of training rows"
Figures = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Recalibration:
    """What is done to outputs before they become probabilities, and what came of it.

    kind         slope, or slope and intercept
    slope        b
    intercepts   a [class]; 0 for a slope alone
    rows         that it was fitted to
    source       which these are: "validation rows", "5 folds of training rows"
    before       the log loss of these rows
    after        the same, recalibrated by what was fitted without them
    """

    kind: str
    slope: float
    intercepts: tuple[float, ...]
    rows: int = 0
    source: str = ""
    before: float = math.nan
    after: float = math.nan

    def __post_init__(self) -> None:
        numbers = (self.slope, *self.intercepts)
        if not all(isinstance(v, int | float) and math.isfinite(v) for v in numbers) or self.slope <= 0:
            raise ValueError(f"a recalibration by {numbers} is none")

    def of_probabilities(self, p: np.ndarray) -> np.ndarray:
        """[row, class] from what the model itself said."""
        z = self.slope * outputs_of(p) + np.array(self.intercepts)
        return np.asarray(np.exp(log_softmax(z)))

    def words(self) -> str:
        """For a person."""
        how = "by a slope" if self.kind == SLOPE else "by a slope and an intercept"
        return (
            f"probabilities are recalibrated {how} (logistic), fitted to {self.rows} rows that training had "
            f"not seen ({self.source}), whose log loss it makes {self.after:.3f} instead of {self.before:.3f}"
        )


@dataclass(frozen=True)
class Recalibrated:
    """What is done to one client's probabilities, or why nothing is. `test` has figures of its test rows by
    name, before and after.
    """

    found: Recalibration | None = None
    why: str = ""
    test: Figures = field(default_factory=dict)

    def words(self) -> str:
        if self.found is None:
            return f"probabilities are the model's own: {self.why}"
        names = {"nll": "log loss", "brier": "Brier score", "ece": "ECE"}
        shown = [f"{names[m]} {was:.3f}, now {now:.3f}" for m, (was, now) in self.test.items()]
        return self.found.words() + (f"; on its test rows {'; '.join(shown)}" if shown else "")

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        if self.found is None:
            return {"why": self.why}
        return {**asdict(self.found), "intercepts": list(self.found.intercepts), "test": dict(self.test)}

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> Recalibrated:
        """What `told` said; ValueError, TypeError or LookupError where it is none."""
        if "why" in table:
            return cls(why=str(table["why"]))
        values = {f.name: table[f.name] for f in fields(Recalibration)}
        values["intercepts"] = tuple(map(float, values["intercepts"]))
        test = {str(m): (float(was), float(now)) for m, (was, now) in table["test"].items()}
        return cls(Recalibration(**values), test=test)


def outputs_of(p: np.ndarray) -> np.ndarray:
    """Outputs [row, class] that have these probabilities."""
    return np.log(np.maximum(np.asarray(p, dtype=np.float64), LEAST))


def too_few(counts: np.ndarray | list[int]) -> str:
    """Why rows with so many of each class are not enough; nothing where they are."""
    most, rows = max(counts, default=0), int(sum(counts))
    if rows - most >= ENOUGH:
        return ""
    return f"{rows - most} of {rows} rows are not of the commonest class, and {ENOUGH} are needed"


def chosen(p: np.ndarray, y: np.ndarray, fold: np.ndarray, source: str) -> Recalibration | str:
    """What makes probabilities [row, class] of rows that training had not seen better on folds [row] that it
    was not fitted to; else why there is nothing.
    """
    counts = np.bincount(y, minlength=p.shape[1])
    if why := too_few(counts.tolist()):
        return why
    z, best, most = outputs_of(p), None, 0.0
    own = losses(z, y)
    for kind in (SLOPE, BOTH) if counts.min() >= OF_CLASS else (SLOPE,):
        found = np.empty(len(y))
        for f in np.unique(fold):
            b, a = fitted(z[fold != f], y[fold != f], kind == BOTH)
            found[fold == f] = losses(b * z[fold == f] + a, y[fold == f])
        gain = own - found
        if gain.mean() > max(most, gain.std(ddof=1) / math.sqrt(len(gain))):
            best, most = (kind, float(found.mean())), float(gain.mean())
    before = f"the log loss of {len(y)} rows that training had not seen ({source}), {own.mean():.3f}"
    if best is None:
        return f"no recalibration makes {before}, clearly smaller"
    b, a = fitted(z, y, best[0] == BOTH)
    if b <= 0:
        return f"a recalibration that makes {before}, smaller would turn the order of rows round"
    return Recalibration(best[0], b, tuple(a.tolist()), len(y), source, float(own.mean()), best[1])


def fitted(z: np.ndarray, y: np.ndarray, intercepts: bool) -> tuple[float, np.ndarray]:
    """b and a [class]."""
    return slope_and_levels(z, y, 1.0, 1.0 if intercepts else math.inf)


def settled(
    p: np.ndarray,
    y: np.ndarray,
    fold: np.ndarray,
    source: str,
    tested: tuple[np.ndarray, np.ndarray] | None = None,
) -> Recalibrated:
    """What to do with a client's probabilities, by those of rows that its model had not seen; `tested` are
    those of its test rows, and their labels.
    """
    found = chosen(p, y, fold, source) if np.isfinite(p).all() else "its model gives no finite number"
    if isinstance(found, str):
        return Recalibrated(why=found)
    if tested is None or not len(tested[1]):
        return Recalibrated(found)
    before, labels = tested[0], torch.from_numpy(np.asarray(tested[1], dtype=np.int64))
    sides = (before, found.of_probabilities(before))
    both = [torch.from_numpy(np.asarray(some, dtype=np.float64)) for some in sides]
    figures = {
        "nll": [float(normalised_nll(logits_of(q), labels)) for q in both],
        "brier": [float(brier(q, labels)) for q in both],
        "ece": [float(ece(q, labels)) for q in both],
    }
    return Recalibrated(found, test={name: (was, now) for name, (was, now) in figures.items()})
