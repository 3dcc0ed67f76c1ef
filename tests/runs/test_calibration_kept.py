"""How sure models are: measured by the runner alone, kept in the folder, absent where it does not apply."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import coterie
from coterie.core.errors import BadRun
from coterie.core.groups import Groups
from coterie.data.clients import Client
from coterie.features.calibration.hook import FILE as CALIBRATION
from coterie.kernels.calibrate import Calibrate, Tallied, unpacked
from coterie.kernels.score import Score
from coterie.metrics.calibration import calibration, ece, probabilities
from coterie.runs.folder import read_record

# class 0 is sure by 0.8, 0.8 and 0.6; the second is wrong
OUTPUTS = torch.tensor([[math.log(4), 0.0], [math.log(4), 0.0], [math.log(1.5), 0.0]])
Y = torch.tensor([0, 1, 0])


def test_scores_by_hand():
    found = Calibrate().measure("classification", OUTPUTS, torch.zeros(3), Y, Groups.one(3))
    assert found["ece"].tolist() == pytest.approx([(abs(1 - 1.6) + abs(1 - 0.6)) / 3], rel=1e-6)
    assert found["brier"].tolist() == pytest.approx([(0.08 + 1.28 + 0.32) / 3], rel=1e-6)
    nll = -(math.log(0.8) + math.log(0.2) + math.log(0.6)) / 3
    assert found["nll"].tolist() == pytest.approx([nll], rel=1e-6)
    # beside what is always scored
    always = Score().measure("classification", OUTPUTS, torch.zeros(3), Y, Groups.one(3))
    assert {m: found[m] for m in always} == always
    of_two = {"sensitivity", "specificity", "net_benefit"}
    assert set(found) - set(always) == {"ece", "brier", "nll", *of_two}


def test_a_regression_has_only_its_own_scores():
    given = ("regression", torch.ones(2, 1), torch.zeros(2), torch.ones(2), Groups.one(2))
    assert Calibrate().measure(*given).keys() == Score().measure(*given).keys()


def test_sums_survive_being_numbers():
    groups = Groups.of(torch.tensor([2, 1]))
    found = unpacked(Tallied().measure("classification", OUTPUTS, torch.zeros(3), Y, groups))
    for mine, tally in zip(calibration(OUTPUTS, Y, groups), found, strict=True):
        for one, two in zip(mine, tally, strict=True):
            assert torch.equal(one, two)


@pytest.fixture
def sites() -> list[Client]:
    rng = np.random.default_rng(0)
    made = []
    for i, rows in enumerate((40, 60)):
        X = rng.normal(size=(rows, 3)).astype(np.float32)
        y = (X[:, 0] + rng.normal(size=rows) > 0).astype(int)
        made.append(Client.from_arrays(X, y, name=f"site-{i}", test=0.5))
    return made


def same(one, two) -> bool:
    return all(torch.equal(a, b) for s, t in zip(one, two, strict=True) for a, b in zip(s, t, strict=True))


def test_a_run_counts_the_last_models_on_their_own_test_rows(sites, tmp_path):
    result = coterie.train("logistic", sites, method="local", rounds=3, seed=0, out=tmp_path / "run")
    found = result.record.calibration()
    for i, (client, model) in enumerate(zip(sites, result.models.values(), strict=True)):
        with torch.no_grad():
            logits = model(client.test.x)
        own = calibration(logits, client.test.y)
        for mine, tally in zip(own, found, strict=True):
            for one, two in zip(mine, tally, strict=True):
                torch.testing.assert_close(one[0], two[i], rtol=1e-5, atol=1e-5)
        assert result.record.final("ece")[i] == pytest.approx(
            float(ece(probabilities(logits), client.test.y)), abs=1e-5
        )
    assert result.record.final("nll") == pytest.approx(result.record.final("loss"), rel=1e-5)
    in_memory = coterie.train("logistic", sites, method="local", rounds=3, seed=0)
    assert same(in_memory.record.calibration(), found)
    assert same(read_record(tmp_path / "run").calibration(), found)


def test_runs_of_earlier_versions_have_none_and_damage_is_told(sites, tmp_path):
    coterie.train("logistic", sites, rounds=1, out=tmp_path / "run")
    (tmp_path / "run" / CALIBRATION).write_bytes(b"half")
    with pytest.raises(BadRun, match=r"calibration\.npz is damaged .*: delete it"):
        read_record(tmp_path / "run").calibration()
    (tmp_path / "run" / CALIBRATION).unlink()
    assert read_record(tmp_path / "run").calibration() is None


def test_a_regression_has_none(tiny, run_in, tmp_path):
    assert run_in(tmp_path / "run", tiny()).record.calibration() is None
    assert not (tmp_path / "run" / CALIBRATION).exists()
