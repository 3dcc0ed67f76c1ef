"""A folder works without its run: the same bits, whole or not at all, and nothing of other sites in it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from four_columns import WAY
from torch import nn

import coterie
from coterie.core.errors import BadInput, BadRun
from coterie.data.tables.recipe_file import recipe_of
from coterie.models import MODELS
from coterie.use import load, save

ROWS = pd.DataFrame({"age": [60.0, 41.7, None], "smokes": [1, 0, 1], "stage": ["II", "I", None]})
COLUMNS = {
    "age": {"use": "number", "at": {"north": {"name": "Alter"}, "south": {"name": "âge"}}},
    "smokes": {"use": "flag", "values": ["0", "1"]},
    "stage": {"use": "category", "values": ["I", "II"], "codes": [1, 2]},
    "dose": {"use": "number"},
}


def network(dtype=torch.float32, **options):
    return MODELS.make("mlp", **options).build((5,), 2, 3).to(dtype).eval()


def of(by_hand, model, **options):
    return by_hand(model=model, made={"name": "mlp", "options": options})


class TestRoundTrip:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_the_same_bits(self, dtype, by_hand, tmp_path):
        mine = of(by_hand, network(dtype, hidden=(7, 3), activation="tanh"), hidden=[7, 3], activation="tanh")
        found = load(save(mine, tmp_path / "model"))
        assert np.array_equal(found.proba(ROWS), mine.proba(ROWS))
        shuffled = ROWS[["stage", "age", "smokes"]]
        assert np.array_equal(found.proba(shuffled), mine.proba(ROWS))
        assert (found.client, found.classes, found.features) == ("north", ("well", "ill"), WAY.features)
        assert found.preparation == WAY
        assert sorted(p.name for p in (tmp_path / "model").iterdir()) == [
            "bundle.json",
            "card.md",
            "weights.safetensors",
        ]

    def test_what_is_outside_parameters_comes_along(self, by_hand, tmp_path):
        model = MODELS.make("resnet18", width=4).build((1, 8, 8), 2, 1)
        model.train()(torch.randn(8, 1, 8, 8))  # batch norm has seen something
        made = {"name": "resnet18", "options": {"width": 4}}
        mine = by_hand(model=model.eval(), shape=(1, 8, 8), preparation=None, features=(), made=made)
        x = torch.randn(3, 1, 8, 8)
        assert np.array_equal(load(save(mine, tmp_path / "model")).proba(x), mine.proba(x))

    def test_a_module_of_ones_own(self, by_hand, tmp_path, refused):
        torch.manual_seed(5)
        own = nn.Sequential(nn.Linear(5, 3), nn.GELU(), nn.Linear(3, 2))
        mine = by_hand(model=own.eval(), made={"name": "Sequential", "options": {}})
        path = save(mine, tmp_path / "model")
        said = f"{path} holds a module of your own, a Sequential: load it from Python with "
        said += f"coterie.load({str(path)!r}, model=the module)"
        with refused(BadRun, said):
            load(path)
        other = nn.Sequential(nn.Linear(5, 3), nn.GELU(), nn.Linear(3, 2))
        before = other[0].weight.clone()
        found = coterie.load(path, model=other)
        assert np.array_equal(found.proba(ROWS), mine.proba(ROWS))
        assert torch.equal(other[0].weight, before)

    def test_a_recipe_without_other_sites(self, by_hand, tmp_path):
        recipe = recipe_of({"sites": {"north": "secret/n.csv", "south": "s.csv"}, "columns": COLUMNS})
        mine = by_hand(recipe=recipe)
        path = save(mine, tmp_path / "model")
        text = (path / "recipe.toml").read_text()
        assert "Alter" in text
        assert not [word for word in ("south", "âge", "secret") if word in text]
        frame = ROWS.rename(columns={"age": "Alter"})
        assert np.array_equal(load(path).proba(frame), mine.proba(frame))

    def test_a_number(self, by_hand, tmp_path):
        model = MODELS.make("linear").build((5,), 1, 0)
        made = {"name": "linear", "options": {}}
        mine = by_hand(task="regression", classes=(), model=model, made=made)
        assert np.array_equal(load(save(mine, tmp_path / "m")).predict(ROWS), mine.predict(ROWS))


class TestWhole:
    def test_a_failure_leaves_nothing(self, by_hand, tmp_path, monkeypatch, refused):
        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("coterie.use.bundle.card", full)
        path = tmp_path / "new" / "model"
        said = f"cannot write {path}: No space left on device: free space or choose another place"
        with refused(BadRun, said):
            save(by_hand(), path)
        assert list((tmp_path / "new").iterdir()) == []

    def test_a_folder_that_is_there_is_left_alone(self, by_hand, tmp_path, refused):
        with refused(BadRun, f"{tmp_path} is there already: choose another folder"):
            save(by_hand(), tmp_path)

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda b: {"kind": "coterie model 0"}, "its kind is 'coterie model 0', not 'coterie model 1'"),
            (lambda b: {"task": "guess"}, "its task is 'guess'"),
            (lambda b: {"preparation": {"drops": False}}, "'columns'"),
            (lambda b: {"model": {}}, "'inputs'"),
            (lambda b: {"classes": []}, "a classification with 0 classes"),
            (lambda b: {"client": "a\x1b]0;b"}, r"its client is 'a\x1b]0;b'"),
            (lambda b: {"client": None}, "its client is None"),
        ],
    )
    def test_a_bundle_that_lies(self, change, reason, by_hand, tmp_path, refused):
        path = save(by_hand(), tmp_path / "model")
        bundle = json.loads((path / "bundle.json").read_text())
        (path / "bundle.json").write_text(json.dumps(bundle | change(bundle)))
        with refused(BadRun, f"{path} is damaged ({reason}): export it again"):
            load(path)

    def test_code_that_a_bundle_names_is_not_run(self, by_hand, tmp_path):
        path, ran = save(by_hand(), tmp_path / "model"), tmp_path / "ran"
        (tmp_path / "evil.py").write_text(f"open({str(ran)!r}, 'w').close()")
        bundle = json.loads((path / "bundle.json").read_text())
        bundle["model"]["plugins"] = [str(tmp_path / "evil.py")]
        (path / "bundle.json").write_text(json.dumps(bundle))
        load(path)
        assert not ran.exists()

    def test_names_are_no_html_in_a_card(self, by_hand, tmp_path):
        path = save(by_hand(client="<script>x</script>"), tmp_path / "model")
        assert "<script" not in (path / "card.md").read_text()

    def test_weights_that_are_gone_or_of_another_model(self, by_hand, tmp_path):
        path = save(
            by_hand(model=network(), made={"name": "mlp", "options": {"hidden": [9]}}), tmp_path / "m"
        )
        with pytest.raises(BadInput, match=r"belief and module differ in 'hidden1\.\w+'"):
            load(path)
        (path / "weights.safetensors").unlink()
        with pytest.raises(BadRun, match=r"m is damaged \(.*\): export it again$"):
            load(path)

    def test_another_client(self, by_hand, tmp_path, refused):
        path = save(of(by_hand, network()), tmp_path / "model")
        with refused(BadInput, f"client 'south' is not in {path}: take one of north"):
            load(path, "south")

    def test_no_folder(self, tmp_path, refused):
        with refused(BadRun, f"{tmp_path / 'no'} is no run and no exported model: check the path"):
            load(tmp_path / "no")
