"""What the peers' programs share: flags, the plain loop and ours beside the peer, and `coterie bench`'s CSV.

Steady state: a peer keeps its own loop over rounds, so a repeat is one round here. Plain rounds and ours are
timed before and after the peer's; the loss of all is that after as many rounds as the peer ran.

Whole (`--whole`): a fresh process for each contender in turn, from the command to its end: imports, data,
start of workers, all rounds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from coterie.core.client import Client
from coterie.core.seeds import Key
from coterie.studies.bench.contenders import prepare
from coterie.studies.bench.measure import Row, Timing, interleave, rows_of, sgemm_rate, training_loss
from coterie.studies.bench.table import as_csv, write_csv
from coterie.studies.bench.workloads import WORKLOADS, Workload, clients_of, quick, rows_in_all

SUPPORTED = ("linear-100", "linear-1000")
BESIDE = ("plain", "auto")
Peer = Callable[[Workload, Sequence[Client]], Timing]
"""All rounds of a workload by the peer: seconds of each, the first apart, and the beliefs at the end."""


def main(name: str, peer: Peer) -> None:
    parser = argparse.ArgumentParser(description=f"Times {name} beside a plain PyTorch loop and Coterie.")
    parser.add_argument("--workloads", nargs="+", choices=SUPPORTED, default=SUPPORTED)
    parser.add_argument("--repeats", type=int, default=6, help="timed rounds, after a first one")
    parser.add_argument("--whole", action="store_true", help="whole processes, --repeats of 7 rounds each")
    parser.add_argument("--quick", action="store_true", help="small versions, to see that it works")
    parser.add_argument("--csv", default="", help="the file to write; by default the CSV is printed")
    parser.add_argument("--alone", choices=(*BESIDE, name), help="all rounds by one contender, nothing timed")
    asked = parser.parse_args()
    if asked.repeats < 1:
        parser.error(f"repeats={asked.repeats} must be at least 1")
    chosen = [quick(WORKLOADS[w]) if asked.quick else WORKLOADS[w] for w in asked.workloads]
    if asked.alone:
        for workload in chosen:
            alone(asked.alone, peer, replace(workload, rounds=7))
    elif asked.whole:
        for workload in chosen:
            whole(name, workload.name, asked.repeats, ["--quick"] if asked.quick else [])
    else:
        steady(name, peer, chosen, asked.repeats, asked.csv)
    sys.stdout.flush()
    os._exit(0)  # a peer's threads and helpers may never end by themselves


def steady(name: str, peer: Peer, chosen: Sequence[Workload], repeats: int, csv: str) -> None:
    rows: list[Row] = []
    for workload in chosen:
        rows += compare(name, peer, replace(workload, rounds=repeats + 1))
        if csv:
            write_csv(csv, rows)
    if not csv:
        sys.stdout.write(as_csv(rows))


def whole(name: str, workload: str, repeats: int, more: Sequence[str]) -> None:
    """Seconds of each contender's process, in turns; the best of each, and times the plain one's."""
    seconds: dict[str, list[float]] = {c: [] for c in (*BESIDE, name)}
    for _ in range(repeats):
        for contender, mine in seconds.items():
            begin = time.perf_counter()
            words = [sys.argv[0], "--workloads", workload, "--alone", contender, *more]
            subprocess.run([sys.executable, *words], check=True, capture_output=True)
            mine.append(time.perf_counter() - begin)
    for contender, mine in seconds.items():
        ratio = min(seconds["plain"]) / min(mine)
        print(f"{workload} whole, 7 rounds: {contender} {min(mine):.1f} s, {ratio:.2f} x plain")


def alone(contender: str, peer: Peer, workload: Workload) -> None:
    clients = clients_of(workload)
    if contender in BESIDE:
        prepare(contender, workload, clients)(Key(0, ("bench", workload.name)))
    else:
        peer(workload, clients)


def compare(name: str, peer: Peer, workload: Workload) -> list[Row]:
    """The peer's rounds between two halves of as many plain ones and as many of ours."""
    clients, key = clients_of(workload), Key(0, ("bench", workload.name))
    one, repeats = replace(workload, rounds=1), workload.rounds - 1
    beside = {c: prepare(c, one, clients) for c in BESIDE}
    rate, threads = sgemm_rate(), torch.get_num_threads()
    before = interleave(beside, max(1, repeats // 2), key)
    timing = peer(workload, clients)
    torch.set_num_threads(threads)
    after = interleave(beside, max(1, repeats - repeats // 2), key)
    timings = {}
    for c in BESIDE:
        seconds = before[c].seconds + after[c].seconds
        timings[c] = replace(before[c], seconds=seconds, beliefs=prepare(c, workload, clients)(key))
    timings[name] = timing
    losses = {n: training_loss(workload, clients, t.beliefs) for n, t in timings.items()}
    samples = rows_in_all(one, key)
    return rows_of(workload, samples, timings, max(rate, sgemm_rate()), losses)
