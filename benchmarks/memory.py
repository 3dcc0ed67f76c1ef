"""Peak memory of one round with many clients: python benchmarks/memory.py linear|pens-cnn

    linear     10,000 clients x 50 of 1x28x28, linear 784-10, SGD, FedAvg
    pens-cnn   1,000 clients x 125 of 3x32x32, the PENS CNN, Adam, averaging with 5 peers

The peak is that of the whole process: the data, torch itself and all models.
"""

from __future__ import annotations

import resource
import sys

from coterie.bench.contenders import prepare
from coterie.bench.workloads import Workload, clients_of
from coterie.core.seeds import Key
from coterie.kernels import SGD, Adam

WORKLOADS = {
    "linear": Workload(
        "linear", "", "logistic", (1, 28, 28), 10, (50,) * 10_000, SGD(lr=0.05, batch=32), rounds=1
    ),
    "pens-cnn": Workload(
        "pens-cnn", "", "pens-cnn", (3, 32, 32), 10, (125,) * 1_000, Adam(batch=8), rounds=1, peers=5
    ),
}


def peak() -> float:
    """In gigabytes (Linux counts in kilobytes, macOS in bytes)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e9 if sys.platform == "darwin" else 1e6)


if __name__ == "__main__":
    chosen = WORKLOADS[sys.argv[1]]
    run = prepare("auto", chosen, clients_of(chosen))
    print(f"{chosen.name}: {peak():.2f} GB with the data")
    run(Key(0))
    print(f"{chosen.name}: {peak():.2f} GB after a round")
