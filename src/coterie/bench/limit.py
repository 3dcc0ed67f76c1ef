"""The arithmetic limit: how many samples a second the machine could train if matrix products were all.

    limit = sgemm rate / operations per sample
    operations per sample = 3 · forward = 3 · 2 · multiply-adds of the forward pass

By custom a backward pass counts as two forward passes; the first layer's gradient with respect to its inputs
is in that though nobody needs it, so for a linear model the true limit lies up to a half higher.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

from coterie.bench.workloads import Workload


def operations_per_sample(workload: Workload) -> int:
    """Floating-point operations of a forward and a backward pass, for one sample."""
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        workload.module().eval()(torch.zeros(1, *workload.inputs))
    return 3 * int(counter.get_total_flops())


def sgemm_rate(side: int = 2048, repeats: int = 5, clock: Callable[[], float] = time.perf_counter) -> float:
    """Operations a second of a large float32 matrix product on all threads, the best of some repeats."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(side, side, generator=generator) for _ in range(2))
    out = a @ b  # warms up
    seconds = []
    for _ in range(repeats):
        begin = clock()
        torch.mm(a, b, out=out)
        seconds.append(clock() - begin)
    return 2 * side**3 / min(seconds)
