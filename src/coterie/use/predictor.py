"""A client's own model, with all that it needs to be asked about new rows.

    rows of a table  -recipe->  raw columns  -preparation->  inputs  -model->  probabilities, or a number

Rows come as a file or a frame, whose columns are found by name, whatever their order; or as an array whose
columns are in the model's order. What is said of a row is the same bits wherever the predictor came from (the
run, its result in Python, a folder), and whatever other rows are asked about.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import nn

from coterie.core.client import Task
from coterie.core.errors import BadInput, CoterieWarning, Gathered
from coterie.data.intake import Array
from coterie.data.preparation import Preparation
from coterie.metrics.recalibration import Recalibrated
from coterie.use.cut import Cut
from coterie.use.explain import Push, pushes
from coterie.use.forward import finite_rows, outputs_of, probabilities_of, refuse_not_finite
from coterie.use.intake import Asked, Intake

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from coterie.data.quality.ranges import Ranges
    from coterie.data.tables.recipe import Recipe

UNSURE = ""
PREDICTS: dict[Task, str] = {"classification": "a class", "regression": "a number", "survival": "a risk"}
CALLED: dict[Task, str] = {"classification": "class", "regression": "prediction", "survival": "risk"}
"""What the column of answers is called."""
MEANS: dict[Task, str] = {
    "survival": "the higher the risk, the earlier the event is to be expected; it puts the rows that this "
    "model is asked about in order, and is no probability, no time, and not comparable with another model's"
}
"""What to know of answers that do not speak for themselves."""


class Answers(NamedTuple):
    """Rows that a model was asked about, and p [n, output] what it says of each, NaN where it is refused."""

    asked: Asked
    p: Array


@dataclass(frozen=True, eq=False)
class Predictor:
    """One client's model.

    client        whose
    task          classification, regression or survival
    classes       names of the classes; none where there are none
    model         takes inputs [n, *shape]
    shape         of one input; of a table (columns,)
    features      names of the inputs, if they have any
    preparation   makes inputs of raw columns; None where the model takes columns as they are
    recipe        how rows are read from files, if rows in training were
    threshold     where no class is as probable as this none is said: the model abstains
    ranges        bounds of what a body can have, in place of those that come with Coterie
    recalibrated  what is done to the model's outputs before they become probabilities, or why nothing is;
                  None where that is not known
    cut           from which probability on a class of two is said, in place of the most probable one
    made          how the network is built: {"name": "mlp", "options": {...}, "plugins": [...]}
    facts         what the model card says of data, circle and scores
    notes         worth knowing before a prediction is trusted
    """

    client: str
    task: Task
    classes: tuple[str, ...]
    model: nn.Module
    shape: tuple[int, ...]
    features: tuple[str, ...] = ()
    preparation: Preparation | None = None
    recipe: Recipe | None = None
    threshold: float = 0.0
    recalibrated: Recalibrated | None = None
    cut: Cut | None = None
    ranges: Ranges | None = None
    made: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        wrong = Gathered()
        if not 0 <= self.threshold <= 1:
            wrong.add(f"threshold={self.threshold} must lie in [0, 1]: try 0.7, or 0 to always answer")
        elif self.threshold and not self.classifies:
            wrong.add(
                f"threshold={self.threshold:g}, but {self.client!r} predicts {PREDICTS[self.task]}: leave it "
                "out"
            )
        if self.cut is not None:
            with wrong.one():
                self.cut.check(self.client, self.classes)
        wrong.refuse()

    def __repr__(self) -> str:
        what = ", ".join(self.classes) or PREDICTS[self.task]
        return (
            f"Predictor({self.client!r}: {what}, from {len(self.intake.columns) or list(self.shape)} columns)"
        )

    @property
    def classifies(self) -> bool:
        return self.task == "classification"

    @property
    def means(self) -> tuple[str, ...]:
        """What to know of its answers, beside `notes`."""
        cut = () if self.cut is None else (self.cut.words(self.classes),)
        changed = (self.recalibrated.found.words(),) if self.recalibrated and self.recalibrated.found else ()
        return (*((MEANS[self.task],) if self.task in MEANS else ()), *changed, *cut)

    def with_threshold(self, threshold: float) -> Predictor:
        return replace(self, threshold=threshold)

    def with_cut(self, cut: Cut | None) -> Predictor:
        """None names the most probable class, whatever was decided."""
        return replace(self, cut=cut)

    def with_ranges(self, path: Path | str) -> Predictor:
        """With bounds of one's own beside Coterie's: a file as `coterie check` takes it."""
        from coterie.data.quality.ranges import read_ranges

        return replace(self, ranges=read_ranges(path))

    @cached_property
    def intake(self) -> Intake:
        return Intake(self.client, self.shape, self.features, self.preparation, self.recipe, self.ranges)

    def inputs(self, source: Any) -> Array:
        """[n, *shape] as the model takes them."""
        return self.intake.asked(source).refuse().inputs

    def proba(self, source: Any, strict: bool = True) -> Array:
        """[n, class] probabilities, in the order of `classes`; else predictions or risks [n, 1].

        Rows that cannot be predicted are refused, all of them at once; with strict=False they are NaN, and a
        warning says how many. What else there is to know of rows is a warning too; `table` says it by row.
        """
        found = self.answers_of(source, strict)
        _warn_of(found.asked)
        return found.p

    def answers_of(
        self, source: Any, strict: bool = False, show: Callable[[str, int], None] = lambda doing, done: None
    ) -> Answers:
        """What the model says of a source's rows; with `strict`, all or none of them. `show` is told what is
        being done, and how much of a prediction is, in per cent.
        """
        show("reading and checking", 0)
        asked = self.intake.asked(source)
        show(f"predicting {len(asked.kept)} rows", 60)
        found = self.settled(asked.refuse() if strict else asked)
        return found._replace(asked=found.asked.refuse()) if strict else found

    def answered(self, inputs: Array) -> Array:
        """The same of inputs that are made already."""
        p = self.answers(inputs)
        refuse_not_finite(torch.from_numpy(p), self.speaker)
        return p

    @property
    def speaker(self) -> str:
        return f"the model of {self.client!r}"

    def answers(self, inputs: Array) -> Array:
        """[n, output], NaN where the model gives no finite number."""
        out = outputs_of(self.model, torch.from_numpy(np.ascontiguousarray(inputs)))
        finite = finite_rows(out)[:, None]
        if not self.classifies:
            return np.asarray(out.double().reshape(-1, 1).where(finite, torch.nan).numpy())
        p = probabilities_of(self.rescaled(out))
        return np.asarray(p.reshape(-1, len(self.classes)).where(finite, torch.nan).numpy())

    def rescaled(self, outputs: torch.Tensor) -> torch.Tensor:
        """Outputs [n, class] as they become probabilities: as they are, where nothing is recalibrated."""
        found = self.recalibrated.found if self.recalibrated else None
        if found is None:
            return outputs
        return found.slope * outputs.double() + torch.tensor(found.intercepts, dtype=torch.float64)

    def settled(self, asked: Asked) -> Answers:
        """Rows for which the model gives no finite number are refused as well."""
        p = self.answers(asked.inputs)
        whole = np.full((len(asked), p.shape[1]), np.nan)
        whole[asked.kept] = p
        endless = asked.kept[np.isnan(p).any(axis=1)].tolist()
        why = f"{self.speaker} gives no finite number: look for a value that is far off"
        return Answers(asked.without(endless, why) if endless else asked, whole)

    def predict(self, source: Any, strict: bool = True) -> Array:
        """[n] names of classes, "" where the model abstains; else numbers, or risks.

        With strict=False also "", or NaN, for rows that cannot be predicted; see `proba`.
        """
        found = self.answers_of(source, strict)
        _warn_of(found.asked)
        return self.decided(found.p)

    def decided(self, p: Array) -> Array:
        """What is said of probabilities [n, class]; nothing where they are NaN."""
        if not self.classifies:
            return p[:, 0]
        names = np.array(self.classes, dtype=object)[self.chosen(p)]
        return np.where(self.sure(p), names, UNSURE)

    def chosen(self, p: Array) -> Array:
        """[n] the number of the class that is said, or would be if the model did not abstain."""
        return p.argmax(axis=1) if self.cut is None else self.cut.said(p, self.classes)

    def sure(self, p: Array) -> Array:
        """[n] whether some class reaches the threshold; a cut decides only between classes where one does."""
        return np.asarray(p.max(axis=1, initial=0.0) >= self.threshold)

    def explain(self, source: Any, most: int = 3, strict: bool = True) -> list[list[Push]]:
        """For each row the columns that pushed most towards what the model says, the strongest first; with
        strict=False none for rows that cannot be predicted.
        """
        found = self.answers_of(source, strict)
        _warn_of(found.asked)
        return self.explained(found, most)

    def explained(self, found: Answers, most: int) -> list[list[Push]]:
        if most < 1:
            raise BadInput(f"explain={most} must be at least 1: try 3")
        if not self.intake.columns:
            raise BadInput(
                f"the inputs of {self.client!r} have no names, so none can be named: leave explain out"
            )
        asked, p = found.asked, found.p[found.asked.kept]
        said = self.chosen(p) if self.classifies else np.zeros(len(p), dtype=int)
        rows: list[list[Push]] = [[] for _ in asked.lines]
        slope = self.recalibrated.found.slope if self.recalibrated and self.recalibrated.found else 1.0
        pushed = pushes(self.model, self.intake, asked, self.answered, said, most, slope)
        for row, columns in zip(asked.kept, pushed, strict=True):
            rows[row] = columns
        return rows

    def table(self, source: Any, explain: int = 0, strict: bool = False) -> pd.DataFrame:
        """A line for each row: where it stands, what is said of it, how sure, what pushed, and how far that
        may be trusted. A row that cannot be predicted has the reason in place of an answer; with `strict` it
        refuses all.
        """
        return self.table_of(self.answers_of(source, strict), explain)

    def table_of(self, found: Answers, explain: int = 0) -> pd.DataFrame:
        import pandas as pd

        asked, p = found
        said: dict[str, Any] = {asked.word: asked.lines}
        if not self.classifies:
            said[CALLED[self.task]] = p[:, 0]
        else:
            said[CALLED[self.task]] = self.decided(p)
            if self.threshold:
                said["unsure"] = np.where(self.sure(p) | np.isnan(p).any(axis=1), "", "yes")
            said |= {f"p({name})": p[:, c] for c, name in enumerate(self.classes)}
        if explain:
            pushed = self.explained(found, explain)
            for i in range(min(explain, len(self.intake.columns))):
                said[f"pushed {i + 1}"] = [str(row[i]) if i < len(row) else "" for row in pushed]
        said["trust"] = asked.trust.texts()
        return pd.DataFrame(said)


def _warn_of(asked: Asked) -> None:
    """An array of answers has no room for what there is to know of its rows."""
    if asked.trust.summary():
        rows = f"{len(asked)} row" + "s" * (len(asked) != 1)
        said = f"of {rows}: {asked.trust.summary()}"
        warnings.warn(f"{said}: see the column trust of table()", CoterieWarning, stacklevel=3)
