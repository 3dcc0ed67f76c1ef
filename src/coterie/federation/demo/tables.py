"""Four tables of real patients, as four sites would have them: a CSV and a recipe for each.

Heart disease of four hospitals; where it is not at hand and there is no network, scikit-learn's breast
cancer, dealt to four.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coterie.core.errors import BadData
from coterie.core.seeds import Key
from coterie.data.preparation import Column
from coterie.data.sources import heart_disease as heart
from coterie.storage.atomic import write_whole

DEALT = ("north", "south", "east", "west")
INSTEAD = "heart disease is not at hand and could not be fetched: breast cancer, dealt to four sites, instead"


@dataclass(frozen=True)
class Study:
    """Rows of text by site, with what their columns are; the last one is to be predicted."""

    about: str
    columns: tuple[Column, ...]
    target: str
    values: tuple[str, str]
    rows: Mapping[str, Sequence[Sequence[str]]]

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(self.rows)

    def table(self, site: str, rows: slice = slice(None), target: bool = True) -> str:
        """A site's rows as CSV."""
        wide = len(self.columns) + target
        text = io.StringIO()
        header = [*(c.name for c in self.columns), self.target]
        csv.writer(text, lineterminator="\n").writerows(
            [header[:wide], *(r[:wide] for r in self.rows[site][rows])]
        )
        return text.getvalue()

    def recipe(self, files: Mapping[str, str]) -> str:
        """How these sites' files are read, in TOML."""
        lines = [f'target = "{self.target}"', 'missing = "median"', 'absent = "flag"', "", "[sites]"]
        lines += [f'{site} = "{file}"' for site, file in files.items()]
        for column in self.columns:
            lines += ["", f'[columns."{column.name}"]', f'use = "{column.kind}"', *_values(column)]
        lines += ["", f"[columns.{self.target}]", 'use = "flag"', f"values = {_texts(self.values)}"]
        return "\n".join([*lines, ""])

    def write(self, folder: Path, site: str) -> None:
        """What a site has before it takes part: its table, and a recipe that reads it."""
        write_whole(folder / f"{site}.csv", self.table(site))
        write_whole(folder / "recipe.toml", self.recipe({site: f"{site}.csv"}))


def _values(column: Column) -> list[str]:
    known = ("0", "1") if column.kind == "flag" else tuple(column.values)
    return [f"values = {_texts(known)}"] if known else []


def _texts(values: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"


def study(say: Callable[[str], None]) -> Study:
    source = heart.HeartDisease()
    try:
        paths = source.fetch()
    except BadData:
        if source.at_hand():  # it is there, but damaged: that can be mended
            raise
        say(INSTEAD)
        return breast_cancer()
    return heart_disease(paths)


def heart_disease(paths: Sequence[Path]) -> Study:
    table, ill = heart.read_hospitals(paths)
    columns = [c for c in heart.COLUMNS if c not in heart.SPARSE]

    def text(column: str, value: float) -> str:
        blank = math.isnan(value) or (value == 0 and column in heart.NEVER_ZERO)
        return "" if blank else f"{value:g}"

    rows: dict[str, list[list[str]]] = {hospital: [] for hospital in heart.HOSPITALS}
    for i, hospital in enumerate(table["hospital"]):
        found = [text(c, table[c][i]) for c in columns]
        rows[hospital].append([*found, "yes" if ill[i] else "no"])
    kinds = tuple(map(heart.column_of, columns))
    return Study("heart disease, four hospitals", kinds, "ill", ("no", "yes"), rows)


def breast_cancer() -> Study:
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer()
    names = [str(name).replace(" ", "_") for name in found.feature_names]
    order = Key(0).at("dealt").numpy().permutation(len(found.target))
    rows: dict[str, list[list[str]]] = {site: [] for site in DEALT}
    for i, row in enumerate(order):
        values = [f"{value:g}" for value in found.data[row]]
        rows[DEALT[i % len(DEALT)]].append([*values, str(found.target_names[found.target[row]])])
    columns = tuple(Column(name, "number") for name in names)
    classes = (str(found.target_names[0]), str(found.target_names[1]))
    return Study("breast cancer, dealt to four sites", columns, "diagnosis", classes, rows)
