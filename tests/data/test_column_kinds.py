"""A column kind is one file: the one of docs/adding-a-column-kind.md goes from tables to predictions."""

import csv
import math
import random
import re
from pathlib import Path

import numpy as np
import pytest

import coterie
from coterie.core.errors import CoterieError
from coterie.data.kinds import KINDS, in_recipes, kind_called, of_models, register
from coterie.data.preparation import preparation_from_dict
from coterie.data.quality.checks import checked
from coterie.data.quality.ranges import shipped
from coterie.data.quality.site_rows import dealt_rows
from coterie.data.sources import SOURCES
from coterie.data.tables.inspect import inspect
from coterie.data.tables.recipe_file import read_recipe, recipe_text, write_recipe
from coterie.storage.plugins import load_plugins

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-column-kind.md"


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """Tables of two sites with a time of day, and the recipe that is proposed for them."""
    folder = tmp_path_factory.mktemp("clocks")
    text = re.search(r"^```python file=clock.py\n(.*?)^```$", PAGE.read_text(), re.M | re.S)[1]
    (folder / "clock.py").write_text(text)
    load_plugins([str(folder / "clock.py")])
    rng = random.Random(0)
    for site in ("north", "south"):
        with (folder / f"{site}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["arrived", "age", "ill"])
            for _ in range(60):
                hour, ill = rng.randrange(24), rng.random() < 0.5
                arrived = f"{hour}:{rng.randrange(60):02}" if rng.random() < 0.9 else ""
                rows.writerow([arrived, rng.randint(30, 70) + 8 * ill, "yes" if ill else "no"])
    seen = inspect([folder / "north.csv", folder / "south.csv"], "ill", home=folder)
    write_recipe(folder / "recipe.toml", seen.recipe)
    yield folder, seen
    del KINDS["clock"]


def test_it_is_found_proposed_and_described(sites):
    folder, seen = sites
    rule = seen.recipe.rule("arrived")
    assert rule.use == "clock"
    assert rule.why[0].startswith("clock: its cells are times of day such as ")
    assert "date, clock (a time of day), leave-out" in recipe_text(seen.recipe)
    assert in_recipes()[-2:] == ("clock", "leave-out")
    assert of_models()[-1] == "clock"
    assert read_recipe(folder / "recipe.toml").rule("arrived") == rule


def test_rows_are_read_prepared_and_checked(sites):
    folder, _ = sites
    data = SOURCES.make("table", recipe=str(folder / "recipe.toml")).load()
    assert [c.kind for c in data.prepare.columns] == ["clock", "number"]
    (way,) = data.prepare.fitted([data.train])
    assert way.features == ("arrived (sine)", "arrived (cosine)", "age")
    assert way.inputs(np.array([[6.0, 50.0], [18.5, 50.0]]))[:, :2] == pytest.approx(
        np.array([[1.0, 0.0], [math.sin(18.5 / 24 * math.tau), math.cos(18.5 / 24 * math.tau)]]), abs=1e-6
    )
    assert preparation_from_dict(way.to_dict()) == coterie.data.preparation.Preparation(way.parts, way.drops)
    rows, _ = dealt_rows(data, coterie.data.partition.Silos(), None, coterie.core.seeds.Key(0))
    found = checked(rows, shipped())
    assert {c.name: c.missing > 0 for c in found.sketches[0].columns} == {"arrived": True, "age": False}


def test_what_is_none_is_refused_in_its_words(sites):
    folder, seen = sites
    (folder / "odd.csv").write_text("arrived,age,ill\n25:00,50,yes\n7:30,40,no\n")
    from coterie.data.tables.apply_recipe import rows_of

    with pytest.raises(CoterieError, match=r"line 2, column 'arrived': '25:00' is no clock: correct it, or"):
        rows_of(seen.recipe, folder / "odd.csv", "north")


def test_a_model_predicts_with_it_and_says_what_training_had(sites):
    folder, _ = sites
    clients = coterie.clients_from(recipe=folder / "recipe.toml")
    result = coterie.train("logistic", clients, method="fedavg", rounds=1, seed=0)
    predictor = result.predictor("north")
    (folder / "new.csv").write_text("arrived,age\n13:45,50\n,40\n25:00,45\n")
    table = predictor.table(folder / "new.csv", explain=1)
    assert table["trust"][1].startswith("arrived missing, taken as ")
    assert ":" in table["trust"][1]
    assert table["trust"][2].startswith("refused: arrived '25:00' is no clock")
    again = coterie.load(result.export("north", folder / "exported"))
    assert np.allclose(
        again.proba(folder / "new.csv", strict=False),
        predictor.proba(folder / "new.csv", strict=False),
        equal_nan=True,
    )
    card = (folder / "exported" / "card.md").read_text()
    assert re.search(r"\| arrived \| clock \|  \| taken as \d+:\d\d \| \d+:\d\d to \d+:\d\d \|", card)


def test_a_kind_has_one_entry(sites):
    with pytest.raises(ValueError, match="column kind 'flag' is registered twice"):
        register(type(KINDS["flag"]))
    with pytest.raises(CoterieError, match="unknown column kind 'nubmer': did you mean number"):
        kind_called("nubmer")
