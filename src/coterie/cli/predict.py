"""coterie predict"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

from coterie.cli import screen
from coterie.cli.flags import parse
from coterie.core.errors import Gathered
from coterie.report import words as wording
from coterie.storage.paths import refuse_overwriting
from coterie.use import Cut, Predictor, load
from coterie.use.predictor import CALLED, UNSURE

if TYPE_CHECKING:
    import pandas as pd

HELP = """Predicts rows of a table with a client's own model, from its run or from an exported folder.

Columns are found by name and prepared as in training. Each row gets a class and the probability of every
class, a number, or for survival a risk (the higher, the earlier the event). Where no class is as probable as
--threshold, none is named: the model is unsure. Of two classes the one in --cut is named where it is at least
so probable, the other elsewhere; without --cut, by the cut that was decided for this model, if one was.

examples:
  coterie predict runs/table-silos-finetune-seed0 patients.csv --client north
  coterie predict north-model patients.csv --threshold 0.7 --explain 3 --out predictions.csv
  coterie predict north-model patients.csv --cut ill=0.35
"""


@dataclass(frozen=True)
class Predict:
    run: Annotated[
        tyro.conf.Positional[str],
        tyro.conf.arg(
            metavar="RUN", help="The folder of a run, one of a comparison's, or an exported model."
        ),
    ]
    rows: Annotated[
        tyro.conf.Positional[str],
        tyro.conf.arg(metavar="FILE", help="The table: CSV, TSV, Excel or Parquet, with a header."),
    ]
    client: Annotated[
        str, tyro.conf.arg(help="Whose model; may be left out where the folder has only one.")
    ] = ""
    threshold: Annotated[
        float, tyro.conf.arg(help="Name no class that is less probable than this; 0 always names one.")
    ] = 0.0
    cut: Annotated[
        str,
        tyro.conf.arg(
            metavar="CLASS=P",
            help="Of two classes name this one where it is at least so probable; by default as was decided.",
        ),
    ] = ""
    explain: Annotated[
        int, tyro.conf.arg(help="Name so many columns that pushed most towards what is said; 0 for none.")
    ] = 0
    out: Annotated[str, tyro.conf.arg(help="A CSV file to write; by default it is printed.")] = ""

    def __post_init__(self) -> None:
        wrong = Gathered()
        if self.explain < 0:
            wrong.add(f"explain={self.explain} must be at least 0: try 3")
        with wrong.one():
            refuse_overwriting(self.out, self.run, self.rows)
        with wrong.one():
            self.given()
        wrong.refuse()

    def given(self) -> Cut | None:
        """The cut, if there is one on the command line."""
        return Cut.read(self.cut) if self.cut else None


def predict(words: Sequence[str]) -> int:
    asked: Predict = parse(Predict, words, "predict", HELP)
    predictor = load(asked.run, asked.client, threshold=asked.threshold, cut=asked.given())
    rows = predictor.intake.asked(asked.rows)
    table = predictor.table_of(rows, asked.explain)
    notes = (*predictor.means, *unsure_first(predictor), *predictor.notes, *rows.said)
    said = summary(predictor, table)
    screen.say_table(notes, table.to_csv(index=False), asked.out, said)
    return 0


def unsure_first(predictor: Predictor) -> list[str]:
    """What a threshold leaves of a cut."""
    cut, threshold = predictor.cut, predictor.threshold
    if cut is None or not threshold:
        return []
    if threshold > max(cut.at, 1 - cut.at):
        return [f"threshold {threshold:g} leaves nothing to the cut: wherever it matters, no class is named"]
    return [f"no class is named where none reaches the threshold {threshold:g}, whatever the cut says"]


def summary(predictor: Predictor, table: pd.DataFrame) -> str:
    """How many rows got which class, or between which numbers they are."""
    rows = wording.several(len(table), "row")
    if not predictor.classes:
        said = table[CALLED[predictor.task]]
        return f"{rows}: {CALLED[predictor.task]} {said.min():g} to {said.max():g}"
    counts = {name: int((table["class"] == name).sum()) for name in (*predictor.classes, UNSURE)}
    said = [f"{n} {name or 'unsure'}" for name, n in counts.items() if n]
    return f"{rows}: {', '.join(said)}"
