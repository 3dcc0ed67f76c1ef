"""What it costs to give memory back: python benchmarks/allocator.py [--samples N]

Training the PENS CNN with batches of 8 and scoring with it, on one thread, in a process as it comes and in
one that keeps freed memory (`coterie.engines.memory`): samples a second and page faults. Each side runs in
turn, several times, in a process of its own, and the best counts.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from contextlib import nullcontext
from typing import Any
from unittest import mock

import torch

from coterie.core import belief as tree
from coterie.core.client import Client, Samples
from coterie.core.held import hold
from coterie.core.learner import Learner
from coterie.core.net import SERVER, to_own
from coterie.core.seeds import Key
from coterie.engines import Loop, Pool
from coterie.kernels import SGD, Score
from coterie.models import MODELS
from coterie.nets import InProcess

TURNS = 3


def measure(samples: int) -> dict[str, float]:
    """Samples a second of training and of scoring, and page faults of both."""
    torch.set_num_threads(1)
    model = MODELS.make("pens-cnn").build((3, 32, 32), 10, 0)
    rows = Samples(torch.randn(samples, 3, 32, 32), torch.randint(10, (samples,)))
    client = Client("one", rows, rows, Samples(rows.x[:0], rows.y[:0]))
    nets: dict[str, tuple[InProcess, Any]] = {
        "train": (InProcess(Pool(1), Learner(model, "classification"), (client,)), SGD(batch=8)),
        "score": (InProcess(Loop(), Learner(model, "classification"), (client,)), Score("train")),
    }
    beliefs = hold(tree.stack([tree.belief_of(model)]), SERVER)
    found: dict[str, float] = {}
    for name, (net, kernel) in nets.items():
        net.visit(kernel, beliefs, to_own(1), Key(0).at_round(1, 2))
        faults, begin = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter()
        net.visit(kernel, beliefs, to_own(1), Key(0).at_round(2, 2))
        found[name] = samples / (time.perf_counter() - begin)
        found[f"{name} faults"] = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--side", choices=["as it comes", "kept"])
    asked = parser.parse_args()
    if asked.side:
        left = mock.patch("coterie.nets.in_process.keep_freed_memory", return_value=False)
        with left if asked.side == "as it comes" else nullcontext():
            print(json.dumps(measure(asked.samples)))
        return
    best: dict[str, dict[str, float]] = {}
    for _ in range(TURNS):
        for side in ("as it comes", "kept"):
            command = [sys.executable, __file__, "--samples", str(asked.samples), "--side", side]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            known = best.setdefault(side, found)
            best[side] = {
                k: min(v, known[k]) if "faults" in k else max(v, known[k]) for k, v in found.items()
            }
    for side, found in best.items():
        print(f"{side:12}", "  ".join(f"{k} {v:,.0f}" for k, v in found.items()))
    ratios = {k: best["kept"][k] / best["as it comes"][k] for k in ("train", "score")}
    print("kept / as it comes:", "  ".join(f"{k} {r:.2f}" for k, r in ratios.items()))


if __name__ == "__main__":
    main()
