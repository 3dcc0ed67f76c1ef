"""What a round of PENS, step 1, costs beyond its arithmetic: python benchmarks/pens_round.py

    a   the round as the method runs: training, scoring, picking, averaging
    b   its training alone: one visit of each model to its own client
    c   its scoring alone: one plain forward pass of each trained model, in eval mode, over the training data
        of the distinct clients it sampled, with nothing measured

The figure is a / (b + c), which is to be at most 1.3. So that no weak rival flatters it, c takes the fastest
way that was found: a thread for each core, channels-last, 32 images at a time. `--plain` takes the usual one:
the main thread, the usual layout, 1000 images at a time. One epoch is the hardest case: the more epochs (the
thesis has 11 with 125 images), the more of a is b. Images are random. All three draw the same random numbers,
so they train on the same batches and score the same pairs; each is timed `--repeats` times in turn, after a
warm-up with a few clients, and the best counts.

With 200 clients, c alone passes 3.2 million images through the network, some minutes on two cores;
`--clients 20 --sampled 2` asks for the same shares and is over in seconds.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
import tyro
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.held import hold
from coterie.core.learner import Learner
from coterie.core.net import SERVER, settle, to_own
from coterie.core.seeds import Key
from coterie.engines import ENGINES
from coterie.engines.threads import one_thread_each
from coterie.kernels import Adam
from coterie.methods import PENS
from coterie.methods.peers.picks import distinct
from coterie.nets import InProcess
from coterie.studies.bench.command import say_busy
from coterie.studies.bench.measure import as_found
from coterie.studies.bench.workloads import Workload, own_clients

BOUND = 1.3


@dataclass(frozen=True)
class Asked:
    clients: int = 200
    """How many clients."""
    samples: int = 125
    """Images of each."""
    sampled: int = 20
    """Others that each asks in a sampling."""
    samplings: int = 10
    """Samplings in the round."""
    epochs: int = 1
    """Local epochs (the thesis: 11 with 125 images)."""
    plain: bool = False
    """Let c run in the main thread, with 1000 images at a time as they lie."""
    engine: str = "auto"
    """The engine that runs a and b."""
    repeats: int = 1
    """How often to time each."""


class Round:
    """One round of PENS, and its parts."""

    def __init__(self, asked: Asked) -> None:
        shape = (3, 32, 32)
        workload = Workload(
            "pens-round", "", "pens-cnn", shape, 10, (asked.samples,) * asked.clients, Adam(), rounds=1
        )
        self.method = PENS(
            Adam(batch=8, epochs=asked.epochs),
            sampled=asked.sampled,
            selected=1,
            samplings=asked.samplings,
            direction="mine-on-theirs",
            rounds_step1=1,
        )
        self.key, self.module = Key(0).at_round(1, 1), workload.module().eval()
        self.plain = asked.plain
        self.net = InProcess(
            ENGINES.make(asked.engine), Learner(self.module, "classification"), own_clients(workload)
        )
        self.images = self.net.banks["train"].x[:].view(asked.clients, asked.samples, *shape)
        start = tree.stack([tree.belief_of(self.module)])
        self.method.check(self.net.roster, start, self.key)
        self.state = self.method.init(hold(start, SERVER), self.net)
        picked = self.method.draw(asked.clients, self.key.at("peers").torch(), asked.samplings)
        self.hosts = [torch.tensor(distinct(samplings)) for samplings in picked]

    def whole(self) -> None:
        self.method.round(self.state, self.net, self.key)

    def training(self) -> Beliefs:
        own = to_own(len(self.hosts))
        replies = self.net.visit(self.method.local, self.state.beliefs, own, self.key)
        return self.net.open(settle(self.net, self.state.beliefs, replies))

    def scoring(self, trained: Beliefs) -> None:
        if self.plain:
            self.passes(trained, range(len(self.hosts)), 1000, torch.contiguous_format)
            return
        # threads of their own: in the main one, glibc returns memory after each layer and asks for it again
        cores = os.cpu_count() or 1
        shares = [range(i, len(self.hosts), cores) for i in range(cores)]
        with one_thread_each(), ThreadPoolExecutor(cores) as threads:
            list(threads.map(lambda share: self.passes(trained, share, 32, torch.channels_last), shares))

    def passes(
        self, trained: Beliefs, guests: Iterable[int], at_once: int, layout: torch.memory_format
    ) -> None:
        module, together = copy.deepcopy(self.module), max(1, at_once // self.images.shape[1])
        with torch.inference_mode():
            for k in guests:
                tree.load(module, tree.row(trained, k))
                for some in torch.split(self.hosts[k], together):
                    for x in torch.split(self.images[some].flatten(0, 1), at_once):
                        module(x.contiguous(memory_format=layout))


def seconds(work: Callable[[], object]) -> float:
    with as_found():
        begin = time.perf_counter()
        work()
        return time.perf_counter() - begin


def measure(round: Round, repeats: int) -> tuple[float, float, float]:
    """The best seconds of a, b and c."""
    trained = round.training()
    parts: Sequence[Callable[[], object]] = (round.whole, round.training, lambda: round.scoring(trained))
    times = Tensor([[seconds(part) for part in parts] for _ in range(repeats)])
    a, b, c = times.amin(dim=0).tolist()
    return a, b, c


if __name__ == "__main__":
    asked = tyro.cli(Asked, description=__doc__)
    say_busy()
    few = Asked(clients=4, samples=asked.samples, sampled=2, samplings=2, engine=asked.engine)
    measure(Round(few), 1)
    timed = Round(asked)
    images = sum(len(hosts) for hosts in timed.hosts) * asked.samples
    print(
        f"{asked.clients} clients x {asked.samples}, {asked.samplings} x {asked.sampled} sampled: "
        f"{images / asked.samples / asked.clients:.0f} distinct each, {images:,} images scored; "
        f"{asked.epochs} epoch(s), {torch.get_num_threads()} threads"
    )
    a, b, c = measure(timed, asked.repeats)
    print(f"a  the round      {a:8.2f} s")
    print(
        f"b  training       {b:8.2f} s   {asked.clients * asked.samples * asked.epochs / b:10,.0f} images/s"
    )
    print(f"c  forward passes {c:8.2f} s   {images / c:10,.0f} images/s")
    print(f"a / (b + c) = {a / (b + c):.2f}, to be at most {BOUND}")
