"""linear-100 and linear-1000 in Apple's pfl-research, one process, beside a plain loop.

Two deviations, both in the peer's favour or its habit: batches are cut in order (its in-memory dataset does
not shuffle), and with sampling the users of a round are the next in line (`minimize_reuse`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from side_by_side import main

from coterie.core import belief as tree
from coterie.core.client import Client
from coterie.studies.bench.measure import Timing, forget_peak, peak_memory
from coterie.studies.bench.workloads import Workload


class Net(nn.Module):
    """The workload's module with the loss that pfl asks for."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module.train()

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self.module(x), y)

    def metrics(self, x: Tensor, y: Tensor) -> dict[str, Any]:
        return {}


class Stopwatch(TrainingProcessCallback[Any]):
    def __init__(self) -> None:
        self.ends: list[float] = []

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        self.ends.append(time.perf_counter())
        return False, Metrics()


def pfl_research(workload: Workload, clients: Sequence[Client]) -> Timing:
    local, watch = workload.local, Stopwatch()
    net = Net(workload.module())
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))

    def user(host: int) -> PyTorchTensorDataset:
        return PyTorchTensorDataset((clients[host].train.x, clients[host].train.y), user_id=str(host))

    users = FederatedDataset(user, get_user_sampler("minimize_reuse", list(range(len(clients)))))
    params = NNAlgorithmParams(
        central_num_iterations=workload.rounds,
        evaluation_frequency=10**9,  # only before the first round, which is not among the timed ones
        train_cohort_size=max(1, round(workload.sample * len(clients))),
        val_cohort_size=0,
    )
    training = NNTrainHyperParams(
        local_num_epochs=local.epochs, local_learning_rate=local.lr, local_batch_size=local.batch
    )
    forget_peak()
    begin = time.perf_counter()
    FederatedAveraging().run(
        params,
        SimulatedBackend(users, users),
        model,
        training,
        callbacks=[watch],
        send_metrics_to_platform=False,
    )
    if len(watch.ends) != workload.rounds:
        raise RuntimeError(f"pfl finished {len(watch.ends)} of {workload.rounds} rounds")
    took = [end - start for start, end in zip([begin, *watch.ends], watch.ends, strict=False)]
    return Timing(took[0], tuple(took[1:]), peak_memory(), tree.stack([tree.belief_of(net.module)]))


if __name__ == "__main__":
    main("pfl-research", pfl_research)
