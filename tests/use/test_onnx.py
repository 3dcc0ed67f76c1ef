"""ONNX from raw columns to probabilities, by another program than ours."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest

from coterie.core.errors import BadInput
from coterie.metrics.recalibration import BOTH, Recalibrated, Recalibration
from coterie.models import MODELS
from coterie.use import save


def test_another_program_says_the_same(by_hand, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model = MODELS.make("mlp").build((5,), 2, 3).eval()
    mine = by_hand(model=model, made={"name": "mlp", "options": {}})
    path = save(mine, tmp_path / "model", onnx=True)
    session = onnxruntime.InferenceSession(str(path / "model.onnx"))
    about = json.loads(session.get_modelmeta().custom_metadata_map["coterie"])
    assert about == {
        "client": "north",
        "columns": ["age", "smokes", "stage", "dose"],
        "classes": ["well", "ill"],
        "training": {},
    }
    raw = np.array([[60.0, 1, 2, np.nan], [np.nan, 0, 1, 7], [33.3, 1, np.nan, 0]])
    _, p = session.run(["outputs", "probabilities"], {"columns": raw})
    assert p == pytest.approx(mine.proba(raw), abs=1e-6)


def test_recalibrated_outputs_are_recalibrated_there_too(by_hand, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    mine = by_hand(recalibrated=Recalibrated(Recalibration(BOTH, 0.5, (0.3, -0.3))))
    path = save(mine, tmp_path / "model", onnx=True)
    session = onnxruntime.InferenceSession(str(path / "model.onnx"))
    raw = np.array([[60.0, 1, 2, np.nan], [np.nan, 0, 1, 7], [33.3, 1, np.nan, 0]])
    outputs, p = session.run(["outputs", "probabilities"], {"columns": raw})
    assert p == pytest.approx(mine.proba(raw), abs=1e-6)
    assert p != pytest.approx(by_hand().proba(raw), abs=1e-3)
    assert np.exp(outputs[:, 1] - outputs[:, 0]) == pytest.approx(p[:, 1] / p[:, 0], rel=1e-5)


def test_without_the_extra(by_hand, tmp_path, monkeypatch, refused):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "onnxscript" else found(name)
    )
    said = "onnx needs onnxscript: pip install 'coterie[onnx]', or leave onnx out"
    with refused(BadInput, said):
        save(by_hand(), tmp_path / "model", onnx=True)
    assert list(tmp_path.iterdir()) == []
