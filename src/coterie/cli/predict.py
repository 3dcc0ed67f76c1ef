"""coterie predict"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coterie.cli import screen
from coterie.cli.command import Flags, command_with, flag, word
from coterie.core.errors import Gathered
from coterie.show import numbers as wording
from coterie.storage.paths import given_path, refuse_overwriting
from coterie.use import Cut, Predictor, load
from coterie.use.intake import Asked
from coterie.use.predictor import CALLED, Answers

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

COMMANDS = {"predict": ("after", 90, "ask a client's own model about new rows of a table")}
HELP = """Predicts rows of a table with a client's own model, from its run or from an exported folder.

Columns are found by name and prepared as in training. Each row gets a class and the probability of every
class, a number, or for survival a risk (the higher, the earlier the event). Where no class is as probable as
--threshold, none is named: the model is unsure. Of two classes the one in --cut is named where it is at least
so probable, the other elsewhere; without --cut, by the cut that was decided for this model, if one was.

The column trust says of each row what was filled in, what lies outside of training's range and what is rarely
seen, by the bounds of coterie check. A row that cannot be read, or cannot be, is skipped and says why; with
--strict it refuses the file.

examples:
  coterie predict runs/table-silos-finetune-seed0 patients.csv --client north
  coterie predict north-model patients.csv --threshold 0.7 --explain 3 --out predictions.csv
  coterie predict north-model patients.csv --cut ill=0.35
"""


@dataclass(frozen=True)
class _Predict:
    run: str = word("The folder of a run, one of a comparison's, or an exported model.", "RUN")
    rows: str = word("The table: CSV, TSV, Excel or Parquet, with a header.", "FILE")
    client: str = flag("", "Whose model; may be left out where the folder has only one.")
    threshold: float = flag(0.0, "Name no class that is less probable than this; 0 always names one.")
    cut: str = flag(
        "",
        "Of two classes name this one where it is at least so probable; by default as was decided.",
        "CLASS=P",
    )
    explain: int = flag(0, "Name so many columns that pushed most towards what is said; 0 for none.")
    strict: bool = flag(False, "Refuse the file if some row cannot be predicted, instead of skipping it.")
    ranges: str = flag(
        "", "A TOML file with bounds of your own, beside Coterie's, as coterie check takes it."
    )
    out: str = flag("", "A CSV file to write; by default it is printed.")

    def __post_init__(self) -> None:
        wrong = Gathered()
        if self.explain < 0:
            wrong.add(f"explain={self.explain} must be at least 0: try 3")
        with wrong.one():
            refuse_overwriting(self.out, self.run, self.rows, *([self.ranges] if self.ranges else []))
        with wrong.one():
            self.given()
        wrong.refuse()

    def given(self) -> Cut | None:
        return Cut.read(self.cut) if self.cut else None


@command_with(Flags(_Predict, "predict", HELP))
def predict(asked: _Predict) -> int:
    predictor = load(asked.run, asked.client, threshold=asked.threshold, cut=asked.given())
    if asked.ranges:
        predictor = predictor.with_ranges(given_path(asked.ranges, "--ranges"))
    with screen.stages(asked.rows) as show:
        found = some_answers(predictor, asked.rows, asked.strict, show)
        show("writing", 75)
        table = predictor.table_of(found, asked.explain)
        text = csv_of(table)
        show("all rows predicted", 100)
    left, cut, threshold = list[str](), predictor.cut, predictor.threshold  # what a threshold leaves of a cut
    if cut is not None and threshold > max(cut.at, 1 - cut.at):
        left = [f"threshold {threshold:g} leaves nothing to the cut: wherever it matters, no class is named"]
    elif cut is not None and threshold:
        left = [f"no class is named where none reaches the threshold {threshold:g}, whatever the cut says"]
    notes = (*predictor.means, *left, *predictor.notes, *notes_of(found.asked))
    said = summary(predictor, table, len(found.asked) - len(found.asked.kept))
    screen.say_table(notes, text, asked.out, said)
    return 0


def csv_of(table: pd.DataFrame) -> str:
    """As pandas writes it, in a fifth of the time."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(table.columns)
    gaps = table.isna()
    columns = [
        table[c].astype(object).mask(gaps[c], "") if gaps[c].any() else table[c] for c in table.columns
    ]
    writer.writerows(zip(*(column.tolist() for column in columns), strict=True))
    return written.getvalue()


def some_answers(
    predictor: Predictor,
    rows: str | Path,
    strict: bool,
    show: Callable[[str, int], None] = lambda doing, done: None,
) -> Answers:
    """Refused where no row can be predicted, or with `strict` some cannot."""
    found = predictor.answers_of(rows, strict, show)
    if not len(found.asked.kept):
        found.asked.refuse()
    return found


def notes_of(asked: Asked) -> tuple[str, ...]:
    return (*asked.said, *asked.trust.notes())


def summary(predictor: Predictor, table: pd.DataFrame, skipped: int = 0) -> str:
    """How many rows got which class, or between which numbers they are; how many were skipped."""
    rows = wording.several(len(table), "row")
    left_out = [f"{skipped} skipped"] if skipped else []
    if not predictor.classes:
        numbers = table[CALLED[predictor.task]]
        said = [f"{CALLED[predictor.task]} {numbers.min():g} to {numbers.max():g}", *left_out]
        return f"{rows}: {', '.join(said)}"
    counts = {name: int((table["class"] == name).sum()) for name in predictor.classes}
    counts["unsure"] = len(table) - skipped - sum(counts.values())
    said = [*(f"{n} {name}" for name, n in counts.items() if n), *left_out]
    return f"{rows}: {', '.join(said)}"
