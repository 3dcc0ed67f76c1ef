"""Headers that name no unit beside one that does: a question, never a conversion in silence."""

import csv
import random

import numpy as np
import pytest

from coterie.data.tables.apply_recipe import rows_of
from coterie.data.tables.inspect import inspect
from coterie.data.tables.recipe_file import read_recipe, write_recipe


def sites(folder, headers, level=75.0, spread=9.0, n=40, target=""):
    """{site: (header, what a value is multiplied by, and what is added)}."""
    rng, paths = random.Random(0), []
    for site, (header, factor, offset) in headers.items():
        path = folder / f"{site}.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["age", header, *([] if target else ["ill"])])
            for i in range(n):
                value = f"{rng.gauss(level, spread) * factor + offset:.2f}"
                writer.writerow([rng.randint(20, 90), value, *([] if target else ["no" if i % 2 else "yes"])])
        paths.append(path)
    return paths


def followed(tmp_path, paths, name, **more):
    """What inspect asks of a column, its rule, and its medians as the written recipe reads them."""
    seen = inspect(paths, home=tmp_path, **{"target": "ill", **more})
    write_recipe(tmp_path / "r.toml", seen.recipe)
    recipe = read_recipe(tmp_path / "r.toml")
    at = [r.name for r in recipe.inputs].index(name) if name != recipe.target else None
    rows = [rows_of(recipe, p, p.stem, with_target=True) for p in paths]
    medians = [float(np.median(r.y if at is None else r.raw[:, at])) for r in rows]
    return [a for a in seen.asks if repr(name) in a], recipe.rule(name), medians


def test_kilograms_stay_kilograms_where_one_header_elsewhere_says_pounds(tmp_path):
    headers = {"a": ("weight", 1, 0), "b": ("weight", 1, 0), "c": ("weight (lb)", 2.2046, 0)}
    (asked,), rule, medians = followed(tmp_path, sites(tmp_path, headers), "weight")
    assert rule.unit == "kg"
    assert list(rule.at) == ["c"]
    assert medians == pytest.approx([75, 75, 75], rel=0.1)
    assert asked.startswith("column 'weight': its unit is not named at a, b (median ")
    assert "read as kg, as values of sites that name theirs say. If not, write unit under at.a, at.b" in asked


@pytest.mark.parametrize(
    ("headers", "level", "unit", "converted"),
    [
        # a silent site in the other unit is converted, as a question
        (
            {"a": ("weight (kg)", 1, 0), "b": ("weight (kg)", 1, 0), "c": ("weight", 2.2046, 0)},
            75,
            "kg",
            {"c"},
        ),
        ({"a": ("weight (lb)", 2.2046, 0), "b": ("weight", 2.2046, 0)}, 75, "lb", set()),
        ({"a": ("temp (F)", 1.8, 32), "b": ("temp", 1, 0), "c": ("temp", 1, 0)}, 37, "°C", {"a"}),
        ({"a": ("crea (umol/l)", 88.42, 0), "b": ("crea", 1, 0), "c": ("crea", 1, 0)}, 1, "mg/dl", {"a"}),
        # values that fit no unit are read as they are, and asked about
        ({"a": ("weight (kg)", 1, 0), "b": ("weight", 7, 0)}, 75, "kg", set()),
        ({"a": ("marker (mmol/l)", 1, 0), "b": ("marker", 18, 0)}, 5, "mmol/l", set()),
    ],
)
def test_a_silent_header_is_always_a_question(tmp_path, headers, level, unit, converted):
    paths = sites(tmp_path, headers, level, level / 30)
    name = next(iter(headers.values()))[0].split()[0]
    asks, rule, _ = followed(tmp_path, paths, name)
    silent = [s for s, (h, *_) in headers.items() if "(" not in h]
    assert any(f"its unit is not named at {', '.join(silent)}" in a for a in asks)
    assert rule.unit == unit
    assert {s for s, here in rule.at.items() if here.factor is not None} == converted


def test_nothing_is_asked_where_all_headers_tell_or_none_does(tmp_path):
    headers = {"a": ("weight (kg)", 1, 0), "b": ("weight_lb", 2.2046, 0)}
    asks, _, medians = followed(tmp_path, sites(tmp_path, headers), "weight")
    assert not asks
    assert medians == pytest.approx([75, 75], rel=0.1)
    asks, _, _ = followed(tmp_path, sites(tmp_path, {"a": ("weight", 1, 0), "b": ("weight", 1, 0)}), "weight")
    assert not asks


def test_a_header_is_not_overruled_by_values(tmp_path):
    headers = {"a": ("weight (kg)", 1, 0), "b": ("weight (kg)", 1, 0), "c": ("weight (kg)", 2.2046, 0)}
    (asked,), rule, _ = followed(tmp_path, sites(tmp_path, headers), "weight")
    assert "its header says kg, are they in lb?" in asked
    assert not rule.at


def test_units_of_a_target(tmp_path):
    headers = {"a": ("stay", 1, 0), "b": ("stay", 1, 0), "c": ("stay (hours)", 24, 0)}
    paths = sites(tmp_path, headers, 12, 2, target="stay")
    asks, rule, medians = followed(tmp_path, paths, "stay", target="stay")
    assert rule.unit == "days"
    assert medians == pytest.approx([12, 12, 12], rel=0.2)
    assert any("its unit is not named at a, b" in a for a in asks)
    told = {"a": ("stay (days)", 1, 0), "b": ("stay (weeks)", 1 / 7, 0)}
    _, _, medians = followed(tmp_path, sites(tmp_path, told, 12, 2, target="stay"), "stay", target="stay")
    assert medians == pytest.approx([12, 12], rel=0.2)
