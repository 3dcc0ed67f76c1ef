"""Timing side by side: one warm-up each, then A B C A B C ..., so that a slow minute hits all alike."""

from __future__ import annotations

import contextlib
import gc
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.client import Client
from coterie.core.learner import Learner
from coterie.core.seeds import Key
from coterie.studies.bench.contenders import Run, prepare
from coterie.studies.bench.workloads import Workload, clients_of, rows_in_all

Watch = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Timing:
    """One contender's seconds: `first` is its warm-up; `peak` bytes of the whole process while it ran."""

    first: float
    seconds: tuple[float, ...]
    peak: int
    beliefs: Beliefs

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass(frozen=True)
class Row:
    """One line of the table: rates in samples a second, ratios of rates to the plain loop's.

    `share` is the best rate as a share of the arithmetic limit; `loss` is the mean training loss at the end,
    to see that all did the same work.
    """

    workload: str
    contender: str
    samples: int
    repeats: int
    best: float
    median: float
    ratio_best: float | None
    ratio_median: float | None
    share: float
    limit: float
    gflops: float
    first_seconds: float
    peak_mb: float
    loss: float


def measure(
    workload: Workload,
    contenders: Sequence[str],
    repeats: int = 5,
    side: int = 2048,
    seed: int = 0,
    watch: Watch = lambda contender: None,
) -> list[Row]:
    """All contenders on one workload; `side` is that of the matrices that find the sgemm rate."""
    clients = clients_of(workload, seed)
    runs = {name: prepare(name, workload, clients) for name in contenders}
    key, before = Key(seed, ("bench", workload.name)), sgemm_rate(side)
    timings = interleave(runs, repeats, key, watch=watch)
    rate = max(before, sgemm_rate(side))
    losses = {name: training_loss(workload, clients, t.beliefs) for name, t in timings.items()}
    return rows_of(workload, rows_in_all(workload, key.at("repeat", 1)), timings, rate, losses)


def interleave(
    runs: Mapping[str, Run],
    repeats: int,
    key: Key,
    watch: Watch = lambda contender: None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Warm-up each, then every contender in turn, `repeats` times; each repeat draws other random numbers."""
    gc.collect()
    first: dict[str, float] = {}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    peaks = dict.fromkeys(runs, 0)
    beliefs: dict[str, Beliefs] = {}
    for i in range(repeats + 1):
        for name, run in runs.items():
            beliefs.pop(name, None)
            with as_found():
                forget_peak()
                begin = clock()
                beliefs[name] = run(key.at("repeat", i))
                took = clock() - begin
            peaks[name] = max(peaks[name], peak_memory())
            if i == 0:
                first[name] = took
            else:
                seconds[name].append(took)
            watch(name)
    return {name: Timing(first[name], tuple(seconds[name]), peaks[name], beliefs[name]) for name in runs}


def rows_of(
    workload: Workload, samples: int, timings: Mapping[str, Timing], rate: float, losses: Mapping[str, float]
) -> list[Row]:
    """Seconds as rates, ratios to `plain` where it took part, and shares of the limit."""
    limit, plain = rate / operations_per_sample(workload), timings.get("plain")
    return [
        Row(
            workload=workload.name, contender=name, samples=samples, repeats=len(t.seconds),
            best=samples / t.best, median=samples / t.median,
            ratio_best=plain.best / t.best if plain else None,
            ratio_median=plain.median / t.median if plain else None,
            share=samples / t.best / limit, limit=limit, gflops=rate / 1e9,
            first_seconds=t.first, peak_mb=t.peak / 2**20, loss=losses[name]
        )
        for name, t in timings.items()
    ]  # fmt: skip


def training_loss(workload: Workload, clients: Sequence[Client], beliefs: Beliefs) -> float:
    """The mean loss of each client's model on its own training rows; a server's one model is everyone's."""
    learner = Learner(workload.module(), "classification")
    shared, total, rows = tree.count(beliefs) == 1, 0.0, 0
    with torch.no_grad():
        for i, client in enumerate(clients):
            outputs = learner.outputs(tree.row(beliefs, 0 if shared else i), client.train.x)
            total += float(learner.losses(outputs, client.train.y).double().sum())
            rows += len(client.train)
    return total / rows


@contextlib.contextmanager
def as_found() -> Iterator[None]:
    """Nobody pays for another's garbage or threads: both are as before when the next one begins."""
    threads = torch.get_num_threads()
    gc.collect(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def forget_peak() -> None:
    """Starts the peak anew where the system can (Linux); elsewhere it is that of the process so far."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """Bytes in memory at most; macOS counts bytes, others kilobytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


# the arithmetic limit: how many samples a second the machine could train if matrix products were all


def operations_per_sample(workload: Workload) -> int:
    """Floating-point operations of a forward and a backward pass, for one sample.

    By custom a backward pass counts as two forward passes, and the limit is the sgemm rate over these. The
    first layer's gradient with respect to its inputs is in it though nobody needs it, so that for a linear
    model the true limit lies up to a half higher.
    """
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
