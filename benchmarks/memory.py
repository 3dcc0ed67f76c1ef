"""Peak memory of one round with many clients: python benchmarks/memory.py linear|pens-cnn|pens

    linear     10,000 clients x 50 of 1x28x28, linear 784-10, SGD, FedAvg
    pens-cnn   1,000 clients x 125 of 3x32x32, the PENS CNN, Adam, averaging with 5 peers
    pens       the same clients and model, a round of PENS, step 1, with 2 sampled and scored

Every client comes with tensors of its own, as data that were dealt do. The peak is that of the whole process:
the data, torch itself and all models; while the data are put into one piece, they are there twice, and from
then on once. What pens takes does not grow with the number sampled, for a client's images pass through a
model a few at a time.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from pathlib import Path

from pens_round import Asked, Round

from coterie.core.seeds import Key
from coterie.kernels import SGD, Adam
from coterie.studies.bench.contenders import prepare
from coterie.studies.bench.workloads import Workload, own_clients

WORKLOADS = {
    "linear": Workload(
        "linear", "", "logistic", (1, 28, 28), 10, (50,) * 10_000, SGD(lr=0.05, batch=32), rounds=1
    ),
    "pens-cnn": Workload(
        "pens-cnn", "", "pens-cnn", (3, 32, 32), 10, (125,) * 1_000, Adam(batch=8), rounds=1, peers=5
    ),
}


def peak() -> float:
    """In gigabytes (Linux counts in units of 1,024 bytes, macOS in bytes)."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def ready(name: str) -> Callable[[], object]:
    """The round, with its data made."""
    if name == "pens":
        return Round(Asked(clients=1_000, sampled=2, samplings=1)).whole
    run = prepare("auto", WORKLOADS[name], own_clients(WORKLOADS[name]))
    return lambda: run(Key(0))


def now() -> float:
    """Gigabytes in memory at this moment; NaN where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e9
    except OSError:
        return float("nan")


if __name__ == "__main__":
    run = ready(sys.argv[1])
    print(f"{sys.argv[1]}: {now():.2f} GB with the data, {peak():.2f} at most until then")
    run()
    print(f"{sys.argv[1]}: {now():.2f} GB after a round, {peak():.2f} at most")
