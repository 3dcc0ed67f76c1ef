"""A run's models in use: what the folder gives is what Python has, and what the exported folder gives."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import coterie
from coterie.core.errors import BadInput, BadRun
from coterie.runs.artifacts import Origin
from coterie.use import load, predictor_of, predictor_of_run, save


def frame_of(seed, shift=0.0, rows=60):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.normal(shift, 1, rows), "dose": rng.normal(0, 1, rows)})
    return frame, ((frame["age"] + frame["dose"]).to_numpy() > 0).astype(int)


def labelled(y):
    return np.array(["well", "ill"], dtype=object)[y]


def named_clients():
    found = []
    for i, name in enumerate(("north", "south")):
        x, y = frame_of(i)
        found.append(coterie.Client.from_arrays(x, labelled(y), name=name, classes=["well", "ill"]))
    return found


ROWS = frame_of(9, rows=7)[0]


@pytest.mark.parametrize("model", ["logistic", "mlp"])
def test_the_folder_the_result_and_the_export_say_the_same_bits(model, tmp_path):
    result = coterie.train(model, named_clients(), "finetune", rounds=8, out=tmp_path / "run")
    found = predictor_of_run(tmp_path / "run", "south")
    expected = found.proba(ROWS)
    mine = predictor_of(result.record, "south", result.models["south"], Origin())
    assert np.array_equal(mine.proba(ROWS), expected)
    exported = load(save(found, tmp_path / "model"))
    assert np.array_equal(exported.proba(ROWS[["dose", "age"]]), expected)
    for i in range(len(ROWS)):
        assert np.array_equal(exported.proba(ROWS.iloc[i : i + 1])[0], expected[i])
    with torch.no_grad():
        logits = result.models["south"](torch.tensor(ROWS.to_numpy(), dtype=torch.float32))
    assert expected == pytest.approx(logits.softmax(dim=1).double().numpy(), abs=1e-6)
    assert (found.classes, found.features) == (("well", "ill"), ("age", "dose"))


def test_the_card_tells_numbers_as_they_are_in_the_run(tmp_path):
    result = coterie.train("logistic", named_clients(), "fedavg", rounds=2, out=tmp_path / "run")
    text = (save(load(tmp_path / "run", "north"), tmp_path / "model") / "card.md").read_text()
    assert "Trained on 42 rows of north's own; 0 held out for validation, 18 for testing." in text
    accuracy = 100 * result.record.final("accuracy")[0]
    assert f"| accuracy, % | {accuracy:.1f} |" in text
    own, other = result.weights[-1][0]
    assert f"| north | {own:.3f} | {own:.3f} |" in text
    assert f"| south | {other:.3f} | {other:.3f} |" in text
    bins = re.findall(r"^\| 0\.\d\d to \d\.\d\d \| (\d+) \|", text, re.M)
    assert sum(map(int, bins)) == 18
    assert text.count("*To be filled in by whoever answers for this model:*") == 2
    assert "| age | number |  | refused |" in text


def test_several_models_are_said_to_be_one(tmp_path):
    coterie.train("logistic", named_clients(), "fl-swag", rounds=3, out=tmp_path / "run")
    found = load(tmp_path / "run", "north")
    assert found.notes == (
        "clients of this method average several models; what is used here is the one that stands for them, "
        "whose scores are called point",
    )
    assert found.facts["of"] == "point/test"
    assert "This is the one that stands for them" in (save(found, tmp_path / "m") / "card.md").read_text()
    assert load(tmp_path / "m").notes == found.notes


def test_last_layer_mode_gives_the_whole_network(tmp_path, monkeypatch):
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path))
    features = {"aside": 0.2, "epochs": 1}
    result = coterie.train("mlp", named_clients(), "local", rounds=1, features=features, out=tmp_path / "run")
    x = torch.tensor(ROWS.to_numpy(), dtype=torch.float32)
    found = load(tmp_path / "run", "north")
    with torch.no_grad():
        expected = result.models["north"](x).softmax(dim=1).double().numpy()
    assert found.proba(x.numpy()) == pytest.approx(expected, abs=1e-6)
    again = load(save(found, tmp_path / "model"))
    assert np.array_equal(again.proba(x.numpy()), found.proba(x.numpy()))


def test_a_comparisons_cell(tmp_path, refused):
    coterie.compare("logistic", named_clients(), ["local", "fedavg"], seeds=1, rounds=1, out=tmp_path / "all")
    found = load(tmp_path / "all" / "fedavg" / "seed-0", "north")
    assert found.facts["method"] == "fedavg"
    cells = ", ".join(str(tmp_path / "all" / m / "seed-0") for m in ("fedavg", "local", "nothing"))
    said = f"{tmp_path / 'all'} is a comparison of several runs: name one of its runs: {cells}"
    with refused(BadInput, said):
        load(tmp_path / "all", "north")


def test_a_module_of_ones_own(tmp_path, refused):
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
    result = coterie.train(net, named_clients(), "local", rounds=1, out=tmp_path / "run")
    path = tmp_path / "run"
    said = f"{path} holds a module of your own, a Sequential: load it from Python with "
    said += f"coterie.load({str(path)!r}, model=the module)"
    with refused(BadRun, said):
        load(path, "north")
    other = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
    mine = predictor_of(result.record, "north", result.models["north"], Origin())
    assert np.array_equal(load(path, "north", model=other).proba(ROWS), mine.proba(ROWS))


def test_whose_model(tmp_path, refused):
    coterie.train("logistic", named_clients(), "local", rounds=1, out=tmp_path / "run")
    path = tmp_path / "run"
    with refused(
        BadInput, f"{path} has models of 2 clients (north, south): say whose, such as client='north'"
    ):
        load(path)
    with refused(BadInput, f"client 'nord' is not in {path}: take one of north, south"):
        load(path, "nord")
    coterie.train("logistic", named_clients()[:1], "local", rounds=1, out=tmp_path / "one")
    assert load(tmp_path / "one").client == "north"


def test_who_asked_for_no_model(tmp_path, refused):
    options = {"requester": "north", "best": 1}
    coterie.train("logistic", named_clients(), "ndoye", rounds=2, out=tmp_path / "run", **options)
    assert load(tmp_path / "run").client == "north"
    path = tmp_path / "run"
    with refused(BadInput, f"client 'south' has no model of its own in {path}: take one of north"):
        load(path, "south")


def test_a_regression(tmp_path):
    some = [
        coterie.Client.from_arrays(frame_of(i)[0], frame_of(i)[0]["age"].to_numpy() * 2.5, name=f"c{i}")
        for i in range(2)
    ]
    coterie.train("linear", some, "local", rounds=30, lr=0.3, out=tmp_path / "run")
    found = load(tmp_path / "run", "c0")
    assert found.predict(ROWS) == pytest.approx(ROWS["age"].to_numpy() * 2.5, abs=0.2)
    assert "Predicts a number" in (save(found, tmp_path / "m") / "card.md").read_text()


def test_pictures(tmp_path):
    x = torch.randn(40, 1, 8, 8)
    some = [coterie.Client.from_arrays(x, torch.arange(40) % 2, name="a")]
    result = coterie.train("mlp", some, "local", rounds=1, out=tmp_path / "run")
    found = load(tmp_path / "run")
    with torch.no_grad():
        expected = result.models["a"](x).softmax(dim=1).double().numpy()
    assert found.proba(x.numpy()) == pytest.approx(expected, abs=1e-6)
    assert found.classes == ("0", "1")


def test_the_estimator_says_the_same_bits(tmp_path):
    """As its site's predictor and as the folder that is made of it, for frames with texts and gaps."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame({"age": rng.normal(50, 9, 80), "sex": rng.choice(["f", "m"], 80)})
    x.loc[3, "age"] = np.nan
    y, site = np.where(rng.random(80) < 0.5, "ill", "well"), np.repeat(["north", "south"], 40)
    model = coterie.CoterieClassifier(rounds=6, missing="median").fit(x, y, groups=site)
    some = x[site == "south"]
    expected = model.predict_proba(some, groups=site[site == "south"])
    own = model.predictor("south")
    assert np.array_equal(own.proba(some[["sex", "age"]]), expected)
    some.to_csv(tmp_path / "rows.csv", index=False)
    assert np.array_equal(load(save(own, tmp_path / "model")).proba(tmp_path / "rows.csv"), expected)
