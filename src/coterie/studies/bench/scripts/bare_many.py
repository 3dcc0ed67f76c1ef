"""The rounds of `many` on the engine and nothing else: no evaluation, no folder, no report.

python bare_many.py pictures.npz CLIENTS ROUNDS
"""

from __future__ import annotations

import sys

import numpy as np
import torch

from coterie.core.client import Client, Samples
from coterie.core.seeds import Key
from coterie.kernels import SGD
from coterie.studies.bench.contenders import OnEngine
from coterie.studies.bench.workloads import Workload

if __name__ == "__main__":
    path, clients, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with np.load(path) as data:
        x, y = torch.from_numpy(data["train_x"]), torch.from_numpy(data["train_y"])
    x = (x.float() / 255 - 0.5) / 0.5
    sizes = [len(x) // clients] * clients
    work = Workload("many", "", "logistic", tuple(x.shape[1:]), 10, tuple(sizes), SGD(), rounds)
    few = Samples(x[:1], y[:1])
    parts = zip(torch.split(x, sizes), torch.split(y, sizes), strict=True)
    sites = [Client(f"c{i}", Samples(*part), few, few) for i, part in enumerate(parts)]
    OnEngine("auto", work, sites)(Key(0))
