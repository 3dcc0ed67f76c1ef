"""linear-100 and linear-1000 in Flower's simulation (Ray), beside a plain loop.

The first round holds the start of Ray and is reported apart (`first_seconds`); the peak memory is that of
this process alone, without Ray's workers.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from flwr.app import ArrayRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from side_by_side import main
from work import client_app

from coterie.core import belief as tree
from coterie.core.client import Client
from coterie.studies.bench.measure import Timing, peak_memory
from coterie.studies.bench.workloads import Workload, rows_per_visit


class Watched(FedAvg):
    """Flower's FedAvg; it notes when each round was averaged, and refuses replies that failed."""

    def __init__(self, workload: Workload) -> None:
        hosts = max(1, round(workload.sample * len(workload.sizes)))
        super().__init__(
            fraction_train=workload.sample,
            fraction_evaluate=0.0,
            min_train_nodes=hosts,
            min_available_nodes=len(workload.sizes),
        )
        self.ends: list[float] = []
        self.expected = hosts * rows_per_visit(workload, 0)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        for reply in replies:
            if reply.has_error():
                raise RuntimeError(f"round {server_round}: a client failed: {reply.error.reason}")
        rows = sum(int(reply.content["metrics"]["num-examples"]) for reply in replies)
        if rows != self.expected:
            raise RuntimeError(f"round {server_round} trained on {rows} samples; {self.expected} were due")
        made = super().aggregate_train(server_round, replies)
        self.ends.append(time.perf_counter())
        return made


def flower(workload: Workload, clients: Sequence[Client]) -> Timing:
    server, strategy = ServerApp(), Watched(workload)
    final: dict[str, ArrayRecord] = {}

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        first = ArrayRecord(workload.module().state_dict())
        final["arrays"] = strategy.start(grid, first, num_rounds=workload.rounds).arrays

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    begin = time.perf_counter()
    run_simulation(server, client_app(workload), len(workload.sizes), backend_config=resources)
    if len(strategy.ends) != workload.rounds:
        raise RuntimeError(f"Flower finished {len(strategy.ends)} of {workload.rounds} rounds")
    took = [end - start for start, end in zip([begin, *strategy.ends], strategy.ends, strict=False)]
    beliefs = tree.stack([final["arrays"].to_torch_state_dict()])
    return Timing(took[0], tuple(took[1:]), peak_memory(), beliefs)


if __name__ == "__main__":
    main("flower", flower)
