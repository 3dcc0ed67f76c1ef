from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coterie.core.errors import BadInput
from coterie.metrics import collaboration
from coterie.metrics.collaboration import communication_cost, drifts, neighbours_found

W = torch.tensor(
    [
        [0.5, 0.5, 0.0, 0.0],  # 0 chose 1, of its kin 1
        [0.2, 0.4, 0.4, 0.0],  # 1 chose 0 and 2
        [0.0, 0.0, 1.0, 0.0],  # 2 chose nobody
        [0.3, 0.0, 0.0, 0.7],  # 3 is alone in its cluster
    ]
)


def test_precision_and_recall_by_hand():
    found = neighbours_found(W, [0, 0, 0, 1])
    assert found.precision[[0, 1, 3]].tolist() == [1, 1, 0]
    assert found.recall[:3].tolist() == [0.5, 1, 0]
    assert math.isnan(found.precision[2])
    assert math.isnan(found.recall[3])
    assert found.mean_precision == pytest.approx(2 / 3)
    assert found.mean_recall == 0.5


def test_nobody_chosen_has_no_precision():
    found = neighbours_found(torch.eye(3), [0, 0, 1])
    assert math.isnan(found.mean_precision)
    assert found.mean_recall == 0


def test_what_does_not_fit_is_refused(refused):
    with refused(BadInput, "weights of shape [4, 4] for 3 clusters: need [receiver, sender]"):
        neighbours_found(W, [0, 0, 1])
    with refused(BadInput, "client number 1 has no cluster: give one for each"):
        neighbours_found(W, [0, None, 1, 1])


def test_drift_by_hand():
    # 0, 3 and 6 on a line: 3, 0 and 3 from their mean; the counter of batches is no parameter
    line = {"w": torch.tensor([[0.0], [3], [6]]), "batches": torch.tensor([1, 100, 1000])}
    assert drifts(line, torch.arange(3), ["w"]).tolist() == [3, 0, 3]
    # two clients share the first model and nobody has the last: the mean of 0, 0 and 3 is 1
    assert drifts(line, torch.tensor([0, 1, 0]), ["w"]).tolist() == [1, 2, 1]
    # (0, 0) and (6, 8) in two tensors: 5 from (3, 4) each
    two = {"w": torch.tensor([[0.0], [6]]), "v": torch.tensor([[[0.0]], [[8]]])}
    assert drifts(two, torch.arange(2), ["w", "v"]).tolist() == [5, 5]


def test_equal_models_have_not_drifted_at_all():
    same = {"w": torch.full((7, 5), 0.1)}
    assert drifts(same, torch.arange(7), ["w"]).tolist() == [0] * 7
    assert drifts(same, torch.zeros(3, dtype=torch.int64), ["w"]).tolist() == [0] * 3


@given(st.integers(1, 6), st.integers(0, 10**6), st.integers(1, 30))
def test_drift_is_the_distance_to_the_mean_however_few_rows_are_looked_at_at_once(n, seed, chunk):
    models = torch.randn(n, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collaboration, "CHUNK", chunk)
        found = drifts({"w": models}, torch.arange(n), ["w"])
    torch.testing.assert_close(found, (models - models.mean(dim=0)).norm(dim=1))


def test_who_has_no_model_has_no_drift_and_is_not_in_the_mean():
    models = {"w": torch.tensor([[1.0], [5.0], [100.0]])}
    found = drifts(models, torch.tensor([0, -1, 1]), ["w"])
    assert found[[0, 2]].tolist() == [2, 2]
    assert found[1].isnan()
    assert drifts(models, torch.tensor([-1, -1]), ["w"]).isnan().all()


def test_cost_and_bytes():
    sent, received = torch.tensor([[1, 2], [3, 0]]), torch.tensor([[2, 1], [0, 3]])
    assert communication_cost(sent, received) == 6  # both clients, over both rounds
    assert communication_cost(sent[0], received[0]) == 3
