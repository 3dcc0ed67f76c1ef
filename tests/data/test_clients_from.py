"""Clients of several tables at once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import coterie
from coterie.core.errors import BadData, BadInput, Several
from coterie.data.preparation import preparation_from_dict


def frame_of(seed: int, rows: int = 30, level: float = 60.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(level, 10, rows).round(1),
            "sex": np.array(["f", "m"])[rng.integers(0, 2, rows)],
            "smokes": rng.random(rows) < 0.5,
            "ill": np.arange(rows) % 2,
        }
    )


NORTH, SOUTH = frame_of(0), frame_of(1, 40, 70.0)
BOTH = {"north": NORTH, "south": SOUTH}


def test_clients_by_name_with_the_same_inputs():
    clients = coterie.clients_from({"south": SOUTH, "north": NORTH}, target="ill")
    assert [c.name for c in clients] == ["north", "south"]
    assert all(isinstance(c, coterie.Client) for c in clients)
    assert [c.features for c in clients] == [("age", "sex=f", "sex=m", "smokes")] * 2
    assert [len(c.train) + len(c.test) for c in clients] == [30, 40]
    result = coterie.train("logistic", clients, rounds=2)
    assert list(result.models) == ["north", "south"]


def test_a_column_tells_sites_apart_and_is_no_input():
    one = pd.concat([NORTH.assign(hospital="north"), SOUTH.assign(hospital="south")])
    clients = coterie.clients_from(one, target="ill", site="hospital")
    others = coterie.clients_from(BOTH, target="ill")
    for mine, other in zip(clients, others, strict=True):
        assert mine.features == other.features
        assert torch.equal(mine.train.x, other.train.x)
        assert torch.equal(mine.test.y, other.test.y)


def test_texts_that_one_site_never_wrote_are_inputs_of_all():
    clients = coterie.clients_from({"a": NORTH.assign(sex="f"), "b": SOUTH.assign(sex="m")}, target="ill")
    assert [c.features[1:3] for c in clients] == [("sex=f", "sex=m")] * 2
    listed = pd.Categorical(["f"] * 30, categories=["f", "m", "unknown"])
    clients = coterie.clients_from({"a": NORTH.assign(sex=listed), "b": SOUTH}, target="ill")
    assert clients[1].features[1:4] == ("sex=f", "sex=m", "sex=unknown")


@pytest.mark.parametrize("scale", ["site", "shared", "constants"])
def test_scales(scale):
    constants = {"constants": {"age": (60, 10)}} if scale == "constants" else {}
    north, south = coterie.clients_from(BOTH, target="ill", scale=scale, **constants)
    raw = coterie.clients_from(BOTH, target="ill", scale="constants", constants={"age": (0, 10)})
    ages = [c.train.x[:, 0].double().numpy() * 10 for c in raw]
    every = np.concatenate(ages)
    wanted = {
        "site": [(a - a.mean()) / a.std() for a in ages],
        "shared": [(a - every.mean()) / every.std() for a in ages],
        "constants": [(a - 60) / 10 for a in ages],
    }[scale]
    for client, values in zip((north, south), wanted, strict=True):
        np.testing.assert_allclose(client.train.x[:, 0].numpy(), values, atol=1e-5)
    levels = south.train.x[:, 0].mean() - north.train.x[:, 0].mean()
    assert (levels < 1e-5) if scale == "site" else (levels > 0.5)  # per site, levels are gone


def test_columns_that_a_site_lacks():
    tables = {"a": NORTH, "b": SOUTH.drop(columns="smokes")}
    masked = coterie.clients_from(tables, target="ill", absent="mask")[1]
    assert masked.train.x[:, 3].tolist() == [0.0] * len(masked.train)
    assert "columns without any value in training rows, 0 in all rows: smokes" in masked.notes
    flagged = coterie.clients_from(tables, target="ill")
    assert flagged[0].features[-1] == "smokes not recorded"
    assert [c.train.x[:, 4].unique().tolist() for c in flagged] == [[0.0], [1.0]]
    common = coterie.clients_from(tables, target="ill", absent="common")
    assert [c.features for c in common] == [("age", "sex=f", "sex=m")] * 2


def test_what_is_fitted_is_kept_and_makes_the_same_inputs():
    for client in coterie.clients_from(BOTH, target="ill", scale="shared"):
        way = preparation_from_dict(client.preparation.to_dict())
        raw = [[66.6, 1.0, 0.0]]
        assert way.inputs(raw).tolist() == client.preparation.inputs(raw).tolist()


def test_a_regression_and_floats_that_are_classes():
    with pytest.warns(coterie.CoterieWarning, match=r"0\.0 and 1\.0 taken as classes"):
        clients = coterie.clients_from({k: f.assign(ill=f["ill"] / 1) for k, f in BOTH.items()}, target="ill")
    assert clients[0].task == "classification"
    assert clients[0].notes[0].startswith("targets 0.0 and 1.0 taken as classes")
    numbers = coterie.clients_from(BOTH, target="age")
    assert (numbers[0].task, numbers[0].features[-1]) == ("regression", "ill")


def test_the_same_file_gives_the_same_numbers_in_python_and_in_the_shell(tmp_path, monkeypatch):
    """By a recipe, and by frames with the same rules."""
    from coterie.cli.main import main
    from coterie.runs.folder import read_record

    monkeypatch.chdir(tmp_path)
    for name, frame in BOTH.items():
        frame.to_csv(f"{name}.csv", index=False)
    (tmp_path / "recipe.toml").write_text(
        'target = "ill"\nmissing = "refuse"\nscale = "shared"\nabsent = "mask"\n'
        '[sites]\nnorth = "north.csv"\nsouth = "south.csv"\n'
        '[columns.age]\nuse = "number"\n[columns.sex]\nuse = "category"\nvalues = ["f", "m"]\n'
        '[columns.smokes]\nuse = "flag"\nvalues = ["False", "True"]\n'
        '[columns.ill]\nuse = "category"\nvalues = ["0", "1"]\n'
    )
    words = "run --data table --table.recipe recipe.toml --model logistic --rounds 3 --seed 4 --out run"
    assert main(words.split()) == 0
    shell = read_record(tmp_path / "run").metrics
    read = coterie.clients_from(recipe="recipe.toml", seed=4)
    files = ["north.csv", "south.csv"]
    found = coterie.clients_from(files, target="ill", scale="shared", seed=4)
    frames = coterie.clients_from(BOTH, target="ill", scale="shared", seed=4, classes=["0", "1"])
    given = coterie.clients_from(BOTH, recipe="recipe.toml", seed=4)
    for clients in (read, found, frames, given):
        result = coterie.train("logistic", clients, rounds=3, seed=4, init="common")
        assert result.record.metrics == shell
    assert read[0].recipe.target == "ill"


CASES = [
    (lambda: coterie.clients_from(BOTH), BadInput, "no target: name the column to predict, target='ill'"),
    (lambda: coterie.clients_from({}, target="ill"), BadInput, "no tables: give at least one"),
    (
        lambda: coterie.clients_from(NORTH, target="ill"),
        BadInput,
        "one table needs a column that tells sites apart: pass site='hospital'",
    ),
    (
        lambda: coterie.clients_from([NORTH], target="ill"),
        BadInput,
        "must be {name: DataFrame}, one DataFrame with site=, or a list of paths: try {'north': frame}",
    ),
    (lambda: coterie.clients_from({7: NORTH}, target="ill"), BadInput, "got 7: DataFrame"),
    (
        lambda: coterie.clients_from({"a": NORTH}, target="sick"),
        BadData,
        "client 'a': no target column 'sick'; its columns are age, sex, smokes, ill",
    ),
    (
        lambda: coterie.clients_from(
            {"a": NORTH.assign(age=np.nan, p=[*range(29), np.nan])}, target="ill"
        ),
        BadData,
        "client 'a': missing or NaN values in column 'p' (1): fill or drop them, or pass missing='median'",
    ),
    (
        lambda: coterie.clients_from({"a": NORTH.assign(name=[f"n{i % 60}" for i in range(30)])} | {
            "b": SOUTH.assign(name=[f"m{i}" for i in range(40)])}, target="ill"),
        BadData,
        "more than 50 different texts, which is no category, in column 'name' (70): pass leave_out=['name']",
    ),
    (
        lambda: coterie.clients_from(NORTH, target="ill", site="hospital"),
        BadData,
        "no site column 'hospital'; its columns are age, sex, smokes, ill",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "kind", "said"), CASES, ids=[said for *_, said in CASES])
def test_refused_in_one_line(make, kind, said):
    with pytest.raises(kind) as caught:
        make()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_troubles_of_all_tables_are_said_at_once():
    with pytest.raises(Several) as caught:
        coterie.clients_from({"a": NORTH.drop(columns="ill"), "b": SOUTH.assign(ill=None)}, target="ill")
    assert caught.value.lines == (
        "client 'a': no target column 'ill'; its columns are age, sex, smokes",
        "client 'b': target 'ill' is missing or NaN in 40 row(s): fill or drop them",
    )
