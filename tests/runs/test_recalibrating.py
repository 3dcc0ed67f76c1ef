"""Models in use are recalibrated by rows that training had not seen; a run's scores stay as they are."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import coterie
from coterie.cli.main import main
from coterie.core.client import Samples
from coterie.core.errors import BadInput
from coterie.features.recalibration import shown as recalibration
from coterie.features.recalibration.hook import FILE


def hospitals(rows: int = 200, validation: float = 0.0, classes: int = 2) -> list[coterie.Client]:
    """Two, whose labels are noisy: a model trained for long is too sure of itself."""
    rng, made = np.random.default_rng(0), []
    for i in range(2):
        X = rng.normal(size=(rows, 12)).astype(np.float32)
        y = np.clip(np.floor(X[:, 0] + rng.normal(0, 2, rows) + classes / 2), 0, classes - 1).astype(int)
        made.append(coterie.Client.from_arrays(X, y, name=f"h{i}", validation=validation))
    return made


def trained(clients, **more) -> coterie.Result:
    given = {"rounds": 4, "lr": 1.0, "epochs": 20, "seed": 0, "method": "local", **more}
    return coterie.train("logistic", clients, **given)


def test_by_folds_of_training_rows_and_no_score_changes(tmp_path):
    clients = hospitals()
    result = trained(clients, out=tmp_path / "run")
    plain = trained(clients, calibrate="none")
    assert [m["scores"] for m in result.record.metrics] == [m["scores"] for m in plain.record.metrics]
    each = result.record.recalibration()
    assert each["h0"].found is not None
    assert each["h0"].found.slope < 1  # too sure of itself
    assert each["h0"].found.source == "5 folds of training rows"
    assert each["h0"].found.rows == len(clients[0].train)
    assert plain.record.recalibration()["h0"].why == "calibrate='none'"
    # the same from the result, the run and an exported folder
    x, found = clients[0].test.x, each["h0"].found
    with torch.no_grad():
        z = result.models["h0"](x).double()
    wanted = (found.slope * z + torch.tensor(found.intercepts, dtype=torch.float64)).softmax(dim=1)
    p = result.predictor("h0").proba(x.numpy())
    assert p == pytest.approx(wanted.numpy(), rel=1e-5)
    coterie.load(tmp_path / "run", "h0")
    result.export("h0", tmp_path / "h0")
    for other in (coterie.load(tmp_path / "run", "h0"), coterie.load(tmp_path / "h0")):
        assert (other.proba(x.numpy()) == p).all()
    assert plain.predictor("h0").proba(x.numpy()) == pytest.approx(z.softmax(dim=1).numpy(), rel=1e-5)
    card = (tmp_path / "h0" / "card.md").read_text()
    assert "robabilities are recalibrated by a slope" in card
    assert "before its probabilities are recalibrated" in card
    assert "recalibrated by a slope" in " ".join(coterie.load(tmp_path / "h0").means)


def test_test_rows_have_no_part_in_it():
    clients = hospitals()
    swapped = [replace(c, test=Samples(c.test.x, 1 - c.test.y)) for c in clients]
    one, other = (trained(some).record.recalibration()["h0"].found for some in (clients, swapped))
    assert one == other


@pytest.mark.parametrize("classes", [2, 3])
def test_by_validation_rows_where_there_are_enough(classes):
    clients = hospitals(300, validation=0.5, classes=classes)
    found = trained(clients).record.recalibration()["h1"].found
    assert found is not None
    assert (found.source, found.rows) == ("validation rows", len(clients[1].validation))


def test_few_rows_change_nothing_and_it_is_said():
    result = trained(hospitals(60))
    each = result.record.recalibration()
    assert all(one.found is None for one in each.values())
    assert each["h0"].why.endswith("training rows are not of the commonest class, and 40 are needed")
    assert result.predictor("h0").means == ()
    assert recalibration.line([result.record]).startswith("Probabilities in use: left as they are for h0 (")


def test_more_classes_are_trained_once_unless_it_is_asked_for():
    clients = hospitals(300, classes=3)
    assert "calibrate='folds'" in trained(clients).record.recalibration()["h0"].why
    assert trained(clients, calibrate="folds").record.recalibration()["h0"].found is not None


def test_a_comparison_recalibrates_nothing():
    compared = coterie.compare("logistic", hospitals(), methods=["local"], seeds=1, rounds=2)
    assert all(not record.recalibration() for record in compared.records)


def test_what_cannot_be_is_refused_before_the_run(tmp_path):
    with pytest.raises(BadInput, match=r"calibrate='validation' needs validation rows of every client: try"):
        trained(hospitals(60), calibrate="validation", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(BadInput, match="calibrate"):
        trained(hospitals(60), calibrate="often")


def test_in_the_shell(tmp_path, capsys):
    words = ["run", "--data", "breast-cancer", "--clients", "2", "--rounds", "2", "--method", "local"]
    assert main([*words, "--calibrate", "validation", "--out", str(tmp_path / "a")]) == 2
    assert "--calibrate validation needs validation rows of every client: try --validation 0.2" in (
        capsys.readouterr().err
    )
    assert main([*words, "--out", str(tmp_path / "b")]) == 0
    assert "Probabilities in use: " in capsys.readouterr().out
    assert set(json.loads((tmp_path / "b" / FILE).read_text())) == {"client-0", "client-1"}
    assert "probabilities in use" in (tmp_path / "b" / "report.html").read_text()
    assert main(["report", str(tmp_path / "b")]) == 0
    assert "Probabilities in use: " in capsys.readouterr().out
