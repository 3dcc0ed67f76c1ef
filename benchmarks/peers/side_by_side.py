"""What the peers' programs share: flags, the plain loop beside the peer, and the CSV of `coterie bench`.

A peer keeps its own loop over rounds, so a repeat is one round here. Plain rounds are timed before and after
the peer's; the loss of both is that after as many rounds as the peer ran.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from coterie.bench.contenders import prepare
from coterie.bench.limit import sgemm_rate
from coterie.bench.measure import Row, Timing, interleave, rows_of, training_loss
from coterie.bench.table import as_csv, write_csv
from coterie.bench.workloads import WORKLOADS, Workload, clients_of, quick, rows_in_all
from coterie.core.client import Client
from coterie.core.seeds import Key

SUPPORTED = ("linear-100", "linear-1000")
Peer = Callable[[Workload, Sequence[Client]], Timing]
"""All rounds of a workload by the peer: seconds of each, the first apart, and the beliefs at the end."""


def main(name: str, peer: Peer) -> None:
    parser = argparse.ArgumentParser(description=f"Times {name} beside a plain PyTorch loop.")
    parser.add_argument("--workloads", nargs="+", choices=SUPPORTED, default=SUPPORTED)
    parser.add_argument("--repeats", type=int, default=6, help="timed rounds, after a first one")
    parser.add_argument("--quick", action="store_true", help="small versions, to see that it works")
    parser.add_argument("--csv", default="", help="the file to write; by default the CSV is printed")
    asked = parser.parse_args()
    if asked.repeats < 1:
        parser.error(f"repeats={asked.repeats} must be at least 1")
    rows: list[Row] = []
    for chosen in asked.workloads:
        workload = quick(WORKLOADS[chosen]) if asked.quick else WORKLOADS[chosen]
        rows += compare(name, peer, replace(workload, rounds=asked.repeats + 1))
        if asked.csv:
            write_csv(asked.csv, rows)
    if not asked.csv:
        sys.stdout.write(as_csv(rows))
    sys.stdout.flush()
    os._exit(0)  # a peer's threads and helpers may never end by themselves


def compare(name: str, peer: Peer, workload: Workload) -> list[Row]:
    """The peer's rounds between two halves of as many plain ones."""
    clients, key = clients_of(workload), Key(0, ("bench", workload.name))
    one = replace(workload, rounds=1)
    plain, repeats = {"plain": prepare("plain", one, clients)}, workload.rounds - 1
    rate, threads = sgemm_rate(), torch.get_num_threads()
    before = interleave(plain, max(1, repeats // 2), key)["plain"]
    timing = peer(workload, clients)
    torch.set_num_threads(threads)
    after = interleave(plain, max(1, repeats - repeats // 2), key)["plain"]
    whole = prepare("plain", workload, clients)(key)
    timings = {"plain": replace(before, seconds=before.seconds + after.seconds, beliefs=whole), name: timing}
    losses = {n: training_loss(workload, clients, t.beliefs) for n, t in timings.items()}
    samples = rows_in_all(one, key)
    return rows_of(workload, samples, timings, max(rate, sgemm_rate()), losses)
