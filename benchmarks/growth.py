"""Memory of a process that trains again and again: python benchmarks/growth.py

Fifty trainings of the same kind after ten to warm up; what the process holds is to grow by less than five per
cent. Models of one's own (`--own`) are modules that Coterie has not seen before, one for each training.
"""

from __future__ import annotations

import sys

import torch
from memory import now
from torch import nn

import coterie

CLIENTS, ROWS, FEATURES, WARM, TIMES = 10, 60, 20, 10, 50


def trained(seed: int, own: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    clients = [
        coterie.Client.from_arrays(
            torch.randn(ROWS, FEATURES, generator=generator), torch.arange(ROWS) % 2, name=f"c{i}"
        )
        for i in range(CLIENTS)
    ]
    model = nn.Sequential(nn.Linear(FEATURES, 8), nn.ReLU(), nn.Linear(8, 2)) if own else "mlp"
    coterie.train(model, clients, "fedavg", rounds=10, seed=seed)


if __name__ == "__main__":
    own = "--own" in sys.argv
    for i in range(WARM):
        trained(i, own)
    first = now()
    for i in range(TIMES):
        trained(WARM + i, own)
    print(
        f"{first:.3f} GB after {WARM} trainings, {now():.3f} after {WARM + TIMES}: {now() / first - 1:+.1%}"
    )
