"""Matrices that a method names, from Python."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

import coterie
from coterie.methods.server.fedavg import FedAvg


@dataclass(frozen=True)
class Telling(FedAvg):
    """FedAvg whose alpha is 1 / round, and which has distances from round 2 on."""

    def round(self, state, net, key):
        state, info = super().round(state, net, key)
        alpha = torch.full((3, 3), 1 / key.round, dtype=torch.float64)
        later = {"relative distance": torch.eye(3) * 2} if key.round > 1 else {}
        return state, replace(info, matrices={"alpha": alpha, **later})


@pytest.mark.parametrize("out", [None, "run"])
def test_matrices_by_name_round_receiver_and_sender(hospitals, tmp_path, out):
    model = torch.nn.Linear(4, 2)
    place = None if out is None else tmp_path / out
    result = coterie.train(model, hospitals, Telling(), rounds=3, out=place)
    assert list(result.matrices) == ["alpha", "relative distance"]
    alpha, distance = result.matrices.values()
    np.testing.assert_allclose(alpha, np.broadcast_to([[[1]], [[1 / 2]], [[1 / 3]]], (3, 3, 3)))
    assert np.isnan(distance[0]).all()
    np.testing.assert_array_equal(distance[1:], [2 * np.eye(3)] * 2)
    page = result.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "relative distance" in page


@pytest.mark.parametrize("out", [None, "run"])
def test_collaboration_by_round_and_client(hospitals, tmp_path, out):
    model = torch.nn.Linear(4, 2)  # 10 numbers of 4 bytes
    place = None if out is None else tmp_path / out
    clients = [replace(c, cluster=i // 2) for i, c in enumerate(hospitals)]
    result = coterie.train(model, clients, rounds=2, out=place)
    frame = result.collaboration.query("round > 0")
    assert len(frame) == 2 * 3
    assert frame["bytes"].tolist() == [80] * 6  # one model sent and one received
    assert frame["drift"].tolist() == [0] * 6
    # everybody is averaged with: one of the two others is of the first two's kind, none of the last one's
    assert frame["precision"].tolist() == [0.5, 0.5, 0] * 2
    assert frame["recall"].dropna().tolist() == [1, 1] * 2


def test_without_clusters_and_named_matrices_there_is_nothing_to_find(hospitals):
    result = coterie.train(torch.nn.Linear(4, 2), hospitals, rounds=1)
    assert result.matrices == {}
    assert list(result.collaboration) == ["round", "client", "sent", "received", "bytes", "numbers", "drift"]


@pytest.mark.parametrize("out", [None, "run"])
def test_with_one_requester_there_is_one_model(hospitals, right, tmp_path, out):
    place = None if out is None else tmp_path / out
    options = {"method": "weight-erosion", "requester": "hospital-b"}
    result = coterie.train(torch.nn.Linear(4, 2), hospitals, rounds=2, out=place, **options)
    assert list(result.models) == ["hospital-b"]
    assert result.matrices["alpha"].shape == (2, 3, 3)
    accuracy = right(result.models["hospital-b"], hospitals[1])
    assert result.summary()["accuracy"].item() == pytest.approx(accuracy)
    assert result.calibration.query("samples > 0")["client"].unique().tolist() == ["hospital-b"]
    page = result.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "For hospital-b, the only one of 3 clients with a figure" in page
